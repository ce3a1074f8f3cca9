//! What to do with each field of a message, worked out once from its schema.

use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock, PoisonError, RwLock};

use super::ProtoError;
use super::wire::{self, BYTES, FIXED64, VARINT};
use crate::Str;
use crate::meta::GroupVersion;
use crate::schema::{IntFormat, Object, ProtoField, Schema, Shape, ShortForm, StringFormat, TypeId, builtin};

/// A message: its fields by number, and the members that they become by name.
pub(super) struct Plan {
    /// The Go type's name.
    pub(super) message: &'static str,
    pub(super) fields: Fields,
    pub(super) members: Vec<Member>,
    /// The members that JSON shows even when they are zero: a bit each, by index.
    pub(super) kept: u64,
}

/// No message has more members; a bit stands for each.
pub(super) const MAX_MEMBERS: usize = u64::BITS as usize;

/// The fields of a message, in the order of their numbers.
pub(super) struct Fields {
    pub(super) list: Vec<Field>,
    /// Where in the list a number is, from 0 on; [`NOWHERE`] if it is nobody's.
    by_number: Vec<u8>,
}

const NOWHERE: u8 = u8::MAX;

impl Fields {
    fn new(mut list: Vec<Field>) -> Self {
        list.sort_by_key(|f| f.number);
        let small = list.iter().enumerate().filter(|(_, f)| f.number < 128);
        let mut by_number = Vec::new();
        for (i, field) in small {
            by_number.resize(field.number as usize, NOWHERE);
            by_number.push(u8::try_from(i).expect("less than 128 numbers"));
        }
        Fields { list, by_number }
    }

    #[inline]
    pub(super) fn find(&self, number: u32) -> Option<&Field> {
        match self.by_number.get(number as usize) {
            Some(&NOWHERE) => None,
            Some(&i) => Some(&self.list[usize::from(i)]),
            None => self.list.binary_search_by_key(&number, |f| f.number).ok().map(|i| &self.list[i]),
        }
    }
}

/// A member of the JSON object; sorted by name.
pub(super) struct Member {
    pub(super) name: Str,
    pub(super) kind: Kind,
    pub(super) many: Many,
    /// Zero and absent differ.
    pub(super) pointer: bool,
    /// Written in JSON even when it is zero.
    pub(super) keep: bool,
}

impl Member {
    /// What errors call it, before [`wrong_wire`](super::names::wrong_wire) makes a name in Go of it: objects and lists
    /// embed their metadata.
    pub(super) fn go_name(&self) -> &str {
        match self.kind {
            Kind::Message(Target::Definition(id)) if self.name == "metadata" => builtin::type_name(id),
            _ => &self.name,
        }
    }

    /// Whether a single zero byte in the message (0, false, an empty text) is nothing in JSON.
    #[inline]
    pub(super) fn omits_zero(&self) -> bool {
        !self.keep
            && !self.pointer
            && matches!(self.kind, Kind::Text | Kind::Bytes | Kind::Bool | Kind::Int32 | Kind::Int)
    }
}

/// A field of the message; sorted by number.
pub(super) struct Field {
    pub(super) number: u32,
    /// The key: number and wire type.
    pub(super) key: u32,
    pub(super) holds: Holds,
}

pub(super) enum Holds {
    /// The member at this index.
    Member(usize),
    /// A message whose fields are members of the same object, and the name of its Go type.
    Embedded(String, Fields),
}

/// How many values a field has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Many {
    One,
    List,
    /// A message of key and value each.
    Map,
}

/// What one value is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Bytes,
    Bool,
    Int32,
    Int,
    Double,
    Time,
    MicroTime,
    Duration,
    Quantity,
    IntOrString,
    /// A message that holds JSON text as its field 1.
    Raw,
    /// A message that holds a list of strings as its field 1.
    Strings,
    /// A message without fields.
    Empty,
    SchemaOr(ShortForm),
    Message(Target),
}

/// A message: that of a definition, or one that the facts table has without a definition.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Definition(TypeId),
    Message(&'static str),
}

