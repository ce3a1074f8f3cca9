//! The rules of CertificateSigningRequests: what is asked for never changes; the approval and the certificate come through
//! subresources of their own.

use std::collections::HashMap;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use generic_server::resource::WriteContext;
use machinery::{
    Map, Value,
    meta::{TimeForm, Timestamp, names},
    object,
};

use super::{conditions, request};
use crate::{
    strategy::{Rules, SubresourceRules, restore},
    validation::{Content, Errors, Field, repeated},
};

/// The rules.
pub(super) const SIGNING_REQUESTS: Rules = Rules {
    create,
    update: |_, new, old| restore(new, old, &["spec"]),
    status_update: |_, new, old| stamp(new, old),
    validate: |_, new, errors| validate(new, None, errors),
    revalidate: Some(|_, new, old, errors| validate_update(new, old, Through::Itself, errors)),
    validate_status: |_, new, old, errors| validate_update(new, old, Through::Status, errors),
    subresources: &[SubresourceRules {
        name: "approval",
        update: approval,
        validate: |_, new, old, errors| validate_update(new, old, Through::Approval, errors),
    }],
    resets: &[
        ("", &[&["spec"], &["status"]]),
        ("status", &[&["spec"], &["status", "conditions"]]),
        ("approval", &[&["spec"], &["status", "certificate"]]),
    ],
    ..Rules::STATUS.names(names::any_name)
};

/// What a request may be changed through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Through {
    Itself,
    Status,
    Approval,
}

/// The server says who asks, and nobody approves a request by making it.
fn create(cx: &WriteContext<'_>, request: &mut Value) {
    let spec = request.at_mut(&["spec"]).make_object();
    for member in ["username", "uid", "groups", "extra"] {
        spec.remove(member);
    }
    let user = cx.user;
    for (member, text) in [("username", &user.name), ("uid", &user.uid)] {
        if !text.is_empty() {
            spec.insert(member, text);
        }
    }
    if !user.groups.is_empty() {
        spec.insert("groups", user.groups.clone());
    }
    if !user.extra.is_empty() {
        let extra: Map = user.extra.iter().map(|(key, values)| (key.clone(), Value::from(values.clone()))).collect();
        spec.insert("extra", extra);
    }
    request.set(&["status"], object! {});
}

/// An approval changes conditions and metadata alone.
fn approval(_cx: &WriteContext<'_>, new: &mut Value, old: &Value) {
    stamp(new, old);
    let conditions = new.at(&["status", "conditions"]).cloned();
    restore(new, old, &["spec"]);
    restore(new, old, &["status"]);
    match conditions {
        Some(conditions) => new.set(&["status", "conditions"], conditions),
        None => drop(new.remove_at(&["status", "conditions"])),
    }
}

