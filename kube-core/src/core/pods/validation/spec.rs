//! The spec of a pod, in upstream's order.

use machinery::{
    Value,
    meta::{field_error::FieldError, names, selector::validate_labels},
};

use super::{
    annotations, containers, env, internal, network, resources, scheduling,
    scope::{Scope, list},
    security, volumes, windows,
};
use crate::validation::{Errors, Field, Seen};

/// The longest that a pod may run, in seconds.
const MAX_DEADLINE: i64 = i32::MAX as i64;

/// What is wrong with the spec of a pod or of a template.
pub(super) fn spec(spec: &Field<'_>, scope: &mut Scope<'_>, errors: &mut Errors) {
    if !spec.at("terminationGracePeriodSeconds").is_set() {
        spec.at("terminationGracePeriodSeconds").required("", errors);
    }
    let fine = volumes::volumes(&spec.at("volumes"), scope, errors);
    scope.set_volumes(fine);
    let scope = &*scope;
    claims(&spec.at("resourceClaims"), scope, errors);
    containers::regular(&spec.at("containers"), scope, errors);
    containers::init(&spec.at("initContainers"), scope, errors);
    containers::ephemeral(&spec.at("ephemeralContainers"), scope, errors);
    resources::of_pod(&spec.at("resources"), scope, errors);
    network::host_network(spec, scope, errors);
    spec.at("restartPolicy").required_one_of(&["Always", "OnFailure", "Never"], errors);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    spec.at("dnsPolicy").required_one_of(&policies, errors);
    let selector = spec.at("nodeSelector");
    if let Some(labels) = selector.value().as_object() {
        errors.extend(validate_labels(labels, selector.path()));
    }
    security::pod(&spec.at("securityContext"), scope, errors);
    scheduling::affinity(&spec.at("affinity"), scope, errors);
    network::dns(&spec.at("dnsConfig"), spec.at("dnsPolicy").text(), errors);
    spec.at("readinessGates").each(|gate| gate.at("conditionType").check(names::qualified_name, errors));
    scheduling::gates(&spec.at("schedulingGates"), errors);
    scheduling::spread(&spec.at("topologySpreadConstraints"), scope, errors);
    windows::host_process(spec, scope, errors);
    security::host_users(spec, scope, errors);
    network::host_name(spec, scope, errors);
    names_of_others(spec, errors);
    scheduling::tolerations(&spec.at("tolerations"), scheduling::may_compare(scope, errors), errors);
    network::host_aliases(&spec.at("hostAliases"), errors);
    spec.at("priorityClassName").check_some(names::dns1123_subdomain, errors);
    let class = spec.at("runtimeClassName");
    if class.is_set() {
        class.check(names::dns1123_subdomain, errors);
    }
    let preemption = spec.at("preemptionPolicy");
    if preemption.is_set() {
        preemption.required_one_of(&["PreemptLowerPriority", "Never"], errors);
    }
    resources::overhead(&spec.at("overhead"), scope, errors);
    windows::os(spec, errors);
    scheduling_group(&spec.at("schedulingGroup"), errors);
    env::file_volumes(spec, errors);
}

fn names_of_others(spec: &Field<'_>, errors: &mut Errors) {
    spec.at("serviceAccountName").check_some(names::dns1123_subdomain, errors);
    spec.at("nodeName").check_some(names::dns1123_subdomain, errors);
    spec.at("activeDeadlineSeconds").check_some_int(|n| names::in_range(n, 1, MAX_DEADLINE), errors);
    spec.at("hostname").check_some(names::dns1123_label, errors);
    spec.at("subdomain").check_some(names::dns1123_label, errors);
}

fn scheduling_group(group: &Field<'_>, errors: &mut Errors) {
    if !group.is_set() {
        return;
    }
    let name = group.at("podGroupName");
    if name.is_set() {
        name.check(names::dns1123_subdomain, errors);
    } else {
        name.invalid("must specify one of: `podGroupName`", errors);
    }
}

fn claims(claims: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    let mut seen = Seen::default();
    claims.each_item(|claim, value| {
        if scope.is_mirror() {
            return errors.push(FieldError::forbidden("", "static pods do not support resource claims"));
        }
        let name = claim.at("name");
        let text = super::scope::name(value);
        if text.is_empty() {
            name.required("", errors);
        } else if seen.insert(text) {
            name.check(names::dns1123_label, errors);
        } else {
            name.duplicate(errors);
        }
        let (one, template) = (claim.at("resourceClaimName"), claim.at("resourceClaimTemplateName"));
        let detail = match (one.is_set(), template.is_set()) {
            (true, true) => Some("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"),
            (false, false) => Some("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
            _ => None,
        };
        if let Some(detail) = detail {
            claim.invalid_as(internal::shown("PodResourceClaim", value), detail, errors);
        }
        for reference in [one, template].iter().filter(|reference| reference.is_set()) {
            reference.check(names::dns1123_subdomain, errors);
        }
    });
}

/// What is asked of pods, and not of templates.
pub(super) fn only_pods(spec: &Field<'_>, errors: &mut Errors) {
    if spec.at("serviceAccountName").is_empty() {
        spec.at("volumes").each(|volume| {
            let projected = volume.at("projected");
            projected.at("sources").each(|source| {
                let detail = "must not be specified when serviceAccountName is not set";
                source.at("serviceAccountToken").forbid(detail, errors);
            });
        });
    }
    containers::images(&spec.at("containers"), errors);
    containers::images(&spec.at("initContainers"), errors);
}

/// What is asked of new pods alone.
pub(super) fn only_new_pods(pod: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    let spec = pod.at("spec");
    if !spec.at("ephemeralContainers").is_empty() {
        spec.at("ephemeralContainers").forbidden("cannot be set on create", errors);
    }
    if !spec.at("nodeName").is_empty() && !list(scope.spec, "schedulingGates").is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        spec.at("nodeName").forbidden(detail, errors);
    }
    annotations::match_fields(pod, scope, errors);
}

/// The spec of an object that may lack one.
pub(super) fn of(object: &Value) -> &Value {
    object.get("spec").unwrap_or(&Value::Null)
}
