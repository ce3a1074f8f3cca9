//! Workloads and groups of pods: which pods are scheduled together, and under which rules.

use generic_server::{
    printer::{AGE, Doc, NAME, NONE, Table, age, condition, items, name, text},
    resource::WriteContext,
};
use machinery::{
    Value,
    meta::{names, validation::validate_conditions},
};

use crate::{
    defaults::{pointer, within},
    strategy::{Rules, restore_metadata},
    validation::{
        Errors, Field,
        declared::{self, Rule, Type},
    },
};

const TOPOLOGY: &str = "TopologyAwareWorkloadScheduling";
const PREEMPTION: &str = "WorkloadAwarePreemption";
/// The highest priority that a user may define.
const MAX_PRIORITY: i64 = 1_000_000_000;

/// The rules of workloads.
pub(super) const WORKLOADS: Rules = Rules::PLAIN
    .validate(|cx, new, errors| declared::check(cx, &WORKLOAD, new, None, errors))
    .validate_update(|cx, new, old, errors| declared::check(cx, &WORKLOAD, new, Some(old), errors));

/// The rules of groups of pods.
pub(super) const GROUPS: Rules = Rules::STATUS
    .defaults(|group| within(group, "spec", |spec| pointer(spec, "disruptionMode", "Pod")))
    .status_alone()
    .status_update(|_, new, old| restore_metadata(new, old))
    .validate(|cx, new, errors| declared::check(cx, &GROUP, new, None, errors))
    .validate_update(|cx, new, old, errors| declared::check(cx, &GROUP, new, Some(old), errors))
    .validate_status(status);

fn status(cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let status = new.at("status");
    let conditions = status.at("conditions");
    errors.extend(validate_conditions(conditions.items(), conditions.path()));
    let claims = new.at("spec");
    let claims = claims.at("resourceClaims");
    let is_claim = |name: &str| claims.items().iter().any(|claim| claim.str_at(&["name"]).unwrap_or("") == name);
    status.at("resourceClaimStatuses").each(|claim| {
        let name = claim.at("name");
        if !is_claim(name.text()) {
            name.invalid_text("must match the name of an entry in `spec.resourceClaims`", errors);
        }
    });
    declared::check(cx, &GROUP, new, Some(old), errors);
}

const WORKLOAD: Type =
    Type { name: "scheduling.v1alpha2.Workload", one_of: &[], members: &[("spec", &[Rule::Part(&WORKLOAD_SPEC)])] };

const WORKLOAD_SPEC: Type = Type {
    name: "scheduling.v1alpha2.WorkloadSpec",
    one_of: &[],
    members: &[
        ("controllerRef", &[Rule::Immutable, Rule::Unset, Rule::Part(&REFERENCE)]),
        ("podGroupTemplates", &[Rule::Immutable, Rule::MaxItems(8), Rule::Required, Rule::Keyed("name", &TEMPLATE)]),
    ],
};

const REFERENCE: Type = Type {
    name: "scheduling.v1alpha2.TypedLocalObjectReference",
    one_of: &[],
    members: &[
        ("apiGroup", &[Rule::Optional, Rule::Text(names::dns1123_subdomain)]),
        ("kind", &[Rule::Required, Rule::Text(names::path_segment_name)]),
        ("name", &[Rule::Required, Rule::Text(names::path_segment_name)]),
    ],
};

const TEMPLATE: Type = Type {
    name: "scheduling.v1alpha2.PodGroupTemplate",
    one_of: &[],
    members: &[
        ("name", &[Rule::Required, Rule::Text(names::dns1123_label)]),
        ("schedulingPolicy", &[Rule::Part(&POLICY)]),
        (
            "schedulingConstraints",
            &[Rule::Gate(TOPOLOGY, &[Rule::Unset], &[Rule::Forbidden]), Rule::Part(&CONSTRAINTS)],
        ),
        ("resourceClaims", CLAIMS),
        ("disruptionMode", &[Rule::Gate(PREEMPTION, &[Rule::Unset], &[Rule::Forbidden]), MODES]),
        (
            "priorityClassName",
            &[Rule::Gate(PREEMPTION, &[Rule::Optional, Rule::Text(names::dns1123_subdomain)], &[Rule::Forbidden])],
        ),
        ("priority", &[Rule::Gate(PREEMPTION, &[Rule::Unset, HIGHEST, LOWEST], &[Rule::Forbidden])]),
    ],
};

const MODES: Rule = Rule::OneOf(&["Pod", "PodGroup"]);
const HIGHEST: Rule = Rule::Maximum(MAX_PRIORITY);
const LOWEST: Rule = Rule::Minimum(i32::MIN as i64);
const CLAIMS: &[Rule] = &[Rule::Immutable, Rule::MaxItems(4), Rule::Optional, Rule::Keyed("name", &CLAIM)];

const POLICY: Type = Type {
    name: "scheduling.v1alpha2.PodGroupSchedulingPolicy",
    one_of: &["basic", "gang"],
    members: &[("gang", &[Rule::Unset, Rule::Part(&GANG)])],
};

const GANG: Type = Type {
    name: "scheduling.v1alpha2.GangSchedulingPolicy",
    one_of: &[],
    members: &[("minCount", &[Rule::Required, Rule::Minimum(1)])],
};

