//! Messages to [`Value`]: the JSON that the real server shows of them.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::envelope::{Envelope, envelope};
use super::names::wrong_wire;
use super::plan::{Fields, Holds, Kind, MAX_MEMBERS, Many, Member, Plan, Target, plan_of};
use super::scalar::{double, text};
use super::wire::{BYTES, Reader};
use super::{Fault, ProtoError};
use crate::schema::TypeId;
use crate::stacks::{self, Lent};
use crate::{Map, Str, Value};

/// How deep messages may nest; protobuf's usual limit.
const MAX_DEPTH: usize = 100;

/// An empty message takes two bytes in a list but much more memory: so many are enough for the largest object.
const MAX_MESSAGES: usize = 400_000;

/// Opens an envelope and reads the object in it, with its apiVersion and kind.
pub fn decode(bytes: &[u8]) -> Result<Value, ProtoError> {
    Ok(Decoder::new().enveloped(bytes, 0)?)
}

/// Opens an envelope and reads the object in it as one of a definition, whatever version the envelope says: what another
/// version has stored. The apiVersion and kind are the envelope's.
pub fn decode_as(id: TypeId, bytes: &[u8]) -> Result<Value, ProtoError> {
    Ok(Decoder::new().object(plan_of(id)?, &envelope(bytes)?, 0)?)
}

/// Reads a message of a definition. apiVersion and kind are not in messages.
pub fn decode_raw(id: TypeId, raw: &[u8]) -> Result<Value, ProtoError> {
    Ok(Decoder::new().message(plan_of(id)?, raw, 0)?)
}

pub(super) struct Decoder {
    messages: usize,
    /// The values of all messages and lists and the entries of all maps that are not yet whole, the innermost last.
    stacks: Lent,
    /// Entries of maps whose first ones stood elsewhere in the message, with the place of the map among the values.
    scattered: Vec<(usize, Vec<(Str, Value)>)>,
}

/// Which members of a message have been found.
struct Found {
    /// Where its values begin.
    first: usize,
    /// A bit for each member that has a value, by its index in the plan.
    present: u64,
    /// Which value it is, counted from the first.
    places: [u8; MAX_MEMBERS],
}

impl Found {
    #[inline]
    fn place(&self, index: usize) -> Option<usize> {
        (self.present & 1 << index != 0).then(|| self.first + usize::from(self.places[index]))
    }

    /// Notes that the member's value is at a place.
    #[inline]
    fn note(&mut self, index: usize, place: usize) {
        self.places[index] = (place - self.first) as u8; // no more than there are members
        self.present |= 1 << index;
    }
}

impl Decoder {
    fn new() -> Self {
        Decoder { messages: 0, stacks: stacks::borrow(), scattered: Vec::new() }
    }

    pub(super) fn enveloped(&mut self, bytes: &[u8], depth: usize) -> Result<Value, Fault> {
        let envelope = envelope(bytes)?;
        let target = Target::of_api_version(envelope.api_version, envelope.kind);
        let plan = target.and_then(Target::plan).ok_or_else(|| ProtoError::NoMessage {
            kind: envelope.kind.into(),
            api_version: envelope.api_version.into(),
        })?;
        self.object(plan, &envelope, depth)
    }

    fn object(&mut self, plan: &'static Plan, envelope: &Envelope<'_>, depth: usize) -> Result<Value, Fault> {
        let mut members = self.members(plan, None, envelope.raw, 2, depth)?;
        for (name, text) in [("apiVersion", envelope.api_version), ("kind", envelope.kind)] {
            if !text.is_empty() {
                let place = members.partition_point(|(other, _)| other.as_str() < name);
                members.insert(place, (Str::new_static(name), Value::from(text)));
            }
        }
        Ok(Value::Object(Map::from_sorted(members)))
    }

    fn message(&mut self, plan: &'static Plan, bytes: &[u8], depth: usize) -> Result<Value, Fault> {
        Ok(Value::Object(Map::from_sorted(self.members(plan, None, bytes, 0, depth)?)))
    }

    /// Reads a message into what an earlier occurrence of the same field has left, if one has.
    pub(super) fn merged(
        &mut self,
        plan: &'static Plan,
        old: Value,
        bytes: &[u8],
        depth: usize,
    ) -> Result<Value, Fault> {
        let old = if let Value::Object(old) = old { Some(old) } else { None };
        Ok(Value::Object(Map::from_sorted(self.members(plan, old, bytes, 0, depth)?)))
    }

