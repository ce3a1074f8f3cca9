//! A list without its items: what stands before them and behind them, in each encoding.

use machinery::{
    Map, Value,
    codec::{cbor, json, yaml},
};

use super::super::{ListMeta, View, meta_version};
use crate::{
    negotiate::{Form, Media},
    response::encode,
};

/// A list without its items.
pub(super) struct Layout {
    /// The other members, in order.
    members: Vec<(&'static str, Value)>,
    /// So many of them stand before the items.
    before: usize,
    /// The member that holds the items.
    items: &'static str,
    /// What an empty list has there.
    none: Value,
}

impl Layout {
    pub(super) fn of(view: &View, meta: &ListMeta) -> Self {
        let none = Value::from(Vec::<Value>::new());
        let (kind, api_version, items, none) = match view.accepted.form {
            Form::MetadataList { beta } => {
                (Value::from("PartialObjectMetadataList"), Value::from(meta_version(beta)), "items", Value::Null)
            }
            Form::Table { beta } => {
                let none = if view.printer.has_no_rows() { Value::Null } else { none };
                (Value::from("Table"), Value::from(meta_version(beta)), "rows", none)
            }
            _ => {
                let row = &view.entry.row;
                (Value::from(&row.list_kind), Value::from(row.api_version()), "items", none)
            }
        };
        let mut members = vec![("kind", kind), ("apiVersion", api_version), ("metadata", view.list_meta(meta))];
        if items == "rows" {
            members.push(("columnDefinitions", view.column_definitions()));
        }
        if !view.entry.row.built_in && items == "items" && matches!(view.accepted.form, Form::Whole | Form::Aggregated)
        {
            members.swap(0, 1); // Go writes a map: apiVersion, items, kind, metadata
            return Layout { members, before: 1, items, none };
        }
        Layout { before: members.len(), members, items, none }
    }

    pub(super) fn value(&self) -> Value {
        let mut value = Value::object();
        let object = value.make_object();
        for (name, member) in &self.members {
            object.insert(*name, member.clone());
        }
        object.insert(self.items, self.none.clone());
        value
    }

    pub(super) fn empty(&self, view: &View) -> Vec<u8> {
        if view.accepted.media != Media::Json {
            return encode(&self.value(), view.accepted);
        }
        let (mut text, tail) = self.json(view.accepted.pretty);
        json::encode_into(&mut text, &self.none);
        text.extend(tail);
        text
    }

    /// What stands before the items and behind them, in text.
    pub(super) fn texts(&self, view: &View) -> (Vec<u8>, Vec<u8>) {
        match (view.accepted.media, view.accepted.pretty) {
            (Media::Yaml, _) => self.yaml(),
            (_, pretty) => {
                let (mut head, mut tail) = self.json(pretty);
                head.push(b'[');
                tail.splice(0..0, if pretty { b"\n  ]".iter().copied() } else { b"]".iter().copied() });
                (head, tail)
            }
        }
    }

    /// What stands before and behind the list of items. Only compact text ends with a line feed.
    pub(super) fn json(&self, pretty: bool) -> (Vec<u8>, Vec<u8>) {
        let (colon, comma, end): (&[u8], &[u8], &[u8]) =
            if pretty { (b": ", b",\n  ", b"\n}") } else { (b":", b",", b"}\n") };
        let member = |out: &mut Vec<u8>, name: &str| {
            json::write_string(out, name);
            out.extend_from_slice(colon);
        };
        let whole = |out: &mut Vec<u8>, (name, value): &(&str, Value)| {
            member(out, name);
            let part = match *name {
                "columnDefinitions" => json::Part::Columns,
                _ if self.before == 1 => json::Part::Object,
                _ => json::Part::ListMeta,
            };
            json::encode_part_into(out, part, value, pretty.then_some(1));
        };
        let (before, behind) = self.members.split_at(self.before);
        let (mut head, mut tail) = (if pretty { b"{\n  ".to_vec() } else { b"{".to_vec() }, Vec::new());
        for entry in before {
            whole(&mut head, entry);
            head.extend_from_slice(comma);
        }
        member(&mut head, self.items);
        for entry in behind {
            tail.extend_from_slice(comma);
            whole(&mut tail, entry);
        }
        tail.extend_from_slice(end);
        (head, tail)
    }

    /// CBOR's members are sorted, too, and the items are counted before they come.
    pub(super) fn cbor(&self, items: usize) -> (Vec<u8>, Vec<u8>) {
        let order = |name: &str| (name.len(), name.to_owned());
        let mut members: Vec<_> = self.members.iter().collect();
        members.sort_by_key(|(name, _)| order(name));
        let (mut head, mut tail) = (cbor::SELF_DESCRIBED.to_vec(), Vec::new());
        cbor::begin_map(&mut head, members.len() + 1);
        for (name, value) in members {
            let out = if order(name) < order(self.items) { &mut head } else { &mut tail };
            cbor::put_text(out, name);
            cbor::put(out, value, None);
        }
        cbor::put_text(&mut head, self.items);
        cbor::begin_array(&mut head, items);
        (head, tail)
    }

    /// YAML's members are sorted: some stand before the items, some behind them.
    fn yaml(&self) -> (Vec<u8>, Vec<u8>) {
        let part = |wanted: &dyn Fn(&str) -> bool| {
            let members = self.members.iter().filter(|(name, _)| wanted(name));
            let members: Vec<_> = members.map(|(name, value)| ((*name).into(), value.clone())).collect();
            if members.is_empty() { Vec::new() } else { yaml::encode(&Value::Object(Map::from_entries(members))) }
        };
        let mut head = part(&|name| name < self.items);
        head.extend_from_slice(self.items.as_bytes());
        head.extend_from_slice(b":\n");
        (head, part(&|name| name > self.items))
    }
}