const CONSTRAINTS: Type = Type {
    name: "scheduling.v1alpha2.PodGroupSchedulingConstraints",
    one_of: &[],
    members: &[("topology", &[Rule::MaxItems(1), Rule::Optional, Rule::Each(&TOPOLOGY_CONSTRAINT)])],
};

const TOPOLOGY_CONSTRAINT: Type = Type {
    name: "scheduling.v1alpha2.TopologyConstraint",
    one_of: &[],
    members: &[("key", &[Rule::Required, Rule::Text(names::qualified_name)])],
};

const CLAIM: Type = Type {
    name: "scheduling.v1alpha2.PodGroupResourceClaim",
    one_of: &["resourceClaimName", "resourceClaimTemplateName"],
    members: &[
        ("name", &[Rule::Required, Rule::Text(names::dns1123_label)]),
        ("resourceClaimName", &[Rule::Unset, Rule::Text(names::dns1123_subdomain)]),
        ("resourceClaimTemplateName", &[Rule::Unset, Rule::Text(names::dns1123_subdomain)]),
    ],
};

const GROUP: Type = Type {
    name: "scheduling.v1alpha2.PodGroup",
    one_of: &[],
    members: &[("spec", &[Rule::Part(&GROUP_SPEC)]), ("status", &[Rule::Part(&GROUP_STATUS)])],
};

const GROUP_SPEC: Type = Type {
    name: "scheduling.v1alpha2.PodGroupSpec",
    one_of: &[],
    members: &[
        ("podGroupTemplateRef", &[Rule::Immutable, Rule::Unset, Rule::Part(&TEMPLATE_REFERENCE)]),
        ("schedulingPolicy", &[Rule::Immutable, Rule::Part(&POLICY)]),
        (
            "schedulingConstraints",
            &[Rule::Gate(TOPOLOGY, &[Rule::Unset, Rule::Immutable], &[Rule::Forbidden]), Rule::Part(&CONSTRAINTS)],
        ),
        ("resourceClaims", CLAIMS),
        ("disruptionMode", &[Rule::Gate(PREEMPTION, &[Rule::Set, Rule::Immutable], &[Rule::Forbidden]), MODES]),
        (
            "priorityClassName",
            &[Rule::Gate(
                PREEMPTION,
                &[Rule::Optional, Rule::Immutable, Rule::Text(names::dns1123_subdomain)],
                &[Rule::Forbidden],
            )],
        ),
        ("priority", &[Rule::Gate(PREEMPTION, &[Rule::Unset, Rule::Immutable, HIGHEST, LOWEST], &[Rule::Forbidden])]),
    ],
};

const TEMPLATE_REFERENCE: Type = Type {
    name: "scheduling.v1alpha2.PodGroupTemplateReference",
    one_of: &["workload"],
    members: &[("workload", &[Rule::Unset, Rule::Part(&WORKLOAD_REFERENCE)])],
};

const WORKLOAD_REFERENCE: Type = Type {
    name: "scheduling.v1alpha2.WorkloadPodGroupTemplateReference",
    one_of: &[],
    members: &[
        ("workloadName", &[Rule::Required, Rule::Text(names::dns1123_subdomain)]),
        ("podGroupTemplateName", &[Rule::Required, Rule::Text(names::dns1123_label)]),
    ],
};

const GROUP_STATUS: Type = Type {
    name: "scheduling.v1alpha2.PodGroupStatus",
    one_of: &[],
    members: &[("resourceClaimStatuses", &[Rule::MaxItems(4), Rule::Optional, Rule::Keyed("name", &CLAIM_STATUS)])],
};

const CLAIM_STATUS: Type = Type {
    name: "scheduling.v1alpha2.PodGroupResourceClaimStatus",
    one_of: &[],
    members: &[("resourceClaimName", &[Rule::Unset, Rule::Text(names::dns1123_subdomain)])],
};

/// Workloads.
pub(super) const WORKLOAD_TABLE: Table =
    Table::new(&[NAME, AGE], |workload, now| vec![name(workload), age(workload, now)]);

/// Groups, and whether they run.
pub(super) const GROUP_TABLE: Table = Table::new(
    &[
        NAME,
        text("Policy", Doc::Of("scheduling.v1alpha2.PodGroupSpec", "schedulingPolicy")),
        text("Workload", Doc::Text("Name of the referenced Workload object")),
        text("Status", Doc::Text("Status of the PodGroup")),
        AGE,
    ],
    |group, now| {
        let is_gang = group.at(&["spec", "schedulingPolicy", "gang"]).is_some_and(|gang| !gang.is_null());
        let workload = group.str_at(&["spec", "podGroupTemplateRef", "workload", "workloadName"]);
        vec![
            name(group),
            if is_gang { "Gang" } else { "Basic" }.into(),
            workload.unwrap_or(NONE).into(),
            state(group).into(),
            age(group, now),
        ]
    },
);

/// Of equal conditions the last one counts.
fn state(group: &Value) -> String {
    let last = |kind: &str| items(group, &["status", "conditions"]).iter().rfind(|c| c.str_at(&["type"]) == Some(kind));
    if condition(group, "DisruptionTarget").is_some() {
        return last("DisruptionTarget").and_then(|c| c.str_at(&["reason"])).unwrap_or_default().to_owned();
    }
    match last("PodGroupScheduled").map(|c| c.str_at(&["status"]) == Some("True")) {
        Some(true) => "Scheduled",
        Some(false) => "Unschedulable",
        None => "Pending",
    }
    .to_owned()
}
