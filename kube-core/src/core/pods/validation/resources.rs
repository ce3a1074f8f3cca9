//! Validates resources of containers and pods: requests, limits and claims.

use machinery::{
    Value,
    meta::{field_error::FieldError, names, quantity::Quantity},
};

use super::scope::{Scope, containers, list, name, text};
use crate::{
    core::pods::resources as totals,
    validation::{
        Errors, Field, Seen, amount, container_resource_name, is_huge_pages, may_be_overcommitted, resource_name,
    },
};

/// A container's resources.
pub(super) fn of_container(resources: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    requirements(resources, container_resource_name, scope, errors);
}

/// What a pod takes beside its containers. It is judged as if it were limits.
pub(super) fn overhead(overhead: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    let limits = overhead.at("limits");
    Requirements { limits: limits.with(overhead.value()), requests: overhead.at("requests").with(&Value::Null) }.check(
        overhead,
        container_resource_name,
        scope,
        errors,
    );
}

/// What pods of a class take beside their containers.
pub(crate) fn class_overhead(overhead: &Field<'_>, fixed: &Value, errors: &mut Errors) {
    let place = overhead.with(fixed);
    self::overhead(&place, &Scope::new(&Value::Null, None, None), errors);
}

/// The resources of all of a pod's containers together.
pub(super) fn of_pod(resources: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    if !resources.is_set() {
        return;
    }
    if scope.os() == Some("windows") {
        return resources.forbidden("may not be set for a windows pod", errors);
    }
    resources.at("claims").forbid("claims may not be set for Resources at pod-level", errors);
    requirements(resources, pod_resource, scope, errors);
    consistency(resources, scope, errors);
}

type NameCheck = fn(&Field<'_>, &str, &mut Errors);

const HUGE_PAGES: &str = "hugepages-";

fn requirements(resources: &Field<'_>, check_name: NameCheck, scope: &Scope<'_>, errors: &mut Errors) {
    if resources.is_empty() {
        return;
    }
    let parts = Requirements { limits: resources.at("limits"), requests: resources.at("requests") };
    parts.check(resources, check_name, scope, errors);
    claims(&resources.at("claims"), scope, errors);
}

struct Requirements<'a> {
    limits: Field<'a>,
    requests: Field<'a>,
}

impl Requirements<'_> {
    fn check(&self, holder: &Field<'_>, check_name: NameCheck, scope: &Scope<'_>, errors: &mut Errors) {
        let (mut huge, mut computes) = (false, false);
        let mut note = |name: &str| {
            huge |= is_huge_pages(name);
            computes |= matches!(name, "cpu" | "memory");
        };
        self.limits.each_key(|name, limit| {
            note(name);
            check_name(&limit, name, errors);
            let Ok(quantity) = Quantity::from_value(limit.value()) else { return };
            amount(&limit, name, &quantity, errors);
            pages(name, &quantity, &limit, scope, errors);
        });
        self.requests.each_key(|name, request| {
            note(name);
            check_name(&request, name, errors);
            let Ok(quantity) = Quantity::from_value(request.value()) else { return };
            amount(&request, name, &quantity, errors);
            self.against_limit(name, &quantity, errors);
            pages(name, &quantity, &request, scope, errors);
        });
        if huge && !computes {
            holder.forbidden("HugePages require cpu or memory", errors);
        }
    }

    fn against_limit(&self, name: &str, request: &Quantity, errors: &mut Errors) {
        let limit = self.limits.value().get(name).and_then(|v| Quantity::from_value(v).ok());
        let Some(limit) = limit else {
            if !may_be_overcommitted(name) {
                self.limits.required("Limit must be set for non overcommitable resources", errors);
            }
            return;
        };
        if *request != limit && !may_be_overcommitted(name) {
            let detail = format!("must be equal to {name} limit of {limit}");
            self.requests.invalid_as(request.text(), detail, errors);
        } else if *request > limit {
            let detail = format!("must be less than or equal to {name} limit of {limit}");
            self.requests.invalid_as(request.text(), detail, errors);
        }
    }
}

fn pages(name: &str, quantity: &Quantity, place: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    if is_huge_pages(name) && !is_whole_pages(name, quantity) && !scope.tolerates(has_broken_pages) {
        let detail = format!("{quantity} is not positive integer multiple of {name}");
        place.invalid_as(quantity.text(), detail, errors);
    }
}

