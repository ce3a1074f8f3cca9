//! The media types that are there where the server has CBOR (the gate CBORServingAndStorage).

use machinery::Value;

/// The media types beside which those of CBOR stand, and these.
const BESIDE: [(&str, &str); 3] = [
    ("application/vnd.kubernetes.protobuf", "application/cbor"),
    ("application/vnd.kubernetes.protobuf;stream=watch", "application/cbor-seq"),
    ("application/apply-patch+yaml", "application/apply-patch+cbor"),
];

/// Adds them to a path of built-in resources, in the form of v3.
pub(crate) fn add(item: &mut Value) {
    let operations = item.make_object().iter_mut().map(|(_, operation)| operation);
    for operation in operations.filter(|operation| operation.get("responses").is_some()) {
        if let Some(body) = operation.get_mut("requestBody") {
            add_to(body);
        }
        let responses = operation.get_mut("responses").and_then(Value::as_object_mut);
        responses.into_iter().flat_map(|responses| responses.iter_mut()).for_each(|(_, response)| add_to(response));
    }
}

/// Adds them to all paths.
pub(crate) fn add_all(paths: &mut Value) {
    paths.make_object().iter_mut().for_each(|(_, item)| add(item));
}

fn add_to(part: &mut Value) {
    let Some(content) = part.get_mut("content").and_then(Value::as_object_mut) else { return };
    for (beside, own) in BESIDE {
        if let Some(schema) = content.get(beside).cloned() {
            content.insert(own, schema);
        }
    }
}

#[cfg(test)]
mod tests {
    use machinery::{codec::json, object};

    use super::*;

    #[test]
    fn media_types_stand_beside_others() {
        let mut item = object! {
            "parameters" => Vec::<Value>::new(),
            "patch" => object! {
                "requestBody" => object! { "content" => object! { "application/apply-patch+yaml" => 1 } },
                "responses" => object! {
                    "200" => object! { "content" => object! { "application/vnd.kubernetes.protobuf;stream=watch" => 2 } },
                    "401" => object! { "description" => "Unauthorized" },
                },
            },
        };
        add(&mut item);
        assert_eq!(
            json::encode_text(&item),
            r#"{"parameters":[],"patch":{"requestBody":{"content":{"application/apply-patch+cbor":1,"application/apply-patch+yaml":1}},"responses":{"200":{"content":{"application/cbor-seq":2,"application/vnd.kubernetes.protobuf;stream=watch":2}},"401":{"description":"Unauthorized"}}}}"#
        );
    }
}
