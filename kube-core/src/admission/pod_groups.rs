//! PodGroupProtection, PodGroupWorkloadExists and JobValidation: pod groups stay while pods are in them, are made of workloads
//! that are there, and jobs whose pods are scheduled together keep their number. All three are for the gate GenericWorkload.

use std::sync::Arc;

use async_trait::async_trait;
use generic_server::{
    admission::{Admission, Attributes, Operation, Steps},
    registry::Lister,
};
use machinery::{
    Value,
    meta::{Meta, go_text::quote, status::Status},
};

const GROUP: &str = "scheduling.k8s.io";
const FINALIZER: &str = "scheduling.k8s.io/podgroup-protection";

fn makes_group(a: &Attributes<'_>) -> bool {
    a.operation == Operation::Create && a.is_of(GROUP, "podgroups") && a.subresource.is_empty()
}

/// PodGroupProtection.
pub(super) struct Protection;

#[async_trait]
impl Admission for Protection {
    fn steps(&self) -> Steps {
        Steps::Mutate
    }

    async fn mutate(&self, a: &Attributes<'_>, group: &mut Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        if !makes_group(a) {
            return Ok(());
        }
        let mut finalizers =
            group.at(&["metadata", "finalizers"]).and_then(Value::as_array).unwrap_or_default().to_vec();
        if finalizers.iter().all(|finalizer| finalizer.as_str() != Some(FINALIZER)) {
            finalizers.push(FINALIZER.into());
            group.set(&["metadata", "finalizers"], finalizers);
        }
        Ok(())
    }
}

/// PodGroupWorkloadExists.
pub(super) struct WorkloadExists(pub(super) Arc<Lister>);

#[async_trait]
impl Admission for WorkloadExists {
    fn steps(&self) -> Steps {
        Steps::Validate
    }

    async fn validate(&self, a: &Attributes<'_>, group: &Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        let reference = group.at(&["spec", "podGroupTemplateRef", "workload"]).filter(|workload| !workload.is_null());
        let Some(reference) = reference.filter(|_| makes_group(a)) else { return Ok(()) };
        let text = |member: &str| reference.str_at(&[member]).unwrap_or_default();
        let (name, template) = (text("workloadName"), text("podGroupTemplateName"));
        let rejected = |why: String| Err(a.forbidden(group, format!("PodGroup rejected: {why}")));
        let workload = match self.0.get_value(a.namespace, name).await {
            Ok(workload) => workload,
            Err(status) if status.code == 404 => return rejected(format!("Workload {} not found", quote(name))),
            Err(status) => return Err(Status::internal_error(status.message)),
        };
        if Meta::of(&workload).is_terminating() {
            return rejected(format!("Workload {} is being deleted", quote(name)));
        }
        let templates = workload.at(&["spec", "podGroupTemplates"]).and_then(Value::as_array).unwrap_or_default();
        if templates.iter().any(|known| known.str_at(&["name"]).unwrap_or_default() == template) {
            return Ok(());
        }
        rejected(format!("PodGroupTemplate {} not found in Workload {}", quote(template), quote(name)))
    }
}

/// JobValidation.
pub(super) struct Jobs(pub(super) Arc<Lister>);

#[async_trait]
impl Admission for Jobs {
    fn steps(&self) -> Steps {
        Steps::Validate
    }

    async fn validate(&self, a: &Attributes<'_>, job: &Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        let is_update = a.operation == Operation::Update && a.is_of("batch", "jobs") && a.subresource.is_empty();
        let Some(old) = a.old.filter(|_| is_update) else { return Ok(()) };
        let parallelism = |job: &Value| job.at(&["spec", "parallelism"]).and_then(Value::as_i64);
        if parallelism(job) == parallelism(old) {
            return Ok(());
        }
        match self.gang_of(old, a.namespace).await {
            None => Ok(()),
            Some(group) => {
                let why = "cannot change parallelism for a Job referencing gang-scheduled PodGroup";
                Err(a.forbidden(job, format!("{why} {}", quote(&group))))
            }
        }
    }
}

impl Jobs {
    /// The group whose pods, the job's, are scheduled together: the one that its template names, or one that it controls.
    async fn gang_of(&self, job: &Value, namespace: &str) -> Option<String> {
        let named = job.str_at(&["spec", "template", "spec", "schedulingGroup", "podGroupName"]);
        if let Some(name) = named {
            let group = self.0.get_value(namespace, name).await.ok()?;
            return is_gang(&group).then(|| name.to_owned());
        }
        let uid = Meta::of(job).uid();
        let controlled =
            |group: &Value| Meta::of(group).owner_references().any(|o| o.is_controller() && o.uid() == uid);
        let snapshot = self.0.cache().latest();
        let groups =
            snapshot.range(&self.0.namespace_prefix(namespace), None).filter_map(storage::cache::CacheEntry::object);
        let mut groups = groups.filter_map(|group| self.0.decode(group.bytes()).ok());
        groups.find(|group| controlled(group) && is_gang(group)).map(|group| Meta::of(&group).name().to_owned())
    }
}

fn is_gang(group: &Value) -> bool {
    group.at(&["spec", "schedulingPolicy", "gang"]).is_some_and(|gang| !gang.is_null())
}
