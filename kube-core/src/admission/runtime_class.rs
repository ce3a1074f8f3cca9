//! RuntimeClass: a pod takes over what its class of runtimes costs and where its nodes are.

use std::sync::Arc;

use async_trait::async_trait;
use generic_server::{
    admission::{Admission, Attributes, Steps},
    registry::Lister,
};
use machinery::{
    Value,
    meta::{Quantity, status::Status},
};

use super::{creates, toleration_coverage::merged};

/// The plugin.
pub(super) struct RuntimeClass {
    pub(super) classes: Arc<Lister>,
}

#[async_trait]
impl Admission for RuntimeClass {
    fn steps(&self) -> Steps {
        Steps::Both
    }

    async fn mutate(&self, a: &Attributes<'_>, pod: &mut Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        if !creates(a, "pods") {
            return Ok(());
        }
        let Some(class) = self.class_of(a, pod).await? else { return Ok(()) };
        if let Some(fixed) = fixed(&class) {
            match pod.at(&["spec", "overhead"]).filter(|own| !own.is_null()) {
                Some(own) if !same_amounts(own, fixed) => return Err(a.forbidden(pod, MISMATCH)),
                _ => pod.set(&["spec", "overhead"], fixed.clone()),
            }
        }
        if let Some(scheduling) = class.get("scheduling").filter(|s| !s.is_null())
            && let Err(why) = schedule(scheduling, pod)
        {
            return Err(a.forbidden(pod, why));
        }
        Ok(())
    }

    async fn validate(&self, a: &Attributes<'_>, pod: &Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        if !creates(a, "pods") {
            return Ok(());
        }
        let class = self.class_of(a, pod).await?;
        let own = pod.at(&["spec", "overhead"]).filter(|own| !own.is_null());
        match (class.as_ref().and_then(fixed), own) {
            (Some(fixed), own) if !same_amounts(own.unwrap_or(&Value::Null), fixed) => Err(a.forbidden(pod, MISMATCH)),
            (None, Some(_)) => Err(
                a.forbidden(pod, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
            ),
            _ => Ok(()),
        }
    }
}

const MISMATCH: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

impl RuntimeClass {
    async fn class_of(&self, a: &Attributes<'_>, pod: &Value) -> Result<Option<Value>, Status> {
        let Some(name) = pod.str_at(&["spec", "runtimeClassName"]) else { return Ok(None) };
        if let Some(why) = machinery::meta::names::unaskable_name(name) {
            return Err(Status::unknown_error(why));
        }
        let Some(class) = self.classes.find("", name).await? else {
            let shown = machinery::meta::go_text::quote(name);
            return Err(a.forbidden(pod, format!("pod rejected: RuntimeClass {shown} not found")));
        };
        self.classes.decode(class.bytes()).map(Some)
    }
}

/// What each pod of the class costs.
fn fixed(class: &Value) -> Option<&Value> {
    class.get("overhead").filter(|overhead| !overhead.is_null()).map(|o| o.get("podFixed").unwrap_or(&Value::Null))
}

/// Whether two lists of resources hold the same amounts.
fn same_amounts(a: &Value, b: &Value) -> bool {
    let entries = |v: &Value| v.as_object().cloned().unwrap_or_default();
    let (a, b) = (entries(a), entries(b));
    let quantity = |v: &Value| Quantity::from_value(v).ok();
    a.len() == b.len() && a.iter().all(|(name, v)| b.get(name).is_some_and(|w| quantity(v) == quantity(w)))
}

/// The class's nodes are the pod's, too.
fn schedule(scheduling: &Value, pod: &mut Value) -> Result<(), String> {
    let mut selector = pod.at(&["spec", "nodeSelector"]).and_then(Value::as_object).cloned().unwrap_or_default();
    for (key, value) in scheduling.get("nodeSelector").and_then(Value::as_object).into_iter().flatten() {
        match selector.get(key) {
            Some(own) if own != value => {
                let (theirs, own) = (value.as_str().unwrap_or_default(), own.as_str().unwrap_or_default());
                return Err(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {theirs}; pod.spec.nodeSelector[{key}] = {own}"
                ));
            }
            Some(_) => {}
            None => {
                selector.insert(key.clone(), value.clone());
            }
        }
    }
    if !selector.is_empty() {
        pod.set(&["spec", "nodeSelector"], selector);
    }
    let list = |v: Option<&Value>| v.and_then(Value::as_array).unwrap_or_default().to_vec();
    let mut all = list(pod.at(&["spec", "tolerations"]));
    all.extend(list(scheduling.get("tolerations")));
    if !all.is_empty() {
        pod.set(&["spec", "tolerations"], merged(all));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use machinery::{array, object};

    use super::*;

    #[test]
    fn a_toleration_that_another_one_includes_is_left_out() {
        let all = object! { "operator" => "Exists" };
        let one = object! { "key" => "a", "operator" => "Exists" };
        let equal = object! { "key" => "a", "operator" => "Equal", "value" => "x" };
        let check = |given: Vec<&Value>, expect: Vec<&Value>| {
            assert_eq!(merged(given.into_iter().cloned().collect()).iter().collect::<Vec<_>>(), expect);
        };
        check(vec![&one, &equal], vec![&one]);
        check(vec![&equal, &one], vec![&one]);
        check(vec![&one, &one], vec![&one]);
        check(vec![&one, &all], vec![&all]);
    }

    #[test]
    fn the_class_adds_to_the_selector_and_never_changes_it() {
        let scheduling = object! { "nodeSelector" => object! { "a" => "b" }, "tolerations" => array![] };
        let mut pod = object! { "spec" => object! { "nodeSelector" => object! { "c" => "d" } } };
        schedule(&scheduling, &mut pod).expect("no conflict");
        assert_eq!(pod.at(&["spec", "nodeSelector"]), Some(&object! { "a" => "b", "c" => "d" }));
        pod.set(&["spec", "nodeSelector", "a"], "x");
        let why = schedule(&scheduling, &mut pod).expect_err("a conflict");
        assert_eq!(why, "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = x");
    }
}
