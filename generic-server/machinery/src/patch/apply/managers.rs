//! `metadata.managedFields`: who owns what, as entries.

use std::collections::HashMap;

use super::field_set::{FieldSet, FieldSetError};
use crate::{Map, Str, Value};

/// The name of the entry that stands for the oldest updates once there are too many.
const OLD_UPDATES: &str = "ancient-changes";

/// So many entries of updates are kept apart.
const MAX_UPDATE_MANAGERS: usize = 10;

/// How a manager came to own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn text(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// Why a `managedFields` cannot be read. Shown, it is what upstream says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManagedFieldsError {
    /// An entry's operation is neither that of appliers nor that of others.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// An entry does not say of which version its fields are.
    #[error("apiVersion must not be empty")]
    NoVersion,
    /// The entry at this place does not say in which form its fields are.
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    /// The entry at this place has its fields in a form that nobody knows.
    #[error("invalid fieldsType {found:?} in managed fields entry {index}")]
    UnknownFieldsType {
        /// Its place.
        index: usize,
        /// What it says.
        found: Str,
    },
    /// The fields of an entry.
    #[error("error decoding versioned set: error decoding set: {0}")]
    Fields(#[from] FieldSetError),
}

/// One entry.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) manager: Str,
    pub(super) operation: Operation,
    pub(super) subresource: Str,
    pub(super) version: Str,
    /// RFC 3339.
    pub(super) time: Option<Str>,
    pub(super) set: FieldSet,
}

/// What tells managers apart. Appliers are known without their version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    manager: Str,
    operation: Operation,
    subresource: Str,
    version: Option<Str>,
}

impl Entry {
    /// Whose entry it is.
    pub(super) fn identity(&self) -> Identity {
        Identity {
            manager: self.manager.clone(),
            operation: self.operation,
            subresource: self.subresource.clone(),
            version: (self.operation == Operation::Update).then(|| self.version.clone()),
        }
    }

    /// Whether two entries are of one manager.
    pub(super) fn same_manager(&self, other: &Entry) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.version == other.version)
    }

    /// What upstream knows the manager by; its order is that of conflicts.
    pub(super) fn identifier(&self) -> String {
        let mut members = vec![("manager", &*self.manager), ("operation", self.operation.text())];
        if self.operation == Operation::Update {
            members.push(("apiVersion", &*self.version));
        }
        if !self.subresource.is_empty() {
            members.push(("subresource", &*self.subresource));
        }
        let mut out = Vec::new();
        for (i, (key, value)) in members.into_iter().enumerate() {
            out.push(if i == 0 { b'{' } else { b',' });
            crate::json::write_string(&mut out, key);
            out.push(b':');
            crate::json::write_string(&mut out, value);
        }
        out.push(b'}');
        String::from_utf8(out).expect("JSON is UTF-8")
    }

    /// The manager as conflicts name it: `"x" with subresource "status" using apps/v1`.
    pub(super) fn shown(&self) -> String {
        let quote = crate::meta::go_text::quote;
        let mut text = quote(&self.manager);
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource {}", quote(&self.subresource)));
        }
        if self.operation == Operation::Update {
            text.push_str(&format!(" using {}", self.version));
        }
        text
    }

    fn seconds(&self) -> i64 {
        self.time.as_deref().and_then(seconds).unwrap_or(0)
    }

    fn to_value(&self) -> Value {
        let mut members = vec![
            (Str::new_static("apiVersion"), Value::from(&self.version)),
            (Str::new_static("fieldsType"), Value::from("FieldsV1")),
            (Str::new_static("fieldsV1"), self.set.to_value()),
        ];
        if !self.manager.is_empty() {
            members.push((Str::new_static("manager"), Value::from(&self.manager)));
        }
        members.push((Str::new_static("operation"), Value::from(self.operation.text())));
        if !self.subresource.is_empty() {
            members.push((Str::new_static("subresource"), Value::from(&self.subresource)));
        }
        if let Some(time) = &self.time {
            members.push((Str::new_static("time"), Value::from(time)));
        }
        Value::Object(Map::from_entries(members))
    }

    fn from_value(index: usize, value: &Value, trusted: bool) -> Result<Self, ManagedFieldsError> {
        let text = |key: &str| value.get(key).and_then(Value::as_shared_str).cloned().unwrap_or_default();
        let operation = match text("operation").as_str() {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err(ManagedFieldsError::Operation),
        };
        let version = text("apiVersion");
        if version.is_empty() {
            return Err(ManagedFieldsError::NoVersion);
        }
        let found = text("fieldsType");
        match found.as_str() {
            "FieldsV1" => {}
            "" => return Err(ManagedFieldsError::NoFieldsType(index)),
            _ => return Err(ManagedFieldsError::UnknownFieldsType { index, found }),
        }
        let fields = value.get("fieldsV1").unwrap_or(&Value::Null);
        let set = if trusted { FieldSet::trusted(fields) } else { FieldSet::from_value(fields)? };
        let time = value.get("time").and_then(Value::as_shared_str).cloned();
        Ok(Entry { manager: text("manager"), operation, subresource: text("subresource"), version, time, set })
    }
}

fn seconds(time: &str) -> Option<i64> {
    crate::meta::Timestamp::parse(time, crate::meta::TimeForm::Seconds).ok().map(crate::meta::Timestamp::seconds)
}

/// The managers of one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Managers(pub(super) Vec<Entry>);

impl Managers {
    /// Reads `managedFields` that a client sent. Of entries of one manager the last wins.
    pub(super) fn decode(fields: Option<&Value>) -> Result<Self, ManagedFieldsError> {
        Self::read(fields, false)
    }

