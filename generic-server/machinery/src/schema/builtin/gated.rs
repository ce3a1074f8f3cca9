//! Members of built-in kinds that are behind feature gates. While a gate is off they are dropped from what is written, unless
//! the object had any of them before.
//!
//! `gated.tsv` is made by `tools/builtin-types/gated.py`.

use super::{TypeId, short_name};
use crate::Value;

static TEXT: &str = include_str!("gated.tsv");

/// The members of a kind that one gate is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gated {
    /// The gate.
    pub gate: &'static str,
    places: Vec<Place>,
}

/// Where a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    above: Vec<Step>,
    member: &'static str,
    /// Whether its holder goes along when nothing else is in it.
    with_holder: bool,
    /// With this value the member is none of the gate's.
    except: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Member(&'static str),
    Items(&'static str),
    Values(&'static str),
}

/// What is behind gates in objects of a kind, which `id` is the definition of.
pub fn gated(id: TypeId) -> Vec<Gated> {
    let name = short_name(id);
    let lines = TEXT.lines().map(|line| line.split('\t'));
    let of_kind = lines.filter_map(|mut cells| (cells.next() == Some(name)).then_some(cells));
    of_kind.filter_map(|mut cells| Some(Gated::read(cells.next()?, cells.next()?))).collect()
}

/// The gates that are about members of kinds.
pub fn gates() -> impl Iterator<Item = &'static str> {
    TEXT.lines().filter_map(|line| line.split('\t').nth(1))
}

impl Gated {
    fn read(gate: &'static str, paths: &'static str) -> Self {
        Gated { gate, places: paths.split(' ').map(Place::read).collect() }
    }

    /// Whether an object has any of the members.
    pub fn is_in(&self, object: &Value) -> bool {
        self.places.iter().any(|place| has(object, &place.above, place))
    }

    /// Takes the members from an object.
    pub fn drop_from(&self, object: &mut Value) {
        for place in &self.places {
            if has(object, &place.above, place) {
                remove(object, &place.above, place);
            }
        }
    }
}

impl Place {
    fn read(path: &'static str) -> Self {
        let (path, with_holder) = path.strip_suffix('-').map_or((path, false), |path| (path, true));
        let (path, except) = path.split_once('!').map_or((path, None), |(path, except)| (path, Some(except)));
        let (above, member) = path.rsplit_once('.').unwrap_or(("", path));
        let step = |part: &'static str| match (part.strip_suffix("[]"), part.strip_suffix("{}")) {
            (Some(list), _) => Step::Items(list),
            (_, Some(map)) => Step::Values(map),
            _ => Step::Member(part),
        };
        let above = above.split('.').filter(|part| !part.is_empty()).map(step).collect();
        Place { above, member, with_holder, except }
    }

    /// Whether the member is there, in its holder, and the gate's.
    fn is_in(&self, holder: &Value) -> bool {
        holder
            .get(self.member)
            .is_some_and(|value| is_something(value) && (self.except.is_none() || value.as_str() != self.except))
    }
}

/// Whether there is something: neither nothing nor an empty list. An empty text is something: it is only there behind a pointer.
fn is_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        _ => true,
    }
}

fn has(value: &Value, above: &[Step], place: &Place) -> bool {
    let Some((step, rest)) = above.split_first() else { return place.is_in(value) };
    match step {
        Step::Member(name) => value.get(name).is_some_and(|inner| has(inner, rest, place)),
        Step::Items(name) => {
            let items = value.get(name).and_then(Value::as_array).unwrap_or_default();
            items.iter().any(|inner| has(inner, rest, place))
        }
        Step::Values(name) => {
            let map = value.get(name).and_then(Value::as_object);
            map.is_some_and(|map| map.values().any(|inner| has(inner, rest, place)))
        }
    }
}

