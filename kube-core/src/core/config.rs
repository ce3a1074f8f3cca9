//! ConfigMaps, secrets and service accounts.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use generic_server::resource::WriteContext;
use machinery::{
    Value,
    codec::json,
    meta::{field_error::FieldError, names},
    object,
};

use super::key_pair;
use crate::{
    defaults::{each, text},
    strategy::Rules,
    validation::{Errors, Field},
};

/// The rules of config maps.
pub(super) const CONFIG_MAPS: Rules = Rules::PLAIN.validate(config_map).validate_update(config_map_update);

/// The rules of secrets.
pub(super) const SECRETS: Rules =
    Rules::PLAIN.defaults(secret).validate(secret_is_valid).validate_update(secret_update).warn(secret_warnings);

/// The rules of service accounts.
pub(super) const SERVICE_ACCOUNTS: Rules =
    Rules { create, update, warn: warn_of_mountable_secrets, ..Rules::PLAIN.returns_deleted() };

/// How many bytes of data an object may hold.
const MAX_DATA: usize = 1024 * 1024;

/// `stringData` is for writing only: what it holds becomes data.
fn secret(secret: &mut Value) {
    text(secret, "type", "Opaque");
    let Some(texts) = secret.make_object().remove("stringData") else { return };
    let data = secret.at_mut(&["data"]).make_object();
    for (key, value) in texts.as_object().into_iter().flatten() {
        data.insert(key.clone(), BASE64.encode(value.as_str().unwrap_or_default()));
    }
    if data.is_empty() {
        secret.make_object().remove("data");
    }
}

fn create(_cx: &WriteContext<'_>, account: &mut Value) {
    each(account, "secrets", name_alone);
}

fn name_alone(secret: &mut Value) {
    let name = secret.get("name").filter(|name| name.as_str().is_some_and(|text| !text.is_empty()));
    *secret = name.map_or_else(Value::object, |name| object! { "name" => name.clone() });
}

fn update(cx: &WriteContext<'_>, new: &mut Value, _old: &Value) {
    create(cx, new);
}

/// The annotation that restricts the secrets of an account's pods has had its day.
fn warn_of_mountable_secrets(account: &Value, old: Option<&Value>) -> Vec<String> {
    const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";
    let has = |account: &Value| account.at(&["metadata", "annotations", ENFORCE]).is_some();
    if !has(account) || old.is_some_and(has) {
        return Vec::new();
    }
    vec![format!(
        "metadata.annotations[{ENFORCE}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
    )]
}

fn config_map(_cx: &WriteContext<'_>, map: &Field<'_>, errors: &mut Errors) {
    let (data, binary) = (map.at("data"), map.at("binaryData"));
    let mut size = 0;
    data.each_key(|key, value| {
        data_key(&data, key, errors);
        if binary.key(key).is_set() {
            data.key(key).invalid_as(key, "duplicate of key present in binaryData", errors);
        }
        size += value.text().len();
    });
    binary.each_key(|key, value| {
        data_key(&binary, key, errors);
        size += decoded_len(value.text());
    });
    if size > MAX_DATA {
        errors.push(FieldError::too_long("[]", MAX_DATA)); // how upstream's empty path is written
    }
}

fn config_map_update(cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    stays_immutable(new, old, &["data", "binaryData"], errors);
    config_map(cx, new, errors);
}

/// Once `immutable` is set, it and the content stay.
fn stays_immutable(new: &Field<'_>, old: &Field<'_>, content: &[&str], errors: &mut Errors) {
    if !old.at("immutable").is_true() {
        return;
    }
    const WHY: &str = "field is immutable when `immutable` is set";
    if !new.at("immutable").is_true() {
        new.at("immutable").forbidden(WHY, errors);
    }
    for member in content {
        if !new.at(member).same(&old.at(member)) {
            new.at(member).forbidden(WHY, errors);
        }
    }
}

fn data_key(data: &Field<'_>, key: &str, errors: &mut Errors) {
    for message in names::config_map_key(key) {
        data.key(key).invalid_as(key, message, errors);
    }
}

