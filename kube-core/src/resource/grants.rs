//! What writing a claim takes beyond the right to write: admin access wants a namespace that is labelled for it; who allocates
//! and who reports on devices each have a permission of their own.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use async_trait::async_trait;
use auth::authorize_info;
use auth::{Authorizer, User, service_account_of_name};
use generic_server::registry::{Consult, Judged, Lister};
use machinery::{
    Value,
    meta::{field_error::FieldError, names},
    request::{RequestInfo, resource_info},
};

use super::identity::DeviceId;

/// The label of namespaces whose claims may ask for admin access.
const ADMIN_LABEL: &str = "resource.kubernetes.io/admin-access";
/// Where a token that is bound to a node says so.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// The rules, of claims and of their templates.
pub(crate) struct Grants {
    /// The namespaces.
    pub(crate) namespaces: Arc<Lister>,
    /// Who may do what.
    pub(crate) authorizer: Arc<dyn Authorizer>,
    /// Where the devices are that are asked for.
    pub(crate) devices: &'static [&'static str],
    /// Whether parts of the status have permissions of their own (DRAResourceClaimGranularStatusAuthorization).
    pub(crate) is_granular: bool,
}

#[async_trait]
impl Consult for Grants {
    async fn findings(&self, write: Judged<'_>, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        match (old, write.subresource) {
            (None, _) => self.admin_request(&write, new).into_iter().collect(),
            (Some(old), "status") => self.status(&write, new, old).await,
            _ => Vec::new(),
        }
    }
}

impl Grants {
    /// A claim asks for admin access: the first request that does is told.
    fn admin_request(&self, write: &Judged<'_>, object: &Value) -> Option<FieldError> {
        let requests = object.at(self.devices)?.get("requests")?.as_array()?;
        let admin = |r: &Value| r.at(&["exactly", "adminAccess"]).and_then(Value::as_bool) == Some(true);
        let place = requests.iter().position(admin)?;
        self.admin(write.namespace, format!("spec.devices.requests[{place}].adminAccess"))
    }

    async fn status(&self, write: &Judged<'_>, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if admin_result(old).is_none()
            && let Some(place) = admin_result(new)
        {
            errors
                .extend(self.admin(write.namespace, format!("status.allocation.devices.results[{place}].adminAccess")));
        }
        if self.is_granular {
            errors.extend(self.binding(write, new, old).await);
            errors.extend(self.reports(write, new, old).await);
        }
        errors
    }

    /// The namespace lacks the label.
    fn admin(&self, namespace: &str, field: String) -> Option<FieldError> {
        let snapshot = self.namespaces.cache().latest();
        let found = snapshot.get(&self.namespaces.key("", namespace)).and_then(|entry| entry.object().cloned());
        let Some(found) = found.and_then(|object| self.namespaces.decode(object.bytes()).ok()) else {
            let why =
                format!("could not retrieve namespace to verify admin access: namespaces {namespace:?} not found");
            return Some(FieldError::internal(field, why));
        };
        let labelled = found.str_at(&["metadata", "labels", ADMIN_LABEL]) == Some("true");
        let detail =
            format!("admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace");
        (!labelled).then(|| FieldError::forbidden(field, detail))
    }

    /// Whoever allocates and reserves may bind claims, of all namespaces.
    async fn binding(&self, write: &Judged<'_>, new: &Value, old: &Value) -> Option<FieldError> {
        let changed = |member: &str| {
            let of = |claim: &Value| claim.at(&["status", member]).cloned().unwrap_or(Value::Null);
            !of(new).semantic_eq(&of(old))
        };
        if !changed("allocation") && !changed("reservedFor") {
            return None;
        }
        let verb = write.verb.name();
        let info = RequestInfo { subresource: "binding".into(), ..resource_info(verb, GROUP, VERSION, CLAIMS) };
        let refusal = authorize_info(&*self.authorizer, &info, write.user).await.err()?;
        let detail = format!(
            "changing status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\", \
             verb=\"{verb}\" permission: {}",
            refusal.message
        );
        Some(FieldError::forbidden("status", detail))
    }

    /// Whoever reports on a driver's devices may speak for the driver: from the node that has them, or from anywhere.
    async fn reports(&self, write: &Judged<'_>, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut verbs = vec![format!("arbitrary-node:{}", write.verb.name())];
        if allocated_node(new).is_some_and(|node| is_on(write.user, node)) {
            verbs.insert(0, format!("associated-node:{}", write.verb.name()));
        }
        let mut errors = Vec::new();
        for driver in changed_drivers(new, old) {
            if let Some(why) = self.refusal(write, &verbs, driver).await {
                let detail = format!(
                    "changing status.devices requires resource=\"resourceclaims/driver\", verb=\"[{}]\" permission: {why}",
                    verbs.join(" ")
                );
                errors.push(FieldError::forbidden("status.devices", detail));
            }
        }
        errors
    }

