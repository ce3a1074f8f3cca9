//! Validates schemas of CRDs.

use super::{Tolerance, defaults, internal, invariants, keys::Keys, parse, rules};
use crate::Value;
use crate::meta::{BadValue, FieldError};
use crate::value::Path;

pub use super::defaults::RuleCheck;

/// What a check takes into account.
#[derive(Clone, Copy, Default)]
pub struct CheckOptions<'a> {
    /// The version has a status subresource, which leaves the root few members.
    pub status_subresource: bool,
    /// Checks the CEL rules of a node on a default.
    pub default_rules: Option<RuleCheck<'a>>,
    /// The rules that need not hold.
    pub tolerance: Tolerance,
}

/// What is wrong with a schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// The errors, in upstream's order; those of CEL rules' expressions come after them.
    pub errors: Vec<FieldError>,
    /// The nodes that errors are about. The expressions of rules there and above are not looked at.
    pub faulty: Faulty,
    /// The schema is structural and its defaults are sound, so that rules' expressions can be checked.
    pub sound: bool,
}

/// Checks an `openAPIV3Schema` (decoded as JSONSchemaProps) that stands at `at`: structure, defaults, what JSON Schema has and
/// CRDs have not, list and map types, the outside of CEL rules.
pub fn check(props: &Value, at: &Path<'_>, options: CheckOptions<'_>) -> Checked {
    let mut errors = Vec::new();
    if options.status_subresource {
        errors.extend(root_beside_status(props, at));
    }
    if invariants::flag(props, "nullable") {
        errors.push(FieldError::forbidden(at.field("nullable"), "nullable cannot be true at the root"));
    }
    let unsupported = unsupported(props);
    let structural = !options.tolerance.structure;
    let mut sound = structural && unsupported.is_none();
    if sound {
        let mut found = invariants::errors(props, at);
        if found.is_empty() && has_default(props) {
            let pruned = !options.tolerance.pruned_defaults;
            found = defaults::errors(&parse(props), at, options.default_rules, pruned);
        }
        sound = found.is_empty();
        errors.extend(found);
    }
    let rules::Found { errors: found, faulty } = rules::errors(props, at, options.tolerance);
    errors.extend(found);
    if let Some(what) = unsupported
        && structural
        && errors.is_empty()
    {
        errors.push(FieldError::invalid(at, "", format!("OpenAPIV3Schema '{what}' is not supported")));
    }
    Checked { errors, faulty, sound }
}

/// Nodes whose schema is wrong, by their places.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faulty {
    /// Sorted.
    nodes: Vec<String>,
    /// Those whose map type is an unknown one.
    maps: Vec<String>,
}

impl Faulty {
    pub(super) fn new(mut nodes: Vec<String>, maps: Vec<String>) -> Self {
        nodes.sort_unstable();
        Faulty { nodes, maps }
    }

    /// Whether one of them is this node, or below it.
    pub fn within(&self, node: &Path<'_>) -> bool {
        if self.nodes.is_empty() {
            return false;
        }
        let node = node.to_string();
        let begins = |start: &str| {
            let first = self.nodes.partition_point(|place| place.as_str() < start);
            self.nodes.get(first).is_some_and(|place| place.starts_with(start))
        };
        self.nodes.binary_search(&node).is_ok() || begins(&format!("{node}.")) || begins(&format!("{node}["))
    }

    /// Whether the members of this node cannot be found again in an older object.
    pub fn is_unknown_map(&self, node: &Path<'_>) -> bool {
        !self.maps.is_empty() && self.maps.contains(&node.to_string())
    }
}

/// The members of the root that may stand beside a status subresource.
const BESIDE_STATUS: [&str; 22] = [
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];

fn root_beside_status(props: &Value, at: &Path<'_>) -> Option<FieldError> {
    for member in internal::members_of(props) {
        let type_name = invariants::type_of(props);
        if member == "Type" && type_name != "object" {
            let detail =
                "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
            return Some(FieldError::invalid(at.field("type"), type_name, detail));
        }
        if !BESIDE_STATUS.contains(&member) {
            let detail = format!(
                "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                BESIDE_STATUS.join(" ")
            );
            return Some(FieldError::invalid(at, BadValue::verbatim(internal::internal_text(props)), detail));
        }
    }
    None
}

/// The first member that a structural schema cannot hold, in the node or those below.
pub(super) fn unsupported(props: &Value) -> Option<&'static str> {
    const MEMBERS: [(&str, &str); 7] = [
        ("id", "id"),
        ("$schema", "schema"),
        ("$ref", "$ref"),
        ("patternProperties", "patternProperties"),
        ("definitions", "definitions"),
        ("additionalItems", "additionalItems"),
        ("dependencies", "dependencies"),
    ];
    let keys = Keys::of(props);
    if keys.any(Keys::FOREIGN) {
        let is_used = |key: &str| match props.get(key) {
            Some(Value::Object(map)) if key != "additionalItems" => !map.is_empty(),
            Some(Value::String(text)) => !text.is_empty(),
            other => other.is_some(),
        };
        if let Some((_, name)) = MEMBERS.iter().find(|(key, _)| is_used(key)) {
            return Some(name);
        }
    }
    let below = nodes_below(props, keys).find_map(unsupported);
    below.or_else(|| (!invariants::list(props, "items").is_empty()).then_some("items"))
}

/// Whether a node of an `openAPIV3Schema`, or any below it, has a default.
pub fn has_default(props: &Value) -> bool {
    let keys = Keys::of(props);
    keys.any(Keys::DEFAULT) || nodes_below(props, keys).any(has_default)
}

/// Whether this holds of the node or any below it.
pub(super) fn any_node(props: &Value, holds: &dyn Fn(&Value) -> bool) -> bool {
    holds(props) || nodes_below(props, Keys::of(props)).any(|node| any_node(node, holds))
}

fn nodes_below(props: &Value, keys: Keys) -> impl Iterator<Item = &Value> {
    let single: &[&str] = if keys.any(Keys::LOGIC) { &["items", "additionalProperties", "not"] } else { &SINGLE };
    let many: &[&str] = if keys.any(Keys::LOGIC) { &["allOf", "anyOf", "oneOf"] } else { &[] };
    let single = single.iter().filter_map(|key| invariants::schema(props, key));
    let many = many.iter().flat_map(|key| invariants::list(props, key));
    single.chain(many).chain(invariants::properties(props).map(|(_, property)| property))
}

const SINGLE: [&str; 2] = ["items", "additionalProperties"];
