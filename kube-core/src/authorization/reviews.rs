//! Access reviews: the authoriser's answer about somebody, as a document.

use std::sync::Arc;

use async_trait::async_trait;
use generic_server::{
    auth::{Attributes, Authorizer, Decision, User},
    fields,
    handlers::{
        options::{WriteKind, WriteOptions},
        read_object,
    },
    negotiate::Offer,
    pipeline::{
        resolve::resource_info,
        respond::{self, Response},
    },
    request::{Request, RequestInfo},
    resource::Resource,
    server::Endpoint,
};
use http::StatusCode;
use machinery::{
    Str, Value,
    meta::{FieldError, GroupKind, status::Status},
    object,
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
    pub(crate) row: Resource,
    pub(crate) subject: Subject,
    pub(crate) authorizer: Arc<dyn Authorizer>,
}

#[async_trait]
impl Endpoint for AccessReview {
    async fn serve(&self, mut request: Request) -> Result<Response, Status> {
        let row = &self.row;
        let accepted = respond::accepted(&request, &Offer { routed: false, ..Offer::PLAIN })?;
        let options = WriteOptions::read(&request, WriteKind::Create)?;
        let mut warnings = Vec::new();
        let kind = (row.group.as_str(), row.version.as_str(), row.kind.as_str());
        let mut review = read_object(&mut request, row, kind, options.field_validation, &mut warnings).await?;
        if row.namespaced {
            review.set(&["metadata", "namespace"], &request.info.namespace);
        }
        fields::track_virtual(row, &options, &mut review);
        let errors = self.validate(&review, &request.info.namespace);
        if !errors.is_empty() {
            return Err(Status::invalid(&GroupKind::new(row.group.clone(), ""), "", errors));
        }
        let user = match self.subject {
            Subject::Oneself => (*request.user).clone(),
            Subject::Anybody | Subject::InNamespace => user_of(&review),
        };
        let info = info_of(&review);
        let status = match self.authorizer.authorize(&Attributes { user: &user, info: &info }).await {
            Decision::Allow => object! { "allowed" => true },
            Decision::NoOpinion(reason) if reason.is_empty() => object! { "allowed" => false },
            Decision::NoOpinion(reason) => object! { "allowed" => false, "reason" => reason },
            Decision::Deny(reason) => object! { "allowed" => false, "denied" => true, "reason" => reason },
        };
        review.set(&["status"], status);
        Ok(respond::add_warnings(respond::document(StatusCode::CREATED, &review, accepted), &warnings))
    }
}

impl AccessReview {
    fn validate(&self, review: &Value, namespace: &str) -> Vec<FieldError> {
        let spec = review.get("spec").cloned().unwrap_or_default();
        let (resource, other) = (spec.get("resourceAttributes"), spec.get("nonResourceAttributes"));
        let mut errors = Vec::new();
        match (resource, other) {
            (Some(_), Some(other)) => {
                let text = |key: &str| other.str_at(&[key]).unwrap_or("").to_owned();
                let shown = object! { "Path" => text("path"), "Verb" => text("verb") };
                let detail = "cannot be specified in combination with resourceAttributes";
                errors.push(FieldError::invalid("spec.nonResourceAttributes", shown, detail));
            }
            (None, None) => {
                let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
                errors.push(FieldError::invalid("spec.resourceAttributes", Value::Null, detail));
            }
            _ => {}
        }
        let groups = spec.get("groups").and_then(Value::as_array).unwrap_or_default();
        let nobody = spec.str_at(&["user"]).unwrap_or("").is_empty() && groups.is_empty();
        if self.subject != Subject::Oneself && nobody {
            let detail = "at least one of user or group must be specified";
            errors.push(FieldError::invalid("spec.user", "", detail));
        }
        if self.subject == Subject::InNamespace {
            let asked = spec.str_at(&["resourceAttributes", "namespace"]).unwrap_or("");
            if resource.is_some() && asked != namespace {
                let detail = "must match metadata.namespace";
                errors.push(FieldError::invalid("spec.resourceAttributes.namespace", asked, detail));
            }
            if other.is_some() {
                let detail = "disallowed on this kind of request";
                errors.push(FieldError::invalid("spec.nonResourceAttributes", Value::Null, detail));
            }
        }
        errors
    }
}

fn strings(value: Option<&Value>) -> Vec<Str> {
    value.and_then(Value::as_array).unwrap_or_default().iter().filter_map(Value::as_shared_str).cloned().collect()
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
        ..resource_info(&of("verb"), &of("group"), &of("version"), &of("resource"))
    }
}
