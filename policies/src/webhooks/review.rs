//! `AdmissionReview` (admission.k8s.io v1 and v1beta1): the question a webhook is asked, and its answer.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use machinery::{Str, Value, codec::json, meta::go_text::quote, object};

use super::Target;
use crate::write::{Request, Subject};

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
}

/// The question, as it is sent.
pub(super) fn question(version: Version, uid: &str, subject: &Subject<'_>, target: &Target<'_>) -> Vec<u8> {
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
    let review = json::decode(body)
        .map_err(|e| Unreadable::Undecodable(format!("couldn't get version/kind; json parse error: {e}")))?;
    let kind = review.str_at(&["kind"]).unwrap_or_default();
    if review.as_object().is_none() || kind.is_empty() {
        let text = String::from_utf8_lossy(&body[..body.len().min(256)]).into_owned();
        return Err(Unreadable::Undecodable(format!("Object 'Kind' is missing in '{text}'")));
    }
    let invalid = |why: String| Err(Unreadable::Invalid(why));
    let response = review.get("response").filter(|r| r.as_object().is_some());
    let Some(response) = response else { return invalid("webhook response was absent".into()) };
    let patch = response.str_at(&["patch"]).unwrap_or_default();
    let patch = BASE64.decode(patch).map_err(|e| {
        Unreadable::Undecodable(format!("json: cannot unmarshal response.patch: illegal base64 data: {e}"))
    })?;
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
    })
}

/// What is wrong with an answer of the version v1; those before were never looked at so closely.
fn objection(review: &Value, response: &Value, uid: &str, mutating: bool, patch: &[u8]) -> Option<String> {
    let text = |value: &Value, key: &str| value.str_at(&[key]).unwrap_or_default().to_owned();
    let found = text(response, "uid");
    if found != uid {
        return Some(format!("expected response.uid={}, got {}", quote(uid), quote(&found)));
    }
    let (api_version, kind) = (text(review, "apiVersion"), text(review, "kind"));
    if (api_version.as_str(), kind.as_str()) != ("admission.k8s.io/v1", "AdmissionReview") {
        let shown = if api_version.contains('/') { api_version } else { format!("/{api_version}") };
        return Some(format!(
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {shown}, Kind={kind}"
        ));
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
            invalid(
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got admission.k8s.io/v1beta1, \
                 Kind=AdmissionReview",
            ),
        );
        let nothing = Err(Unreadable::Undecodable("Object 'Kind' is missing in '{}'".into()));
        check(Version::V1, true, "{}", nothing);
    }

    #[test]
    fn answers_of_v1beta1_are_believed() {
        let body = r#"{"kind":"AdmissionReview","response":{"allowed":true,"patch":"W10="}}"#;
        let patched =
            Answer { allowed: true, patch: b"[]".to_vec(), patch_type: "JSONPatch".into(), ..Answer::default() };
        check(Version::V1Beta1, true, body, Ok(patched));
    }
}