impl Target {
    /// The message of a kind. A few kinds are no definitions of the published API: PartialObjectMetadata, RangeAllocation,
    /// documents of discovery, the options that come as query parameters.
    pub(super) fn of_kind(group: &str, version: &str, kind: &str) -> Option<Target> {
        if let Some(id) = builtin::by_gvk(group, version, kind) {
            return Some(Target::Definition(id));
        }
        let package = match (group, version) {
            ("meta.k8s.io", "v1" | "v1beta1") => "k8s.io.apimachinery.pkg.apis.meta.v1",
            ("apidiscovery.k8s.io", "v2") => "k8s.io.api.apidiscovery.v2",
            ("", "v1") => "k8s.io.api.core.v1",
            _ => return None,
        };
        builtin::message(&format!("{package}.{kind}")).map(|m| Target::Message(m.name))
    }

    /// As [`Target::of_kind`]. Discovery documents of the core group say no version.
    pub(super) fn of_api_version(api_version: &str, kind: &str) -> Option<Target> {
        match GroupVersion::parse(api_version) {
            Ok(gv) if !gv.version.is_empty() => Target::of_kind(&gv.group, &gv.version, kind),
            Ok(gv) if gv.group.is_empty() => Target::of_kind("", "v1", kind),
            _ => None,
        }
    }

    /// What to do with its fields; `None` if it has no message.
    pub(super) fn plan(self) -> Option<&'static Plan> {
        match self {
            Target::Definition(id) => {
                let plan = PLANS[usize::from(id.0)].get_or_init(|| match &builtin::schema(id).shape {
                    Shape::Object(object) if has_message(id) => Some(make(id, object)),
                    _ => None,
                });
                plan.as_ref()
            }
            Target::Message(name) => {
                if let Some(plan) = MESSAGE_PLANS.read().unwrap_or_else(PoisonError::into_inner).get(name) {
                    return Some(plan);
                }
                let plan: &'static Plan = Box::leak(Box::new(make_bare(builtin::message(name)?)));
                let mut plans = MESSAGE_PLANS.write().unwrap_or_else(PoisonError::into_inner);
                Some(plans.entry(name).or_insert(plan))
            }
        }
    }
}

impl Kind {
    pub(super) fn wire(self) -> u8 {
        match self {
            Kind::Bool | Kind::Int32 | Kind::Int => VARINT,
            Kind::Double => FIXED64,
            _ => BYTES,
        }
    }

    /// Whether a further occurrence adds to the earlier one: messages do, texts and bytes take its place.
    #[inline]
    pub(super) fn merges(self) -> bool {
        self.wire() == BYTES && !matches!(self, Kind::Text | Kind::Bytes)
    }
}

static PLANS: LazyLock<Vec<OnceLock<Option<Plan>>>> =
    LazyLock::new(|| builtin::definitions().map(|_| OnceLock::new()).collect());

/// Those of messages without a definition: less than a hundred, made once each.
static MESSAGE_PLANS: RwLock<BTreeMap<&'static str, &'static Plan>> = RwLock::new(BTreeMap::new());

/// The plan of a definition that should have one.
pub(super) fn plan_of(id: TypeId) -> Result<&'static Plan, ProtoError> {
    Target::Definition(id).plan().ok_or_else(|| ProtoError::NoMessage {
        kind: builtin::type_name(id).into(),
        api_version: builtin::package(id).into(),
    })
}

/// Whether a definition can be written as protobuf.
pub fn has_message(id: TypeId) -> bool {
    match &builtin::schema(id).shape {
        Shape::Object(object) => !object.embedded.is_empty() || object.fields.iter().any(|f| f.proto.is_some()),
        _ => false,
    }
}

/// The schema of CRDs' schemas, which the short forms hold.
pub(super) fn json_schema_props() -> &'static Plan {
    builtin::by_name("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
        .and_then(|id| Target::Definition(id).plan())
        .expect("the table has JSONSchemaProps")
}

fn make(id: TypeId, object: &Object) -> Plan {
    let mut members = Vec::new();
    let fields = collect(object, object, &mut members);
    finish(builtin::type_name(id), fields, members)
}