/// Only called where there is something: what is shared with other objects is copied for it.
fn remove(value: &mut Value, above: &[Step], place: &Place) {
    let Some((step, rest)) = above.split_first() else {
        if let Some(holder) = Some(value).filter(|holder| place.is_in(holder)).and_then(Value::as_object_mut) {
            holder.remove(place.member);
        }
        return;
    };
    match step {
        Step::Member(name) => {
            if let Some(inner) = value.get_mut(name).filter(|inner| has(inner, rest, place)) {
                remove(inner, rest, place);
                let is_empty = inner.as_object().is_some_and(crate::Map::is_empty);
                if rest.is_empty() && place.with_holder && is_empty {
                    value.as_object_mut().into_iter().for_each(|holder| drop(holder.remove(name)));
                }
            }
        }
        Step::Items(name) => {
            let items = value.get_mut(name).and_then(Value::as_array_mut);
            items.into_iter().flatten().for_each(|inner| remove(inner, rest, place));
        }
        Step::Values(name) => {
            let map = value.get_mut(name).and_then(Value::as_object_mut);
            map.into_iter().for_each(|map| map.iter_mut().for_each(|(_, inner)| remove(inner, rest, place)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{json, schema::builtin};

    fn check(gate: &str, kind: (&str, &str, &str), before: &str, after: &str) {
        let id = builtin::by_gvk(kind.0, kind.1, kind.2).expect("a kind");
        let gated = gated(id).into_iter().find(|gated| gated.gate == gate).expect("behind the gate");
        let read = |text: &str| json::decode(text.as_bytes()).expect("JSON");
        let mut object = read(before);
        assert!(gated.is_in(&object));
        gated.drop_from(&mut object);
        assert_eq!(object, read(after));
        assert!(!gated.is_in(&object));
    }

    #[test]
    fn every_line_is_of_a_kind_and_read() {
        let mut lines = 0;
        for line in TEXT.lines() {
            let name = line.split('\t').next().expect("a type");
            let id = builtin::by_name(name).unwrap_or_else(|| panic!("{line}"));
            assert!(gated(id).iter().all(|gated| !gated.places.is_empty()), "{line}");
            lines += 1;
        }
        assert!(lines > 50, "{lines}");
    }

    #[test]
    fn members_are_taken_from_lists_maps_and_holders() {
        let pod = ("", "v1", "Pod");
        check(
            "ContainerRestartRules",
            pod,
            r#"{"spec":{"initContainers":[{"name":"a","restartPolicy":"Always"},{"name":"b","restartPolicy":"Never"}],"containers":[{"name":"c","restartPolicy":"Always","restartPolicyRules":[{}]}]}}"#,
            r#"{"spec":{"initContainers":[{"name":"a","restartPolicy":"Always"},{"name":"b"}],"containers":[{"name":"c"}]}}"#,
        );
        check(
            "ContainerStopSignals",
            pod,
            r#"{"spec":{"containers":[{"name":"a","lifecycle":{"stopSignal":"SIGTERM"}},{"name":"b","lifecycle":{"stopSignal":"SIGINT","preStop":{}}},{"name":"c"}]}}"#,
            r#"{"spec":{"containers":[{"name":"a"},{"name":"b","lifecycle":{"preStop":{}}},{"name":"c"}]}}"#,
        );
        check(
            "DRAListTypeAttributes",
            ("resource.k8s.io", "v1", "ResourceSlice"),
            r#"{"spec":{"devices":[{"name":"d","attributes":{"a":{"ints":[1]},"b":{"int":1}}}]}}"#,
            r#"{"spec":{"devices":[{"name":"d","attributes":{"a":{},"b":{"int":1}}}]}}"#,
        );
        check(
            "CoordinatedLeaderElection",
            ("coordination.k8s.io", "v1", "Lease"),
            r#"{"spec":{"holderIdentity":"h","strategy":"S"}}"#,
            r#"{"spec":{"holderIdentity":"h"}}"#,
        );
    }
}
