//! One call of a webhook, and what counts as which failure.

use std::{pin::pin, time::Instant};

use generic_server::audit;
use machinery::{Str, Value, meta::status::Status};
use outbound::Call;
use traces::Span;

use crate::{
    engine::MatchedWrite,
    webhooks::{
        Target, Webhooks,
        review::{self, Answer, Unreadable},
    },
};

/// The largest answer that is read: a patch may bring a whole object, which base64 makes longer.
const LIMIT: usize = 8 << 20;

/// Why a webhook did not allow a write.
#[derive(Debug, PartialEq)]
pub(super) enum Failure {
    /// The call came to nothing: the failure policy decides. With the code that metrics show.
    Call(String, u16),
    /// It refuses.
    Rejected(Box<Status>),
    /// The request ends with this, whatever the failure policy says.
    Broken(Box<Status>),
}

impl Failure {
    /// What the client is told.
    pub(super) fn into_status(self, hook: &str) -> Status {
        match self {
            Failure::Call(why, _) => Status::internal_error(format!("failed calling webhook {hook:?}: {why}")),
            Failure::Rejected(status) | Failure::Broken(status) => *status,
        }
    }

    /// As metrics call it, and the code that they show.
    fn label(&self) -> (&'static str, u16) {
        match self {
            Failure::Call(_, code) => ("calling_webhook_error", *code),
            Failure::Rejected(status) => ("no_error", status.code),
            Failure::Broken(_) => ("apiserver_internal_error", 0),
        }
    }
}

impl Webhooks {
    /// Asks a webhook about a write.
    pub(super) async fn call(
        &self,
        target: &Target<'_>,
        found: &MatchedWrite<'_>,
        mutating: bool,
    ) -> (Result<Answer, Failure>, Vec<String>) {
        match self.ask(target, found, mutating).await {
            Ok(mut answer) => {
                let warnings = std::mem::take(&mut answer.warnings);
                for (key, value) in std::mem::take(&mut answer.annotations) {
                    let key = format!("{}/{key}", target.hook.name);
                    found.subject.a.annotate(audit::Level::Metadata, key, value);
                }
                let allowed = answer.allowed;
                let refusal = || Failure::Rejected(Box::new(refusal(&target.hook.name, &answer.result)));
                let refused = (!allowed).then(refusal);
                (refused.map_or(Ok(answer), Err), warnings)
            }
            Err(failure) => (Err(failure), Vec::new()),
        }
    }

    async fn ask(&self, target: &Target<'_>, found: &MatchedWrite<'_>, mutating: bool) -> Result<Answer, Failure> {
        let hook = target.hook;
        let a = found.subject.a;
        if a.dry_run && !hook.allows_dry_run {
            let why = format!("admission webhook {:?} does not support dry run", hook.name.as_str());
            return Err(Failure::Broken(Box::new(Status::bad_request(why))));
        }
        let Some(version) = hook.review else {
            let why = "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, \
                       v1beta1)";
            return Err(Failure::Call(why.into(), 400));
        };
        let uid = uuid::Uuid::new_v4().to_string();
        let document = review::question(version, &uid, &found.subject, target);
        let span = span(target, found, mutating, &uid);
        let begun = Instant::now();
        let annotate = |key: String, why: &'static str| a.audit.annotate(key, why);
        let bounds = Call { timeout: hook.timeout, limit: LIMIT };
        let call = pin!(hook.client.call_noting(document, bounds, &annotate));
        let body = span.within(call).await;
        if body.is_ok() {
            span.event("Request completed", |_| {});
        }
        match mutating {
            true => a.audit.took(audit::Layer::MutatingWebhook, begun.elapsed()),
            false => a.audit.took_at_once(audit::Layer::ValidatingWebhook, begun.elapsed()),
        }
        let failed = |why: String| Failure::Call(format!("failed to call webhook: {why}"), 503);
        let body = body.map_err(|error| failed(error.to_string()))?;
        review::answer(version, &uid, mutating, &body).map_err(|unreadable| match unreadable {
            Unreadable::Undecodable(why) => failed(why),
            Unreadable::Invalid(why) => Failure::Call(format!("received invalid webhook response: {why}"), 503),
        })
    }

    /// Counts a call and what came of it; `true` if the failure is to be ignored.
    pub(super) fn observe<T>(
        &self,
        target: &Target<'_>,
        found: &MatchedWrite<'_>,
        result: &Result<T, Failure>,
        begun: Instant,
    ) -> bool {
        let (hook, operation) = (target.hook, found.subject.a.operation);
        let ignored = matches!(result, Err(Failure::Call(..))) && !hook.fail;
        let (error, code) = result.as_ref().err().map_or(("", 200), Failure::label);
        let rejected = result.is_err() && !ignored;
        self.metrics.called(&hook.name, self.kind, operation, rejected, code, begun.elapsed());
        if rejected {
            self.metrics.rejected(&hook.name, self.kind, operation, error, code);
        }
        if let (Err(Failure::Call(why, _)), true) = (result, ignored) {
            tracing::warn!(webhook = %hook.name, %why, "a webhook failed, which is ignored");
            self.metrics.failed_open(&hook.name, self.kind);
        }
        ignored
    }
}

/// The span of a call, with upstream's name and attributes.
fn span(target: &Target<'_>, found: &MatchedWrite<'_>, mutating: bool, uid: &str) -> Span {
    let name = if mutating { "Call mutating webhook" } else { "Call validating webhook" };
    traces::span(name, |s| {
        let a = found.subject.a;
        s.text("configuration", &target.hook.configuration);
        s.text("webhook", &target.hook.name);
        s.text("resource", format!("{}/{}, Resource={}", a.row.group, a.row.version, a.row.plural));
        s.text("subresource", a.subresource);
        s.text("operation", a.operation.name());
        s.text("UID", uid);
    })
}

/// A refusal in the webhook's words, which is an error whatever it says.
fn refusal(name: &str, result: &Value) -> Status {
    let text = |key: &str| result.str_at(&[key]).unwrap_or_default();
    let mut own = result.clone();
    if own.as_object().is_none() {
        own = Value::object();
    }
    own.set(&["kind"], "Status");
    own.set(&["apiVersion"], "v1");
    own.set(&["status"], "Failure");
    let code = result.get("code").and_then(Value::as_i64).unwrap_or_default();
    let code = u16::try_from(code).ok().filter(|code| (400..1000).contains(code)).unwrap_or(400);
    let denied = format!("admission webhook {name:?} denied the request");
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let status = Status::from_value(&own).unwrap_or_else(|| Status::new(code, "", ""));
    Status { code, message, reason: Str::from(text("reason")), ..status }
}

#[cfg(test)]
mod tests {
    use machinery::object;

    use super::*;

    #[test]
    fn refusals_say_who_refuses() {
        let check = |result: Value, code: u16, message: &str| {
            let status = refusal("a.b.c", &result);
            assert_eq!((status.code, status.message.as_str()), (code, message));
        };
        check(Value::Null, 400, r#"admission webhook "a.b.c" denied the request without explanation"#);
        check(object! { "message" => "no" }, 400, r#"admission webhook "a.b.c" denied the request: no"#);
        check(object! { "code" => 200, "reason" => "R" }, 400, r#"admission webhook "a.b.c" denied the request: R"#);
        check(
            object! { "code" => 403, "reason" => "Forbidden", "message" => "no" },
            403,
            r#"admission webhook "a.b.c" denied the request: no"#,
        );
    }
}
