//! Schemas as OpenAPI documents publish them: definitions of built-in types and the kinds of CRDs, for v2 and v3.

use super::{Field, IntFormat, ListType, PatchStrategy, Schema, Shape, ShortForm, StringFormat, TypeId, builtin};
use crate::{Map, Str, Value, array, object};

/// Which OpenAPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flavor {
    /// Swagger 2.0, which kubectl before 1.27 reads: no defaults, no alternatives.
    V2,
    /// OpenAPI 3.0.
    V3,
}

/// How built-in definitions are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Telling {
    /// In which OpenAPI.
    pub flavor: Flavor,
    /// Whether members name the values that they may have (the gate OpenAPIEnums).
    pub enums: bool,
}

impl From<Flavor> for Telling {
    fn from(flavor: Flavor) -> Self {
        Telling { flavor, enums: true }
    }
}

/// The prose of a built-in definition, or of one of its members.
pub type Prose<'a> = &'a dyn Fn(TypeId, Option<&str>) -> Option<Str>;

/// A kind of a CRD.
#[derive(Clone, Copy, Debug)]
pub struct CustomKind<'a> {
    /// The group.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The kind of lists of it.
    pub list_kind: &'a str,
    /// The resource's plural name.
    pub plural: &'a str,
    /// `selectableFields` of the version, as the CRD has them.
    pub selectable_fields: &'a [Value],
}

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const CONVENTIONS: &str = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

fn target(name: &str, flavor: Flavor) -> Value {
    let place = match flavor {
        Flavor::V2 => "#/definitions/",
        Flavor::V3 => "#/components/schemas/",
    };
    format!("{place}{name}").into()
}

/// A reference; beside other members OpenAPI 3 allows it only inside of `allOf`.
fn reference(name: &str, flavor: Flavor, beside_others: bool) -> Vec<(Str, Value)> {
    let reference = (Str::from("$ref"), target(name, flavor));
    match flavor {
        Flavor::V3 if beside_others => vec![("allOf".into(), array![Map::from_entries(vec![reference])])],
        _ => vec![reference],
    }
}

/// The definition that a shape is, if it is one.
fn definition_of(shape: &Shape) -> Option<TypeId> {
    let name = match shape {
        Shape::Ref(id) => return Some(*id),
        Shape::String(StringFormat::Time) => "apimachinery.pkg.apis.meta.v1.Time",
        Shape::String(StringFormat::MicroTime) => "apimachinery.pkg.apis.meta.v1.MicroTime",
        Shape::Quantity => "apimachinery.pkg.api.resource.Quantity",
        Shape::IntOrString => "apimachinery.pkg.util.intstr.IntOrString",
        Shape::SchemaOr(form) => match form {
            ShortForm::List => "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray",
            ShortForm::Bool => "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool",
            ShortForm::Strings => "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray",
        },
        _ => return None,
    };
    builtin::by_name(name)
}

/// The definitions that a definition refers to, without repetition.
pub fn references(id: TypeId) -> Vec<TypeId> {
    fn collect(shape: &Shape, out: &mut Vec<TypeId>) {
        match shape {
            Shape::List(inner) | Shape::Map(inner) => collect(&inner.shape, out),
            shape => out.extend(definition_of(shape)),
        }
    }
    let mut out = Vec::new();
    if let Shape::Object(object) = &builtin::schema(id).shape {
        object.fields.iter().for_each(|f| collect(&f.schema.shape, &mut out));
    }
    out.sort_unstable();
    out.dedup();
    out
}