/// Conditions that say nothing of when they were set or changed were so now.
fn stamp(new: &mut Value, old: &Value) {
    let before = old.at(&["status", "conditions"]).and_then(Value::as_array).unwrap_or_default();
    let Some(conditions) = new.get_mut("status").and_then(|s| s.get_mut("conditions")).and_then(Value::as_array_mut)
    else {
        return;
    };
    let now = Value::from(Timestamp::now().text(TimeForm::Seconds));
    // Of equal ones the first says since when it is so.
    let mut since: HashMap<[Content<'_>; 2], &Value> = HashMap::new();
    for condition in before {
        since.entry(state(condition)).or_insert(condition);
    }
    for condition in conditions {
        let unset = |condition: &Value, member: &str| condition.get(member).is_none_or(Value::is_null);
        if unset(condition, "lastUpdateTime") {
            condition.set(&["lastUpdateTime"], now.clone());
        }
        if unset(condition, "lastTransitionTime") {
            let same = since.get(&state(condition)).and_then(|c| c.get("lastTransitionTime"));
            let time = same.filter(|t| !t.is_null()).unwrap_or(&now).clone();
            condition.set(&["lastTransitionTime"], time);
        }
    }
}

/// What a condition says.
fn state(condition: &Value) -> [Content<'_>; 2] {
    ["type", "status"].map(|member| Content(condition.get(member).unwrap_or(&Value::Null)))
}

const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";

/// The usages that may be asked for.
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

fn decoded(data: &Field<'_>) -> Vec<u8> {
    BASE64.decode(data.text()).unwrap_or_default()
}

/// What is wrong with a request. What an old one has already is let be.
fn validate(csr: &Field<'_>, old: Option<&Field<'_>>, errors: &mut Errors) {
    let spec = csr.at("spec");
    let old_spec = old.map(|old| old.at("spec"));
    let request = spec.at("request");
    if let Err(why) = request::check_request(&decoded(&request)) {
        request.invalid(why, errors);
    }
    usages(&spec.at("usages"), old_spec.as_ref().map(|old| old.at("usages").items()).unwrap_or_default(), errors);
    let signer = spec.at("signerName");
    let was_legacy = old_spec.as_ref().is_some_and(|old| old.at("signerName").text() == LEGACY_SIGNER);
    if signer.text() == LEGACY_SIGNER && !was_legacy {
        signer.invalid("the legacy signerName is not allowed via this API version", errors);
    } else {
        signer_name(&signer, errors);
    }
    let expiration = spec.at("expirationSeconds");
    if expiration.int().is_some_and(|seconds| seconds < 600) {
        expiration.invalid("may not specify a duration less than 600 seconds (10 minutes)", errors);
    }
    let status = csr.at("status");
    let old_status = old.map(|old| old.at("status"));
    let old_conditions = old_status.as_ref().map(|old| old.at("conditions").items()).unwrap_or_default();
    conditions::validate(&status.at("conditions"), old_conditions, errors);
    let old_certificate = old_status.as_ref().map(|old| decoded(&old.at("certificate"))).unwrap_or_default();
    if request::check_certificates(&old_certificate).is_ok()
        && let Err(why) = request::check_certificates(&decoded(&status.at("certificate")))
    {
        status.at("certificate").invalid_as("<certificate data>", why, errors);
    }
}

fn usages(usages: &Field<'_>, old: &[Value], errors: &mut Errors) {
    usages.is_given(errors);
    let unknown = |usage: &Value| !usage.as_str().is_some_and(|usage| USAGES.contains(&usage));
    if !old.iter().any(unknown) {
        usages.each(|usage| usage.one_of(&USAGES, errors));
    }
    if repeated(old).next().is_none() {
        repeated(usages.items()).for_each(|i| usages.index(i).duplicate(errors));
    }
}

/// Signers are named by a domain and a path: `example.com/signer`.
pub(crate) fn signer_name(name: &Field<'_>, errors: &mut Errors) {
    if !name.is_given(errors) {
        return;
    }
    let segments: Vec<&str> = name.text().split('/').collect();
    let [domain, path] = segments[..] else {
        name.invalid("must be a fully qualified domain and path of the form 'example.com/signer-name'", errors);
        return;
    };
    labels(name, domain, names::dns1123_label, errors);
    if !domain.contains('.') {
        name.invalid_as(domain, "should be a domain with at least two segments separated by dots", errors);
    }
    labels(name, path, names::dns1123_subdomain, errors);
}

/// Reports the first label of a segment that does not follow the rule.
fn labels(name: &Field<'_>, segment: &str, rule: fn(&str) -> Vec<String>, errors: &mut Errors) {
    let wrong = segment.split('.').map(|label| (label, rule(label))).find(|(_, messages)| !messages.is_empty());
    if let Some((label, messages)) = wrong {
        for message in messages {
            name.invalid_as(segment, format!("validating label {label:?}: {message}"), errors);
        }
    }
}

fn validate_update(new: &Field<'_>, old: &Field<'_>, through: Through, errors: &mut Errors) {
    validate(new, Some(old), errors);
    let (new, old) = (new.at("status"), old.at("status"));
    let approves = through == Through::Approval;
    conditions::validate_update(&new.at("conditions"), &old.at("conditions"), approves, errors);
    let (new, old) = (new.at("certificate"), old.at("certificate"));
    if new.text() == old.text() {
        return;
    }
    if through != Through::Status {
        new.forbidden("updates may not set certificate content", errors);
    } else if !old.is_empty() {
        new.forbidden("updates may not modify existing certificate content", errors);
    }
}

#[cfg(test)]
mod tests {
    use machinery::array;

    use super::*;

    fn check_name(name: &str, expect: &[&str]) {
        let value = Value::from(name);
        let mut errors = Errors::default();
        signer_name(&Field::root(&value), &mut errors);
        let texts: Vec<String> = errors.into_vec().iter().map(|e| e.detail.chars().take(40).collect()).collect();
        assert_eq!(texts, expect, "{name}");
    }

    #[test]
    fn a_signer_has_a_domain_and_a_path() {
        check_name("example.com/signer", &[]);
        check_name("example.com/a.b", &[]);
        check_name("nodomain", &["must be a fully qualified domain and pat"]);
        check_name("a.b/c/d", &["must be a fully qualified domain and pat"]);
        check_name("local/x", &["should be a domain with at least two seg"]);
        check_name("exa_mple.com/x", &["validating label \"exa_mple\": a lowercase"]);
        check_name("example.com/", &["validating label \"\": a lowercase RFC 112"]);
    }

    #[test]
    fn the_server_says_who_asks() {
        let user = auth::User { name: "jane".into(), groups: vec!["dev".into()], ..Default::default() };
        let cx = WriteContext {
            group: "",
            version: "v1",
            namespace: "",
            subresource: "",
            user: &user,
            features: &Default::default(),
        };
        let mut request = object! {
            "spec" => object! { "username" => "root", "uid" => "0", "extra" => object! {} },
            "status" => object! { "conditions" => array![object! { "type" => "Approved" }] },
        };
        create(&cx, &mut request);
        let spec = object! { "username" => "jane", "groups" => array!["dev"] };
        assert_eq!(request, object! { "spec" => spec, "status" => object! {} });
    }

    #[test]
    fn an_approval_changes_conditions_alone() {
        let user = auth::User::default();
        let cx = WriteContext {
            group: "",
            version: "v1",
            namespace: "",
            subresource: "approval",
            user: &user,
            features: &Default::default(),
        };
        let old = object! { "spec" => object! { "signerName" => "a.b/c" }, "status" => object! {} };
        let mut new = object! {
            "spec" => object! { "signerName" => "x.y/z" },
            "status" => object! {
                "certificate" => "abc", "conditions" => array![object! { "type" => "Approved", "status" => "True" }],
            },
        };
        approval(&cx, &mut new, &old);
        assert_eq!(new.get("spec"), old.get("spec"));
        assert_eq!(new.at(&["status", "certificate"]), None);
        let conditions = new.at(&["status", "conditions"]).and_then(Value::as_array).expect("kept");
        assert!(conditions[0].get("lastUpdateTime").is_some() && conditions[0].get("lastTransitionTime").is_some());
    }
}
