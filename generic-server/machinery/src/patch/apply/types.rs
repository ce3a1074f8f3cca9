//! Types as server-side apply sees them: a scalar, a list or a map, and of each whether it is one value or many.

use crate::schema::{Field, FieldsInOrder, ListType, Object, Schema, Shape, StringFormat, builtin};
use crate::{Str, Value};

/// The type of a place.
#[derive(Clone, Copy)]
pub(super) struct Type<'s> {
    kind: Kind<'s>,
    /// Unknown members below are kept, and typed by their values.
    preserve: bool,
}

#[derive(Clone, Copy)]
enum Kind<'s> {
    Schema(&'s Schema),
    /// A whole object of a custom resource: the schema, and the members that all objects have.
    Whole(&'s Schema),
    Text,
    /// Anything, as one value.
    Untyped,
    /// Typed by the values: maps are granular, lists one value.
    Deduced,
}

/// What a value is to be handled as.
#[derive(Clone, Copy)]
pub(super) enum Atom<'s> {
    Scalar(Scalar),
    List(ListAtom<'s>),
    Map(MapAtom<'s>),
}

/// The scalars that are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    String,
    Numeric,
    Boolean,
    Any,
}

#[derive(Clone, Copy)]
pub(super) struct ListAtom<'s> {
    pub(super) items: Type<'s>,
    /// How the items are told apart; atomic lists are one value.
    pub(super) list_type: &'s ListType,
}

#[derive(Clone, Copy)]
pub(super) struct MapAtom<'s> {
    object: Option<&'s Object>,
    whole: bool,
    preserve: bool,
    /// The type of members that are not named; none if there may be none.
    others: Option<Type<'s>>,
    /// The map is one value.
    pub(super) atomic: bool,
}

impl<'s> Type<'s> {
    /// The type of an object: a built-in's definition, or the schema of a custom resource.
    pub(super) fn root(schema: &'s Schema) -> Self {
        let builtin = schema.as_object().is_some_and(|o| o.definition.is_some());
        let kind = if builtin { Kind::Schema(schema) } else { Kind::Whole(schema) };
        Type { kind, preserve: schema.preserve_unknown_fields }
    }

    fn of(schema: &'s Schema, preserve: bool) -> Self {
        let kind = if schema.embedded_resource { Kind::Whole(schema) } else { Kind::Schema(schema) };
        Type { kind, preserve: preserve || schema.preserve_unknown_fields }
    }

    const fn plain(kind: Kind<'s>) -> Self {
        Type { kind, preserve: false }
    }

    /// Whether [`Type::atom`] goes by the value.
    pub(super) fn is_open(self) -> bool {
        match self.kind {
            Kind::Text => false,
            Kind::Untyped | Kind::Deduced => true,
            Kind::Schema(schema) | Kind::Whole(schema) => {
                matches!(schema.resolve().shape, Shape::Any | Shape::SchemaOr(_) | Shape::Ref(_))
            }
        }
    }

    /// How to handle `value` here. Types that allow several kinds go by the value; null and no value count as a map then.
    pub(super) fn atom(self, value: Option<&Value>) -> Atom<'s> {
        let (schema, whole) = match self.kind {
            Kind::Text => return Atom::Scalar(Scalar::String),
            Kind::Untyped => return by_value(value, Kind::Untyped, true),
            Kind::Deduced => return by_value(value, Kind::Deduced, false),
            Kind::Schema(schema) => (schema, false),
            Kind::Whole(schema) => (schema, true),
        };
        let resolved = schema.resolve();
        let map = |object, others| {
            let atomic = schema.atomic || (resolved.atomic && !schema.granular);
            Atom::Map(MapAtom { object, whole, preserve: self.preserve, others, atomic })
        };
        match &resolved.shape {
            Shape::Object(object) => {
                let others = match &object.additional {
                    Some(additional) => Some(self.element(additional)),
                    None if self.preserve || object.fields.is_empty() => Some(Type::plain(Kind::Deduced)),
                    None => None,
                };
                map(Some(&**object), others)
            }
            Shape::Map(values) => map(None, Some(self.element(values))),
            Shape::List(items) => {
                Atom::List(ListAtom { items: Type::of(items, self.preserve), list_type: &schema.list_type })
            }
            Shape::String(StringFormat::Plain | StringFormat::Byte | StringFormat::Duration) => {
                let format = resolved.validation.as_ref().and_then(|v| v.format.as_deref());
                Atom::Scalar(if matches!(format, None | Some("byte")) { Scalar::String } else { Scalar::Any })
            }
            Shape::Integer(_) | Shape::Number => Atom::Scalar(Scalar::Numeric),
            Shape::Boolean => Atom::Scalar(Scalar::Boolean),
            Shape::String(_) | Shape::IntOrString | Shape::Quantity => Atom::Scalar(Scalar::Any),
            _ if whole => map(None, Some(Type::plain(Kind::Deduced))),
            Shape::Any | Shape::SchemaOr(_) | Shape::Ref(_) => {
                if self.preserve || is_open_object(schema) {
                    by_value(value, Kind::Deduced, false)
                } else {
                    by_value(value, Kind::Untyped, true)
                }
            }
        }
    }

    /// The type of a map's values. A map of anything is typed by its values.
    fn element(self, values: &'s Schema) -> Type<'s> {
        match values.shape {
            Shape::Any => Type::plain(Kind::Deduced),
            _ => Type::of(values, self.preserve),
        }
    }
}

