//! Parameters that OpenAPI v2 has once in the document, for all operations that take them: each is called by its name and a
//! hash of it.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::URL_SAFE};
use machinery::{Value, codec::json, object};

/// The members of a parameter in the order in which upstream writes them, which the hash is of.
const MEMBERS: [&str; 7] = ["uniqueItems", "type", "description", "name", "in", "required", "schema"];

/// The shared parameters of a document, by what they are called.
#[derive(Default)]
pub(crate) struct SharedParameters(BTreeMap<String, Value>);

impl SharedParameters {
    /// Replaces the parameters of a path item, and of its operations, by references.
    pub(crate) fn take_from(&mut self, item: &mut Value) {
        for (key, member) in item.make_object().iter_mut() {
            let parameters = if key == "parameters" { Some(member) } else { member.get_mut("parameters") };
            for parameter in parameters.and_then(Value::as_array_mut).into_iter().flatten() {
                if is_shared(parameter) {
                    let name = name(parameter);
                    let reference = object! { "$ref" => format!("#/parameters/{name}") };
                    self.0.insert(name, std::mem::replace(parameter, reference));
                }
            }
        }
    }

    /// All of them, sorted.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.0.iter()
    }
}

/// Whether others may take the same: not what tells of the kind, nor what kubectl looks for in operations.
fn is_shared(parameter: &Value) -> bool {
    let text = |member: &str| parameter.str_at(&[member]).unwrap_or_default();
    match (text("in"), text("name")) {
        ("query" | "path", "name") | ("query", "fieldValidation" | "dryRun") => false,
        ("body", "body") => parameter
            .str_at(&["schema", "$ref"])
            .is_none_or(|schema| schema.starts_with("#/definitions/io.k8s.apimachinery")),
        _ => true,
    }
}

fn name(parameter: &Value) -> String {
    let mut text = Vec::new();
    for (member, value) in MEMBERS.into_iter().filter_map(|member| Some((member, parameter.get(member)?))) {
        text.push(if text.is_empty() { b'{' } else { b',' });
        json::write_string(&mut text, member);
        text.push(b':');
        json::encode_into(&mut text, value);
    }
    text.push(b'}');
    let hash = fnv1(&text).to_be_bytes();
    format!("{}-{}", parameter.str_at(&["name"]).unwrap_or("param"), URL_SAFE.encode(&hash[..6]))
}

/// The hash FNV-1 of 64 bits.
fn fnv1(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| hash.wrapping_mul(0x0100_0000_01b3) ^ u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use machinery::array;

    use super::*;

    #[test]
    fn parameters_stand_once_and_are_called_as_upstream_calls_them() {
        let namespace = object! {
            "name" => "namespace", "in" => "path", "required" => true, "type" => "string", "uniqueItems" => true,
            "description" => "object name and auth scope, such as for teams and projects",
        };
        let options = object! { "$ref" => "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions" };
        let pod = object! { "$ref" => "#/definitions/io.k8s.api.core.v1.Pod" };
        let body = |schema: &Value| object! { "name" => "body", "in" => "body", "schema" => schema.clone() };
        let dry_run = object! { "name" => "dryRun", "in" => "query", "type" => "string" };
        let mut item = object! {
            "parameters" => array![namespace.clone()],
            "delete" => object! { "parameters" => array![body(&options), dry_run.clone()] },
            "post" => object! { "parameters" => array![body(&pod)] },
        };
        let mut shared = SharedParameters::default();
        shared.take_from(&mut item);
        let to = |name: &str| object! { "$ref" => format!("#/parameters/{name}") };
        assert_eq!(item.get("parameters"), Some(&array![to("namespace-vgWSWtn3")]));
        assert_eq!(item.at(&["delete", "parameters"]), Some(&array![to("body-2Y1dVQaQ"), dry_run]));
        assert_eq!(item.at(&["post", "parameters"]), Some(&array![body(&pod)]));
        let names: Vec<&String> = shared.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["body-2Y1dVQaQ", "namespace-vgWSWtn3"]);
    }
}
