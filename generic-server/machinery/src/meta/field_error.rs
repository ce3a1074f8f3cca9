//! Field errors: what is wrong with one field of an object, in upstream's words.

use std::fmt;
use std::sync::Arc;

use super::go_text;
use crate::{Str, Value};

/// The kinds of field errors. Their names are the reasons of a Status' causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldErrorKind {
    /// A reference to something that does not exist.
    NotFound,
    /// A value is missing.
    Required,
    /// A value that must be unique is there twice.
    Duplicate,
    /// A malformed or unfitting value.
    Invalid,
    /// A value that is not one of an enumeration.
    NotSupported,
    /// A value that is well formed but not permitted here.
    Forbidden,
    /// Text that is too long; the value is not shown.
    TooLong,
    /// A list or map with too many items.
    TooMany,
    /// A fault that the client did not cause.
    Internal,
    /// A value of the wrong JSON type.
    TypeInvalid,
}

impl FieldErrorKind {
    /// The name that a cause carries as its reason.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    /// The words that open the message.
    pub fn text(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(self, Self::Required | Self::Forbidden | Self::TooLong | Self::Internal)
    }
}

/// The value that an error shows.
#[derive(Clone, Debug, PartialEq)]
pub enum BadValue {
    /// None is shown.
    Omitted,
    /// Text in quotes, numbers and booleans plain, anything else as compact JSON.
    Value(Value),
    /// Shown as it is: what upstream prints of a type with its own text (quantities, times), or JSON whose members
    /// have another order or other names than in the API.
    Verbatim(Arc<str>),
}

impl BadValue {
    /// A value that is shown as `text`, without quotes.
    pub fn verbatim(text: impl Into<Arc<str>>) -> Self {
        Self::Verbatim(text.into())
    }
}

impl<T: Into<Value>> From<T> for BadValue {
    fn from(value: T) -> Self {
        Self::Value(value.into())
    }
}

impl From<&Value> for BadValue {
    fn from(value: &Value) -> Self {
        Self::Value(value.clone())
    }
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Omitted => Ok(()),
            Self::Value(Value::String(s)) => f.write_str(&go_text::quote(s)),
            Self::Value(Value::Float(x)) => f.write_str(&go_text::float(*x)),
            Self::Value(other) => f.write_str(&crate::json::encode_text(other)),
            Self::Verbatim(text) => f.write_str(text),
        }
    }
}

/// One thing that is wrong with one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// What kind of fault.
    pub kind: FieldErrorKind,
    /// The path; `<nil>` for the object itself, as upstream prints it.
    pub field: String,
    /// The value at the path.
    pub value: BadValue,
    /// What the kind alone does not say; may be empty.
    pub detail: String,
    /// The write leaves it as it was before: its author is warned, and the write goes on.
    pub tolerated: bool,
}

impl FieldError {
    /// An error of any kind. `field` is a [`Path`](crate::value::Path) or its text; the empty path reads `<nil>`.
    pub fn new(
        kind: FieldErrorKind,
        field: impl fmt::Display,
        value: impl Into<BadValue>,
        detail: impl Into<String>,
    ) -> Self {
        let mut field = field.to_string();
        if field.is_empty() {
            field.push_str("<nil>");
        }
        Self { kind, field, value: value.into(), detail: detail.into(), tolerated: false }
    }

