//! `AdmissionReview` (admission.k8s.io v1 and v1beta1): the question a webhook is asked, and its answer.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use machinery::{Str, Value, codec::json, meta::go_text::quote, object, schema::packed_base64};
use outbound::{AnswerError, MemberType, ReviewKind, check_response, read_review, stated_kind};

use super::Target;
use crate::write::{Request, WriteAttributes};

/// A version of the review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V1Beta1,
}

impl Version {
    pub(super) fn of(name: &str) -> Option<Self> {
        match name {
            "v1" => Some(Version::V1),
            "v1beta1" => Some(Version::V1Beta1),
            _ => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Version::V1 => "v1",
            Version::V1Beta1 => "v1beta1",
        }
    }
}

/// What a webhook has said.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Answer {
    pub(super) allowed: bool,
    /// `metav1.Status` of a refusal; null if there is none.
    pub(super) result: Value,
    /// A JSON Patch; empty: nothing is changed.
    pub(super) patch: Vec<u8>,
    pub(super) patch_type: Str,
    pub(super) warnings: Vec<String>,
    /// For the audit log, by key.
    pub(super) annotations: Vec<(Str, Str)>,
}

/// The question, as it is sent.
pub(super) fn question(version: Version, uid: &str, subject: &WriteAttributes<'_>, target: &Target<'_>) -> Vec<u8> {
    let mut request = Request::new(subject, &target.matched.kind, &target.matched.resource).value().clone();
    request.set(&["uid"], uid);
    request.set(&["object"], target.documents.object.clone());
    request.set(&["oldObject"], target.documents.old.clone());
    json::encode(&object! {
        "kind" => "AdmissionReview",
        "apiVersion" => format!("admission.k8s.io/{}", version.name()),
        "request" => request,
    })
}

/// Why an answer is not one, in upstream's words.
#[derive(Debug, PartialEq)]
pub(super) enum Unreadable {
    /// It is no document of this kind.
    Undecodable(String),
    /// It does not say what it must.
    Invalid(String),
}

/// Reads an answer.
pub(super) fn answer(version: Version, uid: &str, mutating: bool, body: &[u8]) -> Result<Answer, Unreadable> {
    let asked = ReviewKind { group: "admission.k8s.io", version: version.name(), kind: "AdmissionReview" };
    let undecodable = |why: AnswerError| Unreadable::Undecodable(why.to_string());
    let review = read_review(body, asked).map_err(undecodable)?;
    check_response(&review, "Admission", &MEMBERS).map_err(|why| undecodable(why.into()))?;
    let invalid = |why: String| Err(Unreadable::Invalid(why));
    let response = review.get("response").filter(|r| r.as_object().is_some());
    let Some(response) = response else { return invalid("webhook response was absent".into()) };
    let patch = read_patch(response).map_err(Unreadable::Undecodable)?;
    let patch_type = response.str_at(&["patchType"]);
    if version == Version::V1
        && let Some(why) = objection(&review, response, uid, mutating, &patch)
    {
        return invalid(why);
    }
    let warnings = response.get("warnings").and_then(Value::as_array).unwrap_or_default();
    Ok(Answer {
        allowed: response.get("allowed") == Some(&Value::Bool(true)),
        result: response.get("status").cloned().unwrap_or_default(),
        // Reviews of the old version are all JSON Patches, whatever they say.
        patch_type: match version {
            Version::V1 => patch_type.unwrap_or_default().into(),
            Version::V1Beta1 => Str::new_static("JSONPatch"),
        },
        patch: if mutating { patch } else { Vec::new() },
        warnings: warnings.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        annotations: read_annotations(response),
    })
}

/// The members of a response and their types.
const MEMBERS: [(&str, MemberType); 7] = [
    ("uid", MemberType::Text("types.UID")),
    ("allowed", MemberType::Bool),
    ("status", MemberType::Object("v1.Status")),
    ("patch", MemberType::Text("[]uint8")),
    ("patchType", MemberType::Text("v1.PatchType")),
    ("auditAnnotations", MemberType::Texts("map[string]string")),
    ("warnings", MemberType::Texts("[]string")),
];

/// What a response has to say in the audit log.
fn read_annotations(response: &Value) -> Vec<(Str, Str)> {
    let members = response.get("auditAnnotations").and_then(Value::as_object).into_iter().flatten();
    members.filter_map(|(key, value)| Some((key.clone(), value.as_shared_str()?.clone()))).collect()
}

/// The patch of a response; nothing is an empty one.
fn read_patch(response: &Value) -> Result<Vec<u8>, String> {
    let Some(text) = response.get("patch").and_then(Value::as_shared_str) else { return Ok(Vec::new()) };
    let packed = packed_base64(text).map_err(|at| format!("illegal base64 data at input byte {at}"))?;
    BASE64.decode(packed.as_bytes()).map_err(|e| e.to_string())
}

