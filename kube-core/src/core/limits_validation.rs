//! Validates v1 LimitRanges and ResourceQuotas.

use std::collections::{BTreeSet, HashSet};

use generic_server::resource::WriteContext;
use machinery::meta::{
    Quantity, names,
    quantity::{Format, MILLI},
};

use crate::validation::{
    Errors, Field, Go, Member, container_resource_name, is_quota_resource, may_be_overcommitted, quota_resource_name,
    resource_amount, resource_name, shown,
};

type Cx<'a> = WriteContext<'a>;

/// What limit ranges of the project's own are about.
const LIMIT_TYPES: &[&str] = &["Pod", "Container", "PersistentVolumeClaim"];

/// Limit ranges.
pub(super) fn limit_range(_cx: &Cx<'_>, range: &Field<'_>, errors: &mut Errors) {
    let spec = range.at("spec");
    let limits = spec.at("limits");
    let mut seen = HashSet::new();
    for (i, item) in limits.items().iter().enumerate() {
        let limit = limits.index(i);
        let kind = item.str_at(&["type"]).unwrap_or_default();
        limit_type(&limit.at("type"), errors);
        if !seen.insert(kind) {
            limit.at("type").duplicate(errors);
        }
        limit_item(&limit, kind, errors);
    }
}

fn limit_type(kind: &Field<'_>, errors: &mut Errors) {
    let before = errors.len();
    kind.check(names::qualified_name, errors);
    let text = kind.text();
    if errors.len() == before && !text.contains('/') && !LIMIT_TYPES.contains(&text) {
        kind.invalid("must be a standard limit type or fully qualified", errors);
    }
}

fn limit_item(limit: &Field<'_>, kind: &str, errors: &mut Errors) {
    let mut keys: BTreeSet<&str> = BTreeSet::new();
    fn entries<'k>(list: &Field<'_>, keys: &mut BTreeSet<&'k str>, kind: &str, errors: &mut Errors, names: &[&'k str]) {
        for name in names {
            let entry = list.key(name);
            if matches!(kind, "Pod" | "Container") {
                container_resource_name(&entry, name, errors);
            } else {
                resource_name(&entry, name, errors);
            }
            keys.insert(name);
        }
    }
    let names_of = |member: &'static str| -> Vec<&str> { limit.at(member).keys().collect() };
    for member in ["max", "min"] {
        entries(&limit.at(member), &mut keys, kind, errors, &names_of(member));
    }
    for member in ["default", "defaultRequest"] {
        let list = limit.at(member);
        if kind != "Pod" {
            entries(&list, &mut keys, kind, errors, &names_of(member));
        } else if !list.is_empty() {
            list.forbidden("may not be specified when `type` is 'Pod'", errors);
        }
    }
    let storage = |member: &str| limit.at(member).key("storage").is_set();
    if kind == "PersistentVolumeClaim" && !storage("min") && !storage("max") {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        limit.at("limits").required(detail, errors);
    }
    let ratios = "maxLimitRequestRatio";
    entries(&limit.at(ratios), &mut keys, kind, errors, &names_of(ratios));
    for key in keys {
        limit_of_resource(limit, kind, key, errors);
    }
}

/// The amounts that a limit range has for one resource.
struct Amounts {
    min: Option<Quantity>,
    max: Option<Quantity>,
    default: Option<Quantity>,
    request: Option<Quantity>,
    ratio: Option<Quantity>,
}

/// Whether both are there and the first one is greater.
fn exceeds<'a>(one: &'a Option<Quantity>, other: &'a Option<Quantity>) -> Option<(&'a Quantity, &'a Quantity)> {
    one.as_ref().zip(other.as_ref()).filter(|(one, other)| one > other)
}

