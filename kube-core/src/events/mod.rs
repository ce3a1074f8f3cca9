//! The group events.k8s.io: the newer shape of events, stored as the core group has them.

mod conversion;
mod printer;
mod validation;

pub(crate) use printer::EVENTS;

use generic_server::resource::{KindTraits, Resource, SelectableField as Field, UnknownField::Unsupported};
use machinery::meta::names;

use crate::{
    row::{GroupVersion, Row},
    strategy::Rules,
};
use conversion::Reshaped;

const V1: GroupVersion = GroupVersion("events.k8s.io", "v1");
const CORE_V1: GroupVersion = GroupVersion("", "v1");

/// An event is forgotten after an hour.
const RULES: Rules = Rules {
    traits: KindTraits {
        expires: true,
        judges_metadata_last: true,
        may_have_dependents: false,
        allows_create_on_update: true,
        ..KindTraits::PLAIN
    },
    ..Rules::PLAIN.validate(validation::event).validate_update(validation::event_update)
};

/// The core group has never looked at an event's name.
pub(crate) const CORE_RULES: Rules = RULES.names(names::any_name).any_finalizers();

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [V1.namespaced("events", "Event", "r2yiGXH7wu8=")
        .table(printer::EVENTS)
        .strategy(RULES)
        .short(&["ev"])
        .stored_as(CORE_V1, Reshaped)
        .fields(Unsupported, fields())]
    .into_iter()
    .map(Row::build)
    .collect()
}

/// In the words of this group, where they are in the stored object; in the order of the core group's fields, since both are
/// one registry's.
fn fields() -> Vec<Field> {
    [
        ("regarding.apiVersion", "involvedObject.apiVersion"),
        ("regarding.fieldPath", "involvedObject.fieldPath"),
        ("regarding.kind", "involvedObject.kind"),
        ("regarding.name", "involvedObject.name"),
        ("regarding.namespace", "involvedObject.namespace"),
        ("regarding.resourceVersion", "involvedObject.resourceVersion"),
        ("regarding.uid", "involvedObject.uid"),
        ("reason", "reason"),
        ("reportingController", "reportingComponent"),
        ("type", "type"),
    ]
    .into_iter()
    .map(|(name, path)| Field::at(name, &[path]))
    .collect()
}