    /// Why none of the verbs is allowed, if none is.
    async fn refusal(&self, write: &Judged<'_>, verbs: &[String], driver: &str) -> Option<String> {
        let mut first = None;
        for verb in verbs {
            let info = RequestInfo {
                subresource: "driver".into(),
                namespace: write.namespace.into(),
                name: driver.into(),
                ..resource_info(verb, GROUP, VERSION, CLAIMS)
            };
            match authorize_info(&*self.authorizer, &info, write.user).await {
                Ok(()) => return None,
                Err(refusal) => first.get_or_insert(refusal.message),
            };
        }
        first.map(|message| message.to_string())
    }
}

const GROUP: &str = "resource.k8s.io";
const VERSION: &str = "v1";
const CLAIMS: &str = "resourceclaims";

/// The first result that grants admin access.
fn admin_result(claim: &Value) -> Option<usize> {
    let results = claim.at(&["status", "allocation", "devices", "results"])?.as_array()?;
    results.iter().position(|result| result.get("adminAccess").and_then(Value::as_bool) == Some(true))
}

/// The drivers whose reports an update adds, changes or takes away.
fn changed_drivers<'a>(new: &'a Value, old: &'a Value) -> BTreeSet<&'a str> {
    fn reports(claim: &Value) -> &[Value] {
        claim.at(&["status", "devices"]).and_then(Value::as_array).unwrap_or_default()
    }
    let mut before: HashMap<DeviceId<'_>, &Value> = reports(old).iter().map(|r| (DeviceId::of(r), r)).collect();
    let mut drivers = BTreeSet::new();
    for report in reports(new) {
        let id = DeviceId::of(report);
        if !before.remove(&id).is_some_and(|before| before.semantic_eq(report)) {
            drivers.insert(id.driver);
        }
    }
    drivers.extend(before.keys().map(|id| id.driver));
    drivers
}

/// The one node that a claim's devices can be used on.
fn allocated_node(claim: &Value) -> Option<&str> {
    let terms = claim.at(&["status", "allocation", "nodeSelector", "nodeSelectorTerms"])?.as_array()?;
    let [term] = terms else { return None };
    let list = |member: &str| term.get(member).and_then(Value::as_array).unwrap_or_default();
    let ([], [field]) = (list("matchExpressions"), list("matchFields")) else { return None };
    let [name] = field.get("values")?.as_array()? else { return None };
    let by_name = field.str_at(&["key"]) == Some("metadata.name") && field.str_at(&["operator"]) == Some("In");
    name.as_str().filter(|name| by_name && !name.is_empty())
}

/// Whether the user is a service account whose token is bound to the node.
fn is_on(user: &User, node: &str) -> bool {
    let bound = user.extra.iter().find(|(key, _)| key == NODE_NAME).map(|(_, values)| values.as_slice());
    let Some([name]) = bound else { return false };
    service_account_of_name(&user.name).is_some() && names::dns1123_subdomain(name).is_empty() && name == node
}

#[cfg(test)]
mod tests {
    use machinery::{array, object};

    use super::*;

    #[test]
    fn a_claim_is_on_a_node_when_its_selector_names_that_alone() {
        let claim = |term: Value| {
            let selector = object! { "nodeSelectorTerms" => array![term] };
            object! { "status" => object! { "allocation" => object! { "nodeSelector" => selector } } }
        };
        let by = |key: &str, values: Value| array![object! { "key" => key, "operator" => "In", "values" => values }];
        let check = |term: Value, expect: Option<&str>| assert_eq!(allocated_node(&claim(term)), expect);
        check(object! { "matchFields" => by("metadata.name", array!["n"]) }, Some("n"));
        check(object! { "matchFields" => by("metadata.name", array!["n", "m"]) }, None);
        check(object! { "matchExpressions" => by("x", array!["n"]) }, None);
        assert_eq!(allocated_node(&object! {}), None);
    }

    #[test]
    fn a_service_account_is_on_the_node_that_its_token_is_bound_to() {
        let user = |name: &str, node: &str| User {
            name: name.into(),
            extra: vec![(NODE_NAME.into(), vec![node.into()])],
            ..User::default()
        };
        assert!(is_on(&user("system:serviceaccount:n:driver", "node-1"), "node-1"));
        assert!(!is_on(&user("system:serviceaccount:n:driver", "node-2"), "node-1"));
        assert!(!is_on(&user("jane", "node-1"), "node-1"));
    }

    #[test]
    fn drivers_answer_for_reports_that_come_change_or_go() {
        let report = |driver: &str, device: &str, data: i64| {
            object! { "driver" => driver, "pool" => "p", "device" => device, "data" => object! { "x" => data } }
        };
        let claim = |devices: Value| object! { "status" => object! { "devices" => devices } };
        let old = claim(array![report("a", "1", 1), report("b", "1", 1), report("c", "1", 1)]);
        let new = claim(array![report("a", "1", 1), report("b", "1", 2), report("d", "1", 1)]);
        assert_eq!(changed_drivers(&new, &old).into_iter().collect::<Vec<_>>(), ["b", "c", "d"]);
    }
}
