//! The flow schemas and priority levels that every server has, as they must be.

use machinery::{Value, object};

use super::bootstrap;

/// The spec of a flow schema that nobody may change.
pub(super) fn flow_schema(name: &str) -> Option<Value> {
    bootstrap::schemas().find(|(known, _)| *known == name && bootstrap::is_mandatory(known)).map(|(_, spec)| spec)
}

/// The spec of a priority level that nobody may change. Of the exempt level's own part anything may change.
pub(super) fn priority_level(name: &str) -> Option<Value> {
    match name {
        "exempt" => Some(object! { "type" => "Exempt" }),
        _ => bootstrap::levels()
            .find(|(known, _)| *known == name && bootstrap::is_mandatory(known))
            .map(|(_, spec)| spec),
    }
}
