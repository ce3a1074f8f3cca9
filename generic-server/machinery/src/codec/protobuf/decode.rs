//! Messages to [`Value`]: the JSON that the real server shows of them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::envelope::{Envelope, MAGIC, envelope};
use super::plan::{Field, Holds, Kind, Many, Member, Plan, Target, json_schema_props, plan_of};
use super::wire::{BYTES, Reader, VARINT};
use super::{Fault, ProtoError};
use crate::codec::json;

use crate::meta::{GoDuration, Quantity, TimeForm, Timestamp};
use crate::schema::{ShortForm, TypeId};
use crate::{Map, Str, Value};

/// How deep messages may nest; protobuf's usual limit.
const MAX_DEPTH: usize = 100;

/// An empty message takes two bytes in a list but much more memory: so many are enough for the largest object.
const MAX_MESSAGES: usize = 400_000;

/// Opens an envelope and reads the object in it, with its apiVersion and kind.
pub fn decode(bytes: &[u8]) -> Result<Value, ProtoError> {
    Ok(Decoder::default().enveloped(bytes, 0)?)
}

/// Opens an envelope and reads the object in it as one of a definition, whatever version the envelope says: what another
/// version has stored. The apiVersion and kind are the envelope's.
pub fn decode_as(id: TypeId, bytes: &[u8]) -> Result<Value, ProtoError> {
    Ok(Decoder::default().object(plan_of(id)?, &envelope(bytes)?, 0)?)
}

/// Reads a message of a definition. apiVersion and kind are not in messages.
pub fn decode_raw(id: TypeId, raw: &[u8]) -> Result<Value, ProtoError> {
    Ok(Decoder::default().message(plan_of(id)?, raw, 0)?)
}

#[derive(Default)]
struct Decoder {
    messages: usize,
    /// The members found so far (by their index in the plan) of all messages that are being read, the innermost last.
    found: Vec<(usize, Slot)>,
}

/// Where a field's value goes.
#[derive(Clone, Copy)]
struct Place {
    /// Where the finds of its message begin.
    first: usize,
    /// The member's index in the plan.
    index: usize,
    /// No field of this number has come before.
    fresh: bool,
}

/// What has been read of a member.
enum Slot {
    Nothing,
    One(Value),
    List(Vec<Value>),
    Map(Vec<(Str, Value)>),
}

impl Slot {
    fn push_item(&mut self, item: Value) {
        match self {
            Slot::List(items) => items.push(item),
            slot => *slot = Slot::List(vec![item]),
        }
    }
}

impl Decoder {
    fn enveloped(&mut self, bytes: &[u8], depth: usize) -> Result<Value, Fault> {
        let envelope = envelope(bytes)?;
        let target = Target::of_api_version(envelope.api_version, envelope.kind);
        let plan = target.and_then(Target::plan).ok_or_else(|| ProtoError::NoMessage {
            kind: envelope.kind.into(),
            api_version: envelope.api_version.into(),
        })?;
        self.object(plan, &envelope, depth)
    }

    fn object(&mut self, plan: &'static Plan, envelope: &Envelope<'_>, depth: usize) -> Result<Value, Fault> {
        let mut value = self.message(plan, envelope.raw, depth)?;
        if let Value::Object(members) = &mut value {
            for (name, text) in [("apiVersion", envelope.api_version), ("kind", envelope.kind)] {
                if !text.is_empty() {
                    members.insert(name, text);
                }
            }
        }
        Ok(value)
    }

    fn message(&mut self, plan: &'static Plan, bytes: &[u8], depth: usize) -> Result<Value, Fault> {
        self.messages += 1;
        if self.messages > MAX_MESSAGES {
            return Err(Box::new(ProtoError::TooMany));
        }
        if depth >= MAX_DEPTH {
            return Err(Box::new(ProtoError::Depth));
        }
        let first = self.found.len();
        self.fields(plan, &plan.fields, bytes, (first, true), depth + 1)?;
        self.found[first..].sort_unstable_by_key(|(member, _)| *member);
        let last = self.found.len();
        let absent = plan.kept.iter().filter(|i| !self.found[first..].iter().any(|(member, _)| member == *i)).count();
        let mut members = Vec::with_capacity(last - first + absent);
        let mut kept = plan.kept.iter().copied().peekable();
        for at in first..last {
            let (index, slot) = std::mem::replace(&mut self.found[at], (0, Slot::Nothing));
            while let Some(i) = kept.next_if(|i| *i <= index) {
                if i < index {
                    self.show(&plan.members[i], Slot::Nothing, depth + 1, &mut members)?;
                }
            }
            self.show(&plan.members[index], slot, depth + 1, &mut members)?;
        }
        for i in kept {
            self.show(&plan.members[i], Slot::Nothing, depth + 1, &mut members)?;
        }
        self.found.truncate(first);
        Ok(Value::Object(Map::from_sorted(members)))
    }

