//! The shape of objects: what decoding, defaulting, pruning, validation, patching, apply, protobuf and OpenAPI all read.

use std::sync::Arc;

use super::Pattern;
use crate::value::order;
use crate::{Map, Str, Value};

/// Which definition of the built-in facts table; resolved by [`super::builtin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub u16);

/// One node of a type: a shape, and what is said about the place where it stands.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// What values look like.
    pub shape: Shape,
    /// `null` is kept as a value (CRDs' `nullable`).
    pub nullable: bool,
    /// The static default of an absent value.
    pub default: Option<Value>,
    /// The values that are allowed, if they are listed.
    pub enumeration: Vec<Value>,
    /// How a list merges in server-side apply.
    pub list_type: ListType,
    /// An object (or map) that server-side apply treats as one value. Of a list: that it is atomic is written, not implied.
    pub atomic: bool,
    /// A place whose members server-side apply tells apart, though its definition is one value.
    pub granular: bool,
    /// How strategic merge patch treats a list or object.
    pub patch: Option<Box<PatchStrategy>>,
    /// Unknown members below are kept (`x-kubernetes-preserve-unknown-fields`).
    pub preserve_unknown_fields: bool,
    /// A whole object with apiVersion, kind and metadata (`x-kubernetes-embedded-resource`).
    pub embedded_resource: bool,
    /// What only CRDs' schemas say: value validation, CEL rules, documentation.
    pub validation: Option<Box<Validation>>,
    /// Known of CRDs' schemas: neither here nor below is an embedded resource or a list that is a set or a map, and nothing
    /// below has a default. Walks that look for those need not go on.
    pub plain: bool,
}

/// What values of a node look like.
#[derive(Clone, Debug, Default)]
pub enum Shape {
    /// Anything at all (`JSON`, `RawExtension`, a schema without a type).
    #[default]
    Any,
    /// An object with known members, and perhaps others.
    Object(Arc<Object>),
    /// An object whose keys are data.
    Map(Arc<Schema>),
    /// A list.
    List(Arc<Schema>),
    /// Text.
    String(StringFormat),
    /// An integer.
    Integer(IntFormat),
    /// Any number.
    Number,
    /// A boolean.
    Boolean,
    /// An integer or a string (`IntOrString`, `x-kubernetes-int-or-string`).
    IntOrString,
    /// A resource quantity: a string, or a number that is read as one.
    Quantity,
    /// A JSON Schema, or one of its short forms (the members `items`, `additionalProperties`, `dependencies` of CRDs' schemas).
    SchemaOr(ShortForm),
    /// A definition of the facts table.
    Ref(TypeId),
}

/// What may stand in place of a JSON Schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShortForm {
    /// A list of schemas (`JSONSchemaPropsOrArray`).
    List,
    /// A boolean (`JSONSchemaPropsOrBool`).
    Bool,
    /// A list of strings (`JSONSchemaPropsOrStringArray`).
    Strings,
}

/// What a string holds, for built-in types whose Go type parses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StringFormat {
    /// Any text.
    #[default]
    Plain,
    /// Base64 (Go's `[]byte`).
    Byte,
    /// `metav1.Time`: RFC 3339, whole seconds.
    Time,
    /// `metav1.MicroTime`: RFC 3339, microseconds.
    MicroTime,
    /// `metav1.Duration`: Go's duration text.
    Duration,
}

/// The width of an integer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IntFormat {
    /// 64 bits.
    #[default]
    Int64,
    /// 32 bits.
    Int32,
    /// 32 bits without a sign (`uint32`), in protobuf only.
    Uint32,
    /// 8 bits without a sign.
    Uint8,
}

/// An object's members.
#[derive(Clone, Debug, Default)]
pub struct Object {
    /// The known members, sorted by name.
    pub fields: Vec<Field>,
    /// The schema of all other members (CRDs may have both).
    pub additional: Option<Arc<Schema>>,
    /// The full protobuf message name, if the type has one.
    pub message: Option<Str>,
    /// Protobuf fields that hold an embedded message whose fields are members of this object in JSON.
    pub embedded: Vec<Embedded>,
    /// The definition of the facts table that this is; none in CRDs' schemas.
    pub definition: Option<TypeId>,
    /// The Go type of what is in no table (`v1.Issuer`: a struct of a configuration file), for errors.
    pub go_type: Option<Str>,
    /// `x-kubernetes-unions`, as published.
    pub unions: Option<Value>,
}

/// One known member.
#[derive(Clone, Debug, Default)]
pub struct Field {
    /// The JSON name.
    pub name: Str,
    /// The member's schema.
    pub schema: Schema,
    /// OpenAPI's `required`.
    pub required: bool,
    /// Built-ins: zero and absent are two values (Go holds a pointer). A scalar that is not is always written in protobuf.
    pub pointer: bool,
    /// Built-ins: written in JSON even when it is zero, or `null` if there is no value (no `omitempty`).
    pub keep: bool,
    /// Built-ins: a list that is there and empty is not one that is absent, to the kind's defaults.
    pub tells_empty: bool,
    /// Its protobuf field, if it has one of its own.
    pub proto: Option<ProtoField>,
}