    /// `Required value: detail`
    pub fn required(field: impl fmt::Display, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Required, field, BadValue::Omitted, detail)
    }

    /// `Invalid value: "v": detail`
    pub fn invalid(field: impl fmt::Display, value: impl Into<BadValue>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Invalid, field, value, detail)
    }

    /// `Invalid value: "v": detail`, for a value of the wrong JSON type.
    pub fn type_invalid(field: impl fmt::Display, value: impl Into<BadValue>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::TypeInvalid, field, value, detail)
    }

    /// `Unsupported value: "v": supported values: "a", "b"`. The values are shown in the order given.
    pub fn not_supported<S: AsRef<str>>(
        field: impl fmt::Display,
        value: impl Into<BadValue>,
        supported: impl IntoIterator<Item = S>,
    ) -> Self {
        let quoted: Vec<String> = supported.into_iter().map(|s| go_text::quote(s.as_ref())).collect();
        let detail = if quoted.is_empty() { String::new() } else { format!("supported values: {}", quoted.join(", ")) };
        Self::new(FieldErrorKind::NotSupported, field, value, detail)
    }

    /// `Forbidden: detail`
    pub fn forbidden(field: impl fmt::Display, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Forbidden, field, BadValue::Omitted, detail)
    }

    /// `Duplicate value: "v"`
    pub fn duplicate(field: impl fmt::Display, value: impl Into<BadValue>) -> Self {
        Self::new(FieldErrorKind::Duplicate, field, value, "")
    }

    /// `Not found: "v"`
    pub fn not_found(field: impl fmt::Display, value: impl Into<BadValue>) -> Self {
        Self::new(FieldErrorKind::NotFound, field, value, "")
    }

    /// `Too long: may not be more than N bytes`; of a limit below zero nothing is said.
    pub fn too_long(field: impl fmt::Display, max_bytes: impl TryInto<i64>) -> Self {
        let detail = match max_bytes.try_into().unwrap_or(i64::MAX) {
            ..=-1 => "value is too long".to_owned(),
            1 => "may not be more than 1 byte".to_owned(),
            max => format!("may not be more than {max} bytes"),
        };
        Self::new(FieldErrorKind::TooLong, field, BadValue::Omitted, detail)
    }

    /// `Too many: 9: must have at most 8 items`; of a limit below zero nothing is said.
    pub fn too_many(field: impl fmt::Display, actual: usize, max: impl TryInto<i64>) -> Self {
        let actual = i64::try_from(actual).unwrap_or(i64::MAX);
        let detail = match max.try_into().unwrap_or(i64::MAX) {
            ..=-1 => "has too many items".to_owned(),
            1 => "must have at most 1 item".to_owned(),
            max => format!("must have at most {max} items"),
        };
        Self::new(FieldErrorKind::TooMany, field, actual, detail)
    }

    /// `Internal error: detail`
    pub fn internal(field: impl fmt::Display, detail: impl fmt::Display) -> Self {
        Self::new(FieldErrorKind::Internal, field, BadValue::Omitted, detail.to_string())
    }

    /// The message without the path, as causes carry it.
    pub fn body(&self) -> String {
        let mut out = self.kind.text().to_owned();
        if self.kind.shows_value() && self.value != BadValue::Omitted {
            out.push_str(": ");
            out.push_str(&self.value.to_string());
        }
        if !self.detail.is_empty() {
            out.push_str(": ");
            out.push_str(&self.detail);
        }
        out
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

impl std::error::Error for FieldError {}

/// So many bytes of errors are shown. A list has as many errors as items, and each of them may show the whole list.
const MAX_TEXT: usize = 4 << 20;

/// The first errors, as many as a client is shown: all but for those of hostile objects.
///
/// Differs: upstream shows them all, whatever that takes.
pub fn shown(errors: &[FieldError]) -> &[FieldError] {
    let mut left = MAX_TEXT;
    let fits = |error: &FieldError| {
        let rest = left.checked_sub(error.field.len() + error.body().len());
        left = rest.unwrap_or_default();
        rest.is_some()
    };
    let count = errors.iter().map(fits).take_while(|fits| *fits).count();
    &errors[..count.max(1).min(errors.len())]
}

/// Several errors as one text, as upstream's aggregates read: one stands alone, more stand in brackets; repeated texts
/// are left out. `None` if there are none.
pub fn aggregate(errors: &[FieldError]) -> Option<String> {
    let mut texts: Vec<String> = Vec::with_capacity(errors.len());
    let mut seen = std::collections::HashSet::with_capacity(errors.len());
    for error in errors {
        let text = error.to_string();
        if seen.insert(text.clone()) {
            texts.push(text);
        }
    }
    match texts.len() {
        0 => None,
        1 => texts.pop(),
        _ => Some(format!("[{}]", texts.join(", "))),
    }
}

/// A list of messages on one field as errors: what the functions of [`names`](super::names) return.
pub fn invalid_each(field: impl fmt::Display + Copy, value: &str, messages: Vec<String>) -> Vec<FieldError> {
    messages.into_iter().map(|m| FieldError::invalid(field, Str::from(value), m)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Path;
    use crate::{array, object};

    #[test]
    fn an_error_reads_like_upstreams() {
        let spec = Path::ROOT.field("spec");
        let x = spec.field("x");
        let check = |error: FieldError, want: &str| assert_eq!(error.to_string(), want);
        check(FieldError::invalid(x, "v", "bad"), r#"spec.x: Invalid value: "v": bad"#);
        check(FieldError::invalid(x, "a\"\n", ""), r#"spec.x: Invalid value: "a\"\n""#);
        check(
            FieldError::invalid(x, -1, "must be greater than 0"),
            "spec.x: Invalid value: -1: must be greater than 0",
        );
        check(FieldError::invalid(x, 0.25, "no"), "spec.x: Invalid value: 0.25: no");
        check(FieldError::invalid(x, Value::Null, "no"), "spec.x: Invalid value: null: no");
        check(
            FieldError::invalid(x, object! { "b" => "<", "a" => array![1] }, "no"),
            r#"spec.x: Invalid value: {"a":[1],"b":"\u003c"}: no"#,
        );
        check(FieldError::invalid(x, BadValue::verbatim("1Gi"), "no"), "spec.x: Invalid value: 1Gi: no");
        check(FieldError::invalid(x, BadValue::Omitted, "no"), "spec.x: Invalid value: no");
        check(FieldError::required(x, ""), "spec.x: Required value");
        check(FieldError::required(x, "why"), "spec.x: Required value: why");
        check(FieldError::forbidden(x, "why"), "spec.x: Forbidden: why");
        check(FieldError::duplicate(x, "v"), r#"spec.x: Duplicate value: "v""#);
        check(FieldError::not_found(x, "v"), r#"spec.x: Not found: "v""#);
        check(FieldError::too_long(x, 5), "spec.x: Too long: may not be more than 5 bytes");
        check(FieldError::too_many(x, 9, 8), "spec.x: Too many: 9: must have at most 8 items");
        check(FieldError::too_many(x, 9, 1), "spec.x: Too many: 9: must have at most 1 item");
        check(FieldError::too_many(x, 0, -1), "spec.x: Too many: 0: has too many items");
        check(FieldError::internal(x, "oh"), "spec.x: Internal error: oh");
        check(
            FieldError::not_supported(x, "v", ["a", "b"]),
            r#"spec.x: Unsupported value: "v": supported values: "a", "b""#,
        );
        check(
            FieldError::not_supported(x, array!["no"], ["All"]),
            r#"spec.x: Unsupported value: ["no"]: supported values: "All""#,
        );
        check(FieldError::invalid(Path::ROOT, "", "no"), r#"<nil>: Invalid value: "": no"#);
    }

    #[test]
    fn errors_that_show_more_than_anybody_reads_are_cut_short() {
        let long = FieldError::invalid("a", BadValue::verbatim("x".repeat(MAX_TEXT / 3)), "");
        assert_eq!(shown(&vec![long.clone(); 9]).len(), 2);
        let longest = FieldError::invalid("a", BadValue::verbatim("x".repeat(MAX_TEXT + 1)), "");
        assert_eq!(shown(&[longest, long]).len(), 1);
        assert_eq!(shown(&[]), []);
    }

    #[test]
    fn several_errors_stand_in_brackets_and_repeat_nothing() {
        let a = FieldError::required("a", "");
        let b = FieldError::required("b", "");
        assert_eq!(aggregate(&[]), None);
        assert_eq!(aggregate(&[a.clone(), a.clone()]).as_deref(), Some("a: Required value"));
        assert_eq!(aggregate(&[a.clone(), b, a]).as_deref(), Some("[a: Required value, b: Required value]"));
    }
}
