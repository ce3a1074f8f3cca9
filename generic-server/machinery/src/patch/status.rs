//! The Status that a refused patch answers.

use super::PatchError;
use super::apply::ApplyError;
use crate::meta::{Cause, FieldError, GroupKind, GroupResource, Status};

impl From<PatchError> for Status {
    fn from(error: PatchError) -> Self {
        match error {
            PatchError::BadRequest(text) => Status::bad_request(text),
            PatchError::Unprocessable(_) => Status::generic(422, "", &GroupResource::default(), "", "", 0),
            PatchError::TooLarge(text) => Status::request_entity_too_large(text),
            PatchError::Invalid { value, detail } => {
                let error = FieldError::invalid("patch", value.as_str(), detail);
                Status::invalid(&GroupKind::default(), "", vec![error])
            }
            PatchError::Internal(text) => Status::unknown_error(text),
        }
    }
}

impl From<ApplyError> for Status {
    fn from(error: ApplyError) -> Self {
        match error {
            ApplyError::BadRequest(text) => Status::bad_request(text),
            ApplyError::Internal(text) => Status::unknown_error(text),
            ApplyError::Conflict { message, causes } => {
                let causes =
                    causes.into_iter().map(|(text, field)| Cause { field, ..Cause::new("FieldManagerConflict", text) });
                Status::apply_conflict(message, causes.collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patch::testing::{json, text};

    #[test]
    fn statuses_are_upstreams() {
        let check = |status: Status, want: &str| {
            assert_eq!(text(&status.to_value()), text(&json(want)));
        };
        check(
            PatchError::Unprocessable("kept to itself".into()).into(),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server rejected our request due to an error in our request","reason":"Invalid","details":{},"code":422}"#,
        );
        check(
            PatchError::TooLarge("The allowed maximum operations in a JSON patch is 10000, got 10001".into()).into(),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001","reason":"RequestEntityTooLarge","code":413}"#,
        );
        check(
            PatchError::Invalid { value: "map[spec:text]".into(), detail: "cannot restore struct from: string".into() }
                .into(),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":" \"\" is invalid: patch: Invalid value: \"map[spec:text]\": cannot restore struct from: string","reason":"Invalid","details":{"causes":[{"reason":"FieldValueInvalid","message":"Invalid value: \"map[spec:text]\": cannot restore struct from: string","field":"patch"}]},"code":422}"#,
        );
        check(
            PatchError::Internal("value for key 0 is not a map".into()).into(),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"value for key 0 is not a map","code":500}"#,
        );
        check(
            ApplyError::Conflict {
                message: "Apply failed with 1 conflict: conflict with \"c3\": .data.x".into(),
                causes: vec![("conflict with \"c3\"".into(), ".data.x".into())],
            }
            .into(),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Apply failed with 1 conflict: conflict with \"c3\": .data.x","reason":"Conflict","details":{"causes":[{"reason":"FieldManagerConflict","message":"conflict with \"c3\"","field":".data.x"}]},"code":409}"#,
        );
    }
}
