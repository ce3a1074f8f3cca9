//! Access reviews: the authorizer's answer about somebody, as a document.

use std::sync::Arc;

use async_trait::async_trait;
use auth::{Attributes, Authorizer, Decision, User, Verdict};
use machinery::request::{RequestInfo, resource_info};
use machinery::{
    Str, Value,
    meta::{GroupKind, status::Status},
    object,
};

use super::{
    selectors::{Ignored, Selectors},
    validation::{strings, validate},
};
use crate::{
    review::{Judge, Review, complete_status},
    validation::Errors,
};

/// The kinds of reviews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Anybody.
    Anybody,
    /// Anybody, in the namespace of the request.
    InNamespace,
    /// Whoever asks.
    Oneself,
}

/// One kind of access review.
pub(crate) struct AccessReview {
    pub(crate) subject: Subject,
    pub(crate) authorizer: Arc<dyn Authorizer>,
}

#[async_trait]
impl Judge for AccessReview {
    fn complete(&self, review: &mut Value) {
        complete_status(review, "allowed", false);
    }

    async fn judge(&self, review: &mut Review<'_>) -> Result<(), Status> {
        let mut errors = Errors::default();
        validate(&review.object, self.subject, review.namespace, &mut errors);
        if errors.len() > 0 {
            return Err(Status::invalid(&GroupKind::new(review.row.group.clone(), ""), "", errors.into_vec()));
        }
        review.admit().await?;
        let user = match self.subject {
            Subject::Oneself => review.user.clone(),
            Subject::Anybody | Subject::InNamespace => user_of(&review.object),
        };
        let (info, ignored) = info_of(&review.object);
        let decision = self.authorizer.authorize(&Attributes { user: &user, info: &info }).await;
        review.object.set(&["status"], status(decision, &ignored));
        Ok(())
    }
}

/// Whom a review is about.
fn user_of(review: &Value) -> User {
    let text = |key: &str| Str::from(review.str_at(&["spec", key]).unwrap_or(""));
    let extra = review.at(&["spec", "extra"]).and_then(Value::as_object).into_iter().flatten();
    User {
        name: text("user"),
        uid: text("uid"),
        groups: strings(review.at(&["spec", "groups"])),
        extra: extra.map(|(key, values)| (key.clone(), strings(Some(values)))).collect(),
    }
}

/// What came of a review.
fn status(decision: Decision, ignored: &[Ignored]) -> Value {
    let mut status = object! { "allowed" => decision.is_allowed() };
    if decision.verdict == Verdict::Deny {
        status.set(&["denied"], true);
    }
    if !decision.reason.is_empty() {
        status.set(&["reason"], decision.reason);
    }
    let mut errors: Vec<String> = decision.error.iter().map(ToString::to_string).collect();
    errors.extend(ignored.iter().map(ToString::to_string));
    if !errors.is_empty() {
        status.set(&["evaluationError"], errors.join("; "));
    }
    status
}

/// What a review is about, and what of its selectors is left out.
fn info_of(review: &Value) -> (RequestInfo, Vec<Ignored>) {
    if let Some(asked) = review.at(&["spec", "nonResourceAttributes"]) {
        let of = |key| Str::from(asked.str_at(&[key]).unwrap_or_default());
        let info = RequestInfo { path: of("path"), method: of("verb"), ..RequestInfo::default() };
        return (info, Vec::new());
    }
    let nothing = Value::object();
    let asked = review.at(&["spec", "resourceAttributes"]).unwrap_or(&nothing);
    let of = |key| asked.str_at(&[key]).unwrap_or_default();
    let selectors = Selectors::of(asked);
    let version = Some(of("version")).filter(|version| !version.is_empty()).unwrap_or("*");
    let info = RequestInfo {
        namespace: of("namespace").into(),
        name: of("name").into(),
        subresource: of("subresource").into(),
        field_selector: selectors.fields,
        label_selector: selectors.labels,
        ..resource_info(of("verb"), of("group"), version, of("resource"))
    };
    (info, selectors.errors)
}
