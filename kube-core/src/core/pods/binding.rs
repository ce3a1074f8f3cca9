//! `pods/binding` and `bindings`: a scheduler says on which node a pod runs.

use std::sync::Arc;

use async_trait::async_trait;
use generic_server::{
    endpoint::Endpoint,
    features::Features,
    registry::{Preconditions, Registry},
    request::Request,
    resource::Resource,
    response::Response,
};
use machinery::{
    Str, Value,
    meta::{GroupResource, GvkRef, Meta, TimeForm, Timestamp, field_error::FieldError, status::Status},
    object,
};

use super::conditions;
use crate::{
    defaults::is_empty,
    posted::{Posted, done, plainly},
};

/// Serves both: below a pod, and as a collection where the document names the pod.
pub(crate) struct Binding {
    /// The row that requests come through.
    pub(crate) row: Resource,
    pub(crate) pods: Arc<Registry>,
}

#[async_trait]
impl Endpoint for Binding {
    async fn serve(&self, request: Request) -> Result<Response, Status> {
        let mut posted = Posted::read(request, &self.row, GvkRef::new("", "v1", "Binding")).await?;
        let bound = self.bind(&mut posted).await;
        Ok(posted.answer(bound.map(|()| done())))
    }
}

impl Binding {
    async fn bind(&self, posted: &mut Posted) -> Result<(), Status> {
        let name = Str::from(Meta::of(&posted.document).name());
        let below_pod = !posted.request.info.subresource.is_empty();
        if below_pod && name != posted.request.info.name {
            return Err(Status::bad_request("name in URL does not match name in Binding object"));
        }
        if name.is_empty() {
            plainly(&validate(&posted.document))?;
            return Err(Status::bad_request("Name parameter required."));
        }
        // Below a pod, what a binding says of the pod's identity is what it asks for.
        if !below_pod {
            posted.wipe();
        }
        posted.track();
        posted.admit(&self.pods, &self.row, &name).await?;
        plainly(&validate(&posted.document))?;
        let binding = Meta::of(&posted.document);
        let wanted = Preconditions { uid: binding.uid().into(), resource_version: binding.resource_version().into() };
        let place = (posted.request.info.namespace.as_str(), name.as_str());
        let features = &self.pods.settings().features;
        let change = |pod: &mut Value| assign(pod, &posted.document, features).map_err(|why| conflict(&name, &why));
        self.pods.rewrite(place, &wanted, posted.options.dry_run, change).await.map(|_| ())
    }
}

fn conflict(name: &str, why: &str) -> Status {
    Status::conflict(&GroupResource::new("", "pods/binding"), name, why)
}

fn validate(binding: &Value) -> Vec<FieldError> {
    let target = |key: &str| binding.str_at(&["target", key]).unwrap_or_default();
    let mut errors = Vec::new();
    if !matches!(target("kind"), "" | "Node") {
        errors.push(FieldError::not_supported("target.kind", target("kind"), ["Node", "<empty>"]));
    }
    if target("name").is_empty() {
        errors.push(FieldError::required("target.name", ""));
    }
    errors
}

/// Puts a pod on the binding's node, with the labels and annotations that come with it. Answers why it may not be there.
fn assign(pod: &mut Value, binding: &Value, features: &Features) -> Result<(), String> {
    let name = Meta::of(pod).name();
    if Meta::of(pod).is_terminating() {
        return Err(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    if let Some(node) = pod.str_at(&["spec", "nodeName"]).filter(|n| !n.is_empty()) {
        return Err(format!("pod {name} is already assigned to node {node:?}"));
    }
    if !is_empty(pod.at(&["spec", "schedulingGates"])) {
        return Err(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    pod.set(&["spec", "nodeName"], binding.str_at(&["target", "name"]).unwrap_or_default());
    if features.is_on("ClearingNominatedNodeNameAfterBinding") {
        pod.remove_at(&["status", "nominatedNodeName"]);
    }
    let copied =
        if features.is_on("PodTopologyLabelsAdmission") { &["annotations", "labels"][..] } else { &["annotations"] };
    for member in copied {
        for (key, value) in binding.at(&["metadata", member]).and_then(Value::as_object).into_iter().flatten() {
            pod.set(&["metadata", member, key], value.clone());
        }
    }
    let now = Timestamp::now().text(TimeForm::Seconds);
    let condition = object! {
        "type" => "PodScheduled", "status" => "True", "lastProbeTime" => Value::Null, "lastTransitionTime" => now,
    };
    conditions::put(pod, condition);
    Ok(())
}

#[cfg(test)]
mod tests {
    use machinery::array;

    use super::*;

    fn binding() -> Value {
        object! {
            "metadata" => object! { "name" => "p", "labels" => object! { "zone" => "z" } },
            "target" => object! { "kind" => "Node", "name" => "n" },
        }
    }

    #[test]
    fn a_pod_gets_its_node_once() {
        let mut pod = object! {
            "metadata" => object! { "name" => "p", "labels" => object! { "app" => "a" } }, "spec" => object! {},
        };
        pod.set(&["status", "nominatedNodeName"], "m");
        assign(&mut pod, &binding(), &Features::default()).expect("free");
        assert_eq!(pod.at(&["status", "nominatedNodeName"]), None);
        assert_eq!(pod.str_at(&["spec", "nodeName"]), Some("n"));
        assert_eq!(pod.at(&["metadata", "labels"]), Some(&object! { "app" => "a", "zone" => "z" }));
        let (mut alone, none) = (object! { "metadata" => object! { "name" => "p" } }, [].into_iter().collect());
        assign(&mut alone, &binding(), &none).expect("free");
        assert_eq!(alone.at(&["metadata", "labels"]), None, "labels come with a feature");
        let conditions = pod.at(&["status", "conditions"]).and_then(Value::as_array).expect("conditions");
        assert_eq!(conditions[0].str_at(&["status"]), Some("True"));
        let again = assign(&mut pod, &binding(), &Features::default());
        assert_eq!(again, Err("pod p is already assigned to node \"n\"".to_owned()));
    }

    #[test]
    fn a_gated_or_dying_pod_gets_none() {
        let gates = array![object! { "name" => "g" }];
        let mut gated = object! {
            "metadata" => object! { "name" => "p" }, "spec" => object! { "schedulingGates" => gates },
        };
        assert!(assign(&mut gated, &binding(), &Features::default()).is_err());
        let mut dying = object! {
            "metadata" => object! { "name" => "p", "deletionTimestamp" => "2026-01-01T00:00:00Z" },
        };
        assert!(assign(&mut dying, &binding(), &Features::default()).is_err());
    }

    #[test]
    fn a_binding_targets_a_node() {
        let check = |kind: &str, name: &str, expect: &[&str]| {
            let binding = object! { "target" => object! { "kind" => kind, "name" => name } };
            let texts: Vec<String> = validate(&binding).iter().map(ToString::to_string).collect();
            assert_eq!(texts, expect);
        };
        check("Node", "n", &[]);
        check("", "n", &[]);
        check("Node", "", &["target.name: Required value"]);
        check("Pod", "x", &[r#"target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>""#]);
    }
}
