//! Reads one row of the facts table.

use std::sync::Arc;

use super::{Message, by_short_name};
use crate::json;
use crate::schema::{
    Embedded, Field, IntFormat, ListType, Object, PatchStrategy, ProtoField, Schema, Shape, ShortForm, StringFormat,
    TypeId,
};
use crate::{Str, Value};

/// Lists and maps (type, member) of which rules ask whether they are there, not whether something is in them, or which messages
/// show as they were sent.
const TELL_EMPTY: &[(&str, &str)] = &[
    ("autoscaling.v2.HPAScalingRules", "policies"),
    ("networking.v1.IngressSpec", "rules"),
    ("core.v1.PersistentVolumeSpec", "capacity"),
    ("core.v1.PodSpec", "overhead"),
    ("core.v1.ResourceQuotaSpec", "scopes"),
    ("storage.v1.StorageClass", "parameters"),
    ("batch.v1.PodFailurePolicyRule", "onPodConditions"),
    ("resource.v1.DeviceClaim", "constraints"),
    ("resource.v1.DeviceClaim", "config"),
    ("resource.v1.DeviceClaimConfiguration", "requests"),
    ("resource.v1.DeviceConstraint", "requests"),
    ("resource.v1.ExactDeviceRequest", "selectors"),
    ("resource.v1.ExactDeviceRequest", "tolerations"),
    ("resource.v1.DeviceSubRequest", "selectors"),
    ("resource.v1.DeviceSubRequest", "tolerations"),
    ("resource.v1.DeviceRequest", "firstAvailable"),
    ("resource.v1.ResourceSliceSpec", "sharedCounters"),
];

/// The type whose members all tell what is empty from what is absent.
const TELLS_ALL: &str = "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

fn read(text: &str) -> Value {
    json::decode(text.as_bytes()).expect("the table is JSON, which a test reads in full")
}

fn text(v: &Value, key: &str) -> Option<Str> {
    v.get(key)?.as_shared_str().cloned()
}

fn flag(v: &Value, key: &str) -> bool {
    v.get(key).and_then(Value::as_bool).unwrap_or(false)
}

fn list(v: &Value, key: &str) -> Vec<Value> {
    v.get(key).and_then(Value::as_array).unwrap_or_default().to_vec()
}

pub(super) fn schema(id: TypeId, name: &str, json: &str) -> Schema {
    let row = read(json);
    let Some(fields) = row.get("fields").and_then(Value::as_object) else {
        return Schema::of(special(name).unwrap_or(Shape::Any));
    };
    let message = match name.split_once('.') {
        Some((first, _)) if first.starts_with("api") || first == "kube-aggregator" => {
            format!("k8s.io.{}", name.replace('-', "_"))
        }
        _ => format!("k8s.io.api.{name}"),
    };
    let object = Object {
        fields: fields
            .iter()
            .map(|(member, facts)| Field {
                tells_empty: name == TELLS_ALL && is_collection(facts) || TELL_EMPTY.contains(&(name, member)),
                ..field(member.clone(), facts)
            })
            .collect(),
        additional: None,
        message: Some(message.into()),
        embedded: row
            .get("embedded")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(n, v)| embedded(n, v))
            .collect(),
        definition: Some(id),
        go_type: None,
        unions: row.get("unions").cloned(),
    };
    Schema { atomic: flag(&row, "atomic"), ..Schema::of(Shape::Object(Arc::new(object))) }
}

fn is_collection(facts: &Value) -> bool {
    facts.get("list").is_some() || facts.get("map").is_some()
}

fn embedded(name: &Str, v: &Value) -> Embedded {
    let ProtoField { number, type_name } = proto(v).expect("number and message");
    Embedded { number, name: name.clone(), message: type_name }
}

fn proto(v: &Value) -> Option<ProtoField> {
    let [number, type_name] = v.as_array()? else { return None };
    Some(ProtoField { number: u32::try_from(number.as_i64()?).ok()?, type_name: type_name.as_shared_str()?.clone() })
}

fn field(name: Str, facts: &Value) -> Field {
    let list_type = match text(facts, "listType").as_deref() {
        Some("set") => ListType::Set,
        Some("map") => ListType::Map(list(facts, "keys").iter().filter_map(|k| k.as_shared_str().cloned()).collect()),
        _ => ListType::Atomic,
    };
    let patch = text(facts, "patch").map(|strategy| {
        let has = |word| strategy.split(',').any(|s| s == word);
        Box::new(PatchStrategy {
            merge: has("merge"),
            replace: has("replace"),
            retain_keys: has("retainKeys"),
            merge_key: text(facts, "mergeKey"),
        })
    });
    let atomic = flag(facts, "atomic") || text(facts, "listType").as_deref() == Some("atomic");
    let granular = flag(facts, "granular");
    let schema = Schema { list_type, patch, atomic, granular, ..place(facts) };
    Field {
        name,
        schema,
        required: flag(facts, "required"),
        pointer: flag(facts, "pointer"),
        keep: flag(facts, "keep"),
        tells_empty: false,
        proto: facts.get("proto").and_then(proto),
    }
}

/// The shape, default and values of a place.
fn place(facts: &Value) -> Schema {
    let (default, enumeration) = (facts.get("default").cloned(), list(facts, "enum"));
    Schema { default, enumeration, ..Schema::of(shape(facts)) }
}

fn shape(facts: &Value) -> Shape {
    if let Some(name) = text(facts, "ref") {
        return special(&name).unwrap_or_else(|| Shape::Ref(by_short_name(&name).expect("a reference to a row")));
    }
    if let Some(items) = facts.get("list") {
        return Shape::List(Arc::new(place(items)));
    }
    if let Some(values) = facts.get("map") {
        return Shape::Map(Arc::new(place(values)));
    }
    match (text(facts, "type").as_deref(), text(facts, "format").as_deref()) {
        (Some("string"), Some("byte")) => Shape::String(StringFormat::Byte),
        (Some("string"), _) => Shape::String(StringFormat::Plain),
        (Some("integer"), Some("int32")) => Shape::Integer(IntFormat::Int32),
        (Some("integer"), _) => Shape::Integer(IntFormat::Int64),
        (Some("number"), _) => Shape::Number,
        (Some("boolean"), _) => Shape::Boolean,
        (Some("object"), _) => Shape::Map(Arc::new(Schema::default())),
        _ => Shape::Any,
    }
}

/// The definitions that are values, not objects. Those that hold any JSON stay references, so that their names are known.
fn special(name: &str) -> Option<Shape> {
    Some(match name {
        "apimachinery.pkg.apis.meta.v1.Time" => Shape::String(StringFormat::Time),
        "apimachinery.pkg.apis.meta.v1.MicroTime" => Shape::String(StringFormat::MicroTime),
        "apimachinery.pkg.api.resource.Quantity" => Shape::Quantity,
        "apimachinery.pkg.util.intstr.IntOrString" => Shape::IntOrString,
        "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray" => Shape::SchemaOr(ShortForm::List),
        "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool" => Shape::SchemaOr(ShortForm::Bool),
        "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray" => {
            Shape::SchemaOr(ShortForm::Strings)
        }
        _ => return None,
    })
}

pub(super) fn message(name: &'static str, json: &str) -> Message {
    let row = read(json);
    let fields = row.as_object().into_iter().flatten();
    let mut fields: Vec<_> = fields.filter_map(|(name, v)| Some((name.clone(), proto(v)?))).collect();
    fields.sort_by_key(|(_, p)| p.number);
    Message { name, fields }
}
