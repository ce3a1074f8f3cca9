//! One constructor for every error, with its code, reason, text and details.

use std::fmt;

use super::{Cause, Details, Status, reason};
use crate::meta::field_error::{FieldError, aggregate, shown};
use crate::meta::go_text::quote;
use crate::meta::gvk::{GroupKind, GroupResource};

impl Status {
    /// 404 `pods "a" not found`
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::new(404, reason::NOT_FOUND, format!("{resource} {} not found", quote(name)))
            .with_details(Details::of(resource, name))
    }

    /// 409 `pods "a" already exists`
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::new(409, reason::ALREADY_EXISTS, format!("{resource} {} already exists", quote(name)))
            .with_details(Details::of(resource, name))
    }

    /// 409, when every generated name was taken.
    pub fn generate_name_conflict(resource: &GroupResource, name: &str, retry_after_seconds: i32) -> Self {
        let message = format!(
            "{resource} {} already exists, the server was not able to generate a unique name for the object",
            quote(name)
        );
        Self::new(409, reason::ALREADY_EXISTS, message)
            .with_details(Details { retry_after_seconds, ..Details::of(resource, name) })
    }

    /// 409 `Operation cannot be fulfilled on pods "a": why`
    pub fn conflict(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {}: {why}", quote(name));
        Self::new(409, reason::CONFLICT, message).with_details(Details::of(resource, name))
    }

    /// 409, for an update that was made from an older version of the object.
    pub fn stale(resource: &GroupResource, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// 409, for conflicts between field managers.
    pub fn apply_conflict(message: impl Into<String>, causes: Vec<Cause>) -> Self {
        Self::new(409, reason::CONFLICT, message).with_details(Details { causes, ..Details::default() })
    }

    /// 422 `Deployment.apps "a" is invalid: spec.x: Required value`; several errors stand in brackets.
    pub fn invalid(kind: &GroupKind, name: &str, errors: Vec<FieldError>) -> Self {
        let errors = shown(&errors);
        let message = match aggregate(errors) {
            None => format!("{kind} {} is invalid", quote(name)),
            Some(text) => format!("{kind} {} is invalid: {text}", quote(name)),
        };
        Self::new(422, reason::INVALID, message).with_details(Details {
            name: name.into(),
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            causes: errors.iter().map(Cause::from).collect(),
            ..Details::default()
        })
    }

    /// 403 `pods "a" is forbidden: why`; without a name, or without a resource, the text is shorter.
    pub fn forbidden(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = match (resource.is_empty(), name.is_empty()) {
            (true, _) => format!("forbidden: {why}"),
            (false, true) => format!("{resource} is forbidden: {why}"),
            (false, false) => format!("{resource} {} is forbidden: {why}", quote(name)),
        };
        Self::new(403, reason::FORBIDDEN, message).with_details(Details::of(resource, name))
    }

    /// 401. Without a message: `not authorized`.
    pub fn unauthorized(message: &str) -> Self {
        Self::new(401, reason::UNAUTHORIZED, if message.is_empty() { "not authorized" } else { message })
    }

    /// 400
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, reason::BAD_REQUEST, message)
    }

    /// 405 `delete is not supported on resources of kind "pods"`
    pub fn method_not_supported(resource: &GroupResource, action: &str) -> Self {
        let message = format!("{action} is not supported on resources of kind {}", quote(&resource.to_string()));
        Self::new(405, reason::METHOD_NOT_ALLOWED, message).with_details(Details::of(resource, ""))
    }

    /// 429
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: i32) -> Self {
        Self::new(429, reason::TOO_MANY_REQUESTS, message).with_details(Details::retry(retry_after_seconds))
    }

    /// 429 `Too many requests: text`, without a time to wait.
    pub fn too_many_requests_error(text: impl fmt::Display) -> Self {
        Self::new(429, reason::TOO_MANY_REQUESTS, format!("Too many requests: {text}"))
    }

    /// 504 `Timeout: text`
    pub fn timeout(text: impl fmt::Display, retry_after_seconds: i32) -> Self {
        Self::new(504, reason::TIMEOUT, format!("Timeout: {text}")).with_details(Details::retry(retry_after_seconds))
    }

    /// 504, for a resourceVersion that this server has not seen yet.
    pub fn too_large_resource_version(wanted: u64, current: u64, retry_after_seconds: i32) -> Self {
        Self::timeout(format_args!("Too large resource version: {wanted}, current: {current}"), retry_after_seconds)
            .with_cause(Cause::new("ResourceVersionTooLarge", "Too large resource version"))
    }

    /// 500 `The create operation against pods could not be completed at this time, please try again.`
    pub fn server_timeout(resource: &GroupResource, operation: &str, retry_after_seconds: i32) -> Self {
        let message = format!(
            "The {operation} operation against {resource} could not be completed at this time, please try again."
        );
        Self::new(500, reason::SERVER_TIMEOUT, message)
            .with_details(Details { retry_after_seconds, ..Details::of(resource, operation) })
    }

    /// 410 `Gone`
    pub fn gone(message: impl Into<String>) -> Self {
        Self::new(410, reason::GONE, message)
    }

    /// 410 `Expired`
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, reason::EXPIRED, message)
    }

    /// 410 `too old resource version: 1 (7)`: the version asked for and the oldest that can be answered.
    pub fn too_old_resource_version(asked: u64, oldest: u64) -> Self {
        Self::expired(format!("too old resource version: {asked} ({oldest})"))
    }

    /// 410, for a list at a version that compaction has removed.
    pub fn compacted_list() -> Self {
        Self::expired(
            "The resourceVersion for the provided list is too old. Please start a new list without resourceVersion.",
        )
    }

    /// 410, for a page of a list whose version is gone: `token` continues with the latest state.
    pub fn expired_continue(token: &str) -> Self {
        let mut status = Self::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list \
             without the continue parameter, or use the continue token in this response to retrieve the remainder of the \
             results. Continuing with the provided token results in an inconsistent list - objects that were created, \
             modified, or deleted between the time the first chunk was returned and now may show up in the list.",
        );
        status.continue_token = token.into();
        status
    }

    /// 410, for a watch from a version that compaction has removed.
    pub fn compacted_watch() -> Self {
        Self::expired("The resourceVersion for the provided watch is too old.")
    }

    /// 500 `Internal error occurred: why`
    pub fn internal_error(why: impl fmt::Display) -> Self {
        let why = why.to_string();
        Self::new(500, reason::INTERNAL_ERROR, format!("Internal error occurred: {why}"))
            .with_cause(Cause::new("", why))
    }

    /// 500 with a bare message and no reason: upstream's answer to an error of no particular kind.
    pub fn unknown_error(message: impl fmt::Display) -> Self {
        Self::new(500, "", message.to_string())
    }

    /// 406 `only the following media types are accepted: …`
    pub fn not_acceptable<S: AsRef<str>>(accepted: &[S]) -> Self {
        let message = format!("only the following media types are accepted: {}", join(accepted));
        Self::new(406, reason::NOT_ACCEPTABLE, message)
    }

    /// 415 `the body of the request was in an unknown format - accepted media types include: …`
    pub fn unsupported_media_type<S: AsRef<str>>(accepted: &[S]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            join(accepted)
        );
        Self::new(415, reason::UNSUPPORTED_MEDIA_TYPE, message)
    }

    /// 413 `Request entity too large: text`
    pub fn request_entity_too_large(text: impl fmt::Display) -> Self {
        Self::new(413, reason::REQUEST_ENTITY_TOO_LARGE, format!("Request entity too large: {text}"))
    }

    /// 503
    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Self::new(503, reason::SERVICE_UNAVAILABLE, message)
    }

    /// 404 for a path that nobody serves.
    pub fn path_not_found() -> Self {
        Self::generic(404, "", &GroupResource::default(), "", "", 0)
    }

    /// 405 for a verb that a path does not know.
    pub fn method_not_allowed() -> Self {
        Self::generic(405, "", &GroupResource::default(), "", "", 0)
    }

    /// What a bare HTTP code means, when nothing better is known (upstream's NewGenericServerResponse).
    /// `server_message` is shown where upstream shows it: 403, 406, 415 and unknown codes from 500.
    pub fn generic(
        code: u16,
        verb: &str,
        resource: &GroupResource,
        name: &str,
        server_message: &str,
        retry_after_seconds: i32,
    ) -> Self {
        let (reason, mut message) = generic_text(code, verb, server_message);
        let verb = verb.to_lowercase();
        match (resource.is_empty(), name.is_empty()) {
            (true, _) => {}
            (false, true) => message.push_str(&format!(" ({verb} {resource})")),
            (false, false) => message.push_str(&format!(" ({verb} {resource} {name})")),
        }
        Self::new(code, reason, message).with_details(Details { retry_after_seconds, ..Details::of(resource, name) })
    }
}