    /// The members of the JSON object, sorted by name, with room for more. They begin as those of `old`.
    fn members(
        &mut self,
        plan: &'static Plan,
        old: Option<Map>,
        bytes: &[u8],
        room: usize,
        depth: usize,
    ) -> Result<Vec<(Str, Value)>, Fault> {
        self.messages += 1;
        if self.messages > MAX_MESSAGES {
            return Err(Box::new(ProtoError::TooMany));
        }
        if depth >= MAX_DEPTH {
            return Err(Box::new(ProtoError::Depth));
        }
        let scattered = self.scattered.len();
        let mut found = Found { first: self.stacks.values.len(), present: 0, places: [0; MAX_MEMBERS] };
        if let Some(old) = old {
            self.resume(plan, old, &mut found);
        }
        self.fields(plan, &plan.fields, bytes, &mut found, depth + 1)?;
        for (place, more) in self.scattered.drain(scattered..) {
            let map = self.stacks.values[place].make_object();
            self.messages += map.len() / 32; // a map that is joined again and again has an end too
            map.extend(more);
        }
        let mut rest = found.present | plan.kept;
        let mut members = Vec::with_capacity(rest.count_ones() as usize + room);
        while rest != 0 {
            let index = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let member = &plan.members[index];
            let value = match found.place(index) {
                Some(place) => self.stacks.values[place].take(),
                None if member.pointer || member.many != Many::One => Value::Null,
                None => self.zero(member.kind, depth + 1)?,
            };
            if member.keep || !value.is_null() {
                members.push((member.name.clone(), value));
            }
        }
        self.stacks.values.truncate(found.first);
        Ok(members)
    }

    /// Goes on where an earlier occurrence of the message has ended: its members are found already.
    #[cold]
    fn resume(&mut self, plan: &'static Plan, old: Map, found: &mut Found) {
        for (name, value) in old.into_entries() {
            if value.is_null() {
                continue;
            }
            if let Ok(index) = plan.members.binary_search_by(|member| member.name.cmp(&name)) {
                found.note(index, self.stacks.values.len());
                self.stacks.values.push(value);
            }
        }
    }

    fn fields(
        &mut self,
        plan: &'static Plan,
        fields: &'static Fields,
        bytes: &[u8],
        found: &mut Found,
        depth: usize,
    ) -> Result<(), Fault> {
        let mut reader = Reader::new(bytes, plan.message);
        while let Some((number, wire)) = reader.key()? {
            let Some(field) = fields.find(number) else {
                reader.skip(wire)?;
                continue;
            };
            let index = match &field.holds {
                Holds::Embedded(name, _) if wire != BYTES => return Err(wrong_wire(wire, name)),
                Holds::Embedded(_, inner) => {
                    self.fields(plan, inner, reader.bytes()?, found, depth)?;
                    continue;
                }
                Holds::Member(index) => *index,
            };
            let member = &plan.members[index];
            if wire != BYTES && member.many == Many::Map {
                return Err(wrong_wire(wire, member.go_name()));
            }
            match member.many {
                Many::One => self.single(member, wire, &mut reader, (index, found), depth)?,
                Many::List => self.list(member, (field.key, wire), &mut reader, (index, found), depth)?,
                Many::Map => self.map(member, field.key, &mut reader, (index, found), depth)?,
            }
        }
        Ok(())
    }

    /// Reads a member that has one value. Of several the last counts, but messages are merged; none is kept that Go omits.
    #[inline]
    fn single(
        &mut self,
        member: &'static Member,
        wire: u8,
        reader: &mut Reader<'_>,
        (index, found): (usize, &mut Found),
        depth: usize,
    ) -> Result<(), Fault> {
        if member.omits_zero() && wire == member.kind.wire() && reader.zero_follows() {
            if let Some(place) = found.place(index) {
                self.stacks.values[place] = Value::Null;
            }
            return Ok(());
        }
        let last = self.stacks.values.len();
        match found.place(index).map(|place| self.stacks.values[place].take()) {
            Some(old) if !old.is_null() && wire == BYTES && member.kind.merges() => {
                let value = self.again(member.kind, old, reader.bytes()?, depth)?;
                self.stacks.values.push(value);
            }
            _ => self.value(member, wire, reader, depth)?,
        }
        if !member.keep && is_omitted(&self.stacks.values[last], member.pointer) {
            self.stacks.values[last] = Value::Null;
        }
        match found.place(index) {
            Some(place) => {
                self.stacks.values.swap_remove(place); // the last takes its place
            }
            None => found.note(index, last),
        }
        Ok(())
    }

    /// Reads the items of a list that stand together.
    fn list(
        &mut self,
        member: &'static Member,
        (key, wire): (u32, u8),
        reader: &mut Reader<'_>,
        (index, found): (usize, &mut Found),
        depth: usize,
    ) -> Result<(), Fault> {
        let first = self.stacks.values.len();
        if wire == BYTES && member.kind.wire() != BYTES {
            let mut packed = Reader::new(reader.bytes()?, "");
            while !packed.is_empty() {
                self.value(member, member.kind.wire(), &mut packed, depth)?;
            }
        } else {
            self.value(member, wire, reader, depth)?;
            while reader.key_follows(key) {
                self.value(member, wire, reader, depth)?;
            }
        }
        let items = self.stacks.values.split_off(first);
        match found.place(index) {
            Some(place) => {
                if let Some(list) = self.stacks.values[place].as_array_mut() {
                    list.extend(items);
                }
            }
            None if items.is_empty() => {}
            None => {
                self.stacks.values.push(Value::Array(Arc::new(items)));
                found.note(index, first);
            }
        }
        Ok(())
    }