/// Of a message without a definition: all that its members say of Go is their type.
fn make_bare(message: &'static builtin::Message) -> Plan {
    let mut members = Vec::new();
    let mut fields = Vec::new();
    for (name, proto) in &message.fields {
        let (type_name, many) = match proto.type_name.strip_prefix("repeated ") {
            Some(item) => (item, Many::List),
            None => (proto.type_name.as_str(), Many::One),
        };
        let Some(kind) = bare_kind(type_name, message.name) else { continue };
        let keep = many == Many::List || matches!(kind, Kind::Message(_));
        members.push(Member { name: lasting(name), kind, many, pointer: false, keep });
        fields.push(Named { number: proto.number, holds: Ok((name.clone(), kind, many)) });
    }
    finish(message.name.rsplit('.').next().unwrap_or_default(), fields, members)
}

/// What a value is by its type in the .proto alone.
fn bare_kind(type_name: &str, message: &str) -> Option<Kind> {
    Some(match type_name {
        "string" => Kind::Text,
        "bytes" => Kind::Bytes,
        "bool" => Kind::Bool,
        "double" => Kind::Double,
        "int32" => Kind::Int32,
        "int64" | "uint32" | "uint64" => Kind::Int,
        _ => {
            let full = full_name(type_name, message)?;
            match builtin::by_message(&full) {
                Some(id) => one(&Schema::of(Shape::Ref(id)), type_name, message)?,
                None => Kind::Message(Target::Message(builtin::message(&full)?.name)),
            }
        }
    })
}

fn finish(message: &'static str, fields: Vec<Named>, mut members: Vec<Member>) -> Plan {
    members.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(members.len() <= MAX_MEMBERS, "{message} has more members than bits");
    let kept = members.iter().enumerate().filter(|(_, m)| m.keep).map(|(i, _)| 1 << i).sum();
    Plan { message, fields: number(fields, &members), members, kept }
}

/// The name as one that every object can have without counting its users: plans last as long as the process.
fn lasting(name: &Str) -> Str {
    if name.is_heap_allocated() { Str::new_static(Box::leak(Box::from(name.as_str()))) } else { name.clone() }
}

/// The full name of a type that `message` names; it may leave out its own package.
fn full_name(type_name: &str, message: &str) -> Option<String> {
    match type_name.strip_prefix('.').unwrap_or(type_name) {
        name if name.starts_with("k8s.io.") => Some(name.to_owned()),
        name => Some(format!("{}.{name}", message.rsplit_once('.')?.0)),
    }
}

/// A field whose member is still known by name.
struct Named {
    number: u32,
    /// A member, or an embedded type's name and fields.
    holds: Result<(Str, Kind, Many), (String, Vec<Named>)>,
}

/// The fields of `message`, whose members (in JSON) are those of `object`.
fn collect(message: &Object, object: &Object, members: &mut Vec<Member>) -> Vec<Named> {
    let package = message.message.as_deref().unwrap_or_default();
    let mut out = Vec::new();
    for field in &message.fields {
        if let Some(proto) = &field.proto {
            out.extend(named(&field.name, proto, package, object, members));
        }
    }
    for embedded in &message.embedded {
        let inner = match builtin::by_message(&embedded.message).map(builtin::schema) {
            Some(Schema { shape: Shape::Object(inner), .. }) => collect(inner, object, members),
            _ => builtin::message(&embedded.message)
                .into_iter()
                .flat_map(|m| m.fields.iter().map(move |(name, proto)| (name, proto, m.name)))
                .filter_map(|(name, proto, package)| named(name, proto, package, object, members))
                .collect(),
        };
        let type_name = embedded.message.rsplit('.').next().unwrap_or_default().to_owned();
        out.push(Named { number: embedded.number, holds: Err((type_name, inner)) });
    }
    out
}

fn named(name: &Str, proto: &ProtoField, package: &str, object: &Object, members: &mut Vec<Member>) -> Option<Named> {
    let field = object.field(name)?;
    let (kind, many) = kind_of(&field.schema, &proto.type_name, package)?;
    members.push(Member { name: lasting(name), kind, many, pointer: field.pointer, keep: field.keep });
    Some(Named { number: proto.number, holds: Ok((name.clone(), kind, many)) })
}

