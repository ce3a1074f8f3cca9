//! `pods/eviction`: a deletion that disruption budgets may refuse.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use generic_server::{
    endpoint::Endpoint,
    options::DeleteOptions,
    registry::{Preconditions, Registry, RegistrySettings},
    request::Request,
    response::Response,
};
use machinery::{
    Str, Value,
    codec::scan,
    meta::{
        Cause, Details, FieldError, GroupKind, GroupResource, GvkRef, LabelSelector, Meta, TimeForm, Timestamp,
        status::Status,
    },
    object,
};
use storage::cache::ReadAt;

use super::conditions;
use crate::posted::{Posted, done};

/// The option to delete what cannot be read: an eviction has to read its pod.
const IGNORE_READ_ERROR: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";
/// How many evictions a budget may have that its controller has not seen yet.
const MAX_DISRUPTED_PODS: usize = 2000;
/// How often an eviction looks at a pod or budget anew that somebody else has changed meanwhile.
const MAX_ATTEMPTS: usize = 20;
/// How long it waits before it looks again: what changes an object so fast changes it again at once.
const PAUSE: Duration = Duration::from_millis(20);

/// Serves evictions.
pub(crate) struct Eviction {
    pub(crate) pods: Arc<Registry>,
    pub(crate) budgets: Arc<Registry>,
}

#[async_trait]
impl Endpoint for Eviction {
    async fn serve(&self, request: Request) -> Result<Response, Status> {
        let mut posted = Posted::read(request, &self.pods.row, GvkRef::new("policy", "v1", "Eviction")).await?;
        let evicted = self.evict_posted(&mut posted).await;
        Ok(posted.answer(evicted.map(|()| done())))
    }
}

impl Eviction {
    async fn evict_posted(&self, posted: &mut Posted) -> Result<(), Status> {
        let name = posted.request.info.name.clone();
        posted.wipe();
        posted.track();
        posted.mutate(&self.pods, &self.pods.row, &name).await?;
        if Meta::of(&posted.document).name() != name {
            return Err(Status::bad_request("name in URL does not match name in Eviction object"));
        }
        if posted.document.at(&["deleteOptions", IGNORE_READ_ERROR]).and_then(Value::as_bool) == Some(true) {
            let path = format!("deleteOptions.{IGNORE_READ_ERROR}");
            let error =
                FieldError::invalid(path, true, "can not be set for pod eviction, try after removing the option");
            return Err(Status::invalid(&GroupKind::new("policy", "Eviction"), &name, vec![error]));
        }
        propagate_dry_run(posted)?;
        posted.validate(&self.pods, &self.pods.row, &name).await?;
        let namespace = &posted.request.info.namespace;
        let options = match delete_options(posted, self.pods.settings()) {
            Ok(options) => options,
            // Only the deletion minds what the options are: there must be something to delete.
            Err(invalid) => return Err(self.pods.get_value(namespace, &name).await.err().unwrap_or(invalid)),
        };
        self.evict(namespace, &name, &options).await
    }
}

/// Has the options of a deletion that do not say so ask for the dry run that the request asks for.
fn propagate_dry_run(posted: &mut Posted) -> Result<(), Status> {
    let asked = match posted.options.dry_run {
        true => vec![Value::from("All")],
        false => Vec::new(),
    };
    let Some(options) = posted.document.get("deleteOptions").filter(|options| !options.is_null()) else {
        return Ok(());
    };
    let own = options.get("dryRun").and_then(Value::as_array).unwrap_or_default().to_vec();
    if own.is_empty() && !asked.is_empty() {
        posted.document.set(&["deleteOptions", "dryRun"], asked);
    } else if !asked.is_empty() && own != asked {
        let own: Vec<&str> = own.iter().filter_map(Value::as_str).collect();
        let why = format!("Non-matching dry-run options in request and content: [All] and [{}]", own.join(" "));
        return Err(Status::unknown_error(why));
    }
    Ok(())
}

/// The options of the deletion: the document's, or else the request's dry run.
fn delete_options(posted: &Posted, settings: &RegistrySettings) -> Result<DeleteOptions, Status> {
    let body = posted.document.get("deleteOptions").cloned().unwrap_or_else(Value::object);
    let mut options = DeleteOptions::read(&posted.request, Some(body), settings.deletes_unreadable)?;
    options.dry_run |= posted.options.dry_run;
    Ok(options)
}

