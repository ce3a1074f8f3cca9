//! The rows of a definition's versions.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use generic_server::{
    discovery::compare_versions,
    registry::Registry,
    resource::{
        Availability, Converter, Deprecation, Resource, SelectableField, Subresource, SubresourceKind, UnknownField,
    },
    table::TableEntry,
};
use machinery::{
    Str, Value,
    meta::{GroupVersion, GroupVersionKind},
    request::{Verb, Verbs},
};

use super::{columns::Columns, conversion::Rename, strategy::CustomStrategy, webhook::Webhook};
use crate::definition::{Definition, Names, Version, storage_hash};

/// How long requests that have begun may go on with a registry that was replaced.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// What discovery lists of a resource that is being removed.
const TERMINATING: Verbs = Verbs::of(&[Verb::Delete, Verb::DeleteCollection, Verb::Get, Verb::List, Verb::Watch]);

/// The rows of all versions, served or not; none if none is stored.
pub(super) fn rows(
    definition: Definition<'_>,
    names: &Names,
    terminating: bool,
    strategy: &Arc<CustomStrategy>,
    webhook: Option<&Arc<Webhook>>,
) -> Vec<Resource> {
    let Some(stored_version) = definition.storage_version().map(|v| v.name()) else { return Vec::new() };
    let (group, plural) = (definition.group(), definition.asked_names().plural);
    let fields = selectable_fields(definition);
    let several = definition.versions().count() > 1;
    let lasting = definition.versions().filter(|v| v.is_served() && !v.is_deprecated()).map(|v| v.name());
    let best = lasting.min_by(|a, b| compare_versions(a, b));
    let row = |version: Version<'_>| {
        let name = version.name();
        let schema = |version: &str| strategy.schema(version).unwrap_or_default();
        let conversion = several.then(|| match webhook {
            Some(webhook) => Converter::Remote(webhook.clone()),
            None => {
                let (served, stored) = ((&*name, schema(&name)), (&*stored_version, schema(&stored_version)));
                Converter::Rule(Arc::new(Rename::new(&group, served, stored)))
            }
        });
        Resource {
            group: group.clone(),
            version: name.clone(),
            plural: plural.clone(),
            singular: names.singular.clone(),
            kind: names.kind.clone(),
            list_kind: names.list_kind.clone(),
            short_names: names.short_names.clone(),
            categories: names.categories.clone(),
            namespaced: definition.namespaced(),
            verbs: if terminating { TERMINATING } else { Verbs::STANDARD },
            storage_version_hash: Some(storage_hash(&group, &stored_version, &names.kind)),
            subresources: subresources(version, (&group, &name, &names.kind)),
            schema: schema(&name),
            built_in: false,
            storage_path: format!("{group}/{plural}").into(),
            storage_version: GroupVersion::new(group.clone(), stored_version.clone()),
            conversion,
            strategy: strategy.clone(),
            printer: Arc::new(Columns::of(version)),
            selectable_fields: fields_of(version, &fields),
            unknown_field: UnknownField::Unsupported,
            deprecation: deprecation(&group, version, &names.kind, best.as_ref())
                .map(|warning| Deprecation { warning, removed_in: Str::default() }),
            availability: Availability::default(),
        }
    };
    definition.versions().map(row).collect()
}

/// The entries of the served versions' rows, which share a registry.
pub(super) fn entries(
    definition: Definition<'_>,
    rows: Vec<Resource>,
    registry: &Arc<Registry>,
) -> Vec<Arc<TableEntry>> {
    let entry = |row| TableEntry {
        row,
        registry: Some(registry.clone()),
        endpoints: HashMap::new(),
        after_write: None,
        openapi: Default::default(),
    };
    let served = definition.versions().zip(rows).filter(|(version, _)| version.is_served());
    served.map(|(_, row)| Arc::new(entry(row))).collect()
}

fn subresources(version: Version<'_>, (group, name, kind): (&Str, &Str, &Str)) -> Vec<Subresource> {
    let mut subresources = Vec::new();
    if version.has_status() {
        subresources.push(Subresource {
            name: Str::new_static("status"),
            kind: SubresourceKind::Status,
            response_kind: GroupVersionKind::new(group.clone(), name.clone(), kind.clone()),
            verbs: Verbs::STATUS,
        });
    }
    if let Some(scale) = version.scale() {
        let path = |key: &str| scale.str_at(&[key]).filter(|p| !p.is_empty()).map(split);
        subresources.push(Subresource {
            name: Str::new_static("scale"),
            kind: SubresourceKind::Scale {
                spec_replicas: path("specReplicasPath").unwrap_or_default(),
                status_replicas: path("statusReplicasPath").unwrap_or_default(),
                selector: path("labelSelectorPath"),
            },
            response_kind: GroupVersionKind::new("autoscaling", "v1", "Scale"),
            verbs: Verbs::STATUS,
        });
    }
    subresources
}

/// The steps of a simple path such as `.spec.replicas`.
pub(super) fn split(path: &str) -> Vec<Str> {
    path.strip_prefix('.').unwrap_or(path).split('.').map(Str::from).collect()
}

/// The fields that any version selects by. One list for all, since the objects are the same.
fn selectable_fields(definition: Definition<'_>) -> Vec<SelectableField> {
    let mut seen = HashSet::new();
    definition.versions().flat_map(own_fields).filter(|field| seen.insert(field.name.clone())).collect()
}

/// All fields, those hidden that the version does not select by.
fn fields_of(version: Version<'_>, all: &[SelectableField]) -> Vec<SelectableField> {
    let own: HashSet<Str> = own_fields(version).map(|field| field.name).collect();
    let known = |field: &SelectableField| SelectableField { hidden: !own.contains(&field.name), ..field.clone() };
    all.iter().map(known).collect()
}

fn own_fields(version: Version<'_>) -> impl Iterator<Item = SelectableField> {
    let paths = version.list("selectableFields").iter();
    paths.filter_map(|f| {
        f.str_at(&["jsonPath"]).map(|path| SelectableField::new(path.strip_prefix('.').unwrap_or(path)))
    })
}

/// The warning that requests for a deprecated version get; `best`: the first of the versions that are not.
fn deprecation(group: &str, version: Version<'_>, kind: &str, best: Option<&Str>) -> Option<Str> {
    if !version.is_deprecated() {
        return None;
    }
    if let Some(own) = version.0.get("deprecationWarning").and_then(Value::as_shared_str) {
        return Some(own.clone());
    }
    let name = version.name();
    let better = best.filter(|best| compare_versions(best, &name).is_lt());
    let advice = better.map(|best| format!("; use {group}/{best} {kind}")).unwrap_or_default();
    Some(format!("{group}/{name} {kind} is deprecated{advice}").into())
}
