//! Step: may the user act as somebody else? Then the request goes on as that somebody.

use std::sync::Arc;

use http::{HeaderMap, HeaderName};
use machinery::{Str, meta::status::Status};

use super::{authorize::refusal_of, resolve::resource_info};
use crate::{
    auth::{Attributes, Authorizer, Decision, User},
    request::{Request, RequestInfo, strict_percent_decode},
};

const PREFIX: &str = "impersonate-";
const EXTRA: &str = "impersonate-extra-";

/// Takes the impersonation headers out of the request and, if all of them are allowed, exchanges the user.
pub(super) async fn impersonate(authorizer: &dyn Authorizer, request: &mut Request) -> Result<(), Status> {
    let Some(wanted) = take(&mut request.headers)? else { return Ok(()) };
    for info in demands(&wanted) {
        let attributes = Attributes { user: &request.user, info: &info };
        match authorizer.authorize(&attributes).await {
            Decision::Allow(_) => {}
            Decision::Deny(reason) | Decision::NoOpinion(reason) => {
                return Err(refusal_of(&info, &request.user, &reason));
            }
        }
    }
    request.user = Arc::new(with_implied_groups(wanted));
    Ok(())
}

/// The user that the headers name; `None` if there are no such headers.
fn take(headers: &mut HeaderMap) -> Result<Option<User>, Status> {
    let names: Vec<HeaderName> = headers.keys().filter(|name| name.as_str().starts_with(PREFIX)).cloned().collect();
    if names.is_empty() {
        return Ok(None);
    }
    let mut user = User::default();
    for name in names {
        let values: Vec<Str> = headers.get_all(&name).iter().filter_map(|v| v.to_str().ok()).map(Str::from).collect();
        headers.remove(&name);
        match name.as_str() {
            "impersonate-user" => user.name = values.into_iter().next().unwrap_or_default(),
            "impersonate-uid" => user.uid = values.into_iter().next().unwrap_or_default(),
            "impersonate-group" => user.groups = values,
            other => {
                if let Some(key) = other.strip_prefix(EXTRA) {
                    let key = strict_percent_decode(key).and_then(|k| String::from_utf8(k).ok());
                    user.extra.push((Str::from(key.unwrap_or_else(|| other[EXTRA.len()..].to_owned())), values));
                }
            }
        }
    }
    if user.name.is_empty() {
        return Err(Status::internal_error("requested impersonation without impersonating a user"));
    }
    user.extra.sort();
    Ok(Some(user))
}

/// Namespace and name of a service account's user name.
fn service_account(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("system:serviceaccount:")?.split_once(':')
}

/// What must be allowed, each by itself.
fn demands(wanted: &User) -> Vec<RequestInfo> {
    let demand = |group: &str, resource: &str, name: &str| RequestInfo {
        name: name.into(),
        ..resource_info("impersonate", group, "v1", resource)
    };
    let mut demands = vec![match service_account(&wanted.name) {
        Some((namespace, name)) => RequestInfo { namespace: namespace.into(), ..demand("", "serviceaccounts", name) },
        None => demand("", "users", &wanted.name),
    }];
    demands.extend(wanted.groups.iter().map(|group| demand("", "groups", group)));
    if !wanted.uid.is_empty() {
        demands.push(demand("authentication.k8s.io", "uids", &wanted.uid));
    }
    for (key, values) in &wanted.extra {
        for value in values {
            let info = demand("authentication.k8s.io", "userextras", value);
            demands.push(RequestInfo { subresource: key.clone(), ..info });
        }
    }
    demands
}

/// The groups that go without saying.
fn with_implied_groups(mut user: User) -> User {
    if let (Some((namespace, _)), true) = (service_account(&user.name), user.groups.is_empty()) {
        user.groups = vec!["system:serviceaccounts".into(), Str::from(format!("system:serviceaccounts:{namespace}"))];
    }
    if user.name == "system:anonymous" {
        if !user.in_group("system:unauthenticated") {
            user.groups.push("system:unauthenticated".into());
        }
        return user;
    }
    user.authenticated()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), http::HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn headers_name_a_user_and_are_gone() {
        let mut sent = headers(&[
            ("impersonate-user", "bob"),
            ("impersonate-group", "a"),
            ("impersonate-group", "b"),
            ("impersonate-extra-some%2fkey", "v"),
            ("accept", "*/*"),
        ]);
        let user = take(&mut sent).expect("well-formed").expect("there");
        assert_eq!((user.name.as_str(), user.groups.as_slice()), ("bob", &["a".into(), "b".into()][..]));
        assert_eq!(user.extra, [(Str::from("some/key"), vec![Str::from("v")])]);
        assert_eq!(sent.len(), 1);
        let resources: Vec<Str> = demands(&user).into_iter().map(|d| d.resource).collect();
        assert_eq!(resources, ["users", "groups", "groups", "userextras"]);
        assert!(take(&mut headers(&[("impersonate-group", "a")])).is_err());
        assert_eq!(take(&mut headers(&[("accept", "*/*")])), Ok(None));
    }

    #[test]
    fn service_accounts_are_in_their_groups() {
        let user =
            with_implied_groups(User { name: "system:serviceaccount:kube-system:default".into(), ..User::default() });
        assert_eq!(
            user.groups,
            ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"]
        );
    }
}
