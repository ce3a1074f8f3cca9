//! Definitions as upstream stores them: still in v1beta1, where what all versions share stands outside of them.

use machinery::{Value, object};

/// What stands in the spec of v1beta1, and its name in each version of v1.
const SHARED: [(&str, &str); 4] = [
    ("validation", "schema"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

/// Brings a definition of v1beta1 into v1, but for its apiVersion.
pub(super) fn from_v1beta1(definition: &mut Value) {
    let Some(mut spec) = definition.get("spec").filter(|spec| spec.as_object().is_some()).cloned() else { return };
    let members = spec.make_object();
    let only = members.remove("version").unwrap_or(Value::Null);
    let mut versions: Vec<Value> = members.get("versions").and_then(Value::as_array).unwrap_or(&[]).to_vec();
    if versions.is_empty() && only.as_str().is_some_and(|name| !name.is_empty()) {
        versions.push(object! { "name" => only, "served" => true, "storage" => true });
    }
    for (shared, own) in SHARED {
        let Some(value) = members.remove(shared).filter(|value| !value.is_null()) else { continue };
        for version in &mut versions {
            version.make_object().insert(own, value.clone());
        }
    }
    for version in &mut versions {
        let columns = version.get("additionalPrinterColumns").and_then(Value::as_array);
        if let Some(columns) = columns.map(|columns| columns.iter().cloned().map(column).collect::<Value>()) {
            version.make_object().insert("additionalPrinterColumns", columns);
        }
    }
    if members.get("preserveUnknownFields").and_then(Value::as_bool) == Some(false) {
        members.remove("preserveUnknownFields");
    }
    members.insert("versions", versions);
    if let Some(conversion) = members.get("conversion").cloned() {
        members.insert("conversion", webhook(conversion));
    }
    definition.make_object().insert("spec", spec);
}

/// A column's path has another name.
fn column(mut column: Value) -> Value {
    if let Some(path) = column.make_object().remove("JSONPath") {
        column.make_object().insert("jsonPath", path);
    }
    column
}

/// What concerns the webhook stands beside the strategy in v1beta1.
fn webhook(mut conversion: Value) -> Value {
    let members = conversion.make_object();
    let mut webhook = Value::object();
    if let Some(config) = members.remove("webhookClientConfig").filter(|config| !config.is_null()) {
        webhook.set(&["clientConfig"], config);
    }
    if let Some(versions) = members.remove("conversionReviewVersions").filter(|versions| !versions.is_null()) {
        webhook.set(&["conversionReviewVersions"], versions);
    }
    if webhook.as_object().is_some_and(|webhook| !webhook.is_empty()) {
        members.insert("webhook", webhook);
    }
    conversion
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    #[test]
    fn what_versions_share_is_given_to_each() {
        let check = |before: &str, after: &str| {
            let mut definition = json::decode(before.as_bytes()).expect("valid");
            from_v1beta1(&mut definition);
            assert_eq!(definition, json::decode(after.as_bytes()).expect("valid"), "{before}");
        };
        check(
            r#"{"spec":{"version":"v1","versions":[{"name":"v1","served":true,"storage":true},{"name":"v2"}],
                "validation":{"openAPIV3Schema":{"type":"object"}},"subresources":{"status":{}},"preserveUnknownFields":false,
                "additionalPrinterColumns":[{"name":"a","type":"string","JSONPath":".spec.a"}]}}"#,
            r#"{"spec":{"versions":[
                {"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}},
                 "subresources":{"status":{}},"additionalPrinterColumns":[{"name":"a","type":"string","jsonPath":".spec.a"}]},
                {"name":"v2","schema":{"openAPIV3Schema":{"type":"object"}},"subresources":{"status":{}},
                 "additionalPrinterColumns":[{"name":"a","type":"string","jsonPath":".spec.a"}]}]}}"#,
        );
        check(
            r#"{"spec":{"version":"v1","conversion":{"strategy":"None"},"preserveUnknownFields":true}}"#,
            r#"{"spec":{"versions":[{"name":"v1","served":true,"storage":true}],"conversion":{"strategy":"None"},
                "preserveUnknownFields":true}}"#,
        );
        check(
            r#"{"spec":{"versions":[{"name":"v1","schema":{"x":1}}],"conversion":{"strategy":"Webhook",
                "webhookClientConfig":{"url":"https://x"},"conversionReviewVersions":["v1"]}}}"#,
            r#"{"spec":{"versions":[{"name":"v1","schema":{"x":1}}],"conversion":{"strategy":"Webhook",
                "webhook":{"clientConfig":{"url":"https://x"},"conversionReviewVersions":["v1"]}}}}"#,
        );
        check(r#"{"spec":1}"#, r#"{"spec":1}"#);
    }
}