fn join<S: AsRef<str>>(items: &[S]) -> String {
    items.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", ")
}

fn generic_text(code: u16, verb: &str, server_message: &str) -> (&'static str, String) {
    let (reason, message) = match code {
        409 if verb.eq_ignore_ascii_case("post") => (reason::ALREADY_EXISTS, "the server reported a conflict"),
        409 => (reason::CONFLICT, "the server reported a conflict"),
        404 => (reason::NOT_FOUND, "the server could not find the requested resource"),
        400 => (reason::BAD_REQUEST, "the server rejected our request for an unknown reason"),
        401 => (reason::UNAUTHORIZED, "the server has asked for the client to provide credentials"),
        403 => (reason::FORBIDDEN, server_message),
        406 if matches!(server_message, "" | "unknown") => {
            (reason::NOT_ACCEPTABLE, "the server was unable to respond with a content type that the client supports")
        }
        406 => (reason::NOT_ACCEPTABLE, server_message),
        415 => (reason::UNSUPPORTED_MEDIA_TYPE, server_message),
        405 => (reason::METHOD_NOT_ALLOWED, "the server does not allow this method on the requested resource"),
        422 => (reason::INVALID, "the server rejected our request due to an error in our request"),
        503 => (reason::SERVICE_UNAVAILABLE, "the server is currently unable to handle the request"),
        504 => (
            reason::TIMEOUT,
            "the server was unable to return a response in the time allotted, but may still be processing the request",
        ),
        429 => {
            (reason::TOO_MANY_REQUESTS, "the server has received too many requests and has asked us to try again later")
        }
        500.. => {
            let quoted = quote(server_message);
            let message = format!("an error on the server ({quoted}) has prevented the request from succeeding");
            return (reason::INTERNAL_ERROR, message);
        }
        _ => {
            let message =
                format!("the server responded with the status code {code} but did not return more information");
            return ("", message);
        }
    };
    (reason, message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Value, array, object};

    fn status(code: i64, reason: &str, message: &str, details: Option<Value>) -> Value {
        let mut value = object! {
            "kind" => "Status", "apiVersion" => "v1", "metadata" => object! {}, "status" => "Failure",
            "message" => message, "reason" => reason, "code" => code,
        };
        if let Some(details) = details {
            value.set(&["details"], details);
        }
        value
    }

    #[test]
    fn every_error_is_upstreams_object() {
        let pods = GroupResource::new("", "pods");
        let deployments = GroupResource::new("apps", "deployments");
        let check = |s: Status, want: Value| {
            assert_eq!(s.to_value(), want);
            assert_eq!(Status::from_value(&want).as_ref(), Some(&s));
        };
        check(
            Status::not_found(&deployments, "a"),
            status(
                404,
                "NotFound",
                r#"deployments.apps "a" not found"#,
                Some(object! { "name" => "a", "group" => "apps", "kind" => "deployments" }),
            ),
        );
        check(
            Status::forbidden(&GroupResource::default(), "", "no"),
            status(403, "Forbidden", "forbidden: no", Some(object! {})),
        );
        check(
            Status::forbidden(&pods, "", "no"),
            status(403, "Forbidden", "pods is forbidden: no", Some(object! { "kind" => "pods" })),
        );
        check(
            Status::path_not_found(),
            status(404, "NotFound", "the server could not find the requested resource", Some(object! {})),
        );
        check(
            Status::generic(415, "", &GroupResource::default(), "", "415: Unsupported Media Type", 0),
            status(415, "UnsupportedMediaType", "415: Unsupported Media Type", Some(object! {})),
        );
        check(
            Status::too_large_resource_version(9, 3, 1),
            status(
                504,
                "Timeout",
                "Timeout: Too large resource version: 9, current: 3",
                Some(object! {
                    "causes" => array![object! {
                        "reason" => "ResourceVersionTooLarge", "message" => "Too large resource version",
                    }],
                    "retryAfterSeconds" => 1,
                }),
            ),
        );
        check(
            Status::internal_error("x"),
            status(
                500,
                "InternalError",
                "Internal error occurred: x",
                Some(object! { "causes" => array![object! { "message" => "x" }] }),
            ),
        );
        check(Status::bad_request("x"), status(400, "BadRequest", "x", None));
        check(
            Status::success(Some(Details { uid: "u".into(), ..Details::of(&pods, "a") })),
            object! {
                "kind" => "Status", "apiVersion" => "v1", "metadata" => object! {}, "status" => "Success",
                "details" => object! { "name" => "a", "kind" => "pods", "uid" => "u" },
            },
        );
    }

    #[test]
    fn an_invalid_object_lists_its_causes() {
        let errors = vec![FieldError::required("spec.a", "why"), FieldError::invalid("spec.b", 3, "no")];
        let got = Status::invalid(&GroupKind::new("apps", "Deployment"), "d", errors);
        assert_eq!(
            got.message,
            r#"Deployment.apps "d" is invalid: [spec.a: Required value: why, spec.b: Invalid value: 3: no]"#
        );
        let causes = &got.details.as_ref().expect("details").causes;
        assert_eq!(causes[1].reason, "FieldValueInvalid");
        assert_eq!(causes[1].message, "Invalid value: 3: no");
        assert_eq!(causes[1].field, "spec.b");
    }
}
