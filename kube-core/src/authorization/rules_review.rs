//! `selfsubjectrulesreviews`: what one may do in a namespace, as far as the authorizers can tell without being asked.

use std::sync::Arc;

use async_trait::async_trait;
use auth::{Authorizer, UserRules, aggregate};
use machinery::{Str, Value, meta::status::Status, object};

use crate::review::{Judge, Review, complete_status};

/// `selfsubjectrulesreviews`
pub(super) struct RulesReview {
    pub(super) authorizer: Arc<dyn Authorizer>,
}

#[async_trait]
impl Judge for RulesReview {
    fn complete(&self, review: &mut Value) {
        complete_status(review, "resourceRules", Value::Null);
        complete_status(review, "nonResourceRules", Value::Null);
        complete_status(review, "incomplete", false);
    }

    async fn judge(&self, review: &mut Review<'_>) -> Result<(), Status> {
        let namespace = Str::from(review.object.str_at(&["spec", "namespace"]).unwrap_or_default());
        if namespace.is_empty() {
            return Err(Status::bad_request("no namespace on request"));
        }
        review.admit().await?;
        let rules = self.authorizer.rules_of(review.user, &namespace).await;
        review.object = object! {
            "kind" => &review.row.kind, "apiVersion" => review.row.api_version(), "metadata" => Value::object(),
            "spec" => Value::object(), "status" => status(&rules),
        };
        Ok(())
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