fn limit_of_resource(limit: &Field<'_>, kind: &str, key: &str, errors: &mut Errors) {
    let amount = |member: &str| {
        let list = limit.at(member);
        let entry = list.key(key);
        entry.is_set().then(|| entry.quantity())
    };
    let (default, request) = if kind == "Pod" { (None, None) } else { (amount("default"), amount("defaultRequest")) };
    let amounts =
        Amounts { min: amount("min"), max: amount("max"), default, request, ratio: amount("maxLimitRequestRatio") };
    let mut report = |member: &str, value: &Quantity, detail: String| {
        limit.at(member).key(key).invalid_as(value.text(), detail, errors);
    };
    let Amounts { min, max, default, request, ratio } = &amounts;
    if let Some((min, max)) = exceeds(min, max) {
        report("min", min, format!("min value {min} is greater than max value {max}"));
    }
    if let Some((min, request)) = exceeds(min, request) {
        report("defaultRequest", request, format!("min value {min} is greater than default request value {request}"));
    }
    if let Some((request, max)) = exceeds(request, max) {
        report("defaultRequest", request, format!("default request value {request} is greater than max value {max}"));
    }
    if let Some((request, default)) = exceeds(request, default) {
        let detail = format!("default request value {request} is greater than default limit value {default}");
        report("defaultRequest", request, detail);
    }
    // Of these two upstream shows the other bound.
    if let Some((min, default)) = exceeds(min, default) {
        report("default", min, format!("min value {min} is greater than default value {default}"));
    }
    if let Some((default, max)) = exceeds(default, max) {
        report("default", max, format!("default value {default} is greater than max value {max}"));
    }
    if let Some(ratio) = ratio {
        if *ratio < Quantity::new(1, Format::DecimalSI) {
            report("maxLimitRequestRatio", ratio, format!("ratio {ratio} is less than 1"));
        }
        if let (Some(min), Some(max)) = (min, max) {
            let widest = max.scaled(MILLI) as f64 / min.scaled(MILLI) as f64;
            if ratio.scaled(MILLI) as f64 / 1000.0 > widest {
                let detail = format!("ratio {ratio} is greater than max/min = {widest:.6}");
                report("maxLimitRequestRatio", ratio, detail);
            }
        }
    }
    if let (false, Some(default), Some(request)) = (may_be_overcommitted(key), default, request)
        && default != request
    {
        let detail = format!("default value {default} must equal to defaultRequest value {request} in {key}");
        report("defaultRequest", request, detail);
    }
}

