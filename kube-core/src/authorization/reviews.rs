//! Access reviews: the authoriser's answer about somebody, as a document.

use std::sync::Arc;

use async_trait::async_trait;
use generic_server::{
    auth::{Attributes, Authorizer, Decision, User},
    fields,
    pipeline::{
        resolve::{pinned, resource_info},
        respond::Response,
    },
    request::{Request, RequestInfo},
    resource::Resource,
    server::Endpoint,
};
use machinery::{
    Str, Value,
    meta::{GroupKind, status::Status},
    object,
};

use super::validation::{strings, validate};
use crate::{review::Review, validation::Errors};

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
    pub(crate) row: Resource,
    pub(crate) subject: Subject,
    pub(crate) authorizer: Arc<dyn Authorizer>,
}

#[async_trait]
impl Endpoint for AccessReview {
    async fn serve(&self, mut request: Request) -> Result<Response, Status> {
        let row = &self.row;
        let mut asked = Review::read(&mut request, row).await?;
        let review = &mut asked.document;
        if row.namespaced {
            review.set(&["metadata", "namespace"], &request.info.namespace);
        }
        fields::track_virtual(row, &asked.options, review);
        let mut errors = Errors::default();
        validate(review, self.subject, &request.info.namespace, &mut errors);
        if errors.len() > 0 {
            return Err(Status::invalid(&GroupKind::new(row.group.clone(), ""), "", errors.into_vec()));
        }
        let user = match self.subject {
            Subject::Oneself => (*request.user).clone(),
            Subject::Anybody | Subject::InNamespace => user_of(review),
        };
        let info = info_of(review);
        let status = match self.authorizer.authorize(&Attributes { user: &user, info: &info }).await {
            Decision::Allow(reason) if reason.is_empty() => object! { "allowed" => true },
            Decision::Allow(reason) => object! { "allowed" => true, "reason" => reason },
            Decision::NoOpinion(reason) if reason.is_empty() => object! { "allowed" => false },
            Decision::NoOpinion(reason) => object! { "allowed" => false, "reason" => reason },
            Decision::Deny(reason) => object! { "allowed" => false, "denied" => true, "reason" => reason },
        };
        review.set(&["status"], status);
        Ok(asked.answer())
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

/// The fields that the selector of a review pins.
fn pinned_by(review: &Value) -> Vec<(Str, Str)> {
    let Some(selector) = review.at(&["spec", "resourceAttributes", "fieldSelector"]) else { return Vec::new() };
    if let Some(raw) = selector.str_at(&["rawSelector"]) {
        return pinned(raw);
    }
    let requirements = selector.get("requirements").and_then(Value::as_array).unwrap_or_default().iter();
    let pins = |requirement: &Value| {
        let [value] = requirement.get("values")?.as_array()? else { return None };
        let is_in = requirement.str_at(&["operator"]) == Some("In");
        is_in.then_some((Str::from(requirement.str_at(&["key"])?), Str::from(value.as_str()?)))
    };
    requirements.filter_map(pins).collect()
}

/// What a review is about.
fn info_of(review: &Value) -> RequestInfo {
    let part = |attributes: &str, key: &str| review.str_at(&["spec", attributes, key]).unwrap_or("").to_owned();
    if review.at(&["spec", "nonResourceAttributes"]).is_some() {
        let of = |key| part("nonResourceAttributes", key);
        return RequestInfo { path: of("path").into(), method: of("verb").into(), ..RequestInfo::default() };
    }
    let of = |key| part("resourceAttributes", key);
    RequestInfo {
        namespace: of("namespace").into(),
        name: of("name").into(),
        subresource: of("subresource").into(),
        pinned: pinned_by(review),
        ..resource_info(&of("verb"), &of("group"), &of("version"), &of("resource"))
    }
}