/// A built-in definition.
pub fn definition(id: TypeId, telling: impl Into<Telling>, prose: Prose<'_>) -> Value {
    let telling = telling.into();
    let schema = builtin::schema(id);
    let mut out = Map::new();
    if let Some(text) = prose(id, None) {
        out.insert("description", text);
    }
    match &schema.shape {
        Shape::Object(object) => {
            out.insert("type", "object");
            let properties =
                object.fields.iter().map(|f| (f.name.clone(), field(f, telling, prose(id, Some(&f.name)))));
            let properties: Map = properties.collect();
            if !properties.is_empty() {
                out.insert("properties", properties);
            }
            let mut required: Vec<&Field> = object.fields.iter().filter(|f| f.required).collect();
            // The order of the Go struct, which is that of the protobuf fields but for apiVersion and kind.
            let order = REORDERED.iter().find(|(name, _)| *name == builtin::type_name(id)).map(|(_, order)| *order);
            let place = |f: &Field| order.and_then(|order| order.iter().position(|name| f.name == *name));
            let number = |f: &Field| f.proto.as_ref().map(|p| p.number);
            required.sort_by_key(|f| (place(f), f.name != "apiVersion", f.name != "kind", number(f)));
            if !required.is_empty() {
                out.insert("required", required.iter().map(|f| Value::from(&f.name)).collect::<Value>());
            }
            if schema.atomic {
                out.insert("x-kubernetes-map-type", "atomic");
            }
            if let Some(unions) = &object.unions {
                out.insert("x-kubernetes-unions", unions.clone());
            }
        }
        shape => out.extend(special(id, shape, telling.flavor)),
    }
    let kinds = builtin::kinds().iter().filter(|k| k.id == id);
    let kinds: Vec<Value> = kinds.map(|k| gvk(k.group, k.version, k.kind)).collect();
    if !kinds.is_empty() {
        out.insert("x-kubernetes-group-version-kind", kinds);
    }
    Value::Object(out)
}

fn gvk(group: &str, version: &str, kind: &str) -> Value {
    object! { "group" => group, "kind" => kind, "version" => version }
}

/// Types whose members stand otherwise in Go than in protobuf.
const REORDERED: [(&str, &[&str]); 3] = [
    ("HTTPIngressPath", &["pathType", "backend"]),
    ("CustomResourceDefinitionNames", &["plural", "kind"]),
    ("APIResource", &["name", "singularName", "namespaced", "kind", "verbs"]),
];

/// The definitions that are no objects with members.
fn special(id: TypeId, shape: &Shape, flavor: Flavor) -> Vec<(Str, Value)> {
    let either = |a: &str, b: &str| vec![("oneOf".into(), array![object! { "type" => a }, object! { "type" => b }])];
    let typed = |name: &str| vec![(Str::from("type"), Value::from(name))];
    match (shape, flavor) {
        (Shape::Quantity, Flavor::V3) => either("string", "number"),
        (Shape::Quantity, Flavor::V2) => typed("string"),
        (Shape::IntOrString, Flavor::V3) => {
            [vec![("format".into(), "int-or-string".into())], either("integer", "string")].concat()
        }
        (Shape::IntOrString, Flavor::V2) => [typed("string"), vec![("format".into(), "int-or-string".into())]].concat(),
        (Shape::String(_), _) => [typed("string"), vec![("format".into(), "date-time".into())]].concat(),
        (Shape::Any, _) if builtin::type_name(id) != "JSON" => typed("object"),
        _ => Vec::new(),
    }
}

fn field(field: &Field, telling: Telling, prose: Option<Str>) -> Value {
    let schema = &field.schema;
    let mut out = place(schema, telling, true);
    let values = if telling.enums { schema.enumeration.as_slice() } else { &[] };
    if let Some(text) = described(prose, values) {
        out.push(("description".into(), text.into()));
    }
    let is_map = matches!(schema.shape, Shape::Map(_) | Shape::Ref(_));
    let list_type = match &schema.list_type {
        // Bytes are a list, too.
        ListType::Atomic if schema.atomic && !is_map => Some("atomic"),
        ListType::Atomic => None,
        ListType::Set => Some("set"),
        ListType::Map(keys) => {
            out.push(("x-kubernetes-list-map-keys".into(), keys.iter().map(Value::from).collect()));
            Some("map")
        }
    };
    if let Some(list_type) = list_type {
        out.push(("x-kubernetes-list-type".into(), list_type.into()));
    }
    if is_map && (schema.atomic || schema.granular) {
        let map_type = if schema.atomic { "atomic" } else { "granular" };
        out.push(("x-kubernetes-map-type".into(), map_type.into()));
    }
    if let Some(patch) = schema.patch.as_deref() {
        out.extend(patch_members(patch));
    }
    if let [(key, wrapped)] = &out[..]
        && key == "allOf"
    {
        return wrapped.as_array().and_then(<[Value]>::first).cloned().unwrap_or_default(); // nothing stands beside it
    }
    Value::Object(Map::from_entries(out))
}

