//! Priority: a pod's priority is that of its class.

use std::sync::Arc;

use async_trait::async_trait;
use generic_server::{
    admission::{Admission, Attributes, Operation, Steps},
    registry::{Lister, Registry},
    tasks::Task,
};
use machinery::{Str, Value, meta::status::Status, object};

use super::creates;

/// The classes that are always there: for what a cluster or a node cannot do without.
const SYSTEM: [(&str, i64, &str); 2] = [
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
];

/// The plugin.
pub(super) struct Priority {
    pub(super) classes: Arc<Lister>,
    /// Whether groups of pods have a priority, too.
    pub(super) groups: bool,
}

#[async_trait]
impl Admission for Priority {
    fn steps(&self) -> Steps {
        Steps::Both
    }

    async fn mutate(&self, a: &Attributes<'_>, object: &mut Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        if creates(a, "pods") {
            return self.resolve(a, object).await;
        }
        let makes_group = a.operation == Operation::Create && a.is_of("scheduling.k8s.io", "podgroups");
        if makes_group && a.subresource.is_empty() && self.groups {
            return self.resolve_group(a, object).await;
        }
        let updates_pod = a.operation == Operation::Update && a.subresource.is_empty() && a.row.plural == "pods";
        if updates_pod && let Some(old) = a.old {
            // What admission once set stays, also when a client leaves it out.
            for member in ["priority", "preemptionPolicy"] {
                if let (None, Some(value)) = (object.at(&["spec", member]), old.at(&["spec", member])) {
                    object.set(&["spec", member], value.clone());
                }
            }
        }
        Ok(())
    }

    async fn validate(&self, a: &Attributes<'_>, object: &Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        let is_class = a.row.group == "scheduling.k8s.io" && a.row.plural == "priorityclasses";
        let writes = matches!(a.operation, Operation::Create | Operation::Update);
        if !is_class || !writes || !is_default(object) {
            return Ok(());
        }
        match self.default_class()? {
            Some(other) if other.str_at(&["metadata", "name"]) != Some(a.name) => {
                let name = other.str_at(&["metadata", "name"]).unwrap_or("");
                let why = format!("PriorityClass {name} is already marked as default. Only one default can exist");
                Err(a.forbidden(object, why))
            }
            _ => Ok(()),
        }
    }
}

fn is_default(class: &Value) -> bool {
    class.get("globalDefault").and_then(Value::as_bool).unwrap_or(false)
}

impl Priority {
    async fn resolve(&self, a: &Attributes<'_>, pod: &mut Value) -> Result<(), Status> {
        let (priority, class) = self.established(a, pod).await?;
        let of = |key: &str| class.as_ref().and_then(|c| c.get(key)).cloned();
        if let Some(asked) = pod.at(&["spec", "priority"]).and_then(Value::as_i64)
            && asked != priority
        {
            return Err(a.forbidden(
                pod,
                format!(
                    "the integer value of priority ({asked}) must not be provided in pod spec; priority admission \
                     controller computed {priority} from the given PriorityClass name"
                ),
            ));
        }
        pod.set(&["spec", "priority"], priority);
        let policy = of("preemptionPolicy").and_then(|v| v.as_shared_str().cloned());
        let policy = policy.unwrap_or(Str::new_static("PreemptLowerPriority"));
        if let Some(asked) = pod.str_at(&["spec", "preemptionPolicy"])
            && asked != policy
        {
            return Err(a.forbidden(
                pod,
                format!(
                    "the string value of PreemptionPolicy ({asked}) must not be provided in pod spec; priority admission \
                     controller computed {policy} from the given PriorityClass name"
                ),
            ));
        }
        pod.set(&["spec", "preemptionPolicy"], policy);
        Ok(())
    }

    /// A group of pods has one priority, that of its class.
    async fn resolve_group(&self, a: &Attributes<'_>, group: &mut Value) -> Result<(), Status> {
        let (priority, _) = self.established(a, group).await?;
        if let Some(asked) = group.at(&["spec", "priority"]).and_then(Value::as_i64)
            && asked != priority
        {
            let why = format!(
                "priority set in the pod group ({asked}) must match the priority computed ({priority}) based on the priority \
                 class set in the spec"
            );
            return Err(a.forbidden(group, why));
        }
        group.set(&["spec", "priority"], priority);
        Ok(())
    }

    /// The priority of what is scheduled, and its class; what names none is of the default one, if there is one.
    async fn established(&self, a: &Attributes<'_>, object: &mut Value) -> Result<(i64, Option<Value>), Status> {
        let name = object.str_at(&["spec", "priorityClassName"]).unwrap_or("").to_owned();
        let class = if name.is_empty() {
            self.default_class()?
        } else {
            let found = self.class(&name).await?;
            Some(found.ok_or_else(|| a.forbidden(object, format!("no PriorityClass with name {name} was found")))?)
        };
        if let (true, Some(class)) = (name.is_empty(), &class) {
            object.set(&["spec", "priorityClassName"], class.str_at(&["metadata", "name"]).unwrap_or(""));
        }
        let value = class.as_ref().and_then(|class| class.get("value")).and_then(Value::as_i64);
        Ok((value.unwrap_or(0), class))
    }

    async fn class(&self, name: &str) -> Result<Option<Value>, Status> {
        let found = self.classes.find("", name).await?;
        found.map(|class| self.classes.decode(class.bytes())).transpose()
    }

    /// The class of pods that name none: of several defaults the one of the lowest value.
    fn default_class(&self) -> Result<Option<Value>, Status> {
        let snapshot = self.classes.cache().latest();
        let mut lowest: Option<Value> = None;
        for class in snapshot.range(self.classes.prefix(), None).filter_map(|e| e.object()) {
            let class = self.classes.decode(class.bytes())?;
            let value = |class: &Value| class.get("value").and_then(Value::as_i64).unwrap_or(0);
            if is_default(&class) && lowest.as_ref().is_none_or(|l| value(&class) < value(l)) {
                lowest = Some(class);
            }
        }
        Ok(lowest)
    }
}

/// Makes the system's classes where they are missing.
pub(crate) fn system_classes(classes: Arc<Registry>) -> Task {
    Task::new("scheduling/bootstrap-system-priority-classes", move |cx| {
        let classes = classes.clone();
        async move {
            classes.cache().ready().await?;
            for (name, value, description) in SYSTEM {
                if classes.cache().latest().get(&classes.key("", name)).is_some() {
                    continue;
                }
                let class = object! {
                    "kind" => "PriorityClass", "apiVersion" => "scheduling.k8s.io/v1",
                    "metadata" => object! { "name" => name }, "value" => value, "description" => description,
                };
                match classes.create_as_server(class).await {
                    Ok(_) => {}
                    Err(status) if status.is_already_exists() => {} // another server was faster
                    Err(status) => return Err(status.into()),
                }
            }
            cx.ready();
            Ok(())
        }
    })
}
