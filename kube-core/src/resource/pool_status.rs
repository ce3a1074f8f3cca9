//! ResourcePoolStatusRequests: a question about a driver's pools, which a controller answers once.

use generic_server::{
    printer::{Doc, NAME, NONE, Table, holds, integer, items, name, since, text, text_at},
    resource::WriteContext,
};
use machinery::{
    Value,
    meta::{field_error::FieldError, names, validation::validate_conditions},
};

use crate::{
    core::pods::validation::internal::shown,
    defaults::{pointer, within},
    strategy::{Rules, restore_metadata},
    validation::{
        Errors, Field,
        declared::{self, Rule, Type},
    },
};

/// The rules.
pub(super) const RULES: Rules = Rules::STATUS
    .returns_deleted()
    .conditional()
    .defaults(|request| within(request, "spec", |spec| pointer(spec, "limit", 100)))
    .status_alone()
    .status_update(|_, new, old| restore_metadata(new, old))
    .validate(|cx, new, errors| declared::check(cx, &REQUEST, new, None, errors))
    .validate_update(|cx, new, old, errors| declared::check(cx, &REQUEST, new, Some(old), errors))
    .validate_status(status);

/// An answer is given once.
fn status(cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let (status, before) = (new.at("status"), old.at("status"));
    if before.is_set() {
        if !status.same(&before) {
            status.invalid_as(shown("ResourcePoolStatusRequestStatus", status.value()), "field is immutable", errors);
        }
    } else if status.is_set() {
        let conditions = status.at("conditions");
        errors.extend(validate_conditions(conditions.items(), conditions.path()));
    }
    declared::check(cx, &REQUEST, new, Some(old), errors);
}

const REQUEST: Type = Type {
    name: "resource.v1alpha3.ResourcePoolStatusRequest",
    one_of: &[],
    members: &[("spec", &[Rule::Immutable, Rule::Part(&SPEC)]), ("status", &[Rule::Unset, Rule::Part(&STATUS)])],
};

const SPEC: Type = Type {
    name: "resource.v1alpha3.ResourcePoolStatusRequestSpec",
    one_of: &[],
    members: &[
        ("driver", &[Rule::Required, Rule::Text(names::caseless_dns1123_subdomain)]),
        ("poolName", &[Rule::Unset, Rule::Check(pool)]),
        ("limit", &[Rule::Set, Rule::Maximum(1000), Rule::Minimum(1)]),
    ],
};

const STATUS: Type = Type {
    name: "resource.v1alpha3.ResourcePoolStatusRequestStatus",
    one_of: &[],
    members: &[
        ("poolCount", &[Rule::Set, Rule::Minimum(0)]),
        ("pools", &[Rule::MaxItems(1000), Rule::Optional, Rule::Each(&POOL)]),
        ("conditions", &[Rule::MaxItems(10), Rule::Optional, Rule::Keyed("type", &CONDITION)]),
    ],
};

/// Conditions have rules of their own.
const CONDITION: Type = Type { name: "apimachinery.pkg.apis.meta.v1.Condition", one_of: &[], members: &[] };

const COUNT: &[Rule] = &[Rule::Unset, Rule::Minimum(0)];

const POOL: Type = Type {
    name: "resource.v1alpha3.PoolStatus",
    one_of: &[],
    members: &[
        ("driver", &[Rule::Required, Rule::Text(names::caseless_dns1123_subdomain)]),
        ("poolName", &[Rule::Required, Rule::Check(pool)]),
        ("generation", &[Rule::Required, Rule::Minimum(0)]),
        ("resourceSliceCount", &[Rule::Unset, Rule::Minimum(1)]),
        ("totalDevices", COUNT),
        ("allocatedDevices", COUNT),
        ("availableDevices", COUNT),
        ("unavailableDevices", COUNT),
        ("nodeName", &[Rule::Unset, Rule::Text(names::dns1123_subdomain)]),
        ("validationError", &[Rule::Unset, Rule::MaxBytes(256)]),
    ],
};

/// The name of a pool: subdomains between slashes.
fn pool(pool: &Field<'_>, errors: &mut Errors) {
    const MAX: usize = 253;
    if pool.text().len() > MAX {
        errors.push(FieldError::too_long(pool, MAX));
    }
    for (i, part) in pool.text().split('/').enumerate() {
        if part.is_empty() {
            pool.invalid_text(format!("segment {i}: must not be empty"), errors);
            continue;
        }
        for message in names::dns1123_subdomain(part) {
            pool.invalid_as(part, format!("segment {i}: {message}"), errors);
        }
    }
}

/// How many devices there are.
pub(super) const TABLE: Table = Table::new(
    &[
        NAME,
        text("Driver", Doc::Text("The driver to query pools for.")),
        text("Total", Doc::Text("Total number of devices across all pools.")),
        text("Available", Doc::Text("Number of available devices across all pools.")),
        text("Allocated", Doc::Text("Number of allocated devices across all pools.")),
        text("Unavailable", Doc::Text("Number of unavailable devices across all pools.")),
        text("Errors", Doc::Text("Number of pools with validation errors.")),
        integer("Pools", Doc::Text("Total number of matching pools.")),
        text("Status", Doc::Text("Processing status.")),
        text("Completed", Doc::Text("Time since the observation completed.")),
    ],
    cells,
);

fn cells(request: &Value, now: i64) -> Vec<Value> {
    let pools = items(request, &["status", "pools"]);
    let count = request.at(&["status", "poolCount"]).and_then(Value::as_i64).unwrap_or(0);
    let of = |kind| generic_server::printer::condition(request, kind);
    // The first condition that holds tells the state.
    let conditions = items(request, &["status", "conditions"]);
    let decided = conditions.iter().find(|c| c.str_at(&["status"]) == Some("True")).and_then(|c| c.str_at(&["type"]));
    let complete = decided == Some("Complete") && holds(request, "Complete");
    let failed = decided == Some("Failed");
    let answered = request.get("status").is_some_and(|status| !status.is_null()) && !failed;
    let sum = |member: &str| match answered {
        true => pools.iter().filter_map(|p| p.get(member)?.as_i64()).sum::<i64>().to_string(),
        false => "-".to_owned(),
    };
    let wrong = pools.iter().filter(|p| p.get("validationError").is_some_and(|e| !e.is_null())).count();
    let state = match (complete, failed) {
        (true, _) if count > pools.len() as i64 => format!("Complete ({}/{count} pools)", pools.len()),
        (true, _) => "Complete".to_owned(),
        (_, true) => "Failed".to_owned(),
        _ => "Pending".to_owned(),
    };
    let completed = of("Complete").filter(|_| complete).and_then(|c| c.str_at(&["lastTransitionTime"]));
    vec![
        name(request),
        text_at(request, &["spec", "driver"]),
        sum("totalDevices").into(),
        sum("availableDevices").into(),
        sum("allocatedDevices").into(),
        sum("unavailableDevices").into(),
        if answered { wrong.to_string() } else { "-".to_owned() }.into(),
        Value::Int(count),
        state.into(),
        completed.map_or_else(|| NONE.to_owned(), |time| since(Some(time), now)).into(),
    ]
}