fn patch_members(patch: &PatchStrategy) -> Vec<(Str, Value)> {
    let strategy = match (patch.merge, patch.retain_keys) {
        (true, true) => "merge,retainKeys",
        (false, true) => "retainKeys",
        _ if patch.replace => "replace",
        _ => "merge",
    };
    let mut out = vec![("x-kubernetes-patch-strategy".into(), strategy.into())];
    out.extend(patch.merge_key.as_ref().map(|key| ("x-kubernetes-patch-merge-key".into(), key.into())));
    out
}

/// Type, format, default and values of a place.
fn place(schema: &Schema, telling: Telling, member: bool) -> Vec<(Str, Value)> {
    let mut out = match definition_of(&schema.shape) {
        Some(id) => reference(&builtin::name(id), telling.flavor, member),
        None => shape(&schema.shape, telling),
    };
    if let Some(default) = schema.default.as_ref().filter(|_| telling.flavor == Flavor::V3) {
        out.push(("default".into(), default.clone()));
    }
    if telling.enums && !schema.enumeration.is_empty() {
        out.push(("enum".into(), schema.enumeration.clone().into()));
    }
    out
}

/// A member's prose, which names the values that it may have.
fn described(prose: Option<Str>, values: &[Value]) -> Option<Str> {
    if values.is_empty() {
        return prose;
    }
    let mut text = prose.map_or_else(String::new, |prose| format!("{prose}\n\n"));
    text.push_str("Possible enum values:");
    for value in values.iter().filter_map(Value::as_str) {
        text.push_str(&format!("\n - `{value:?}`"));
    }
    Some(text.into())
}

fn shape(shape: &Shape, telling: Telling) -> Vec<(Str, Value)> {
    let (type_name, format) = match shape {
        Shape::Object(_) | Shape::Map(_) => ("object", None),
        Shape::List(_) => ("array", None),
        Shape::String(StringFormat::Byte) => ("string", Some("byte")),
        Shape::String(_) => ("string", None),
        Shape::Integer(IntFormat::Int32) => ("integer", Some("int32")),
        Shape::Integer(_) => ("integer", Some("int64")),
        Shape::Number => ("number", Some("double")),
        Shape::Boolean => ("boolean", None),
        _ => return Vec::new(),
    };
    let mut out = vec![(Str::from("type"), Value::from(type_name))];
    out.extend(format.map(|f| ("format".into(), f.into())));
    let inner = |schema: &Schema| Value::Object(Map::from_entries(place(schema, telling, false)));
    match shape {
        Shape::Map(values) => out.push(("additionalProperties".into(), inner(values))),
        Shape::List(items) => out.push(("items".into(), inner(items))),
        _ => {}
    }
    out
}

impl CustomKind<'_> {
    /// The definition's name: the group's labels in reverse, version and kind (`dev.example.v1.Clock`).
    pub fn definition_name(&self, kind: &str) -> String {
        let labels: Vec<&str> = self.group.rsplit('.').collect();
        format!("{}.{}.{kind}", labels.join("."), self.version)
    }

    fn extend(&self, kind: &str, out: &mut Map) {
        out.insert("x-kubernetes-group-version-kind", array![gvk(self.group, self.version, kind)]);
        let paths = self.selectable_fields.iter().filter_map(|f| f.str_at(&["jsonPath"]));
        let paths: Vec<Value> = paths.map(|p| object! { "fieldPath" => p.strip_prefix('.').unwrap_or(p) }).collect();
        if !paths.is_empty() {
            out.insert("x-kubernetes-selectable-fields", paths);
        }
    }

    /// The kind, with the `openAPIV3Schema` of its version (decoded as JSONSchemaProps), if it has one.
    pub fn schema(&self, props: Option<&Value>, flavor: Flavor, prose: Prose<'_>) -> Value {
        let preserving = |p: &Value| p.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
        let mut out = match props {
            Some(props) if !(flavor == Flavor::V2 && preserving(props)) => {
                let mut out = custom_node(props, flavor, prose);
                let properties = out.entry("properties").make_object();
                properties.extend(type_meta(flavor, prose, OBJECT_META));
                out
            }
            // Members would make kubectl refuse all others.
            _ => Map::from_entries(vec![("type".into(), "object".into())]),
        };
        self.extend(self.kind, &mut out);
        Value::Object(out)
    }

    /// The kind of lists.
    pub fn list_schema(&self, flavor: Flavor, prose: Prose<'_>) -> Value {
        let item = Map::from_entries(reference(&self.definition_name(self.kind), flavor, false));
        let mut properties: Map = type_meta(flavor, prose, LIST_META).into_iter().collect();
        properties.insert(
            "items",
            object! {
                "description" => format!("List of {}. More info: {CONVENTIONS}", self.plural),
                "type" => "array",
                "items" => item,
            },
        );
        let mut out = Map::new();
        out.insert("description", format!("{} is a list of {}", self.list_kind, self.kind));
        out.insert("type", "object");
        out.insert("required", array!["items"]);
        out.insert("properties", properties);
        self.extend(self.list_kind, &mut out);
        Value::Object(out)
    }
}

