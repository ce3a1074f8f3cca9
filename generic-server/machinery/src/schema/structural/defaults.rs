//! Defaults must be what their schema allows.

use crate::meta::field_error::aggregate;
use crate::meta::{BadValue, FieldError};
use crate::schema::embedded::{check_resource, coerce, own_metadata};
use crate::schema::validate::validate_default;
use crate::schema::{Schema, Shape, prune_part, validate_embedded};
use crate::value::{Path, Segment};
use crate::{Value, array, object};

/// Checks the rules of a node (`x-kubernetes-validations`, there and below) on a value.
pub type RuleCheck<'a> = &'a dyn Fn(&Schema, &Value, &Path<'_>) -> Vec<FieldError>;

/// What is wrong with the defaults of a structural schema. `pruned`: they must not have unknown fields.
pub(super) fn errors(schema: &Schema, at: &Path<'_>, rules: Option<RuleCheck<'_>>, pruned: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let walk = Walk { rules, pruned };
    walk.node(schema, &Surroundings { steps: Vec::new(), in_metadata: false }, true, at, &mut errors);
    errors
}

/// Whether any default of a structural schema has unknown fields.
pub(super) fn any_unpruned(schema: &Schema) -> bool {
    errors(schema, &Path::ROOT, None, true).iter().any(|error| error.detail == UNKNOWN)
}

const UNKNOWN: &str = "must not have unknown fields";

struct Walk<'a> {
    rules: Option<RuleCheck<'a>>,
    pruned: bool,
}

/// Where a node stands in its object.
#[derive(Clone)]
struct Surroundings {
    steps: Vec<Segment>,
    in_metadata: bool,
}

impl Surroundings {
    fn step(&self, step: Segment, in_metadata: bool) -> Self {
        let mut steps = self.steps.clone();
        steps.push(step);
        Surroundings { steps, in_metadata: self.in_metadata || in_metadata }
    }

    /// An object with the value at this place.
    fn object(&self, value: Value) -> Value {
        let inner = self.steps.iter().rev().fold(value, |value, step| match step {
            Segment::Field(name) | Segment::Key(name) => object! { name.clone() => value },
            Segment::Index(_) => array![value],
        });
        let mut out = object! { "apiVersion" => "validation/v1", "kind" => "Validation" };
        if let (Some(members), Value::Object(inner)) = (out.as_object_mut(), inner) {
            members.extend(inner.into_entries());
        }
        out
    }
}

impl Walk<'_> {
    fn node(
        &self,
        schema: &Schema,
        surroundings: &Surroundings,
        root: bool,
        at: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) {
        let embedded = root || schema.embedded_resource;
        let fresh = Surroundings { steps: Vec::new(), in_metadata: false };
        let surroundings = if embedded { &fresh } else { surroundings };
        if let Some(default) = &schema.default {
            let path = at.field("default");
            if surroundings.in_metadata {
                errors.extend(in_metadata(schema, default, surroundings, &path));
            } else {
                self.plain(schema, default, embedded, &path, errors);
            }
        }
        match &schema.shape {
            Shape::List(items) => {
                self.node(items, &surroundings.step(Segment::Index(0), false), false, &at.field("items"), errors);
            }
            Shape::Object(object) => {
                for field in &object.fields {
                    let own = embedded && matches!(field.name.as_str(), "metadata" | "apiVersion" | "kind");
                    let inner = surroundings.step(Segment::Field(field.name.clone()), own);
                    self.node(&field.schema, &inner, false, &at.field("properties").key(&field.name), errors);
                }
            }
            _ => {}
        }
    }

    fn plain(&self, schema: &Schema, default: &Value, embedded: bool, at: &Path<'_>, errors: &mut Vec<FieldError>) {
        let resource = Schema { embedded_resource: embedded, plain: schema.plain && !embedded, ..schema.clone() };
        if self.pruned && !prune_part(&resource, &mut default.clone()).is_empty() {
            errors.push(FieldError::invalid(at, default, UNKNOWN));
        }
        let mut coerced = default.clone();
        if let Err(error) = coerce(&resource, embedded, &mut coerced, at, &mut Vec::new()) {
            errors.push(error);
            return;
        }
        let mut found = validate_embedded(&resource, &coerced, at);
        if found.is_empty() {
            found = validate_default(schema, default, at);
        }
        if found.is_empty()
            && let Some(rules) = self.rules
        {
            found = rules(schema, default, at);
        }
        errors.extend(found);
    }
}

/// A default inside an object's metadata has to make valid metadata.
fn in_metadata(schema: &Schema, default: &Value, surroundings: &Surroundings, at: &Path<'_>) -> Vec<FieldError> {
    let mut object = surroundings.object(default.clone());
    let invalid = |detail: String| {
        let detail = format!("must result in valid metadata: {detail}");
        vec![FieldError::invalid(at, BadValue::from(default), detail)]
    };
    let Some(members) = object.as_object_mut() else { return Vec::new() };
    if let Err(error) = own_metadata(members, &Path::ROOT, &mut Vec::new()) {
        return invalid(error.to_string());
    }
    match aggregate(&check_resource(members, &Path::ROOT)) {
        Some(errors) => invalid(errors),
        None => validate_default(schema, default, at),
    }
}
