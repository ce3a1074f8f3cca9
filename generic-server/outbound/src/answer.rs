//! Reads responses of webhooks: a document of one kind, in JSON or YAML, whatever its Content-Type says.

use machinery::{
    Value,
    config::{DocumentError, Unregistered, read_document},
    meta::go_text::WrongType,
    schema::builtin,
};

/// The kind of document that a webhook is asked with, and answers with.
#[derive(Clone, Copy, Debug)]
pub struct ReviewKind<'a> {
    /// The API group.
    pub group: &'a str,
    /// The version that was asked in.
    pub version: &'a str,
    /// The kind.
    pub kind: &'a str,
}

/// The kinds that upstream's client knows of, which its errors tell from those that it does not.
#[derive(Clone, Copy, Debug)]
pub enum KnownKinds {
    /// Those of admission and conversion.
    Admission,
    /// All that are built in; and where upstream registers them, as its errors say.
    All(&'static str),
}

/// Why what was answered is of no use. Shown, it is what upstream's clients say.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// It is no document.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// It is of another kind, or of another version of the kind.
    #[error("converting ({version}.{kind}) to ({asked_version}.{asked_kind}): unknown conversion")]
    OtherKind {
        /// The version that it is of.
        version: String,
        /// The kind that it is of.
        kind: String,
        /// The version that was asked in.
        asked_version: String,
        /// The kind that was asked.
        asked_kind: String,
    },
    /// It is of a kind that nobody knows.
    #[error(transparent)]
    Unregistered(#[from] Unregistered),
    /// A value in it is not of the type that its place has.
    #[error(transparent)]
    WrongType(#[from] WrongType),
}

/// Reads an answer. One that says nothing of its kind is of the kind that was asked.
///
/// # Errors
/// It is no document, or one of another kind.
pub fn read(body: &[u8], asked: ReviewKind<'_>) -> Result<Value, AnswerError> {
    read_by(body, asked, KnownKinds::Admission)
}

/// [`read`], by a client that knows of these kinds.
///
/// # Errors
/// As [`read`].
pub fn read_by(body: &[u8], asked: ReviewKind<'_>, scheme: KnownKinds) -> Result<Value, AnswerError> {
    let document = read_document(body)?;
    let text = |key: &str| document.str_at(&[key]).unwrap_or_default();
    let own = format!("{}/{}", asked.group, asked.version);
    let api_version = Some(text("apiVersion")).filter(|v| !v.is_empty()).unwrap_or(&own);
    let kind = Some(text("kind")).filter(|k| !k.is_empty()).unwrap_or(asked.kind);
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let is_review =
        group == asked.group && kind == asked.kind && (version == asked.version || matches!(version, "v1" | "v1beta1"));
    let is_known = match scheme {
        KnownKinds::Admission => (group, version, kind) == ("", "v1", "Status"),
        KnownKinds::All(_) => builtin::by_gvk(group, version, kind).is_some(),
    };
    if is_review && version == asked.version {
        return Ok(document);
    }
    if is_review || is_known {
        return Err(AnswerError::OtherKind {
            version: version.to_owned(),
            kind: kind.to_owned(),
            asked_version: asked.version.to_owned(),
            asked_kind: asked.kind.to_owned(),
        });
    }
    let registry = match scheme {
        KnownKinds::Admission => "pkg/util/webhook/client.go:71",
        KnownKinds::All(registry) => registry,
    };
    Err(Unregistered { api_version: api_version.to_owned(), kind: kind.to_owned(), registry }.into())
}

/// The version and kind that a document says it has, as Go prints them.
pub fn stated_kind(document: &Value) -> String {
    let text = |key: &str| document.str_at(&[key]).unwrap_or_default();
    let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
    format!("{group}/{version}, Kind={}", text("kind"))
}

/// What a member of a response must be, with Go's name of the type.
#[derive(Clone, Copy, Debug)]
pub enum MemberType {
    /// A boolean.
    Bool,
    /// Text.
    Text(&'static str),
    /// An object.
    Object(&'static str),
    /// A list or map of texts.
    Texts(&'static str),
    /// A list of anything.
    List(&'static str),
}

/// Checks the types in the response of a review, whose Go types begin with `name`.
///
/// # Errors
/// The first that is of another type.
pub fn check_response(review: &Value, name: &str, members: &[(&str, MemberType)]) -> Result<(), WrongType> {
    check_part(review, "response", name, &format!("v1.{name}Response"), members)
}

/// Checks the types in a member of a document; `go_type` is what Go calls the type of that member: `v1.SubjectAccessReviewStatus`.
///
/// # Errors
/// The first that is of another type.
pub fn check_members(
    document: &Value,
    member: &str,
    go_type: &str,
    members: &[(&str, MemberType)],
) -> Result<(), WrongType> {
    let name = go_type.rsplit('.').next().unwrap_or(go_type);
    check_part(document, member, name.trim_end_matches("Status"), go_type, members)
}

fn check_part(
    document: &Value,
    part: &str,
    name: &str,
    go_type: &str,
    members: &[(&str, MemberType)],
) -> Result<(), WrongType> {
    let Some(response) = document.get(part).filter(|r| !r.is_null()) else { return Ok(()) };
    let short = go_type.rsplit('.').next().unwrap_or(go_type);
    let wrong = |found: &Value, field: &str, of: &str| Err(WrongType::of(found, field, of));
    if response.as_object().is_none() {
        return wrong(response, &format!("{name}{}.{part}", if part == "response" { "Review" } else { "" }), go_type);
    }
    for (member, of) in members {
        let Some(value) = response.get(member).filter(|v| !v.is_null()) else { continue };
        let field = format!("{short}.{part}.{member}");
        let no_text = |v: &&Value| !v.is_null() && v.as_str().is_none();
        let (fits, of, text) = match (*of, value) {
            (MemberType::Texts(of), Value::Array(texts)) => (true, of, texts.iter().find(no_text)),
            (MemberType::Texts(of), Value::Object(texts)) => (true, of, texts.values().find(no_text)),
            (MemberType::Texts(of), _) => (false, of, None),
            (MemberType::Bool, value) => (matches!(value, Value::Bool(_)), "bool", None),
            (MemberType::Text(of), value) => (value.as_str().is_some(), of, None),
            (MemberType::Object(of), value) => (value.as_object().is_some(), of, None),
            (MemberType::List(of), value) => (value.as_array().is_some(), of, None),
        };
        match text {
            Some(text) => return wrong(text, &field, "string"),
            None if !fits => return wrong(value, &field, of),
            None => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_of_the_kind_that_was_asked() {
        let asked = ReviewKind { group: "admission.k8s.io", version: "v1", kind: "AdmissionReview" };
        let check = |body: &str, expect: Result<(), &str>| {
            let found = read(body.as_bytes(), asked).map(|_| ()).map_err(|why| why.to_string());
            assert_eq!(found, expect.map_err(str::to_owned), "{body}");
        };
        check("{}", Ok(()));
        check(r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}"#, Ok(()));
        check("kind: AdmissionReview\napiVersion: admission.k8s.io/v1\n", Ok(()));
        check(r#"{"a":"#, Err("couldn't get version/kind; json parse error: unexpected end of JSON input"));
        let of_go = |found: &str| {
            format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type struct \
                 {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
            )
        };
        check("<html>", Err(&of_go("string")));
        check("[1]", Err(&of_go("array")));
        check(
            r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1"}"#,
            Err("converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion"),
        );
        check(
            r#"{"kind":"Status","apiVersion":"v1"}"#,
            Err("converting (v1.Status) to (v1.AdmissionReview): unknown conversion"),
        );
        check(
            r#"{"kind":"Pod","apiVersion":"v1"}"#,
            Err(r#"no kind "Pod" is registered for version "v1" in scheme "pkg/util/webhook/client.go:71""#),
        );
    }
}
