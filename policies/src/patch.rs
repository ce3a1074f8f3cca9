//! Applies the value of a mutation's expression to an object.

use std::sync::Arc;

use cel::{NotJson, Value as CelValue, json_of};
use generic_server::{handlers::conform, resource::Resource};
use machinery::{
    Str, Value,
    meta::{GroupVersionKind, status::Status},
    patch::{PatchError, apply::apply_plain, json_patch},
    schema::builtin,
};

use crate::{
    compile::ExpectedType,
    declarations::{JSON_PATCH, OBJECT},
};

/// Why a mutation was not made.
#[derive(Debug)]
pub(crate) enum Failure {
    /// By the policy's doing: its failure policy decides.
    Refused(String),
    /// The request ends with this, whatever the policy says.
    Status(Box<Status>),
}

/// The object of a row, in a kind that it has there, with a mutation made: defaulted as what clients send is.
pub(crate) fn patched(
    row: &Resource,
    kind: &GroupVersionKind,
    object: &Value,
    value: &CelValue,
    wanted: ExpectedType,
) -> Result<Value, Failure> {
    let patched = match wanted {
        ExpectedType::JsonPatch => json_patched(object, value)?,
        _ => Some(applied(row, kind, object, value)?),
    };
    let Some(patched) = patched else { return Ok(object.clone()) };
    let mut problems = Vec::new();
    let internal = |status: Status| Failure::Status(Box::new(status));
    let conformed = conformed(row, kind, patched, &mut problems).map_err(internal)?;
    // Built-in types are decoded strictly; what a custom resource does not know is dropped.
    if (row.built_in || kind.kind != row.kind) && !problems.is_empty() {
        return Err(internal(Status::internal_error(format!("strict decoding error: {}", problems.join(", ")))));
    }
    Ok(conformed)
}

/// A changed document in its type again, and defaulted. What the type does not know is dropped and noted.
pub(crate) fn conformed(
    row: &Resource,
    kind: &GroupVersionKind,
    patched: Value,
    problems: &mut Vec<String>,
) -> Result<Value, Status> {
    conform(row, kind.as_ref(), patched, problems).map_err(Status::internal_error)
}

fn applied(row: &Resource, kind: &GroupVersionKind, object: &Value, value: &CelValue) -> Result<Value, Failure> {
    check_names(value, OBJECT).map_err(|why| Failure::Refused(format!("type mismatch: {why}")))?;
    let mut config = json_of(value).map_err(|why| Failure::Refused(why.to_string()))?;
    for member in ["kind", "apiVersion"] {
        config.set(&[member], object.get(member).cloned().unwrap_or_default());
    }
    let own = kind.kind == row.kind;
    let schema = if own { Some(&*row.schema) } else { builtin::schema_of(&kind.group, &kind.version, &kind.kind) };
    let schema = schema.ok_or_else(|| {
        let why = format!(
            "Resource kind {kind} not found. There can be a delay between when CustomResourceDefinitions are created and when \
             they are available."
        );
        Failure::Status(Box::new(Status::service_unavailable(why)))
    })?;
    apply_plain(object, &config, schema).map_err(|error| Failure::Refused(format!("error applying patch: {error}")))
}

/// `None`: a test of the patch has failed, and the object stays as it is.
fn json_patched(object: &Value, value: &CelValue) -> Result<Option<Value>, Failure> {
    let CelValue::List(items) = value else {
        let why = "type mismatch: JSONPatchType.expression should evaluate to array";
        return Err(Failure::Refused(why.into()));
    };
    let operations = items.iter().map(operation).collect::<Result<Vec<_>, _>>().map_err(Failure::Refused)?;
    match json_patch::apply(object, &Value::Array(Arc::new(operations))) {
        Ok(patched) => Ok(Some(patched)),
        Err(PatchError::Unprocessable(why)) if why.ends_with(": test failed") => Ok(None),
        Err(error) => Err(Failure::Refused(format!("JSON Patch: {error}"))),
    }
}

fn operation(item: &CelValue) -> Result<Value, String> {
    let CelValue::Struct(made) = item else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch".into());
    };
    let (name, fields) = &**made;
    debug_assert_eq!(name, JSON_PATCH, "the compiler has looked");
    let mut operation = Value::object();
    for key in ["op", "path", "from"] {
        let text = match fields.get(key) {
            Some(CelValue::String(text)) => text.clone(),
            _ => Str::default(),
        };
        if key != "from" || !text.is_empty() {
            operation.set(&[key], text);
        }
    }
    if let Some(value) = fields.get("value") {
        if let CelValue::Struct(made) = value {
            check_names(value, &made.0).map_err(|why| format!("type mismatch: {why}"))?;
        }
        let why =
            |e: NotJson| format!("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {e}");
        operation.set(&["value"], json_of(value).map_err(why)?);
    }
    Ok(operation)
}

/// Structs in an object are called by their path in it.
fn check_names(value: &CelValue, path: &str) -> Result<(), String> {
    let mut wrong = Vec::new();
    find_misnamed(value, path, &mut wrong);
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn find_misnamed(value: &CelValue, path: &str, wrong: &mut Vec<String>) {
    match value {
        CelValue::Struct(made) => {
            if made.0 != path {
                wrong.push(format!(
                    "unexpected type name {:?}, expected {path:?}, which matches field name path from root Object type",
                    made.0.as_str()
                ));
            }
            for (field, value) in &made.1 {
                find_misnamed(value, &format!("{path}.{field}"), wrong);
            }
        }
        CelValue::List(items) => items.iter().for_each(|item| find_misnamed(item, path, wrong)),
        CelValue::Map(map) => map.values().for_each(|value| find_misnamed(value, path, wrong)),
        _ => {}
    }
}
