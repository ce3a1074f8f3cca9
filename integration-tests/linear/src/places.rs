//! Where lists and maps are in a type.

use std::collections::HashSet;

use machinery::{
    Str,
    schema::{Schema, Shape, TypeId},
};

/// A step from an object to a place in it.
#[derive(Clone, Debug)]
pub enum Step {
    /// A member.
    Field(Str),
    /// Any item of a list.
    Item,
    /// Any value of a map.
    Key,
}

/// A place of a type where a list or a map stands.
#[derive(Clone, Debug)]
pub struct Place<'s> {
    /// How it is reached.
    pub steps: Vec<Step>,
    /// The list or map.
    pub schema: &'s Schema,
}

/// The lists and maps of a type, but for those of definitions that were seen before: what a template holds is judged as in
/// the pod that it makes.
pub fn of<'s>(schema: &'s Schema, seen: &mut HashSet<(TypeId, Str)>) -> Vec<Place<'s>> {
    let mut found = Vec::new();
    walk(schema, &mut Vec::new(), seen, &mut found);
    found
}

fn walk<'s>(schema: &'s Schema, at: &mut Vec<Step>, seen: &mut HashSet<(TypeId, Str)>, found: &mut Vec<Place<'s>>) {
    let resolved = schema.resolve();
    let (inner, step) = match &resolved.shape {
        Shape::Object(object) => {
            for field in &object.fields {
                if object.definition.is_none_or(|id| seen.insert((id, field.name.clone()))) {
                    at.push(Step::Field(field.name.clone()));
                    walk(&field.schema, at, seen, found);
                    at.pop();
                }
            }
            return;
        }
        Shape::List(items) => (items, Step::Item),
        Shape::Map(values) => (values, Step::Key),
        _ => return,
    };
    found.push(Place { steps: at.clone(), schema: resolved });
    at.push(step);
    walk(inner, at, seen, found);
    at.pop();
}

impl std::fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for step in &self.steps {
            match step {
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Item => f.write_str("[]")?,
                Step::Key => f.write_str("{}")?,
            }
        }
        Ok(())
    }
}
