//! PodSecurity: pods keep to the security standard that their namespace asks for.

mod baseline;
mod checks;
mod policy;
mod restricted;
mod update;

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use generic_server::{
    admission::{Admission, Attributes, Operation, Steps},
    audit,
    registry::Lister,
};
use machinery::{
    Str, Value,
    codec::{json, scan},
    meta::{
        GroupKind, Meta,
        field_error::{self, FieldError},
        status::Status,
    },
};
use storage::cache::Object;

use super::parsed::Parsed;
use checks::{Pod, findings, reasons, told};
pub use policy::PodSecuritySettings;
use policy::{Demand, Labels, Level, MODES, Policy};

/// How many pods of a namespace are looked at when its policy changes, and for how long (upstream: the same).
const MOST_PODS: usize = 3000;
const LONGEST_LOOK: Duration = Duration::from_secs(1);

/// Subresources of pods that cannot change what a pod may do.
const HARMLESS: [&str; 8] = ["attach", "binding", "eviction", "exec", "log", "portforward", "proxy", "status"];

/// Where controllers keep the template of their pods.
const TEMPLATES: [(&str, &str, &[&str]); 8] = [
    ("", "podtemplates", &["template"]),
    ("", "replicationcontrollers", &["spec", "template"]),
    ("apps", "daemonsets", &["spec", "template"]),
    ("apps", "deployments", &["spec", "template"]),
    ("apps", "replicasets", &["spec", "template"]),
    ("apps", "statefulsets", &["spec", "template"]),
    ("batch", "cronjobs", &["spec", "jobTemplate", "spec", "template"]),
    ("batch", "jobs", &["spec", "template"]),
];

/// The plugin.
pub(super) struct PodSecurity {
    namespaces: Parsed<Labels>,
    pods: Arc<Lister>,
    settings: PodSecuritySettings,
}

impl PodSecurity {
    pub(super) fn new(namespaces: Arc<Lister>, pods: Arc<Lister>, settings: PodSecuritySettings) -> Self {
        PodSecurity { namespaces: Parsed::new(namespaces, Labels::of), pods, settings }
    }
}

#[async_trait]
impl Admission for PodSecurity {
    fn steps(&self) -> Steps {
        Steps::Validate
    }

    async fn validate(&self, a: &Attributes<'_>, object: &Value, warnings: &mut Vec<String>) -> Result<(), Status> {
        if !matches!(a.operation, Operation::Create | Operation::Update) {
            return Ok(());
        }
        let (group, plural) = (a.row.group.as_str(), a.row.plural.as_str());
        if (group, plural) == ("", "namespaces") {
            return self.check_namespace(a, object, warnings).await;
        }
        if (group, plural) == ("", "pods") {
            return self.check_pod(a, object, warnings).await;
        }
        match TEMPLATES.iter().find(|(g, p, _)| (*g, *p) == (group, plural)) {
            Some((_, _, path)) if a.subresource.is_empty() => self.check_template(a, object.at(path), warnings).await,
            _ => Ok(()),
        }
    }
}

impl PodSecurity {
    async fn check_pod(&self, a: &Attributes<'_>, pod: &Value, warnings: &mut Vec<String>) -> Result<(), Status> {
        if HARMLESS.contains(&a.subresource) || self.spares(a) {
            return Ok(());
        }
        let Some(labels) = self.namespaces.get("", a.namespace).await? else {
            let status = Status::internal_error(format!("failed to lookup namespace {:?}", a.namespace));
            note(a, "error", format!("{}: namespaces {:?} not found", status.message, a.namespace));
            return Err(status);
        };
        let (policy, errors) = labels.policy(&self.settings.defaults);
        let demands_nothing = [policy.enforce, policy.audit, policy.warn].iter().all(|d| d.level == Level::Privileged);
        if demands_nothing && errors.is_empty() {
            note(a, ENFORCED, "privileged:latest");
            return Ok(());
        }
        if a.old.is_some_and(|old| !update::matters(pod, old)) {
            return Ok(());
        }
        let pod_seen = Pod::of(pod);
        if self.settings.spares_class(pod_seen.spec) {
            note(a, EXEMPT, "runtimeClass");
            return Ok(());
        }
        note_errors(a, &errors);
        note(a, ENFORCED, policy.enforce.to_string());
        let found = findings(policy.enforce, &pod_seen);
        note_violations(a, policy.audit, &pod_seen);
        if !found.is_empty() {
            let demand = policy.enforce.to_string();
            return Err(a.forbidden(pod, format!("violates PodSecurity {demand:?}: {}", told(&found))));
        }
        warn(policy.warn, &pod_seen, warnings);
        Ok(())
    }