fn number(named: Vec<Named>, members: &[Member]) -> Fields {
    let fields = named
        .into_iter()
        .map(|n| match n.holds {
            Ok((name, kind, many)) => {
                let wire = if many == Many::Map { BYTES } else { kind.wire() };
                let index = members.binary_search_by(|m| m.name.cmp(&name)).expect("collected above");
                Field { number: n.number, key: wire::key(n.number, wire), holds: Holds::Member(index) }
            }
            Err((name, inner)) => Field {
                number: n.number,
                key: wire::key(n.number, BYTES),
                holds: Holds::Embedded(name, number(inner, members)),
            },
        })
        .collect();
    Fields::new(fields)
}

/// `type_name` as the .proto has it, `message` the full name of the message that has the field.
fn kind_of(schema: &Schema, type_name: &str, message: &str) -> Option<(Kind, Many)> {
    if let (Some(item), Shape::List(items)) = (type_name.strip_prefix("repeated "), &schema.shape) {
        return Some((one(items, item, message)?, Many::List));
    }
    if let (Some(types), Shape::Map(values)) = (type_name.strip_prefix("map<"), &schema.shape) {
        let (_, value) = types.strip_suffix('>')?.split_once(',')?;
        return Some((one(values, value.trim(), message)?, Many::Map));
    }
    Some((one(schema, type_name, message)?, Many::One))
}

fn one(schema: &Schema, type_name: &str, message: &str) -> Option<Kind> {
    Some(match &schema.resolve().shape {
        Shape::String(StringFormat::Plain) if type_name == "bytes" => Kind::Bytes,
        Shape::String(StringFormat::Plain) => Kind::Text,
        Shape::String(StringFormat::Byte) => Kind::Bytes,
        Shape::String(StringFormat::Time) => Kind::Time,
        Shape::String(StringFormat::MicroTime) => Kind::MicroTime,
        Shape::String(StringFormat::Duration) => Kind::Duration,
        Shape::Integer(IntFormat::Int32) => Kind::Int32,
        Shape::Integer(_) => Kind::Int,
        Shape::Number => Kind::Double,
        Shape::Boolean => Kind::Bool,
        Shape::IntOrString => Kind::IntOrString,
        Shape::Quantity => Kind::Quantity,
        Shape::SchemaOr(form) => Kind::SchemaOr(*form),
        Shape::List(_) => Kind::Strings,
        Shape::Object(object) => Kind::Message(Target::Definition(object.definition?)),
        Shape::Any | Shape::Map(_) | Shape::Ref(_) => {
            match builtin::message(&full_name(type_name, message)?)?.fields.as_slice() {
                [] => Kind::Empty,
                _ => Kind::Raw,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_numbered_member_is_planned() {
        fn leaves(fields: &Fields) -> usize {
            fields
                .list
                .iter()
                .map(|f| match &f.holds {
                    Holds::Member(_) => 1,
                    Holds::Embedded(_, inner) => leaves(inner),
                })
                .sum()
        }
        let mut planned = 0;
        for id in builtin::definitions() {
            let Some(plan) = Target::Definition(id).plan() else { continue };
            planned += 1;
            let Shape::Object(object) = &builtin::schema(id).shape else { panic!("an object") };
            let numbered = object.fields.iter().filter(|f| f.proto.is_some()).count();
            let type_meta = |name: &str| matches!(name, "apiVersion" | "kind");
            let others = object.fields.iter().filter(|f| f.proto.is_none() && !type_meta(&f.name)).count();
            assert_eq!(plan.members.len(), leaves(&plan.fields), "{}", builtin::name(id));
            assert!(plan.members.is_sorted_by(|a, b| a.name < b.name), "{}", builtin::name(id));
            assert!(plan.fields.list.is_sorted_by(|a, b| a.number < b.number), "{}", builtin::name(id));
            for number in 0..2000 {
                let listed = plan.fields.list.iter().find(|f| f.number == number);
                assert_eq!(plan.fields.find(number).map(|f| f.key), listed.map(|f| f.key), "{}", builtin::name(id));
            }
            assert_eq!(plan.members.len(), numbered + others, "{}", builtin::name(id));
        }
        assert!(planned > 400, "{planned}");
    }
}
