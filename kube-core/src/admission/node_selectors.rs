//! PodNodeSelector: a namespace says on which nodes its pods run, and the administrator which labels they may select by.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use generic_server::{
    admission::{Admission, Attributes, Steps},
    registry::Lister,
};
use machinery::{
    Str, Value,
    meta::{Meta, field_error::FieldError, names, status::Status},
};

use super::{PluginConfigError, creates, resource_of};

const ANNOTATION: &str = "scheduler.alpha.kubernetes.io/node-selector";
/// The member of the configuration that is for namespaces without the annotation.
const DEFAULT: &str = "clusterDefaultNodeSelector";

type Labels = BTreeMap<Str, Str>;

/// What the configuration says: selectors as texts, by namespace.
pub type NodeSelectorSettings = BTreeMap<Str, Str>;

/// Reads the configuration.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read(config: &Value) -> Result<NodeSelectorSettings, PluginConfigError> {
    let Some(selectors) = config.get("podNodeSelectorPluginConfig").filter(|selectors| !selectors.is_null()) else {
        return Ok(NodeSelectorSettings::new());
    };
    let wrong = || PluginConfigError::Shape { member: "podNodeSelectorPluginConfig", expected: "a map of texts" };
    let selectors = selectors.as_object().ok_or_else(wrong)?;
    let text = |name: &Str, value: &Value| Some((name.clone(), value.as_shared_str()?.clone()));
    selectors.iter().map(|(name, value)| text(name, value).ok_or_else(wrong)).collect()
}

/// The plugin.
pub(super) struct NodeSelectors {
    pub(super) namespaces: Arc<Lister>,
    pub(super) settings: NodeSelectorSettings,
}

#[async_trait]
impl Admission for NodeSelectors {
    fn steps(&self) -> Steps {
        Steps::Both
    }

    async fn mutate(&self, a: &Attributes<'_>, pod: &mut Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        if !creates(a, "pods") {
            return Ok(());
        }
        let wanted = self.of_namespace(a).await?;
        self.check_conflicts(a, pod, &wanted)?;
        for (key, value) in wanted {
            pod.set(&["spec", "nodeSelector", &key], value);
        }
        self.check_allowed(a, pod)
    }

    async fn validate(&self, a: &Attributes<'_>, pod: &Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        if !creates(a, "pods") {
            return Ok(());
        }
        let wanted = self.of_namespace(a).await?;
        self.check_conflicts(a, pod, &wanted)?;
        self.check_allowed(a, pod)
    }
}

impl NodeSelectors {
    /// What the namespace wants, or what all want that say nothing.
    async fn of_namespace(&self, a: &Attributes<'_>) -> Result<Labels, Status> {
        let namespace = self.namespaces.get_value("", a.namespace).await.map_err(|status| match status.code {
            404 => Status::internal_error(format!("namespace {} does not exist", a.namespace)),
            _ => Status::internal_error(status.message),
        })?;
        let own = Meta::of(&namespace).annotation(ANNOTATION).map(ToOwned::to_owned);
        let text = own.unwrap_or_else(|| self.settings.get(DEFAULT).cloned().unwrap_or_default().to_string());
        labels(&text).map_err(|why| Status::new(500, "", why))
    }

    fn check_conflicts(&self, a: &Attributes<'_>, pod: &Value, wanted: &Labels) -> Result<(), Status> {
        let conflicts = |(key, value): (&Str, &str)| wanted.get(key).is_some_and(|wanted| *wanted != value);
        let why = "pod node label selector conflicts with its namespace node label selector";
        if selector(pod).any(conflicts) { Err(refusal(a, pod, why)) } else { Ok(()) }
    }

    fn check_allowed(&self, a: &Attributes<'_>, pod: &Value) -> Result<(), Status> {
        let allowed = self.settings.get(a.namespace).cloned().unwrap_or_default();
        let allowed = labels(&allowed).map_err(|why| Status::new(500, "", why))?;
        let is_allowed = |(key, value): (&Str, &str)| allowed.get(key).is_some_and(|allowed| *allowed == value);
        let why = "pod node label selector labels conflict with its namespace whitelist";
        if allowed.is_empty() || selector(pod).all(is_allowed) { Ok(()) } else { Err(refusal(a, pod, why)) }
    }
}

fn refusal(a: &Attributes<'_>, pod: &Value, why: &str) -> Status {
    Status::forbidden(&resource_of(a), Meta::of(pod).name(), why)
}

fn selector(pod: &Value) -> impl Iterator<Item = (&Str, &str)> {
    let selector = pod.at(&["spec", "nodeSelector"]).and_then(Value::as_object);
    selector.into_iter().flat_map(|labels| labels.iter()).map(|(key, value)| (key, value.as_str().unwrap_or_default()))
}

/// `key=value,key=value`; nothing else is known here.
fn labels(text: &str) -> Result<Labels, String> {
    if text.is_empty() {
        return Ok(Labels::new());
    }
    let label = |label: &str| {
        let parts: Vec<&str> = label.split('=').collect();
        let [key, value] = parts.as_slice() else { return Err(format!("invalid selector: [{}]", parts.join(" "))) };
        let (key, value) = (key.trim(), value.trim());
        let fault = |shown: &str, path: String, faults: Vec<String>| match faults.is_empty() {
            true => Ok(()),
            false => Err(FieldError::invalid(path, shown, faults.join("; ")).to_string()),
        };
        fault(key, String::new(), names::qualified_name(key))?;
        fault(value, format!("<nil>[{key}]"), names::label_value(value))?;
        Ok((Str::from(key), Str::from(value)))
    };
    text.split(',').map(label).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_pairs() {
        let check = |text: &str, expect: Result<&[(&str, &str)], &str>| {
            let found = labels(text).map(|labels| labels.into_iter().collect::<Vec<_>>());
            let expect =
                expect.map(|pairs| pairs.iter().map(|(k, v)| (Str::from(*k), Str::from(*v))).collect::<Vec<_>>());
            assert_eq!(found, expect.map_err(str::to_owned), "{text}");
        };
        check("", Ok(&[]));
        check("a=b, c = d,e=", Ok(&[("a", "b"), ("c", "d"), ("e", "")]));
        check("a", Err("invalid selector: [a]"));
        check("a==b", Err("invalid selector: [a  b]"));
        assert!(labels("a=b,").is_err() && labels("-=b").is_err() && labels("a=b c").is_err());
    }

    #[test]
    fn a_configuration_is_a_map_of_texts() {
        let config = machinery::codec::yaml::decode(b"podNodeSelectorPluginConfig: {a: 'x=y'}").expect("YAML");
        assert_eq!(read(&config).expect("a map").get("a").map(Str::as_str), Some("x=y"));
        let config = machinery::codec::yaml::decode(b"podNodeSelectorPluginConfig: {a: [x]}").expect("YAML");
        assert!(read(&config).is_err());
    }
}
