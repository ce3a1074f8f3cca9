//! Reads the impersonation headers.

use std::fmt::Write;

use http::{HeaderMap, HeaderName};
use machinery::{
    Str,
    meta::{go_text::quote, status::Status},
    request::strict_percent_decode,
};

use auth::User;

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA: &str = "impersonate-extra-";

/// How a refusal shows headers that name no user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As a user.
    Constrained,
    /// As a list of references.
    Legacy,
}

/// The user that the headers name, as they name it; `None` if there are no such headers. The headers go no further.
pub(super) fn take(headers: &mut HeaderMap, form: Form) -> Result<Option<User>, Status> {
    let is_ours = |name: &str| matches!(name, USER | UID | GROUP) || name.starts_with(EXTRA);
    let names: Vec<HeaderName> = headers.keys().filter(|name| is_ours(name.as_str())).cloned().collect();
    if names.is_empty() {
        return Ok(None);
    }
    let mut user = User::default();
    for name in names {
        let values: Vec<Str> = headers.get_all(&name).iter().map(|value| text(value.as_bytes())).collect();
        headers.remove(&name);
        match name.as_str() {
            USER => user.name = values.into_iter().next().unwrap_or_default(),
            UID => user.uid = values.into_iter().next().unwrap_or_default(),
            GROUP => user.groups = values,
            other => add(&mut user.extra, extra_key(&other[EXTRA.len()..]), values),
        }
    }
    user.extra.sort();
    if !user.name.is_empty() {
        return Ok(Some(user));
    }
    if user == User::default() {
        return Ok(None);
    }
    Err(Status::bad_request(match form {
        Form::Constrained => format!("requested {} without impersonating a user name", struct_text(&user)),
        Form::Legacy => format!("requested {} without impersonating a user", references_text(&user)),
    }))
}

/// A header's value. What is no UTF-8 shows as such in answers, and is dropped nowhere: a group that is missing can undo a
/// denial.
fn text(value: &[u8]) -> Str {
    String::from_utf8_lossy(value).into()
}

fn extra_key(encoded: &str) -> Str {
    strict_percent_decode(encoded).map_or_else(|| encoded.into(), |key| text(&key))
}

/// Two spellings of a key are one key.
fn add(extra: &mut Vec<(Str, Vec<Str>)>, key: Str, values: Vec<Str>) {
    match extra.iter_mut().find(|(known, _)| *known == key) {
        Some((_, known)) => known.extend(values),
        None => extra.push((key, values)),
    }
}

/// A user as Go prints the struct (`%#v`).
fn struct_text(user: &User) -> String {
    let list = |items: &[Str]| format!("{{{}}}", items.iter().map(|i| quote(i)).collect::<Vec<_>>().join(", "));
    let groups = if user.groups.is_empty() { "(nil)".to_owned() } else { list(&user.groups) };
    let extra = user.extra.iter().map(|(key, values)| format!("{}:[]string{}", quote(key), list(values)));
    let extra = extra.collect::<Vec<_>>().join(", ");
    let extra = if user.extra.is_empty() { "(nil)".to_owned() } else { format!("{{{extra}}}") };
    format!(
        "&user.DefaultInfo{{Name:{}, UID:{}, Groups:[]string{groups}, Extra:map[string][]string{extra}}}",
        quote(&user.name),
        quote(&user.uid)
    )
}

/// The same as a list of object references (`%v`): kind, namespace, name, uid, apiVersion, resourceVersion, fieldPath.
fn references_text(user: &User) -> String {
    const VERSION: &str = "authentication.k8s.io/v1";
    let mut out = Vec::new();
    out.extend(user.groups.iter().map(|group| format!("{{Group  {group}    }}")));
    for (key, values) in &user.extra {
        out.extend(values.iter().map(|value| format!("{{UserExtra  {value}  {VERSION}  {key}}}")));
    }
    if !user.uid.is_empty() {
        let mut uid = String::new();
        write!(uid, "{{UID  {}  {VERSION}  }}", user.uid).expect("writing to a String does not fail");
        out.push(uid);
    }
    format!("[{}]", out.join(" "))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&str, &[u8])]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            let name: HeaderName = name.parse().expect("a name");
            headers.append(name, HeaderValue::from_bytes(value).expect("a value"));
        }
        headers
    }

    #[test]
    fn headers_name_a_user_and_are_gone() {
        let mut sent = headers(&[
            ("impersonate-user", b"bob"),
            ("impersonate-group", b"a"),
            ("impersonate-group", "gr\u{fc}n".as_bytes()),
            ("impersonate-group", b"\xff"),
            ("impersonate-extra-some%2fkey", b"v"),
            ("impersonate-extra-ab", b"1"),
            ("impersonate-extra-a%62", b"2"),
            ("impersonate-extra-%zz", b"3"),
            ("impersonate-other", b"stays"),
            ("accept", b"*/*"),
        ]);
        let user = take(&mut sent, Form::Constrained).expect("well-formed").expect("there");
        assert_eq!(user.name, "bob");
        assert_eq!(user.groups, ["a", "gr\u{fc}n", "\u{fffd}"], "none is dropped");
        let extra: Vec<_> = user.extra.iter().map(|(k, v)| (k.as_str(), v.len())).collect();
        assert_eq!(extra, [("%zz", 1), ("ab", 2), ("some/key", 1)]);
        assert_eq!(sent.len(), 2);
        assert_eq!(take(&mut headers(&[("accept", b"*/*")]), Form::Constrained), Ok(None));
        assert_eq!(take(&mut headers(&[("impersonate-user", b"")]), Form::Constrained), Ok(None));
    }

    #[test]
    fn headers_without_a_user_are_refused() {
        let check = |pairs: &[(&str, &[u8])], constrained: &str, legacy: &str| {
            for (form, expect) in [(Form::Constrained, constrained), (Form::Legacy, legacy)] {
                let status = take(&mut headers(pairs), form).expect_err("no user");
                assert_eq!((status.code, status.message.as_str()), (400, expect));
            }
        };
        check(
            &[("impersonate-group", b"a"), ("impersonate-group", b"b")],
            r#"requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"a", "b"}, Extra:map[string][]string(nil)} without impersonating a user name"#,
            "requested [{Group  a    } {Group  b    }] without impersonating a user",
        );
        check(
            &[("impersonate-uid", b"7"), ("impersonate-extra-x%2fy", b"z"), ("impersonate-user", b"")],
            r#"requested &user.DefaultInfo{Name:"", UID:"7", Groups:[]string(nil), Extra:map[string][]string{"x/y":[]string{"z"}}} without impersonating a user name"#,
            "requested [{UserExtra  z  authentication.k8s.io/v1  x/y} {UID  7  authentication.k8s.io/v1  }] without impersonating a user",
        );
    }
}