    /// What makes pods is never refused: its authors are warned.
    async fn check_template(
        &self,
        a: &Attributes<'_>,
        template: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let Some(template) = template.filter(|template| !template.is_null()) else { return Ok(()) };
        if self.spares(a) {
            return Ok(());
        }
        let Some(labels) = self.namespaces.get("", a.namespace).await? else {
            let why = format!("namespaces {:?} not found", a.namespace);
            note(a, "error", format!("failed to lookup namespace {:?}: {why}", a.namespace));
            return Ok(());
        };
        let (policy, errors) = labels.policy(&self.settings.defaults);
        let demands_nothing = [policy.audit, policy.warn].iter().all(|d| d.level == Level::Privileged);
        if demands_nothing && errors.is_empty() {
            return Ok(());
        }
        let pod = Pod::of(template);
        if self.settings.spares_class(pod.spec) {
            note(a, EXEMPT, "runtimeClass");
            return Ok(());
        }
        note_errors(a, &errors);
        note_violations(a, policy.audit, &pod);
        warn(policy.warn, &pod, warnings);
        Ok(())
    }

    /// Whether the namespace or the user is left alone.
    fn spares(&self, a: &Attributes<'_>) -> bool {
        let why = if self.settings.spares_namespace(a.namespace) {
            "namespace"
        } else if self.settings.spares_user(&a.user.name) {
            "user"
        } else {
            return false;
        };
        note(a, EXEMPT, why);
        true
    }

    async fn check_namespace(
        &self,
        a: &Attributes<'_>,
        namespace: &Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        if !a.subresource.is_empty() {
            return Ok(());
        }
        let defaults = &self.settings.defaults;
        let name = Meta::of(namespace).name();
        let labels = Labels::of(namespace);
        let (policy, errors) = labels.policy(defaults);
        let (before, known_errors) = match a.old {
            Some(old) => Labels::of(old).policy(defaults),
            None => (Policy::default(), Vec::new()),
        };
        let same_errors = errors.iter().map(ToString::to_string).eq(known_errors.iter().map(ToString::to_string));
        if !errors.is_empty() && !same_errors {
            return Err(Status::invalid(&GroupKind::new("", "Namespace"), name, errors));
        }
        let (new, old) = (policy.enforce, before.enforce);
        let relaxed = new.version == old.version && new.level <= old.level;
        let is_spared = self.settings.spares_namespace(name);
        if a.old.is_some() && (new == old || new.level == Level::Privileged || relaxed) {
            return Ok(());
        }
        if is_spared {
            warnings.extend(ignored(name, &policy, &labels, defaults));
        } else if a.old.is_some() {
            warnings.extend(self.look_at_pods(name, new).await?);
        }
        Ok(())
    }