    fn show(
        &mut self,
        member: &'static Member,
        slot: Slot,
        depth: usize,
        members: &mut Vec<(Str, Value)>,
    ) -> Result<(), Fault> {
        if let Some(value) = self.shown(member, slot, depth)? {
            members.push((member.name.clone(), value));
        }
        Ok(())
    }

    /// What has been found of a member.
    #[inline]
    fn slot(&mut self, place: Place) -> &mut Slot {
        let found = |(member, _): &(usize, Slot)| *member == place.index;
        let known = if place.fresh { None } else { self.found[place.first..].iter().rposition(found) };
        let at = match known {
            Some(i) => place.first + i,
            None => {
                self.found.push((place.index, Slot::Nothing));
                self.found.len() - 1
            }
        };
        &mut self.found[at].1
    }

    fn fields(
        &mut self,
        plan: &'static Plan,
        fields: &'static [Field],
        bytes: &[u8],
        (first, first_time): (usize, bool),
        depth: usize,
    ) -> Result<(), Fault> {
        let mut reader = Reader::new(bytes, plan.message);
        // Fields come in the order of their numbers, as a rule.
        let (mut next, mut highest) = (0, 0);
        while let Some((number, wire)) = reader.key()? {
            let at = match fields[next..].first() {
                Some(field) if field.number == number => Ok(next),
                _ => fields.binary_search_by_key(&number, |f| f.number),
            };
            let Ok(at) = at else {
                reader.skip(wire)?;
                continue;
            };
            let fresh = first_time && number > highest;
            match &fields[at].holds {
                Holds::Embedded(_) if wire != BYTES => return Err(wrong_wire(wire, "")),
                Holds::Embedded(inner) => self.fields(plan, inner, reader.bytes()?, (first, fresh), depth)?,
                Holds::Member(i) => {
                    let place = Place { first, index: *i, fresh };
                    self.field(&plan.members[*i], wire, &mut reader, place, depth)?;
                }
            }
            highest = highest.max(number);
            // A list's next item has the same number; any other field comes later.
            let repeats = matches!(&fields[at].holds, Holds::Member(i) if plan.members[*i].many != Many::One);
            next = if repeats { at } else { at + 1 };
        }
        Ok(())
    }

    fn field(
        &mut self,
        member: &'static Member,
        wire: u8,
        reader: &mut Reader<'_>,
        place: Place,
        depth: usize,
    ) -> Result<(), Fault> {
        match member.many {
            Many::One => {
                let value = self.value(member, wire, reader, depth)?;
                *self.slot(place) = Slot::One(value);
            }
            Many::List if wire == BYTES && member.kind.wire() != BYTES => {
                let mut packed = Reader::new(reader.bytes()?, "");
                while !packed.is_empty() {
                    let item = self.value(member, member.kind.wire(), &mut packed, depth)?;
                    self.slot(Place { fresh: false, ..place }).push_item(item);
                }
            }
            Many::List => {
                let item = self.value(member, wire, reader, depth)?;
                self.slot(place).push_item(item);
            }
            Many::Map if wire != BYTES => return Err(wrong_wire(wire, &member.name)),
            Many::Map => {
                let entry = self.entry(member, reader.bytes()?, depth)?;
                match self.slot(place) {
                    Slot::Map(entries) => entries.push(entry),
                    slot => *slot = Slot::Map(vec![entry]),
                }
            }
        }
        Ok(())
    }

    fn entry(&mut self, member: &'static Member, bytes: &[u8], depth: usize) -> Result<(Str, Value), Fault> {
        let (mut key, mut value) = (Str::default(), None);
        let mut reader = Reader::new(bytes, "");
        while let Some((number, wire)) = reader.key()? {
            match number {
                1 if wire == BYTES => key = text(reader.bytes()?),
                2 => value = Some(self.value(member, wire, &mut reader, depth)?),
                _ => reader.skip(wire)?,
            }
        }
        let value = match value {
            Some(value) => value,
            None if member.kind == Kind::Bytes => Value::from(""), // here Go has empty bytes, not none
            None => self.zero(member.kind, depth)?,
        };
        Ok((key, value))
    }