/// How many bytes a well-formed base64 text stands for.
fn decoded_len(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|b| *b == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

/// The keys that a secret of a type must have; of the second list, one is enough.
const REQUIRED_KEYS: &[(&str, &[&str], &[&str])] = &[
    ("kubernetes.io/dockercfg", &[".dockercfg"], &[]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"], &[]),
    ("kubernetes.io/basic-auth", &[], &["username", "password"]),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"], &[]),
    ("kubernetes.io/tls", &["tls.crt", "tls.key"], &[]),
];

/// The types whose content is a text in JSON.
const JSON_TYPES: &[&str] = &["kubernetes.io/dockercfg", "kubernetes.io/dockerconfigjson"];

fn secret_is_valid(_cx: &WriteContext<'_>, secret: &Field<'_>, errors: &mut Errors) {
    let data = secret.at("data");
    let mut size = 0;
    data.each_key(|key, value| {
        data_key(&data, key, errors);
        size += decoded_len(value.text());
    });
    if size > MAX_DATA {
        errors.push(FieldError::too_long("data", MAX_DATA));
    }
    let kind = secret.at("type");
    if kind.text() == "kubernetes.io/service-account-token" {
        names_its_account(secret, errors);
    }
    for (_, all, any) in REQUIRED_KEYS.iter().filter(|(of, ..)| *of == kind.text()) {
        if !any.is_empty() && any.iter().all(|key| !data.key(key).is_set()) {
            any.iter().for_each(|key| data.key(key).required("", errors));
        }
        for key in *all {
            let value = data.key(key);
            // An empty private key counts as none; other keys need only be there.
            let present = if *key == "ssh-privatekey" { !value.is_empty() } else { value.is_set() };
            if !present {
                value.required("", errors);
            } else if JSON_TYPES.contains(&kind.text()) {
                holds_json(&value, errors);
            }
        }
    }
}

/// A secret with a service account's token names the account.
fn names_its_account(secret: &Field<'_>, errors: &mut Errors) {
    const ACCOUNT: &str = "kubernetes.io/service-account.name";
    let metadata = secret.at("metadata");
    let annotations = metadata.at("annotations");
    annotations.key(ACCOUNT).is_given(errors);
}

/// What the secret holds is never shown.
fn holds_json(value: &Field<'_>, errors: &mut Errors) {
    let content = BASE64.decode(value.text()).unwrap_or_default();
    let why = match json::decode(&content) {
        Err(why) => why.to_string(),
        Ok(Value::Object(_) | Value::Null) => return,
        Ok(other) => {
            let kind = match other {
                Value::Bool(_) => "bool",
                Value::String(_) => "string",
                Value::Array(_) => "array",
                _ => "number",
            };
            format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")
        }
    };
    value.invalid_as("<secret contents redacted>", why, errors);
}

fn secret_update(cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    new.at("type").immutable(&old.at("type"), errors);
    stays_immutable(new, old, &["data"], errors);
    secret_is_valid(cx, new, errors);
}

/// A key pair that is no such pair is kept, with a word to its author.
fn secret_warnings(secret: &Value, _old: Option<&Value>) -> Vec<String> {
    if secret.str_at(&["type"]) != Some("kubernetes.io/tls") {
        return Vec::new();
    }
    let part = |key: &str| BASE64.decode(secret.str_at(&["data", key]).unwrap_or_default()).unwrap_or_default();
    key_pair::problem(&part("tls.crt"), &part("tls.key")).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_keeps_the_names_of_its_secrets() {
        let mut account = object! {
            "secrets" => vec![object! { "name" => "a", "kind" => "Secret" }, object! { "name" => "" }, object! {}],
        };
        each(&mut account, "secrets", name_alone);
        assert_eq!(account, object! { "secrets" => vec![object! { "name" => "a" }, object! {}, object! {}] });
    }

    #[test]
    fn texts_become_data_and_win_over_it() {
        let mut v = object! {
            "data" => object! { "a" => "b2xk", "b" => "a2VwdA==" },
            "stringData" => object! { "a" => "new", "c" => "" },
        };
        secret(&mut v);
        let data = object! { "a" => "bmV3", "b" => "a2VwdA==", "c" => "" };
        assert_eq!(v, object! { "data" => data, "type" => "Opaque" });
    }

    #[test]
    fn types_of_secrets_have_their_keys() {
        let check = |kind: &str, data: Value, expect: &[&str]| {
            let secret = object! { "type" => kind, "data" => data };
            let (mut errors, cx) = (
                Errors::default(),
                WriteContext {
                    group: "",
                    version: "v1",
                    namespace: "n",
                    subresource: "",
                    user: &auth::User::default(),
                    features: &Default::default(),
                },
            );
            secret_is_valid(&cx, &Field::root(&secret), &mut errors);
            let texts: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
            assert_eq!(texts, expect, "{kind}");
        };
        check("Opaque", object! { "a" => "eHg=" }, &[]);
        check("kubernetes.io/tls", object! { "tls.crt" => "" }, &["data[tls.key]: Required value"]);
        check("kubernetes.io/basic-auth", object! { "password" => "" }, &[]);
        check("kubernetes.io/ssh-auth", object! { "ssh-privatekey" => "" }, &["data[ssh-privatekey]: Required value"]);
        let hidden = r#"data[.dockercfg]: Invalid value: "<secret contents redacted>": unexpected end of JSON input"#;
        check("kubernetes.io/dockercfg", object! { ".dockercfg" => "ew==" }, &[hidden]);
        let account = "metadata.annotations[kubernetes.io/service-account.name]: Required value";
        check("kubernetes.io/service-account-token", object! {}, &[account]);
    }

    #[test]
    fn data_is_measured_as_it_is_when_decoded() {
        let check = |text: &str| assert_eq!(decoded_len(&BASE64.encode(text)), text.len());
        ["", "f", "fo", "foo", "foob"].into_iter().for_each(check);
    }
}