    /// What is wrong with the pods that a namespace has already.
    async fn look_at_pods(&self, namespace: &str, demand: Demand) -> Result<Vec<String>, Status> {
        let deadline = Instant::now() + LONGEST_LOOK;
        self.pods.ready().await?;
        let snapshot = self.pods.cache().latest();
        let entries = snapshot.range(&self.pods.namespace_prefix(namespace), None);
        let pods = most_telling(entries.filter_map(|entry| entry.object().cloned()));
        let mut looked_at = 0;
        // By their findings: the first of the pods that have them, and how many have.
        let mut found: BTreeMap<String, (Str, usize)> = BTreeMap::new();
        for object in pods.iter().take(MOST_PODS) {
            looked_at += 1;
            let pod = self.pods.decode(object.bytes())?;
            let seen = Pod::of(&pod);
            let wrong = if self.settings.spares_class(seen.spec) { Vec::new() } else { findings(demand, &seen) };
            if !wrong.is_empty() {
                let name = Str::from(object.name());
                let (first, count) = found.entry(reasons(&wrong)).or_insert_with(|| (name.clone(), 0));
                *first = name.min(first.clone());
                *count += 1;
            }
            if Instant::now() >= deadline {
                break;
            }
            if looked_at % 64 == 0 {
                tokio::task::yield_now().await;
            }
        }
        let mut warnings = Vec::new();
        if looked_at < pods.len() {
            warnings.push(format!(
                "new PodSecurity enforce level only checked against the first {looked_at} of {} existing pods",
                pods.len()
            ));
        }
        if !found.is_empty() {
            let demand = demand.to_string();
            warnings.push(format!(
                "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level {demand:?}"
            ));
        }
        let mut told: Vec<String> = found
            .into_iter()
            .map(|(reasons, (first, count))| match count {
                1 => format!("{first}: {reasons}"),
                2 => format!("{first} (and 1 other pod): {reasons}"),
                _ => format!("{first} (and {} other pods): {reasons}", count - 1),
            })
            .collect();
        told.sort();
        warnings.extend(told);
        Ok(warnings)
    }
}

/// What those who read the audit log are told: by which policy a pod was judged, why it was not, and what is wrong with it.
const ENFORCED: &str = "enforce-policy";
const EXEMPT: &str = "exempt";
const VIOLATIONS: &str = "audit-violations";

fn note(a: &Attributes<'_>, key: &str, value: impl Into<Str>) {
    if a.audit.is_on() {
        a.annotate(audit::Level::Metadata, format!("pod-security.kubernetes.io/{key}"), value);
    }
}

fn note_errors(a: &Attributes<'_>, errors: &[FieldError]) {
    if let Some(errors) = field_error::aggregate(errors) {
        note(a, "error", format!("Failed to parse policy: {errors}"));
    }
}

fn note_violations(a: &Attributes<'_>, demand: Demand, pod: &Pod<'_>) {
    if let Some(text) = a.audit.is_on().then(|| violations(demand, pod)).flatten() {
        note(a, VIOLATIONS, text);
    }
}

fn warn(demand: Demand, pod: &Pod<'_>, warnings: &mut Vec<String>) {
    warnings.extend(violations(demand, pod));
}

fn violations(demand: Demand, pod: &Pod<'_>) -> Option<String> {
    let found = findings(demand, pod);
    let demand = demand.to_string();
    (!found.is_empty()).then(|| format!("would violate PodSecurity {demand:?}: {}", told(&found)))
}

/// What the author of a namespace hears whose labels count for nothing.
fn ignored(name: &str, policy: &Policy, labels: &Labels, defaults: &Policy) -> Option<String> {
    let demands = [policy.enforce, policy.audit, policy.warn];
    if demands.iter().all(|demand| demand.level == Level::Privileged) || policy == defaults {
        return None;
    }
    let said: Vec<String> = (0..MODES.len())
        .filter(|mode| demands[*mode].level != Level::Privileged && labels.names(*mode))
        .map(|mode| format!("{}={}", MODES[mode], demands[mode]))
        .collect();
    let said = said.join(", ");
    Some(format!("namespace {name:?} is exempt from Pod Security, and the policy ({said}) will be ignored"))
}

/// One pod of each controller first, and those that nobody controls: the others are like them.
fn most_telling(pods: impl Iterator<Item = Arc<Object>>) -> Vec<Arc<Object>> {
    let mut controllers = HashSet::new();
    let (mut first, others): (Vec<_>, Vec<_>) = pods.partition(|pod| match controller(pod) {
        Some(uid) => controllers.insert(uid),
        None => true,
    });
    first.extend(others);
    first
}

/// The uid of a pod's controller.
fn controller(pod: &Object) -> Option<String> {
    let owners = json::decode(scan::field(pod.bytes(), &["metadata", "ownerReferences"])?).ok()?;
    let owners = owners.as_array()?.iter();
    let is_controller = |owner: &&Value| owner.get("controller").and_then(Value::as_bool) == Some(true);
    owners.filter(is_controller).find_map(|owner| owner.str_at(&["uid"])).map(str::to_owned)
}