    fn value(
        &mut self,
        member: &'static Member,
        wire: u8,
        reader: &mut Reader<'_>,
        depth: usize,
    ) -> Result<Value, Fault> {
        let kind = member.kind;
        if wire != kind.wire() {
            return Err(wrong_wire(wire, &member.name));
        }
        Ok(match kind {
            Kind::Bool => Value::Bool(reader.varint()? != 0),
            Kind::Int32 => Value::from(reader.varint()? as i32), // as Go does: the low bits
            Kind::Int => Value::Int(reader.varint()? as i64),
            Kind::Double => double(f64::from_bits(reader.fixed64()?))?,
            Kind::Text => Value::String(text(reader.bytes()?)),
            Kind::Bytes => Value::from(STANDARD.encode(reader.bytes()?)),
            Kind::Message(target) => match target.plan() {
                Some(inner) => self.message(inner, reader.bytes()?, depth)?,
                None => {
                    reader.bytes()?;
                    Value::object()
                }
            },
            special => self.special(special, reader.bytes()?, depth)?,
        })
    }

    /// Messages that JSON shows as something else than an object of their fields.
    fn special(&mut self, kind: Kind, bytes: &[u8], depth: usize) -> Result<Value, Fault> {
        match kind {
            Kind::Time => time(bytes, TimeForm::Seconds),
            Kind::MicroTime => time(bytes, TimeForm::Micros),
            Kind::Duration => duration(bytes),
            Kind::Quantity => quantity(bytes),
            Kind::IntOrString => int_or_string(bytes),
            Kind::Raw => self.raw(bytes, depth),
            Kind::Strings => strings(bytes),
            Kind::SchemaOr(form) => self.schema_or(form, bytes, depth),
            _ => Ok(Value::object()),
        }
    }

    fn raw(&mut self, bytes: &[u8], depth: usize) -> Result<Value, Fault> {
        let mut raw: Option<&[u8]> = None;
        let mut reader = Reader::new(bytes, "RawExtension");
        while let Some((number, wire)) = reader.key()? {
            match (number, wire) {
                (1, BYTES) => raw = Some(reader.bytes()?),
                (_, wire) => reader.skip(wire)?,
            }
        }
        match raw {
            None | Some([]) => Ok(Value::Null),
            Some(inner) if inner.starts_with(MAGIC) => self.enveloped(inner, depth),
            Some(text) => Ok(json::decode(text).map_err(ProtoError::from)?),
        }
    }

    fn schema_or(&mut self, form: ShortForm, bytes: &[u8], depth: usize) -> Result<Value, Fault> {
        let schema_number = if form == ShortForm::Bool { 2 } else { 1 };
        let (mut schema, mut allows, mut items) = (None, false, Vec::new());
        let mut reader = Reader::new(bytes, "JSONSchemaPropsOr");
        while let Some((number, wire)) = reader.key()? {
            match (number, wire) {
                (n, BYTES) if n == schema_number => {
                    schema = Some(self.message(json_schema_props(), reader.bytes()?, depth)?);
                }
                (1, VARINT) => allows = reader.varint()? != 0,
                (2, BYTES) if form == ShortForm::List => {
                    items.push(self.message(json_schema_props(), reader.bytes()?, depth)?);
                }
                (2, BYTES) => items.push(Value::String(text(reader.bytes()?))),
                (_, wire) => reader.skip(wire)?,
            }
        }
        Ok(match (form, schema) {
            (ShortForm::Bool, None) => Value::Bool(allows),
            (_, _) if !items.is_empty() => Value::from(items),
            (_, Some(schema)) => schema,
            _ => Value::Null,
        })
    }

    /// What JSON shows of a member; `None` if Go omits it.
    fn shown(&mut self, member: &'static Member, slot: Slot, depth: usize) -> Result<Option<Value>, Fault> {
        let value = match slot {
            Slot::One(value) => value,
            Slot::List(items) => Value::from(items),
            Slot::Map(entries) => Value::Object(Map::from_entries(entries)),
            Slot::Nothing if !member.keep => return Ok(None),
            Slot::Nothing if member.pointer || member.many != Many::One => return Ok(Some(Value::Null)),
            Slot::Nothing => self.zero(member.kind, depth)?,
        };
        if member.keep || (member.pointer && !value.is_null()) {
            return Ok(Some(value));
        }
        let zero = match &value {
            Value::Null | Value::Bool(false) | Value::Int(0) => true,
            Value::Float(f) => *f == 0.0,
            Value::String(s) => s.is_empty(),
            Value::Object(members) => member.many == Many::One && members.is_empty(),
            _ => false,
        };
        Ok((!zero).then_some(value))
    }

