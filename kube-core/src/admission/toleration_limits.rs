//! PodTolerationRestriction: which taints the pods of a namespace tolerate without saying so, and which they may tolerate.

use std::sync::Arc;

use async_trait::async_trait;
use generic_server::{
    admission::{Admission, Attributes, Operation, Steps},
    registry::Lister,
};
use machinery::{
    Value,
    codec::json,
    meta::{Meta, status::Status},
    object,
};

use super::{
    PluginConfigError,
    toleration_coverage::{Coverage, Others, merged},
    writes_pod,
};
use crate::core::pods::qos_class;

const DEFAULTS: &str = "scheduler.alpha.kubernetes.io/defaultTolerations";
const ALLOWED: &str = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";

/// What the configuration says for namespaces that say nothing.
#[derive(Clone, Debug, Default)]
pub struct TolerationSettings {
    defaults: Vec<Value>,
    allowed: Vec<Value>,
}

impl TolerationSettings {
    /// Reads the configuration.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn read(config: &Value) -> Result<Self, PluginConfigError> {
        let kind = ("podtolerationrestriction.admission.k8s.io/v1alpha1", "Configuration");
        super::expect_kind(config, &[kind], "podtolerationrestriction.admission.k8s.io/v1alpha1 Configuration")?;
        let wrong = |member| PluginConfigError::Shape { member, expected: "a list" };
        let list = |member: &'static str| match config.get(member).filter(|list| !list.is_null()) {
            None => Ok(Vec::new()),
            Some(list) => list.as_array().map(<[Value]>::to_vec).ok_or_else(|| wrong(member)),
        };
        Ok(TolerationSettings { defaults: list("default")?, allowed: list("whitelist")? })
    }
}

/// The plugin.
pub(super) struct TolerationLimits {
    pub(super) namespaces: Arc<Lister>,
    pub(super) settings: TolerationSettings,
}

#[async_trait]
impl Admission for TolerationLimits {
    fn steps(&self) -> Steps {
        Steps::Both
    }

    async fn mutate(&self, a: &Attributes<'_>, pod: &mut Value, warnings: &mut Vec<String>) -> Result<(), Status> {
        if !writes_pod(a) {
            return Ok(());
        }
        let mut more = Vec::new();
        if a.operation == Operation::Create {
            let own = self.of_namespace(a, DEFAULTS).await?;
            more = own.unwrap_or_else(|| self.settings.defaults.clone());
        }
        if pod.get("spec").is_some_and(|spec| qos_class(spec) != "BestEffort") {
            more.push(object! {
                "key" => "node.kubernetes.io/memory-pressure", "operator" => "Exists", "effect" => "NoSchedule",
            });
        }
        if !more.is_empty() {
            let merged = merged([tolerations(pod), &more].concat());
            pod.set(&["spec", "tolerations"], merged);
        }
        self.validate(a, pod, warnings).await
    }

    async fn validate(&self, a: &Attributes<'_>, pod: &Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        if !writes_pod(a) || tolerations(pod).is_empty() {
            return Ok(());
        }
        let own = self.of_namespace(a, ALLOWED).await?;
        let (allowed, whose) = match &own {
            Some(own) => (own, "namespace"),
            None => (&self.settings.allowed, "cluster"),
        };
        let mut coverage = Coverage::default();
        allowed.iter().for_each(|toleration| coverage.add(toleration));
        if allowed.is_empty() || tolerations(pod).iter().all(|t| coverage.covers(t, Others::All)) {
            return Ok(());
        }
        // Upstream does not call it a refusal.
        let why = format!(
            "pod tolerations (possibly merged with namespace default tolerations) conflict with its {whose} whitelist"
        );
        Err(Status::new(500, "", why))
    }
}

impl TolerationLimits {
    /// What an annotation of the namespace lists; `None` if it has none.
    async fn of_namespace(&self, a: &Attributes<'_>, annotation: &str) -> Result<Option<Vec<Value>>, Status> {
        let namespace = self.namespaces.get_value("", a.namespace).await?;
        let Some(text) = Meta::of(&namespace).annotation(annotation) else { return Ok(None) };
        if text.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let list = json::decode(text.as_bytes()).map_err(|why| Status::new(500, "", why.to_string()))?;
        let wrong = || Status::new(500, "", "json: cannot unmarshal into Go value of type []v1.Toleration");
        match list {
            Value::Null => Ok(None),
            list => list.as_array().map(|list| Some(list.to_vec())).ok_or_else(wrong),
        }
    }
}

fn tolerations(pod: &Value) -> &[Value] {
    pod.at(&["spec", "tolerations"]).and_then(Value::as_array).unwrap_or_default()
}
