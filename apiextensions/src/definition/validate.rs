//! Validates apiextensions.k8s.io/v1 CustomResourceDefinitions, in upstream's words and order.
//!
//! Upstream judges an internal form of it: what all versions have in common stands once at the top (`spec.validation`,
//! `spec.subresources`, …), and its errors name that place.

mod columns;
mod conversion;
mod parts;
mod status;
mod version;

use std::collections::HashSet;

use machinery::{
    Value,
    meta::{
        field_error::{BadValue, FieldError},
        names, validation,
    },
    schema::structural::{self, Tolerance},
    value::Path,
};

use self::parts::Parts;
use super::{
    conditions::{ESTABLISHED, is_true},
    view::{Definition, Names, Version},
};

pub(super) use status::status;
pub(crate) use status::{Approval, approval_of, approval_problem};

/// What is wrong with a definition's name: it follows from the names that are asked for.
pub(super) fn name(definition: &Value, name: &str, prefix: bool) -> Vec<String> {
    let mut errors = names::name_is_dns_subdomain(name, prefix);
    let asked = Definition(definition).asked_names();
    if name != format!("{}.{}", asked.plural, Definition(definition).group()) {
        errors.push("must be spec.names.plural+\".\"+spec.group".to_owned());
    }
    errors
}

/// What is wrong with a new definition, beyond its metadata.
pub(super) fn create(definition: &Value) -> Vec<FieldError> {
    let rules = Rules { known_review_version: true, any_ca_bundle: true, ..Rules::default() };
    let mut errors = spec(definition, &rules);
    errors.extend(status(definition));
    errors.extend(status::stored_versions(definition));
    errors.extend(status::approval(definition, None));
    errors.extend(preserves_unknown(definition, None));
    errors
}

/// What is wrong with an update, beyond the metadata.
pub(super) fn update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut rules = Rules {
        known_review_version: conversion::knows_a_review_version(old),
        any_ca_bundle: !is_true(old, ESTABLISHED) || conversion::has_bad_ca_bundle(old),
        old: Some(old),
        ..Rules::default()
    };
    let mut errors = spec(new, &rules);
    if !errors.is_empty() {
        // What was stored when rules were fewer may stay as it is.
        rules.tolerate(new, old);
        errors = spec(new, &rules);
    }
    let mut fixed = |path: &[&str]| {
        let text = |d: &Value| Value::from(d.str_at(path).unwrap_or_default());
        errors.extend(validation::validate_immutable(text(new), text(old), path.join(".")));
    };
    if is_true(old, ESTABLISHED) {
        fixed(&["spec", "scope"]);
        fixed(&["spec", "names", "kind"]);
    }
    fixed(&["spec", "group"]);
    fixed(&["spec", "names", "plural"]);
    errors.extend(status(new));
    errors.extend(status::stored_versions(new));
    errors.extend(status::approval(new, Some(old)));
    errors.extend(preserves_unknown(new, Some(old)));
    errors
}

/// What depends on what was there before.
#[derive(Default)]
struct Rules<'a> {
    /// conversionReviewVersions must name one that this server sends.
    known_review_version: bool,
    /// A caBundle that cannot be read is let pass.
    any_ca_bundle: bool,
    /// What an update replaces.
    old: Option<&'a Value>,
    /// What schemas need not follow.
    tolerance: Tolerance,
    /// Versions may be without a schema.
    schemaless: bool,
}

impl Rules<'_> {
    /// Tolerates what did not hold of the old definition either.
    fn tolerate(&mut self, new: &Value, old: &Value) {
        let tolerances = Definition(old).versions().filter_map(Version::schema).map(Tolerance::of);
        self.tolerance = tolerances.fold(Tolerance::default(), Tolerance::or);
        self.schemaless = Definition(old).versions().any(|version| version.schema().is_none());
        let needed = Definition(new).versions().filter_map(Version::schema).any(structural::needs_structure);
        self.tolerance.structure &= preserves_all(new) && !needed;
    }

    /// Whether a version had the same schema before.
    fn keeps_schema(&self, version: Version<'_>) -> bool {
        let same = |old: Version<'_>| old.name() == version.name() && old.schema() == version.schema();
        self.old.is_some_and(|old| Definition(old).versions().any(same))
    }
}

