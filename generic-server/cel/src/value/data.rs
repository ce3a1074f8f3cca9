//! Lists, maps and objects of documents, seen through their declaration. Nothing is converted before it is looked at.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use machinery::codec::json::encode_into;
use machinery::schema::ListType;
use machinery::{Str, Value as Json};

use super::{Error, Result, Value, time};
use crate::types::Type;
use crate::types::decl::{Decl, DeclKind, unescape};

/// A list or an object of a document.
#[derive(Clone, Debug)]
pub struct Data {
    json: Json, // an array or an object
    decl: Arc<Decl>,
}

/// A part of a document as a value.
pub fn from_json(json: &Json, decl: &Arc<Decl>) -> Result {
    let wrong = |expected: &str| Err(Error::Failed(format!("invalid data, expected a {expected}")));
    if json.is_null() {
        return if decl.nullable || matches!(decl.kind, DeclKind::Dyn) {
            Ok(Value::Null)
        } else {
            Err(Error::new("invalid data, got null for schema with nullable=false"))
        };
    }
    match (&decl.kind, json) {
        (DeclKind::Dyn | DeclKind::IntOrString, Json::Int(i)) => Ok(Value::Int(*i)),
        (DeclKind::Dyn | DeclKind::IntOrString, Json::Float(f)) => Ok(Value::Double(*f)),
        (DeclKind::Dyn | DeclKind::Bool, Json::Bool(b)) => Ok(Value::Bool(*b)),
        (DeclKind::Dyn | DeclKind::IntOrString | DeclKind::String, Json::String(s)) => Ok(Value::String(s.clone())),
        (DeclKind::Dyn, Json::Array(_) | Json::Object(_))
        | (DeclKind::List(_), Json::Array(_))
        | (DeclKind::Map(_) | DeclKind::Object(_), Json::Object(_)) => {
            Ok(Value::Data(Data { json: json.clone(), decl: decl.clone() }))
        }
        (DeclKind::Int, Json::Int(i)) => Ok(Value::Int(*i)),
        (DeclKind::Int, Json::Float(f)) if f.fract() == 0.0 => Ok(Value::Int(*f as i64)),
        (DeclKind::Double, Json::Int(i)) => Ok(Value::Double(*i as f64)),
        (DeclKind::Double, Json::Float(f)) => Ok(Value::Double(*f)),
        (DeclKind::Bytes, Json::String(s)) => match STANDARD.decode(s.as_str()) {
            Ok(bytes) => Ok(Value::Bytes(bytes.into())),
            Err(e) => Err(Error::Failed(format!("Invalid byte formatted string {s}: {e}"))),
        },
        (DeclKind::Duration, Json::String(s)) => match time::parse_span(s) {
            Some(nanoseconds) => Ok(Value::Duration(nanoseconds)),
            None => Err(Error::Failed(format!("Invalid duration {s}"))),
        },
        (DeclKind::Date, Json::String(s)) => moment(&format!("{s}T00:00:00Z"), s, "date"),
        (DeclKind::DateTime, Json::String(s)) => moment(s, s, "date-time"),
        (DeclKind::Bool, _) => wrong("boolean value"),
        (DeclKind::Int, _) => wrong("int value"),
        (DeclKind::Double, _) => wrong("double value"),
        (DeclKind::List(_), _) => wrong("array value to match the schema with type=array"),
        (DeclKind::Map(_) | DeclKind::Object(_), _) => wrong("map value to match the schema with type=object"),
        (DeclKind::IntOrString, _) => wrong("XIntOrString value to be either a string or integer"),
        _ => wrong("string value"),
    }
}

fn moment(text: &str, shown: &str, what: &str) -> Result {
    match time::parse(text) {
        Some(at) => Ok(Value::Timestamp(at)),
        None => Err(Error::Failed(format!("Invalid {what} formatted string {shown}"))),
    }
}

impl Data {
    /// The part of the document.
    pub fn json(&self) -> &Json {
        &self.json
    }

    pub(crate) fn is_list(&self) -> bool {
        matches!(self.json, Json::Array(_))
    }

    pub(crate) fn len(&self) -> usize {
        match &self.json {
            Json::Array(items) => items.len(),
            Json::Object(members) => members.len(),
            _ => 0,
        }
    }

    /// The number of values in it.
    pub(crate) fn weight(&self) -> u64 {
        fn weight(json: &Json) -> u64 {
            match json {
                Json::Array(items) => items.iter().map(weight).sum(),
                Json::Object(members) => members.values().map(weight).sum(),
                _ => 1,
            }
        }
        weight(&self.json)
    }