    /// The JSON of Go's zero value.
    fn zero(&mut self, kind: Kind, depth: usize) -> Result<Value, Fault> {
        Ok(match kind {
            Kind::Text => Value::from(""),
            Kind::Bool => Value::Bool(false),
            Kind::Int32 | Kind::Int | Kind::Double | Kind::IntOrString => Value::Int(0),
            Kind::Quantity => Value::from("0"),
            Kind::Duration => Value::from("0s"),
            Kind::Bytes | Kind::Time | Kind::MicroTime | Kind::Raw | Kind::Strings | Kind::SchemaOr(_) => Value::Null,
            Kind::Empty => Value::object(),
            Kind::Message(target) => match target.plan() {
                Some(inner) => self.message(inner, &[], depth)?,
                None => Value::object(),
            },
        })
    }
}

fn wrong_wire(wire: u8, name: &str) -> Fault {
    let mut field = name.to_owned();
    if let Some(first) = field.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    Box::new(ProtoError::WireType { wire, field })
}

/// Text; bytes that are not UTF-8 become U+FFFD, as they would in JSON.
fn text(bytes: &[u8]) -> Str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => json::mend_utf8(bytes).into(),
    }
}

fn double(f: f64) -> Result<Value, Fault> {
    if f.is_finite() {
        Ok(Value::Float(f))
    } else {
        Err(Box::new(ProtoError::Value(format!("json: unsupported value: {f}"))))
    }
}

fn time(bytes: &[u8], form: TimeForm) -> Result<Value, Fault> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    let mut reader = Reader::new(bytes, "Timestamp");
    while let Some((number, wire)) = reader.key()? {
        match (number, wire) {
            (1, VARINT) => seconds = reader.varint()? as i64,
            (2, VARINT) => nanos = reader.varint()? as i32,
            (_, wire) => reader.skip(wire)?,
        }
    }
    if !(-62_167_219_200..=253_402_300_799).contains(&seconds) {
        return Err(Box::new(ProtoError::Value("Time.MarshalJSON: year outside of range [0,9999]".into())));
    }
    let time = Timestamp::new(seconds, u32::try_from(nanos).unwrap_or(0));
    Ok(if time == Timestamp::ZERO { Value::Null } else { Value::from(time.text(form)) })
}

fn duration(bytes: &[u8]) -> Result<Value, Fault> {
    let mut nanos = 0;
    let mut reader = Reader::new(bytes, "Duration");
    while let Some((number, wire)) = reader.key()? {
        match (number, wire) {
            (1, VARINT) => nanos = reader.varint()? as i64,
            (_, wire) => reader.skip(wire)?,
        }
    }
    Ok(Value::from(GoDuration { nanoseconds: nanos }.to_string()))
}

fn quantity(bytes: &[u8]) -> Result<Value, Fault> {
    let mut found: &[u8] = b"";
    let mut reader = Reader::new(bytes, "Quantity");
    while let Some((number, wire)) = reader.key()? {
        match (number, wire) {
            (1, BYTES) => found = reader.bytes()?,
            (_, wire) => reader.skip(wire)?,
        }
    }
    if found.is_empty() {
        return Ok(Value::from("0"));
    }
    let text = text(found);
    Ok(Value::String(Quantity::parse(&text).map_err(ProtoError::from)?.text()))
}

fn int_or_string(bytes: &[u8]) -> Result<Value, Fault> {
    let (mut is_text, mut int, mut string) = (false, 0, Str::default());
    let mut reader = Reader::new(bytes, "IntOrString");
    while let Some((number, wire)) = reader.key()? {
        match (number, wire) {
            (1, VARINT) => is_text = reader.varint()? == 1,
            (2, VARINT) => int = reader.varint()? as i32,
            (3, BYTES) => string = text(reader.bytes()?),
            (_, wire) => reader.skip(wire)?,
        }
    }
    Ok(if is_text { Value::String(string) } else { Value::from(int) })
}

fn strings(bytes: &[u8]) -> Result<Value, Fault> {
    let mut items = Vec::new();
    let mut reader = Reader::new(bytes, "");
    while let Some((number, wire)) = reader.key()? {
        match (number, wire) {
            (1, BYTES) => items.push(Value::String(text(reader.bytes()?))),
            (_, wire) => reader.skip(wire)?,
        }
    }
    Ok(if items.is_empty() { Value::Null } else { Value::from(items) })
}