fn is_whole_pages(name: &str, quantity: &Quantity) -> bool {
    let size = name.strip_prefix(HUGE_PAGES).and_then(|size| Quantity::parse(size).ok());
    size.is_some_and(|size| size.sign() > 0 && size.milli_value() % 1000 == 0 && quantity.value() % size.value() == 0)
}

/// Whether a spec asks for parts of huge pages.
fn has_broken_pages(spec: &Value) -> bool {
    let broken = |list: Option<&Value>| {
        list.and_then(Value::as_object).into_iter().flatten().any(|(name, v)| {
            is_huge_pages(name) && Quantity::from_value(v).is_ok_and(|quantity| !is_whole_pages(name, &quantity))
        })
    };
    containers(spec).any(|c| broken(c.at(&["resources", "limits"])) || broken(c.at(&["resources", "requests"])))
        || broken(spec.get("overhead"))
}

fn claims(claims: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    let (mut whole, mut parts, mut referenced) = (Seen::default(), Seen::default(), Seen::default());
    claims.each_item(|claim, value| {
        let (claim_name, request) = (name(value), text(value, "request"));
        if claim_name.is_empty() {
            return claim.required("", errors);
        }
        if whole.contains(claim_name) {
            claim.with(&claim_name.into()).duplicate(errors);
        } else if request.is_empty() {
            if referenced.contains(claim_name) {
                claim.with(&claim_name.into()).duplicate(errors);
            }
            whole.insert(claim_name);
        } else {
            claim.at("request").check(names::dns1123_label, errors);
            if !parts.insert((claim_name, request)) {
                claim.with(&format!("{claim_name}/{request}").into()).duplicate(errors);
            }
            referenced.insert(claim_name);
        }
        if scope.claims().binary_search(&claim_name).is_err() {
            errors.push(unknown_claim(&claim, claim_name, scope.claims()));
        }
    });
}

fn unknown_claim(claim: &Field<'_>, name: &str, known: &[&str]) -> FieldError {
    let mut error = FieldError::not_found(claim, name);
    error.detail = match known {
        [] => "must be one of the names in pod.spec.resourceClaims which is empty".to_owned(),
        known => format!("must be one of the names in pod.spec.resourceClaims: {}", known.join(", ")),
    };
    error
}

/// All containers together ask for no more than the pod, and no container may use more than the pod.
fn consistency(resources: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    let at_most = |sum: &Quantity, list: &Field<'_>, name: &str, what: &str, errors: &mut Errors| {
        let Some(own) = list.value().get(name).and_then(|v| Quantity::from_value(v).ok()) else { return };
        if *sum > own {
            let detail = format!("must be greater than or equal to aggregate container {what} of {sum}");
            list.key(name).invalid_as(own.text(), detail, errors);
        }
    };
    let (requests, limits) = (resources.at("requests"), resources.at("limits"));
    for (name, sum) in totals::container_requests(scope.spec) {
        at_most(&sum, &requests, &name, "requests", errors);
    }
    for (name, sum) in totals::container_limits(scope.spec).into_iter().filter(|(name, _)| is_huge_pages(name)) {
        at_most(&sum, &limits, &name, "limits", errors);
    }
    let place = resources.at("containers");
    for (i, container) in list(scope.spec, "containers").iter().enumerate() {
        let own = container.at(&["resources", "limits"]).and_then(Value::as_object);
        for (name, value) in own.into_iter().flatten() {
            let parse = |v| Quantity::from_value(v).ok();
            let (Some(limit), Some(most)) = (parse(value), limits.value().get(name).and_then(parse)) else { continue };
            if limit > most {
                let container = place.index(i);
                let resource = container.key(name);
                let detail = format!("must be less than or equal to pod limits of {most}");
                resource.at("limits").invalid_as(limit.text(), detail, errors);
            }
        }
    }
}

fn pod_resource(place: &Field<'_>, name: &str, errors: &mut Errors) {
    if resource_name(place, name, errors) && !totals::is_pod_level(name) {
        place.with(&name.into()).not_supported(&["cpu", HUGE_PAGES, "memory"], errors);
    }
}