    pub(crate) fn type_of(&self) -> Type {
        match (&self.decl.kind, self.is_list()) {
            (DeclKind::Dyn, true) => Type::list(Type::Dyn),
            (DeclKind::Dyn, false) => Type::map(Type::Dyn, Type::Dyn),
            _ => self.decl.to_type(),
        }
    }

    pub(crate) fn item(&self, i: usize) -> Option<Result> {
        let item = self.json.as_array()?.get(i)?;
        let decl = match &self.decl.kind {
            DeclKind::List(items) => items,
            _ => &self.decl,
        };
        Some(from_json(item, decl))
    }

    /// A member: of an object by its name in expressions, of a map by its key.
    pub(crate) fn entry(&self, name: &str) -> Option<Result> {
        match &self.decl.kind {
            DeclKind::Object(_) => {
                let field = self.decl.field(name)?;
                let member = self.json.get(&field.json)?;
                // A field that is null is as good as none.
                (!member.is_null()).then(|| from_json(member, &field.decl))
            }
            DeclKind::Map(values) => Some(from_json(self.member(name)?, values)),
            _ => Some(from_json(self.member(name)?, &self.decl)),
        }
    }

    /// A member of a map by its key, or by its key as names of fields are written.
    fn member(&self, name: &str) -> Option<&Json> {
        match self.decl.escaped_keys.then(|| unescape(name)).flatten() {
            Some(key) => self.json.get(&key),
            None => self.json.get(name),
        }
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = Str> {
        let members = self.json.as_object();
        members.into_iter().flat_map(|m| m.keys()).filter_map(|key| match &self.decl.kind {
            DeclKind::Object(_) => self.decl.field_of(key).map(|f| f.name.clone()),
            _ => Some(key.clone()),
        })
    }

    /// What tells an item of a set or map from the others: itself, or its keys.
    fn identity(&self, item: &Json) -> Vec<u8> {
        let mut identity = Vec::new();
        match &self.decl.list_type {
            ListType::Map(keys) => {
                for key in keys {
                    encode_into(&mut identity, item.get(key).unwrap_or(&Json::Null));
                    identity.push(b',');
                }
            }
            _ => encode_into(&mut identity, item),
        }
        identity
    }

    /// Whether another list holds the same items, for lists that are sets or maps: order does not count. `None` for other lists.
    pub(crate) fn same_items(&self, other: &Value) -> Option<bool> {
        if self.decl.list_type == ListType::Atomic {
            return None;
        }
        let mine = self.json.as_array()?;
        let places: HashMap<_, _> = mine.iter().enumerate().map(|(i, item)| (self.identity(item), i)).collect();
        let mut count = 0;
        for item in other.items()? {
            let item = item.ok()?;
            let place = to_json(&item).and_then(|json| places.get(&self.identity(&json)).copied());
            let same = place.and_then(|i| self.item(i)).is_some_and(|mine| mine.is_ok_and(|mine| mine.equals(&item)));
            if !same {
                return Some(false);
            }
            count += 1;
        }
        Some(count == mine.len())
    }

    /// The union with the items of another list, for lists that are sets or maps: of a map, the other's items replace those
    /// of the same key. `None` for other lists, and for items that JSON has not.
    pub(crate) fn union(&self, other: &Value) -> Option<Value> {
        if self.decl.list_type == ListType::Atomic {
            return None;
        }
        let mut merged = self.json.as_array()?.to_vec();
        let mut places: HashMap<_, _> = merged.iter().enumerate().map(|(i, item)| (self.identity(item), i)).collect();
        for item in other.items()? {
            let item = to_json(&item.ok()?)?;
            match places.entry(self.identity(&item)) {
                Entry::Occupied(place) => merged[*place.get()] = item,
                Entry::Vacant(place) => {
                    place.insert(merged.len());
                    merged.push(item);
                }
            }
        }
        Some(Value::Data(Data { json: Json::Array(Arc::new(merged)), decl: self.decl.clone() }))
    }
}

/// The value as JSON, without a change of what it says; `None` for values that JSON has not.
fn to_json(value: &Value) -> Option<Json> {
    Some(match value {
        Value::Null => Json::Null,
        Value::Bool(b) => Json::Bool(*b),
        Value::Int(i) => Json::Int(*i),
        Value::Double(d) => Json::Float(*d),
        Value::String(s) => Json::String(s.clone()),
        Value::Data(data) => data.json.clone(),
        _ => return None,
    })
}