/// Whether a definition without members is published as an object whose members are told apart: `FieldsV1`. Go holds a
/// `RawExtension` as one value.
fn is_open_object(schema: &Schema) -> bool {
    matches!(schema.shape, Shape::Ref(id) if !matches!(builtin::type_name(id), "JSON" | "RawExtension"))
}

fn by_value<'s>(value: Option<&Value>, kind: Kind<'s>, atomic: bool) -> Atom<'s> {
    match value {
        Some(Value::Array(_)) => {
            Atom::List(ListAtom { items: Type::plain(Kind::Untyped), list_type: &ListType::Atomic })
        }
        None | Some(Value::Object(_) | Value::Null) => {
            Atom::Map(MapAtom { object: None, whole: false, preserve: false, others: Some(Type::plain(kind)), atomic })
        }
        Some(_) => Atom::Scalar(Scalar::Any),
    }
}

impl<'s> Atom<'s> {
    /// Whether two atoms of one type are the same.
    pub(super) fn same_kind(&self, other: &Atom<'_>) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl<'s> MapAtom<'s> {
    /// The type of a member, and whether the type names it. `None` if there is no such member.
    pub(super) fn member(&self, name: &str) -> Option<(Type<'s>, bool)> {
        self.member_of(name, |object| object.field(name))
    }

    fn member_of(&self, name: &str, find: impl FnOnce(&'s Object) -> Option<&'s Field>) -> Option<(Type<'s>, bool)> {
        let field = self.object.and_then(find);
        if self.whole {
            match name {
                "apiVersion" | "kind" => return Some((Type::plain(Kind::Text), true)),
                "metadata" => return object_meta().map(|t| (t, true)),
                _ => {}
            }
        }
        if let Some(field) = field {
            return Some((Type::of(&field.schema, self.preserve), true));
        }
        self.others.map(|t| (t, false))
    }

    /// For the types of members in the order of their names.
    pub(super) fn in_order(&self) -> InOrder<'s> {
        InOrder { map: *self, fields: self.object.map(FieldsInOrder::of) }
    }

    /// Whether the members are typed by their values alone.
    pub(super) fn is_deduced(&self) -> bool {
        let deduced = matches!(self.others, Some(Type { kind: Kind::Deduced, .. }));
        deduced && !self.whole && self.object.is_none_or(|o| o.fields.is_empty())
    }

    /// The facts of a named member.
    pub(super) fn field(&self, name: &str) -> Option<&'s Field> {
        self.object.and_then(|o| o.field(name))
    }
}

/// The types of a map's members, asked for in the order of their names.
pub(super) struct InOrder<'s> {
    map: MapAtom<'s>,
    fields: Option<FieldsInOrder<'s>>,
}

impl<'s> InOrder<'s> {
    /// [`MapAtom::member`] of a name that is greater than the one before.
    pub(super) fn member(&mut self, name: &str) -> Option<(Type<'s>, bool)> {
        let fields = &mut self.fields;
        self.map.member_of(name, |_| fields.as_mut().and_then(|fields| fields.find(name)))
    }
}

fn object_meta<'s>() -> Option<Type<'s>> {
    let id = builtin::by_name("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")?;
    Some(Type::plain(Kind::Schema(builtin::schema(id))))
}

/// The value that a missing key member stands for: its default, or for built-ins the zero value that Go writes.
pub(super) fn key_default(item: &MapAtom<'_>, key: &Str) -> Option<Value> {
    let field = item.field(key)?;
    if let Some(default) = &field.schema.default {
        return Some(default.clone());
    }
    if !field.keep {
        return None;
    }
    zero_scalar(&field.schema)
}

fn zero_scalar(schema: &Schema) -> Option<Value> {
    Some(match schema.resolve().shape {
        Shape::String(StringFormat::Plain) => Value::from(""),
        Shape::Integer(_) | Shape::Number | Shape::IntOrString => Value::Int(0),
        Shape::Boolean => Value::Bool(false),
        Shape::Quantity => Value::from("0"),
        _ => return None,
    })
}

/// What Go writes for a new, empty object of a built-in type. Custom resources start from nothing.
pub(super) fn zero(schema: &Schema) -> Value {
    let Some(object) = schema.as_object().filter(|o| o.definition.is_some()) else { return Value::object() };
    let members = object.fields.iter().filter(|f| f.keep).map(|f| {
        let value = match &f.schema.resolve().shape {
            _ if f.pointer => Value::Null,
            Shape::Object(_) => zero(&f.schema),
            _ => zero_scalar(&f.schema).unwrap_or_default(),
        };
        (f.name.clone(), value)
    });
    Value::Object(members.collect())
}