/// apiVersion, kind and metadata.
fn type_meta(flavor: Flavor, prose: Prose<'_>, metadata: &str) -> Vec<(Str, Value)> {
    // Any kind's members have this prose.
    let kind = if metadata == LIST_META { "ConfigMapList" } else { "ConfigMap" };
    let model = builtin::by_gvk("", "v1", kind).expect("the table has ConfigMap and its list");
    let described = |name: &'static str, mut entries: Vec<(Str, Value)>| {
        entries.extend(prose(model, Some(name)).map(|text| ("description".into(), text.into())));
        (Str::from(name), Value::Object(Map::from_entries(entries)))
    };
    let text = || vec![(Str::from("type"), Value::from("string"))];
    vec![
        described("apiVersion", text()),
        described("kind", text()),
        described("metadata", reference(metadata, flavor, true)),
    ]
}

/// A node of a CRD's schema as published: as written, but for what v2 cannot say and what embedded resources imply.
fn custom_node(props: &Value, flavor: Flavor, prose: Prose<'_>) -> Map {
    let mut out = props.as_object().cloned().unwrap_or_default();
    let preserving = props.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    if flavor == Flavor::V2 {
        for key in ["allOf", "anyOf", "oneOf", "not", "default"] {
            out.remove(key);
        }
        let nullable = out.remove("nullable") == Some(Value::Bool(true));
        if nullable || preserving {
            for key in ["type", "items", "properties"] {
                out.remove(key);
            }
        }
    } else if props.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        say_int_or_string(&mut out);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(value) = out.get_mut(key).filter(|v| v.as_object().is_some()) {
            *value = custom_node(value, flavor, prose).into();
        }
    }
    if let Some(Value::Object(properties)) = out.get_mut("properties") {
        for (_, value) in properties.iter_mut() {
            *value = custom_node(value, flavor, prose).into();
        }
    }
    let embedded = props.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true));
    if embedded && !(flavor == Flavor::V2 && preserving) {
        let members = out.entry("properties").make_object();
        members.extend(type_meta(flavor, prose, OBJECT_META));
        for (name, text) in EMBEDDED {
            if let Some(member) = members.get_mut(name) {
                member.set(&["description"], format!("{text} More info: {CONVENTIONS}{}", anchor(name)));
            }
        }
        let mut required = props.get("required").and_then(Value::as_array).unwrap_or_default().to_vec();
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|r| r.as_str() == Some(name)) {
                required.push(name.into());
            }
        }
        out.insert("required", required);
    }
    out
}

/// What kind and apiVersion are to an embedded resource.
const EMBEDDED: [(&str, &str); 2] = [
    ("kind", "kind is a string value representing the type of this object. In CamelCase."),
    ("apiVersion", "apiVersion defines the versioned schema of this representation of an object."),
];

/// Where the conventions tell of a member.
fn anchor(member: &str) -> &'static str {
    if member == "kind" { "#types-kinds" } else { "#resources" }
}

/// Says in alternatives what the extension says, unless the schema does already.
fn say_int_or_string(schema: &mut Map) {
    let types = array![object! { "type" => "integer" }, object! { "type" => "string" }];
    let first = schema.get("allOf").and_then(Value::as_array).and_then(<[Value]>::first);
    let said = schema.get("anyOf") == Some(&types) || first.and_then(|first| first.get("anyOf")) == Some(&types);
    let alternatives = schema.get("anyOf").and_then(Value::as_array).is_some_and(|any| !any.is_empty());
    match (said, alternatives) {
        (true, _) => {}
        (false, false) => {
            schema.insert("anyOf", types);
        }
        (false, true) => {
            let mut all = vec![object! { "anyOf" => types }];
            all.extend(schema.get("allOf").and_then(Value::as_array).unwrap_or_default().iter().cloned());
            schema.insert("allOf", all);
        }
    }
}

#[cfg(test)]
mod tests;