    /// Reads the entries of a map that stand together.
    fn map(
        &mut self,
        member: &'static Member,
        key: u32,
        reader: &mut Reader<'_>,
        (index, found): (usize, &mut Found),
        depth: usize,
    ) -> Result<(), Fault> {
        let first = self.stacks.members.len();
        self.entry(member, reader.bytes()?, depth)?;
        while reader.key_follows(key) {
            self.entry(member, reader.bytes()?, depth)?;
        }
        let entries = self.stacks.members.split_off(first);
        let Some(place) = found.place(index) else {
            found.note(index, self.stacks.values.len());
            self.stacks.values.push(Value::Object(Map::from_entries(entries)));
            return Ok(());
        };
        // Joined at once in the end: one by one would take a hostile message's square.
        match self.scattered.iter_mut().rev().take_while(|(p, _)| *p >= found.first).find(|(p, _)| *p == place) {
            Some((_, more)) => more.extend(entries),
            None => self.scattered.push((place, entries)),
        }
        Ok(())
    }

    /// Reads an entry of a map and puts it on the stack of entries.
    fn entry(&mut self, member: &'static Member, bytes: &[u8], depth: usize) -> Result<(), Fault> {
        let first = self.stacks.values.len();
        let mut key = Str::default();
        let mut reader = Reader::new(bytes, "");
        // Here upstream's code looks at the numbers alone.
        while let Some((number, wire)) = reader.unchecked_key()? {
            match number {
                1 => key = text(reader.bytes()?),
                2 => {
                    self.stacks.values.truncate(first);
                    self.value(member, member.kind.wire(), &mut reader, depth)?;
                }
                _ => reader.skip(wire)?,
            }
        }
        let value = if self.stacks.values.len() > first { self.stacks.values.pop() } else { None };
        let value = match value {
            Some(value) => value,
            None if member.kind == Kind::Bytes => Value::from(""), // here Go has empty bytes, not none
            None => self.zero(member.kind, depth)?,
        };
        self.stacks.members.push((key, value));
        Ok(())
    }

    /// Reads a value and puts it on the stack of values, where it is made in place: moving it costs more than reading.
    fn value(&mut self, member: &'static Member, wire: u8, reader: &mut Reader<'_>, depth: usize) -> Result<(), Fault> {
        let kind = member.kind;
        if wire != kind.wire() {
            return Err(wrong_wire(wire, member.go_name()));
        }
        match kind {
            Kind::Bool => self.stacks.values.push(Value::Bool(reader.varint()? != 0)),
            Kind::Int32 => self.stacks.values.push(Value::Int(i64::from(reader.varint()? as i32))), // as Go does: the low bits
            Kind::Int => self.stacks.values.push(Value::Int(reader.varint()? as i64)),
            Kind::Double => self.stacks.values.push(double(f64::from_bits(reader.fixed64()?))?),
            Kind::Text => self.stacks.values.push(Value::String(text(reader.bytes()?))),
            Kind::Bytes => self.stacks.values.push(Value::from(STANDARD.encode(reader.bytes()?))),
            Kind::Message(target) => {
                let bytes = reader.bytes()?;
                let members = match target.plan() {
                    Some(inner) => self.members(inner, None, bytes, 0, depth)?,
                    None => Vec::new(),
                };
                self.stacks.values.push(Value::Object(Map::from_sorted(members)));
            }
            special => {
                let value = self.special(special, Value::Null, reader.bytes()?, depth)?;
                self.stacks.values.push(value);
            }
        }
        Ok(())
    }

    /// Reads a further occurrence of a message into what the earlier ones have made.
    #[cold]
    fn again(&mut self, kind: Kind, old: Value, bytes: &[u8], depth: usize) -> Result<Value, Fault> {
        match kind {
            Kind::Message(target) => match target.plan() {
                Some(inner) => self.merged(inner, old, bytes, depth),
                None => Ok(old),
            },
            special => self.special(special, old, bytes, depth),
        }
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

/// Whether Go omits a value that is not always shown.
#[inline]
fn is_omitted(value: &Value, pointer: bool) -> bool {
    match value {
        Value::Null => true,
        _ if pointer => false,
        Value::Bool(b) => !b,
        Value::Int(i) => *i == 0,
        Value::Float(f) => *f == 0.0,
        Value::String(s) => s.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Array(_) => false,
    }
}
