//! Reads and checks responses of conversion webhooks: labels, annotations and everything outside the
//! metadata may be other than before; the object must still be the same one.

use machinery::{
    Map, Value,
    codec::json,
    meta::{
        field_error::{FieldError, aggregate},
        go_text, selector, validation,
    },
    value::Path,
};
use outbound::{MemberType, ReviewKind, check_response, read_review, stated_kind};

use super::strategy::go_type;

/// What is wrong with a converted object.
#[derive(Debug, PartialEq)]
pub(super) enum Problem {
    /// It is none: upstream says no more than that.
    Unread(String),
    /// Its version or kind: upstream tells the place in the review even of a single object.
    Type(String),
    /// It is another object.
    Object(String),
    /// Its labels and annotations.
    Metadata(String),
}

impl Problem {
    /// The error of a webhook that has converted `what`.
    pub(super) fn of(&self, what: &str) -> String {
        let returned = format!("conversion webhook for {what} returned invalid");
        match self {
            Problem::Unread(why) => why.clone(),
            Problem::Type(why) => format!("{returned} object at index 0: {why}"),
            Problem::Object(why) => format!("{returned} object: {why}"),
            Problem::Metadata(why) => format!("{returned} metadata: {why}"),
        }
    }
}

/// The members of a response and their types.
const MEMBERS: [(&str, MemberType); 3] = [
    ("uid", MemberType::Text("types.UID")),
    ("convertedObjects", MemberType::List("[]runtime.RawExtension")),
    ("result", MemberType::Object("v1.Status")),
];

/// The converted objects of an answered review. `version` and `uid` are the question's.
pub(super) fn of_review(body: &[u8], version: &str, uid: &str) -> Result<Vec<Value>, String> {
    let asked = ReviewKind { group: "apiextensions.k8s.io", version, kind: "ConversionReview" };
    let review = read_review(body, asked).map_err(|why| why.to_string())?;
    check_response(&review, "Conversion", &MEMBERS).map_err(|why| why.to_string())?;
    // Reviews of the old version were never looked at so closely.
    let (expected, stated) = ("apiextensions.k8s.io/v1, Kind=ConversionReview", stated_kind(&review));
    if version == "v1" && stated != expected {
        return Err(format!("expected webhook response of {expected}, got {stated}"));
    }
    let response = review.get("response").filter(|r| r.as_object().is_some()).ok_or("no response provided")?;
    let found = response.str_at(&["uid"]).unwrap_or("");
    if version == "v1" && found != uid {
        return Err(format!("expected response.uid={uid:?}, got {}", go_text::quote(found)));
    }
    let status = response.str_at(&["result", "status"]).unwrap_or("");
    if status != "Success" {
        return Err(match response.str_at(&["result", "message"]) {
            Some(message) if !message.is_empty() => message.to_owned(),
            _ => format!("response.result.status was '{status}', not 'Success'"),
        });
    }
    Ok(response.get("convertedObjects").and_then(Value::as_array).unwrap_or_default().to_vec())
}

/// A converted object with the metadata of the original, but for labels and annotations.
pub(super) fn checked(original: &Value, mut object: Value, api_version: &str) -> Result<Value, Problem> {
    let text = |object: &Value, path: &[&str]| object.str_at(path).unwrap_or("").to_owned();
    let unread = |why: String| Err(Problem::Unread(why));
    let found = match &object {
        Value::Object(_) => None,
        Value::Null => return unread("unexpected end of JSON input".to_owned()),
        Value::Int(_) | Value::Float(_) => Some("number"),
        Value::Bool(_) => Some("bool"),
        other => Some(other.type_name()),
    };
    if let Some(found) = found {
        return unread(format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"));
    }
    if text(&object, &["kind"]).is_empty() {
        let shown = String::from_utf8_lossy(&json::encode(&object)).into_owned();
        return unread(format!("Object 'Kind' is missing in '{shown}'"));
    }
    let received = text(&object, &["apiVersion"]);
    if received != api_version {
        let why = format!("invalid groupVersion (expected {api_version}, received {received})");
        return Err(Problem::Type(why));
    }
    let (expected, received) = (text(original, &["kind"]), text(&object, &["kind"]));
    if expected != received {
        return Err(Problem::Type(format!("invalid kind (expected {expected}, received {received})")));
    }
    for (key, shown) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (expected, received) = (text(original, &["metadata", key]), text(&object, &["metadata", key]));
        if expected != received {
            return Err(Problem::Object(format!("must have the same {shown}: {expected} != {received}")));
        }
    }
    let metadata = metadata(original, &object).map_err(Problem::Metadata)?;
    object.set(&["metadata"], metadata);
    Ok(object)
}

/// The original's metadata with the labels and annotations of the converted object.
fn metadata(original: &Value, object: &Value) -> Result<Value, String> {
    let converted = object.get("metadata").ok_or("missing metadata in converted object")?;
    let Value::Object(converted) = converted else {
        return Err(format!("invalid metadata of type {} in converted object", go_type(converted)));
    };
    let mut metadata = original.get("metadata").cloned().unwrap_or_else(Value::object);
    for key in ["labels", "annotations"] {
        let texts = match converted.get(key) {
            None | Some(Value::Null) => {
                metadata.remove_at(&[key]);
                continue;
            }
            Some(Value::Object(texts)) => texts,
            Some(other) => {
                return Err(format!("invalid metadata.{key} of type {} in converted object", go_type(other)));
            }
        };
        if let Some((name, other)) = texts.iter().find(|(_, v)| v.as_str().is_none()) {
            let found = go_type(other);
            return Err(format!("metadata.{key}[{name}] must be a string, but is {found} in converted object"));
        }
        if metadata.get(key).and_then(Value::as_object) != Some(texts) {
            let errors = errors_of(key, texts);
            if let Some(text) = aggregate(&errors) {
                return Err(text);
            }
        }
        metadata.set(&[key], Value::Object(texts.clone()));
    }
    Ok(metadata)
}