/// What is wrong with an answer of the version v1; those before were never looked at so closely.
fn objection(review: &Value, response: &Value, uid: &str, mutating: bool, patch: &[u8]) -> Option<String> {
    let found = response.str_at(&["uid"]).unwrap_or_default();
    if found != uid {
        return Some(format!("expected response.uid={}, got {}", quote(uid), quote(found)));
    }
    let (expected, found) = ("admission.k8s.io/v1, Kind=AdmissionReview", stated_kind(review));
    if found != expected {
        return Some(format!("expected webhook response of {expected}, got {found}"));
    }
    let why = match (mutating, patch.is_empty(), response.str_at(&["patchType"])) {
        (true, false, None) => "webhook returned response.patch but not response.patchType",
        (true, true, Some(_)) => "webhook returned response.patchType but not response.patch",
        (true, false, Some("")) => "webhook returned invalid response.patchType of \"\"",
        (false, false, _) => "validating webhook may not return response.patch",
        (false, true, Some(_)) => "validating webhook may not return response.patchType",
        _ => return None,
    };
    Some(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(version: Version, mutating: bool, body: &str, expect: Result<Answer, Unreadable>) {
        assert_eq!(answer(version, "u", mutating, body.as_bytes()), expect, "{body}");
    }

    fn invalid(why: &str) -> Result<Answer, Unreadable> {
        Err(Unreadable::Invalid(why.into()))
    }

    fn v1(response: &str) -> String {
        format!(r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{response}}}"#)
    }

    #[test]
    fn answers_of_v1_are_looked_at_closely() {
        let allowed = Answer { allowed: true, ..Answer::default() };
        check(Version::V1, false, &v1(r#"{"uid":"u","allowed":true}"#), Ok(allowed));
        let patched = Answer {
            allowed: true,
            patch: b"[]".to_vec(),
            patch_type: "JSONPatch".into(),
            warnings: vec!["w".into()],
            ..Answer::default()
        };
        let body = v1(r#"{"uid":"u","allowed":true,"patch":"W10=","patchType":"JSONPatch","warnings":["w"]}"#);
        check(Version::V1, true, &body, Ok(patched));
        check(Version::V1, false, &body, invalid("validating webhook may not return response.patch"));
        check(Version::V1, true, &v1("null"), invalid("webhook response was absent"));
        check(Version::V1, true, &v1(r#"{"uid":"x"}"#), invalid(r#"expected response.uid="u", got "x""#));
        check(
            Version::V1,
            true,
            &v1(r#"{"uid":"u","patch":"W10="}"#),
            invalid("webhook returned response.patch but not response.patchType"),
        );
        check(
            Version::V1,
            true,
            &v1(r#"{"uid":"u","patchType":"JSONPatch"}"#),
            invalid("webhook returned response.patchType but not response.patch"),
        );
        check(
            Version::V1,
            true,
            r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","response":{"uid":"u"}}"#,
            undecodable("converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion"),
        );
        check(Version::V1, true, "{}", invalid("webhook response was absent"));
    }

    #[test]
    fn an_answer_says_what_it_is() {
        let why = "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=";
        check(Version::V1, false, r#"{"response":{"uid":"u","allowed":true}}"#, invalid(why));
    }

    fn undecodable(why: &str) -> Result<Answer, Unreadable> {
        Err(Unreadable::Undecodable(why.into()))
    }

    #[test]
    fn answers_are_typed() {
        let go = |found: &str, field: &str, of: &str| {
            undecodable(&format!("json: cannot unmarshal {found} into Go struct field {field} of type {of}"))
        };
        let of_response = "AdmissionResponse.response";
        check(Version::V1, false, &v1(r#"{"uid":5}"#), go("number", &format!("{of_response}.uid"), "types.UID"));
        let warnings = format!("{of_response}.warnings");
        check(Version::V1, false, &v1(r#"{"uid":"u","warnings":"x"}"#), go("string", &warnings, "[]string"));
        check(Version::V1, false, &v1(r#"{"uid":"u","warnings":[1]}"#), go("number", &warnings, "string"));
        check(Version::V1, false, &v1("[]"), go("array", "AdmissionReview.response", "v1.AdmissionResponse"));
        let patch = undecodable("illegal base64 data at input byte 0");
        check(Version::V1, true, &v1(r#"{"uid":"u","patch":"!!","patchType":"JSONPatch"}"#), patch);
    }

    #[test]
    fn answers_of_v1beta1_are_believed() {
        let body = r#"{"kind":"AdmissionReview","response":{"allowed":true,"patch":"W10="}}"#;
        let patched =
            Answer { allowed: true, patch: b"[]".to_vec(), patch_type: "JSONPatch".into(), ..Answer::default() };
        check(Version::V1Beta1, true, body, Ok(patched));
    }
}