/// A protobuf field that embeds another message's fields in this object's JSON (Go's inlined structs).
#[derive(Clone, Debug)]
pub struct Embedded {
    /// The field number.
    pub number: u32,
    /// The Go field's name in the .proto (`volumeSource`, `handler`, …).
    pub name: Str,
    /// The full name of the embedded message, in [`super::builtin`]'s message table.
    pub message: Str,
}

/// How a member is written in protobuf.
#[derive(Clone, Debug, PartialEq)]
pub struct ProtoField {
    /// The field number.
    pub number: u32,
    /// The type as the .proto has it: `string`, `repeated Container`, `map<string,bytes>`, `.k8s.io.….Time`.
    pub type_name: Str,
}

/// `x-kubernetes-list-type` and its keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ListType {
    /// One value.
    #[default]
    Atomic,
    /// Scalars, each its own item.
    Set,
    /// Objects, found by these members.
    Map(Vec<Str>),
}

/// `x-kubernetes-patch-strategy` and `x-kubernetes-patch-merge-key`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PatchStrategy {
    /// Lists are merged, not replaced.
    pub merge: bool,
    /// An object is replaced, not merged.
    pub replace: bool,
    /// Only the members named in `$retainKeys` survive.
    pub retain_keys: bool,
    /// The member that names a list's items; none for lists of scalars.
    pub merge_key: Option<Str>,
}

/// Value validation and annotations of a CRD's schema node. Absent means unrestricted.
#[derive(Clone, Debug, Default)]
pub struct Validation {
    /// The type as written (`object`, `array`, `string`, …), for messages and publication.
    pub type_name: Str,
    /// `format`
    pub format: Option<Str>,
    /// `title`
    pub title: Option<Str>,
    /// `description`
    pub description: Option<Str>,
    /// `maximum`
    pub maximum: Option<f64>,
    /// `exclusiveMaximum`
    pub exclusive_maximum: bool,
    /// `minimum`
    pub minimum: Option<f64>,
    /// `exclusiveMinimum`
    pub exclusive_minimum: bool,
    /// `maxLength`, in code points
    pub max_length: Option<i64>,
    /// `minLength`, in code points
    pub min_length: Option<i64>,
    /// `pattern`, in Go's RE2 syntax
    pub pattern: Option<Pattern>,
    /// `maxItems`
    pub max_items: Option<i64>,
    /// `minItems`
    pub min_items: Option<i64>,
    /// `uniqueItems`
    pub unique_items: bool,
    /// `multipleOf`
    pub multiple_of: Option<f64>,
    /// `maxProperties`
    pub max_properties: Option<i64>,
    /// `minProperties`
    pub min_properties: Option<i64>,
    /// `required`, in the order written
    pub required: Vec<Str>,
    /// `allOf`: value validation only, as structural schemas have it
    pub all_of: Vec<Schema>,
    /// `oneOf`
    pub one_of: Vec<Schema>,
    /// `anyOf`
    pub any_of: Vec<Schema>,
    /// `not`
    pub not: Option<Box<Schema>>,
    /// `example`
    pub example: Option<Value>,
    /// `externalDocs`
    pub external_docs: Option<Value>,
    /// `x-kubernetes-validations`: the rules as written (rule, message, messageExpression, reason, fieldPath, optionalOldSelf)
    pub rules: Vec<Value>,
}

impl Schema {
    /// A node of a plain shape.
    pub fn of(shape: Shape) -> Self {
        Schema { shape, ..Schema::default() }
    }

    /// The schema itself, or the definition that it refers to. What is said about the place (defaults, list types,
    /// patch strategies) is on the reference; whether an object is atomic may be on either.
    pub fn resolve(&self) -> &Schema {
        match self.shape {
            Shape::Ref(id) => super::builtin::schema(id),
            _ => self,
        }
    }

    /// The object behind this node, if it is one with known members.
    pub fn as_object(&self) -> Option<&Object> {
        match &self.resolve().shape {
            Shape::Object(object) => Some(object),
            _ => None,
        }
    }
}

impl Object {
    /// The members of a value, each with what is known of it. Both are sorted, so that one pass joins them.
    pub fn join<'a>(&'a self, members: &'a Map) -> impl Iterator<Item = (&'a Str, &'a Value, Option<&'a Field>)> {
        let mut fields = FieldsInOrder::of(self);
        members.iter().map(move |(name, value)| (name, value, fields.find(name)))
    }

    /// The member called `name`.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.binary_search_by(|f| order(&f.name, name)).ok().map(|i| &self.fields[i])
    }
}

/// The members of an object, to be asked for in the order of their names.
#[derive(Clone, Copy)]
pub(crate) struct FieldsInOrder<'a>(&'a [Field]);

impl<'a> FieldsInOrder<'a> {
    pub(crate) fn of(object: &'a Object) -> Self {
        FieldsInOrder(&object.fields)
    }

    /// The member called `name`, which is greater than the name asked for before.
    pub(crate) fn find(&mut self, name: &str) -> Option<&'a Field> {
        if self.0.first().is_some_and(|next| next.name.as_str() < name) {
            self.0 = &self.0[self.0.partition_point(|f| f.name.as_str() < name)..];
        }
        let field = self.0.first().filter(|f| f.name == name)?;
        self.0 = &self.0[1..];
        Some(field)
    }
}