    /// Reads the `managedFields` of a stored object: their sets have been through [`Managers::decode`].
    pub(super) fn stored(fields: Option<&Value>) -> Result<Self, ManagedFieldsError> {
        Self::read(fields, true)
    }

    fn read(fields: Option<&Value>, trusted: bool) -> Result<Self, ManagedFieldsError> {
        let values = fields.and_then(Value::as_array).unwrap_or_default();
        let mut managers: Vec<Entry> = Vec::with_capacity(values.len());
        let mut places = HashMap::with_capacity(values.len());
        for (i, value) in values.iter().enumerate() {
            let entry = Entry::from_value(i, value, trusted)?;
            let place = *places.entry(entry.identity()).or_insert(managers.len());
            match managers.get_mut(place) {
                Some(before) => *before = entry,
                None => managers.push(entry),
            }
        }
        Ok(Managers(managers))
    }

    /// `managedFields`: appliers first, then by time and name. `None` if there are none.
    pub(super) fn encode(mut self) -> Option<Value> {
        if self.0.is_empty() {
            return None;
        }
        self.0.sort_by(|a, b| {
            (a.operation.cmp(&b.operation))
                .then_with(|| a.seconds().cmp(&b.seconds()))
                .then_with(|| a.manager.cmp(&b.manager))
                .then_with(|| a.version.cmp(&b.version))
                .then_with(|| a.subresource.cmp(&b.subresource))
        });
        Some(self.0.iter().map(Entry::to_value).collect())
    }

    /// Merges the oldest updates of each version until few enough are left.
    pub(super) fn cap(&mut self) {
        let mut updates: Vec<Entry> = Vec::new();
        if self.0.iter().filter(|e| e.operation == Operation::Update).count() <= MAX_UPDATE_MANAGERS {
            return;
        }
        let mut appliers = Vec::new();
        for entry in self.0.drain(..) {
            if entry.operation == Operation::Update { updates.push(entry) } else { appliers.push(entry) }
        }
        updates.sort_by_cached_key(|e| (e.seconds(), e.identifier()));
        let mut left = updates.len();
        // What is kept, each with the sets that go into it; and by its version the first that is.
        let mut kept: Vec<(Entry, Vec<FieldSet>)> = Vec::with_capacity(left);
        let mut buckets: HashMap<Str, usize> = HashMap::new();
        for entry in updates {
            match buckets.get(&entry.version).filter(|_| left > MAX_UPDATE_MANAGERS) {
                Some(place) => {
                    let (first, sets) = &mut kept[*place];
                    sets.push(entry.set);
                    first.manager = OLD_UPDATES.into();
                    first.subresource = Str::default();
                    first.time = entry.time;
                    left -= 1;
                }
                None => {
                    buckets.entry(entry.version.clone()).or_insert(kept.len());
                    kept.push((entry, Vec::new()));
                }
            }
        }
        self.0 = appliers;
        self.0.extend(kept.into_iter().map(|(mut entry, mut sets)| {
            if !sets.is_empty() {
                sets.push(std::mem::take(&mut entry.set));
                entry.set = FieldSet::union_of(sets);
            }
            entry
        }));
    }
}

/// The object without its `managedFields`.
pub(super) fn without_managers(object: &Value) -> Value {
    let mut bare = object.clone();
    take_managers(&mut bare);
    bare
}

/// Takes them out of an object.
pub(super) fn take_managers(object: &mut Value) -> Option<Value> {
    object.remove_at(&["metadata", "managedFields"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patch::testing::json;

    #[test]
    fn entries_that_do_not_decode_say_why() {
        let check = |text: &str, want: &str| {
            assert_eq!(Managers::decode(Some(&json(text))).expect_err(text).to_string(), want);
        };
        check(r#"[{"apiVersion":"v1"}]"#, "operation must be `Apply` or `Update`");
        check(r#"[{"operation":"Apply"}]"#, "apiVersion must not be empty");
        check(r#"[{"operation":"Apply","apiVersion":"v1"}]"#, "missing fieldsType in managed fields entry 0");
        check(
            r#"[{"operation":"Apply","apiVersion":"v1","fieldsType":"V2"}]"#,
            "invalid fieldsType \"V2\" in managed fields entry 0",
        );
        let with_key = |key: &str| {
            let text = format!(
                r#"[{{"operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{{"{key}":{{}}}}}}]"#
            );
            Managers::decode(Some(&json(&text))).expect_err(key)
        };
        let no_index = FieldSetError::NoIndex("i:x".into());
        assert_eq!(with_key("i:x"), ManagedFieldsError::Fields(no_index));
        let why = with_key("bad").to_string();
        assert_eq!(why, "error decoding versioned set: error decoding set: missing colon: bad");
    }

    #[test]
    fn too_many_updaters_are_merged_oldest_first() {
        let entries: Vec<String> = (0..12)
            .map(|i| {
                format!(
                    r#"{{"manager":"m{i}","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{{"f:a{i}":{{}}}},"time":"2026-01-01T00:00:{i:02}Z"}}"#
                )
            })
            .collect();
        let mut managers = Managers::decode(Some(&json(&format!("[{}]", entries.join(","))))).expect("decodes");
        managers.cap();
        assert_eq!(managers.0.len(), 10);
        let old = managers.0.iter().find(|e| e.manager == OLD_UPDATES).expect("the bucket");
        assert_eq!(old.set.to_value(), json(r#"{"f:a0":{},"f:a1":{},"f:a2":{}}"#));
        assert_eq!(old.time.as_deref(), Some("2026-01-01T00:00:02Z"));
    }
}
