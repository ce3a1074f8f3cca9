//! `selfsubjectrulesreviews`: what one may do in a namespace, as far as the authorisers can tell without being asked.

use std::sync::Arc;

use async_trait::async_trait;
use auth::{Authorizer, UserRules, aggregate};
use generic_server::{endpoint::Endpoint, request::Request, resource::Resource, response::Response};
use machinery::{Str, Value, meta::status::Status, object};

use crate::review::Review;

/// `selfsubjectrulesreviews`
pub(super) struct RulesReview {
    pub(super) row: Resource,
    pub(super) authorizer: Arc<dyn Authorizer>,
}

#[async_trait]
impl Endpoint for RulesReview {
    async fn serve(&self, mut request: Request) -> Result<Response, Status> {
        let row = &self.row;
        let mut asked = Review::read(&mut request, row).await?;
        let review = &asked.document;
        let namespace = review.str_at(&["spec", "namespace"]).unwrap_or_default();
        if namespace.is_empty() {
            return Err(Status::bad_request("no namespace on request"));
        }
        let rules = self.authorizer.rules_of(&request.user, namespace).await;
        asked.document = object! {
            "kind" => &row.kind, "apiVersion" => row.api_version(), "metadata" => Value::object(),
            "spec" => Value::object(), "status" => status(&rules),
        };
        Ok(asked.answer())
    }
}

fn status(rules: &UserRules) -> Value {
    let resource: Vec<Value> = rules
        .resource
        .iter()
        .map(|rule| {
            let parts = [
                ("verbs", &rule.verbs),
                ("apiGroups", &rule.api_groups),
                ("resources", &rule.resources),
                ("resourceNames", &rule.resource_names),
            ];
            listed(&parts)
        })
        .collect();
    let other: Vec<Value> = rules
        .non_resource
        .iter()
        .map(|rule| listed(&[("verbs", &rule.verbs), ("nonResourceURLs", &rule.urls)]))
        .collect();
    let mut status =
        object! { "resourceRules" => resource, "nonResourceRules" => other, "incomplete" => rules.incomplete };
    if let Some(error) = aggregate(&rules.errors) {
        status.set(&["evaluationError"], error);
    }
    status
}

/// The lists that are not empty; there are always verbs.
fn listed(parts: &[(&str, &Vec<Str>)]) -> Value {
    let mut rule = Value::object();
    for (key, list) in parts {
        if !list.is_empty() || *key == "verbs" {
            rule.set(&[key], (*list).clone());
        }
    }
    rule
}