/// Scopes, with the resources that they can be about; none: any.
const SCOPES: &[(&str, &[&[&str]])] = &[
    ("Terminating", &[POD_COUNT, POD_COMPUTE]),
    ("NotTerminating", &[POD_COUNT, POD_COMPUTE]),
    ("BestEffort", &[POD_COUNT]),
    ("NotBestEffort", &[POD_COUNT, POD_COMPUTE]),
    ("PriorityClass", &[POD_COUNT, POD_COMPUTE]),
    ("CrossNamespacePodAffinity", &[POD_COUNT, POD_COMPUTE]),
    ("VolumeAttributesClass", &[CLAIMS]),
];
const POD_COUNT: &[&str] = &["pods"];
const POD_COMPUTE: &[&str] = &["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
const CLAIMS: &[&str] = &["persistentvolumeclaims", "requests.storage"];

/// Scopes that only a selector with `Exists` can name.
const BARE_SCOPES: &[&str] =
    &["Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "CrossNamespacePodAffinity"];

/// Scopes that exclude each other.
const CONFLICTS: &[[&str; 2]] = &[["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];

const REQUIREMENT: &[Member] = &[
    Member("ScopeName", "scopeName", Go::Text),
    Member("Operator", "operator", Go::Text),
    Member("Values", "values", Go::Plain),
];
const SCOPE_SELECTOR: &[Member] = &[Member("MatchExpressions", "matchExpressions", Go::List(REQUIREMENT))];

/// Quotas.
pub(super) fn quota(_cx: &Cx<'_>, quota: &Field<'_>, errors: &mut Errors) {
    let spec = quota.at("spec");
    amounts(&spec.at("hard"), errors);
    let hard = spec.at("hard");
    let counted: Vec<&str> = hard.keys().filter(|name| is_quota_resource(name)).collect();
    scopes(&spec.at("scopes"), &counted, errors);
    if spec.at("scopeSelector").is_set() {
        scope_selector(&spec, &counted, errors);
    }
}

fn amounts(list: &Field<'_>, errors: &mut Errors) {
    list.each_key(|name, entry| {
        quota_resource_name(&entry, name, errors);
        resource_amount(&entry, name, errors);
    });
}

fn fits(scope: &str, resource: &str) -> bool {
    let resources = SCOPES.iter().find(|(name, _)| *name == scope);
    resources.is_none_or(|(_, lists)| lists.iter().any(|list| list.contains(&resource)))
}

fn scopes(scopes: &Field<'_>, counted: &[&str], errors: &mut Errors) {
    let named: Vec<&str> = scopes.items().iter().filter_map(|scope| scope.as_str()).collect();
    for scope in &named {
        if !SCOPES.iter().any(|(name, _)| name == scope) {
            scopes.invalid("unsupported scope", errors);
        }
        for _ in counted.iter().filter(|resource| !fits(scope, resource)) {
            scopes.invalid("unsupported scope applied to resource", errors);
        }
    }
    for _ in CONFLICTS.iter().filter(|pair| pair.iter().all(|scope| named.contains(scope))) {
        scopes.invalid("conflicting scopes", errors);
    }
}

fn scope_selector(spec: &Field<'_>, counted: &[&str], errors: &mut Errors) {
    let selector = spec.at("scopeSelector");
    let at = selector.at("matchExpressions");
    let mut named = Vec::new();
    for item in at.items() {
        let expression = at.with(item);
        let (scope, operator, values) =
            (expression.at("scopeName"), expression.at("operator"), expression.at("values"));
        if !SCOPES.iter().any(|(name, _)| *name == scope.text()) {
            scope.invalid("unsupported scope", errors);
        }
        for _ in counted.iter().filter(|resource| !fits(scope.text(), resource)) {
            at.invalid_as(shown(selector.value(), SCOPE_SELECTOR), "unsupported scope applied to resource", errors);
        }
        if BARE_SCOPES.contains(&scope.text()) && operator.text() != "Exists" {
            operator.invalid(
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, \
                 ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
                 ResourceQuotaScopeCrossNamespacePodAffinity",
                errors,
            );
        }
        match operator.text() {
            "In" | "NotIn" if values.is_empty() => values
                .required("must be at least one value when `operator` is 'In' or 'NotIn' for scope selector", errors),
            "Exists" | "DoesNotExist" if !values.is_empty() => values
                .invalid("must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector", errors),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => operator.invalid("not a valid selector operator", errors),
        }
        named.push(item.str_at(&["scopeName"]).unwrap_or_default());
    }
    for _ in CONFLICTS.iter().filter(|pair| pair.iter().all(|scope| named.contains(scope))) {
        at.invalid_as(spec.at("scopes").value(), "conflicting scopes", errors);
    }
}

pub(super) fn quota_update(cx: &Cx<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    quota(cx, new, errors);
    let (spec, old) = (new.at("spec"), old.at("spec"));
    let scopes = |spec: &Field<'_>| -> BTreeSet<String> {
        spec.at("scopes").items().iter().filter_map(|s| s.as_str()).map(str::to_owned).collect()
    };
    if scopes(&spec) != scopes(&old) {
        spec.at("scopes").invalid("field is immutable", errors);
    }
}

pub(super) fn quota_status(_cx: &Cx<'_>, new: &Field<'_>, _old: &Field<'_>, errors: &mut Errors) {
    let status = new.at("status");
    amounts(&status.at("hard"), errors);
    amounts(&status.at("used"), errors);
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    fn check(rule: fn(&Cx<'_>, &Field<'_>, &mut Errors), text: &str, expect: &[&str]) {
        let value = json::decode(text.as_bytes()).expect("valid JSON");
        let cx = WriteContext {
            group: "",
            version: "v1",
            namespace: "n",
            subresource: "",
            user: &auth::User::default(),
            features: &Default::default(),
        };
        let mut errors = Errors::default();
        rule(&cx, &Field::root(&value), &mut errors);
        let texts: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
        assert_eq!(texts, expect, "{text}");
    }

    #[test]
    fn amounts_of_a_limit_fit_each_other() {
        check(limit_range, r#"{"spec":{"limits":[{"type":"Pod","max":{"cpu":"2"},"min":{"cpu":"1"}}]}}"#, &[]);
        check(
            limit_range,
            r#"{"spec":{"limits":[{"type":"Container","max":{"cpu":"4"},"min":{"cpu":"1"},"maxLimitRequestRatio":{"cpu":"8"}}]}}"#,
            &[
                r#"spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "8": ratio 8 is greater than max/min = 4.000000"#,
            ],
        );
        check(
            limit_range,
            r#"{"spec":{"limits":[{"type":"Container","max":{"cpu":"1"},"default":{"cpu":"2"}}]}}"#,
            &[r#"spec.limits[0].default[cpu]: Invalid value: "1": default value 2 is greater than max value 1"#],
        );
    }

    #[test]
    fn scopes_fit_what_is_counted_and_each_other() {
        check(quota, r#"{"spec":{"hard":{"pods":"1"},"scopes":["BestEffort"]}}"#, &[]);
        check(
            quota,
            r#"{"spec":{"hard":{"services":"1"},"scopes":["BestEffort"]}}"#,
            &[r#"spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource"#],
        );
        check(
            quota,
            r#"{"spec":{"hard":{"pods":"1"},"scopes":["Terminating","NotTerminating"]}}"#,
            &[r#"spec.scopes: Invalid value: ["Terminating","NotTerminating"]: conflicting scopes"#],
        );
    }
}