fn errors_of(key: &str, texts: &Map) -> Vec<FieldError> {
    let at = Path::ROOT.field("metadata");
    match key {
        "labels" => selector::validate_labels(texts, &at.field("labels")),
        _ => validation::validate_annotations(texts, &at.field("annotation")),
    }
}

#[cfg(test)]
mod tests {
    use machinery::{array, object};

    use super::*;

    fn review(response: Value) -> Vec<u8> {
        json::encode(&object! {
            "kind" => "ConversionReview", "apiVersion" => "apiextensions.k8s.io/v1", "response" => response,
        })
    }

    #[test]
    fn a_review_is_believed_if_it_answers_the_question() {
        let check = |body: &[u8], expect: Result<usize, &str>| {
            let found = of_review(body, "v1", "u").map(|objects| objects.len());
            assert_eq!(found, expect.map_err(str::to_owned), "{}", String::from_utf8_lossy(body));
        };
        let success = object! { "status" => "Success" };
        check(
            &review(object! { "uid" => "u", "result" => success.clone(), "convertedObjects" => array![1, 2] }),
            Ok(2),
        );
        check(&review(object! { "uid" => "u", "result" => success.clone() }), Ok(0));
        check(&review(object! { "uid" => "x", "result" => success }), Err("expected response.uid=\"u\", got \"x\""));
        let failure = object! { "status" => "Failure", "message" => "cannot" };
        check(&review(object! { "uid" => "u", "result" => failure }), Err("cannot"));
        check(&review(object! { "uid" => "u" }), Err("response.result.status was '', not 'Success'"));
        check(&review(Value::Null), Err("no response provided"));
        let why = "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind=";
        check(b"{}", Err(why));
        let why = "json: cannot unmarshal object into Go struct field ConversionResponse.response.convertedObjects of type \
                   []runtime.RawExtension";
        check(&review(object! { "uid" => "u", "convertedObjects" => object! {} }), Err(why));
        check(
            br#"{"kind":"Pod","apiVersion":"v1"}"#,
            Err(r#"no kind "Pod" is registered for version "v1" in scheme "pkg/util/webhook/client.go:71""#),
        );
        assert!(of_review(b"<html>", "v1", "u").is_err());
    }

    fn original() -> Value {
        let metadata = object! {
            "name" => "a", "namespace" => "n", "uid" => "u", "generation" => 3, "labels" => object! { "k" => "v" },
        };
        object! { "kind" => "W", "apiVersion" => "e.dev/v1", "metadata" => metadata, "spec" => object! { "a" => 1 } }
    }

    #[test]
    fn the_object_stays_the_same_one() {
        let check = |path: &[&str], value: Value, expect: &str| {
            let mut answer = original();
            answer.set(&["apiVersion"], "e.dev/v2");
            answer.set(path, value);
            let problem = checked(&original(), answer, "e.dev/v2").map_err(|p| p.of("it"));
            let unread = expect.starts_with("Object");
            let prefix = if unread { "" } else { "conversion webhook for it returned " };
            assert_eq!(problem, Err(format!("{prefix}{expect}")));
        };
        let why = "invalid object at index 0: invalid groupVersion (expected e.dev/v2, received e.dev/v3)";
        check(&["apiVersion"], "e.dev/v3".into(), why);
        check(&["kind"], "X".into(), "invalid object at index 0: invalid kind (expected W, received X)");
        check(&["metadata", "name"], "b".into(), "invalid object: must have the same name: a != b");
        check(&["metadata", "namespace"], "".into(), "invalid object: must have the same namespace: n != ");
        check(&["metadata", "uid"], "w".into(), "invalid object: must have the same UID: u != w");
        check(
            &["metadata", "labels"],
            object! { "k" => 1 },
            "invalid metadata: metadata.labels[k] must be a string, but is int64 in converted object",
        );
        check(
            &["metadata", "annotations"],
            "x".into(),
            "invalid metadata: invalid metadata.annotations of type string in converted object",
        );
    }

    #[test]
    fn only_labels_and_annotations_may_change_in_the_metadata() {
        let mut answer = original();
        answer.set(&["apiVersion"], "e.dev/v2");
        answer.set(&["metadata", "generation"], 9);
        answer.set(&["metadata", "finalizers"], array!["x"]);
        answer.set(&["metadata", "labels"], object! { "k" => "w" });
        answer.set(&["spec"], object! { "b" => 2 });
        let object = checked(&original(), answer, "e.dev/v2").expect("a good answer");
        assert_eq!(object.at(&["metadata", "generation"]), Some(&Value::from(3)));
        assert_eq!(object.at(&["metadata", "finalizers"]), None);
        assert_eq!(object.str_at(&["metadata", "labels", "k"]), Some("w"));
        assert_eq!(object.at(&["spec", "b"]), Some(&Value::from(2)));
    }
}