/// A step that found an object changed, and should be done again.
enum Attempt {
    Done,
    Again(Status),
}

impl Eviction {
    async fn evict(&self, namespace: &str, name: &str, options: &DeleteOptions) -> Result<(), Status> {
        let pinned = options.resource_version.is_some();
        let mut last = None;
        for _ in 0..MAX_ATTEMPTS {
            match self.evict_once(namespace, name, options).await? {
                Attempt::Done => return Ok(()),
                Attempt::Again(status) if pinned => return Err(status),
                Attempt::Again(status) => last = Some(status),
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(last.unwrap_or_else(|| Status::timeout("the pod changes too often to be evicted", 10)))
    }

    async fn evict_once(&self, namespace: &str, name: &str, options: &DeleteOptions) -> Result<Attempt, Status> {
        let pod = self.pods.get_value(namespace, name).await?;
        if is_free(&pod) {
            // A pending pod that starts meanwhile is covered by its budget after all.
            let options = if is_over(&pod) { options.clone() } else { pinned_to(&pod, options) };
            return match self.remove(namespace, name, &options).await {
                Ok(_) => Ok(Attempt::Done),
                Err(status) if status.is_conflict() && options.uid.is_none() => Ok(Attempt::Again(status)),
                Err(status) => Err(status),
            };
        }
        let budgets = self.budgets_of(namespace, &pod).await?;
        let budget = match budgets.as_slice() {
            [] => None,
            [budget] => Some(budget),
            _ => {
                let why =
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
                return Err(Status::unknown_error(why));
            }
        };
        let Some(budget) = budget else {
            self.remove(namespace, name, options).await?;
            return Ok(Attempt::Done);
        };
        let budget_name = Str::from(Meta::of(budget).name());
        if is_ready(&pod) || !spares_unready(budget) {
            self.disrupt(namespace, &budget_name, name, options.dry_run).await?;
            self.remove(namespace, name, options).await?;
            return Ok(Attempt::Done);
        }
        // The pod does not count as healthy, unless it becomes ready meanwhile.
        match self.remove(namespace, name, &pinned_to(&pod, options)).await {
            Err(status) if status.is_conflict() && options.resource_version.is_none() => {
                Err(still_processed(&budget_name))
            }
            done => done.map(|_| Attempt::Done),
        }
    }

    /// Deletes a pod that may go, with a note in its status that this is why.
    async fn remove(&self, namespace: &str, name: &str, options: &DeleteOptions) -> Result<(), Status> {
        let mut options = options.clone();
        if !options.dry_run {
            let checks = options.clone();
            let mark = |pod: &mut Value| {
                self.pods.check_preconditions(name, pod, &checks)?;
                let now = Timestamp::now().text(TimeForm::Seconds);
                let condition = object! {
                    "type" => "DisruptionTarget", "status" => "True", "lastProbeTime" => Value::Null,
                    "lastTransitionTime" => now, "reason" => "EvictionByEvictionAPI", "message" => "Eviction API: evicting",
                };
                conditions::put(pod, condition);
                Ok(())
            };
            let marked = self.pods.rewrite((namespace, name), &Preconditions::default(), false, mark).await?;
            if options.resource_version.is_some() {
                options.resource_version = scan::text(&marked.bytes, &["metadata", "resourceVersion"]).map(Str::from);
            }
        }
        self.pods.delete_admitted(namespace, name, &options).await.map(|_| ())
    }

    /// The budgets that cover a pod. One without a selector, or with one that cannot be read, covers nothing.
    async fn budgets_of(&self, namespace: &str, pod: &Value) -> Result<Vec<Value>, Status> {
        let read = self.budgets.cache().read(ReadAt::Latest).await;
        let snapshot = read.map_err(|e| generic_server::registry::read_error(&e))?;
        let mut covering = Vec::new();
        for entry in snapshot.range(&self.budgets.namespace_prefix(namespace), None) {
            let Some(object) = entry.object() else { continue };
            let budget = self.budgets.decode(object.bytes())?;
            let selector = budget.at(&["spec", "selector"]).map(LabelSelector::from_value);
            if let Some(Ok(selector)) = selector
                && selector.matches_object(pod)
            {
                covering.push(budget);
            }
        }
        Ok(covering)
    }

    /// Takes one of the disruptions that a budget allows.
    async fn disrupt(&self, namespace: &str, budget: &str, pod: &str, dry_run: bool) -> Result<(), Status> {
        if dry_run {
            return take_disruption(&mut self.budgets.get_value(namespace, budget).await?, pod);
        }
        let take = |budget: &Value| {
            let mut budget = budget.clone();
            take_disruption(&mut budget, pod)?;
            Ok(budget)
        };
        self.budgets.edit(namespace, budget, "status", take).await.map(|_| ())
    }
}

/// Whether budgets have no say: the pod does nothing yet, or nothing any more.
fn is_free(pod: &Value) -> bool {
    is_over(pod) || phase(pod) == "Pending"
}

fn is_over(pod: &Value) -> bool {
    Meta::of(pod).is_terminating() || matches!(phase(pod), "Succeeded" | "Failed")
}

fn phase(pod: &Value) -> &str {
    pod.str_at(&["status", "phase"]).unwrap_or_default()
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod.at(&["status", "conditions"]).and_then(Value::as_array).unwrap_or_default();
    conditions.iter().any(|c| c.str_at(&["type"]) == Some("Ready") && c.str_at(&["status"]) == Some("True"))
}

/// Whether a budget lets pods go that are not ready: always, or while there are enough others.
fn spares_unready(budget: &Value) -> bool {
    let (healthy, wanted) = (number(budget, "currentHealthy"), number(budget, "desiredHealthy"));
    budget.str_at(&["spec", "unhealthyPodEvictionPolicy"]) == Some("AlwaysAllow") || (healthy >= wanted && wanted > 0)
}

fn number(budget: &Value, member: &str) -> i64 {
    budget.at(&["status", member]).and_then(Value::as_i64).unwrap_or(0)
}

/// The options, for this state of the pod alone; a state that the client has named itself stays.
fn pinned_to(pod: &Value, options: &DeleteOptions) -> DeleteOptions {
    let mut options = options.clone();
    options.resource_version.get_or_insert_with(|| Meta::of(pod).resource_version().into());
    options
}

const REFUSAL: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

fn refusal(why: String, retry_after: i32) -> Status {
    let cause = Cause::new("DisruptionBudget", why);
    let details = Details { causes: vec![cause], retry_after_seconds: retry_after, ..Details::default() };
    Status::too_many_requests(REFUSAL, retry_after).with_details(details)
}

fn still_processed(budget: &str) -> Status {
    refusal(format!("The disruption budget {budget} is still being processed by the server."), 10)
}

/// Counts one more disruption in a budget's status, if there is one left.
fn take_disruption(budget: &mut Value, pod: &str) -> Result<(), Status> {
    let meta = Meta::of(budget);
    let (name, generation) = (Str::from(meta.name()), meta.generation());
    let forbidden = |why: &str| {
        let status = Status::forbidden(&GroupResource::new("policy", "poddisruptionbudget"), &name, why);
        let cause = format!("The disruption budget {name} does not allow evicting pods currently: {why}");
        Err(status.with_cause(Cause::new("DisruptionBudget", cause)))
    };
    let allowed = number(budget, "disruptionsAllowed");
    let disrupted = budget.at(&["status", "disruptedPods"]).and_then(Value::as_object).map_or(0, |map| map.len());
    if number(budget, "observedGeneration") < generation {
        return Err(still_processed(&name));
    }
    if allowed < 0 {
        return forbidden("pdb disruptions allowed is negative");
    }
    if disrupted > MAX_DISRUPTED_PODS {
        return forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
    }
    if allowed == 0 {
        return Err(refusal(why_none(budget), 0));
    }
    let now = Timestamp::now().text(TimeForm::Seconds);
    budget.set(&["status", "disruptionsAllowed"], allowed - 1);
    if allowed == 1 {
        let condition = object! {
            "type" => "DisruptionAllowed", "status" => "False", "observedGeneration" => generation,
            "lastTransitionTime" => now.as_str(), "reason" => "InsufficientPods", "message" => "",
        };
        conditions::put(budget, condition);
    }
    budget.set(&["status", "disruptedPods", pod], now);
    Ok(())
}

/// Why a budget allows nothing: its controller cannot tell, too few pods are healthy, or what the controller says else.
fn why_none(budget: &Value) -> String {
    let name = Meta::of(budget).name();
    let (wanted, healthy) = (number(budget, "desiredHealthy"), number(budget, "currentHealthy"));
    let said = conditions::get(budget, "DisruptionAllowed").filter(|c| c.str_at(&["status"]) == Some("False"));
    let said = said.map(|c| (c.str_at(&["reason"]).unwrap_or_default(), c.str_at(&["message"]).unwrap_or_default()));
    let none = format!("The disruption budget {name} does not allow evicting pods currently");
    match said.filter(|(_, message)| !message.is_empty()) {
        Some(("SyncFailed", message)) => format!("{none} because it failed sync: {message}"),
        _ if healthy <= wanted => {
            format!("The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently")
        }
        Some((reason, message)) => format!("{none} ({reason}): {message}"),
        None => none,
    }
}

#[cfg(test)]
mod tests {
    use machinery::array;

    use super::*;

    fn budget(allowed: i64, observed: i64) -> Value {
        object! {
            "metadata" => object! { "name" => "b", "generation" => 2 },
            "status" => object! {
                "observedGeneration" => observed, "disruptionsAllowed" => allowed,
                "desiredHealthy" => 3, "currentHealthy" => 4,
            },
        }
    }

    #[test]
    fn a_budget_is_spent_one_by_one() {
        let mut left = budget(2, 2);
        take_disruption(&mut left, "p").expect("two are left");
        assert_eq!(left.at(&["status", "conditions"]), None);
        take_disruption(&mut left, "q").expect("one is left");
        assert_eq!(number(&left, "disruptionsAllowed"), 0);
        assert_eq!(left.at(&["status", "disruptedPods"]).and_then(Value::as_object).map(|m| m.len()), Some(2));
        let conditions = left.at(&["status", "conditions"]).and_then(Value::as_array).expect("said so");
        assert_eq!(conditions[0].str_at(&["reason"]), Some("InsufficientPods"));
    }

    #[test]
    fn refusals_say_why_and_when_to_come_back() {
        let check = |mut budget: Value, code: u16, retry: Option<i32>, why: &str| {
            let status = take_disruption(&mut budget, "p").expect_err("refused");
            let cause = status.details.as_ref().and_then(|d| d.causes.first()).map(|c| c.message.clone());
            assert_eq!((status.code, status.retry_after()), (code, retry));
            assert!(cause.unwrap_or(status.message).contains(why), "{why}");
        };
        check(budget(0, 2), 429, None, "The disruption budget b does not allow evicting pods currently");
        let mut few = budget(0, 2);
        few.set(&["status", "currentHealthy"], 3);
        check(few, 429, None, "needs 3 healthy pods and has 3 currently");
        check(budget(5, 1), 429, Some(10), "still being processed");
        check(budget(-1, 2), 403, None, "negative");
        let mut failed = budget(0, 2);
        let condition =
            object! { "type" => "DisruptionAllowed", "status" => "False", "reason" => "SyncFailed", "message" => "m" };
        failed.set(&["status", "conditions"], array![condition]);
        check(failed, 429, None, "failed sync: m");
    }

    #[test]
    fn pods_that_are_not_ready_may_go_while_others_suffice() {
        let check = |healthy: i64, wanted: i64, policy: &str, expect: bool| {
            let budget = object! {
                "spec" => object! { "unhealthyPodEvictionPolicy" => policy },
                "status" => object! { "currentHealthy" => healthy, "desiredHealthy" => wanted },
            };
            assert_eq!(spares_unready(&budget), expect, "{healthy} {wanted} {policy}");
        };
        check(1, 1, "", true);
        check(0, 1, "IfHealthyBudget", false);
        check(0, 0, "", false);
        check(0, 1, "AlwaysAllow", true);
    }
}