fn spec(definition: &Value, rules: &Rules<'_>) -> Vec<FieldError> {
    let at = Path::ROOT.field("spec");
    let mut errors = group(definition, &at);
    errors.extend(one_of(definition.str_at(&["spec", "scope"]), &["Cluster", "Namespaced"], &at.field("scope")));
    let parts = Parts::of(definition);
    let versions = at.field("versions");
    for (i, version) in Definition(definition).versions().enumerate().filter(|(_, v)| v.schema().is_none()) {
        let why = match rules.schemaless {
            false => "",
            true if version.is_served() && !preserves_all(definition) => "because otherwise all fields are pruned",
            true => continue,
        };
        errors.push(FieldError::required(versions.index(i).field("schema").field("openAPIV3Schema"), why));
    }
    if preserves_all(definition)
        && Definition(definition).versions().filter_map(Version::schema).any(structural::has_default)
    {
        let why = "must be false in order to use defaults in the schema";
        errors.push(FieldError::invalid(at.field("preserveUnknownFields"), true, why));
    }
    let mut seen = HashSet::new();
    let (mut stored, mut unique) = (0, true);
    for (i, version) in Definition(definition).versions().enumerate() {
        let here = versions.index(i);
        stored += usize::from(version.is_storage());
        let name = version.name();
        unique &= seen.insert(name.clone());
        let problems = names::dns1035_label(&name);
        if !problems.is_empty() {
            errors.push(FieldError::invalid(here.field("name"), &name, problems.join(",")));
        }
        errors.extend(version::deprecation(version, &here));
        errors.extend(version::own_parts(version, &parts, rules, &here));
    }
    let shown = || BadValue::verbatim(parts.versions_text(definition));
    if !unique {
        errors.push(FieldError::invalid(versions, shown(), "must contain unique version names"));
    }
    if stored != 1 {
        errors.push(FieldError::invalid(versions, shown(), "must have exactly one version marked as storage version"));
    }
    // The internal form still has the one version that there was once: the first.
    if let Some(first) = Definition(definition).versions().next().map(|v| v.name()).filter(|v| !v.is_empty()) {
        let problems = names::dns1035_label(&first);
        if !problems.is_empty() {
            errors.push(FieldError::invalid(at.field("version"), &first, problems.join(",")));
        }
    }
    errors.extend(asked_names(&Definition(definition).asked_names(), &at.field("names")));
    errors.extend(version::common_parts(definition, &parts, rules, &at));
    errors.extend(conversion::errors(definition, rules, &at.field("conversion")));
    errors
}

fn group(definition: &Value, at: &Path<'_>) -> Vec<FieldError> {
    let group = Definition(definition).group();
    let at = at.field("group");
    if group.is_empty() {
        return vec![FieldError::required(at, "")];
    }
    let problems = names::dns1123_subdomain(&group);
    if !problems.is_empty() {
        return vec![FieldError::invalid(at, &group, problems.join(","))];
    }
    if !group.contains('.') {
        return vec![FieldError::invalid(at, &group, "should be a domain with at least one dot")];
    }
    Vec::new()
}

/// A text that must be there and be one of these.
fn one_of(value: Option<&str>, allowed: &[&str], at: &Path<'_>) -> Option<FieldError> {
    match value.unwrap_or_default() {
        "" => Some(FieldError::required(at, "")),
        value if !allowed.contains(&value) => Some(FieldError::not_supported(at, value, allowed)),
        _ => None,
    }
}

fn asked_names(names: &Names, at: &Path<'_>) -> Vec<FieldError> {
    let required = [
        ("plural", &names.plural),
        ("singular", &names.singular),
        ("kind", &names.kind),
        ("listKind", &names.list_kind),
    ];
    let missing = required.into_iter().filter(|(_, name)| name.is_empty());
    let mut errors: Vec<FieldError> = missing.map(|(key, _)| FieldError::required(at.field(key), "")).collect();
    errors.extend(well_formed(names, at));
    errors
}

/// The grammar of names; empty ones are no matter here.
fn well_formed(names: &Names, at: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut label = |place: String, name: &str, mixed_case: bool| {
        let problems = if mixed_case { names::dns1035_label(&name.to_lowercase()) } else { names::dns1035_label(name) };
        if !problems.is_empty() {
            let prefix = if mixed_case { "may have mixed case, but should otherwise match: " } else { "" };
            errors.push(FieldError::invalid(place, name, format!("{prefix}{}", problems.join(","))));
        }
    };
    for (key, name, mixed) in [
        ("plural", &names.plural, false),
        ("singular", &names.singular, false),
        ("kind", &names.kind, true),
        ("listKind", &names.list_kind, true),
    ] {
        if !name.is_empty() {
            label(at.field(key).to_string(), name, mixed);
        }
    }
    for (i, name) in names.short_names.iter().enumerate() {
        label(at.field("shortNames").index(i).to_string(), name, false);
    }
    if !names.kind.is_empty() && names.kind == names.list_kind {
        let why = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(at.field("listKind"), &names.list_kind, why));
    }
    for (i, name) in names.categories.iter().enumerate() {
        let problems = names::dns1035_label(name);
        if !problems.is_empty() {
            errors.push(FieldError::invalid(at.field("categories").index(i), name, problems.join(",")));
        }
    }
    errors
}

/// Whether unknown fields are kept whatever the schemas say: so it was in v1beta1.
fn preserves_all(definition: &Value) -> bool {
    definition.at(&["spec", "preserveUnknownFields"]).and_then(Value::as_bool) == Some(true)
}

fn preserves_unknown(new: &Value, old: Option<&Value>) -> Option<FieldError> {
    if !preserves_all(new) || old.is_some_and(preserves_all) {
        return None;
    }
    let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
    Some(FieldError::invalid("spec.preserveUnknownFields", true, why))
}

#[cfg(test)]
mod tests;
