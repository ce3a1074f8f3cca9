//! Sets of fields, in the form in which `managedFields` stores them: an object whose members are path elements. `{}` is
//! a field of the set; `{".":{},…}` one that has others below it; without `.` only those below are in the set.
//!
//! All operations keep that form and share what they do not change, so a manager that an update does not touch costs
//! nothing.

use super::element::Element;
use crate::{Map, Str, Value, json::JsonError};

const SELF: &str = ".";

/// Why a `fieldsV1` is no set of fields.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldSetError {
    /// It is no object.
    #[error("fieldsV1 is not an object")]
    NotAnObject,
    /// A key has no kind.
    #[error("key must be 2 characters long:")]
    TooShort,
    /// A key's kind is not parted from what it names.
    #[error("missing colon: {0}")]
    NoColon(String),
    /// The value in a key is no JSON.
    #[error("{0}")]
    Json(JsonError),
    /// A key that names an item by some of its members has no object.
    #[error("expected an object: {0}")]
    NoObject(String),
    /// A key that names an item by its place has no number.
    #[error("not an index: {0}")]
    NoIndex(String),
}

/// A set of fields of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldSet(pub(super) Map);

impl FieldSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// From paths of member names: `&[&["metadata"], &["spec", "replicas"]]`.
    pub fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = FieldSet::new();
        for path in paths {
            let mut node = leaf();
            for name in path.iter().rev() {
                node = Value::Object(Map::from_entries(vec![(super::element::field_key(name), node)]));
            }
            if let Value::Object(one) = node {
                set = set.union(&FieldSet(one));
            }
        }
        set
    }

    /// Takes `fieldsV1` as it is: for what this server has written or checked itself.
    pub(super) fn trusted(fields: &Value) -> Self {
        FieldSet(fields.as_object().cloned().unwrap_or_default())
    }

    /// Reads `fieldsV1`. Elements of unknown kinds are dropped.
    ///
    /// # Errors
    /// An element is malformed.
    pub fn from_value(fields: &Value) -> Result<Self, FieldSetError> {
        match fields {
            Value::Null => Ok(FieldSet::new()),
            Value::Object(members) => {
                // The object as a whole is no field.
                let as_is = members.get(SELF).is_none() && is_canonical(members);
                Ok(FieldSet(if as_is { members.clone() } else { canonical(members)? }))
            }
            _ => Err(FieldSetError::NotAnObject),
        }
    }

    /// `fieldsV1`.
    pub fn to_value(&self) -> Value {
        Value::Object(self.0.clone())
    }

    /// Whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the field at the end of serialized elements is in the set.
    pub fn has(&self, path: &[Str]) -> bool {
        let mut at = &self.0;
        for (i, key) in path.iter().enumerate() {
            match at.get(key) {
                Some(Value::Object(next)) if i + 1 == path.len() => return is_member(next),
                Some(Value::Object(next)) => at = next,
                _ => return false,
            }
        }
        false
    }

    /// Fields of either set.
    pub fn union(&self, other: &FieldSet) -> FieldSet {
        self.changed(union(&self.0, &other.0))
    }

    /// Fields of any of the sets. They are joined by halves: one after the other, many small sets would cost as much as
    /// the large one that they become, each.
    pub(super) fn union_of(mut sets: Vec<FieldSet>) -> FieldSet {
        while sets.len() > 1 {
            let mut pairs = sets.into_iter();
            let mut joined = Vec::with_capacity(pairs.len().div_ceil(2));
            while let Some(one) = pairs.next() {
                joined.push(match pairs.next() {
                    Some(other) => one.union(&other),
                    None => one,
                });
            }
            sets = joined;
        }
        sets.pop().unwrap_or_default()
    }

    /// Fields of both sets.
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        self.changed(intersection(&self.0, &other.0))
    }

    /// Fields of this set that are not in the other; fields below those of the other stay.
    pub fn difference(&self, other: &FieldSet) -> FieldSet {
        self.changed(difference(&self.0, &other.0))
    }

    /// Fields of this set that are neither in the other nor below one of its fields.
    pub fn recursive_difference(&self, other: &FieldSet) -> FieldSet {
        self.changed(recursive_difference(&self.0, &other.0))
    }

    fn changed(&self, to: Option<Map>) -> FieldSet {
        to.map_or_else(|| self.clone(), FieldSet)
    }

    /// The paths of all fields, as serialized elements, in upstream's order: at each level first the fields, then what
    /// is below them.
    pub(super) fn paths(&self) -> Vec<Vec<Str>> {
        let mut out = Vec::new();
        collect_paths(&self.0, &mut Vec::new(), &mut out);
        out
    }

    /// Keeps the fields that stand on, at or below one of these paths of member names and `*` (any element).
    pub(super) fn include(&self, patterns: &[Vec<Str>]) -> FieldSet {
        let patterns: Vec<&[Str]> = patterns.iter().map(Vec::as_slice).collect();
        FieldSet(include(&self.0, &patterns))
    }
}

/// `{}`, shared by all: most nodes are leaves.
pub(super) fn leaf() -> Value {
    static LEAF: std::sync::LazyLock<Map> = std::sync::LazyLock::new(Map::new);
    Value::Object(LEAF.clone())
}

/// Whether a node's field itself is in the set.
pub(super) fn is_member(node: &Map) -> bool {
    node.is_empty() || node.contains_key(SELF)
}

/// Whether there are fields below a node.
pub(super) fn has_children(node: &Map) -> bool {
    match node.len() {
        0 => false,
        1 => !node.contains_key(SELF),
        _ => true,
    }
}

/// The nodes below a node.
pub(super) fn children(node: &Map) -> impl Iterator<Item = (&Str, &Map)> {
    node.iter().filter_map(|(k, v)| if k == SELF { None } else { Some((k, v.as_object()?)) })
}

/// A node from its parts; none if it would hold nothing. `below` may be in any order.
pub(super) fn node(member: bool, mut below: Vec<(Str, Value)>) -> Option<Value> {
    match (member, below.is_empty()) {
        (false, true) => None,
        (true, true) => Some(leaf()),
        (true, false) => {
            below.insert(0, (Str::new_static(SELF), leaf()));
            Some(Value::Object(Map::from_entries(below)))
        }
        (false, false) => Some(Value::Object(Map::from_entries(below))),
    }
}

fn with_member(below: Map, member: bool) -> Option<Value> {
    node(member, below.into_entries())
}

/// Node `a` with what is now below it (`None`: what was) and whether it is itself in the set.
fn rebuilt(a: &Map, below: Option<Map>, member: bool) -> Option<Value> {
    match below {
        None if member == is_member(a) => Some(Value::Object(a.clone())),
        None => {
            let mut below = a.clone();
            below.remove(SELF);
            with_member(below, member)
        }
        Some(below) => with_member(below, member),
    }
}

/// A combination of the two sides' nodes at one key; none drops it.
type Combine<'f> = &'f dyn Fn(Option<&Map>, Option<&Map>) -> Option<Value>;

/// How many times as many nodes as the other set one may have before it is searched and not walked.
const FAR_LARGER: usize = 16;

/// [`zip`] of what there is in `a`: a small set costs no more than itself, however large the other one is.
fn zip_into(a: &Map, b: &Map, combine: Combine<'_>) -> Option<Map> {
    if b.len() / FAR_LARGER <= a.len() {
        return zip(a, b, combine);
    }
    let found = a.iter().filter_map(|(key, _)| Some((key.clone(), b.get(key)?.clone())));
    zip(a, &Map::from_sorted(found.collect()), combine)
}

/// Walks two sets together, past the marks of the nodes themselves. `None` if all stays as it is in `a`.
fn zip(a: &Map, b: &Map, combine: Combine<'_>) -> Option<Map> {
    let mut out: Vec<(Str, Value)> = Vec::new();
    let mut changed = false;
    let (mut left, mut right) = (a.iter().peekable(), b.iter().peekable());
    let mut seen = 0; // nodes of `a` that stay, and are copied once something changes
    while let Some((key, va, vb)) = next_pair(&mut left, &mut right) {
        if key == SELF {
            seen += usize::from(va.is_some());
            continue;
        }
        let combined = combine(va.and_then(Value::as_object), vb.and_then(Value::as_object));
        let same = match (&combined, va) {
            (Some(Value::Object(new)), Some(Value::Object(old))) => new.shares(old),
            (None, None) => true,
            _ => false,
        };
        if !same && !changed {
            changed = true;
            out.reserve(a.len() + 1);
            out.extend(a.iter().take(seen).filter(|(k, _)| k != SELF).cloned());
        }
        seen += usize::from(va.is_some());
        if changed && let Some(value) = combined {
            out.push((key.clone(), value));
        }
    }
    changed.then(|| Map::from_entries(out))
}

type Entries<'m> = std::iter::Peekable<std::slice::Iter<'m, (Str, Value)>>;

/// The next key of two sorted lists, and its value in each.
pub(super) fn next_pair<'m>(
    a: &mut Entries<'m>,
    b: &mut Entries<'m>,
) -> Option<(&'m Str, Option<&'m Value>, Option<&'m Value>)> {
    match (a.peek(), b.peek()) {
        (None, None) => None,
        (Some((ka, _)), Some((kb, _))) => match ka.cmp(kb) {
            std::cmp::Ordering::Less => a.next().map(|(k, v)| (k, Some(v), None)),
            std::cmp::Ordering::Greater => b.next().map(|(k, v)| (k, None, Some(v))),
            std::cmp::Ordering::Equal => {
                let right = b.next().map(|(_, v)| v);
                a.next().map(|(k, v)| (k, Some(v), right))
            }
        },
        (Some(_), None) => a.next().map(|(k, v)| (k, Some(v), None)),
        (None, Some(_)) => b.next().map(|(k, v)| (k, None, Some(v))),
    }
}

fn union(a: &Map, b: &Map) -> Option<Map> {
    if b.is_empty() || a.shares(b) {
        return None;
    }
    zip(a, b, &|a, b| match (a, b) {
        (Some(a), Some(b)) => rebuilt(a, union(a, b), is_member(a) || is_member(b)),
        (Some(one), None) | (None, Some(one)) => Some(Value::Object(one.clone())),
        (None, None) => None,
    })
}

fn intersection(a: &Map, b: &Map) -> Option<Map> {
    if a.shares(b) {
        return None;
    }
    zip_into(a, b, &|a, b| {
        let (a, b) = (a?, b?);
        rebuilt(a, intersection(a, b), is_member(a) && is_member(b))
    })
}

fn difference(a: &Map, b: &Map) -> Option<Map> {
    if b.is_empty() {
        return None;
    }
    zip_into(a, b, &|a, b| {
        let a = a?;
        match b {
            None => Some(Value::Object(a.clone())),
            Some(b) => rebuilt(a, difference(a, b), is_member(a) && !is_member(b)),
        }
    })
}

fn recursive_difference(a: &Map, b: &Map) -> Option<Map> {
    if b.is_empty() {
        return None;
    }
    zip_into(a, b, &|a, b| {
        let a = a?;
        match b {
            None => Some(Value::Object(a.clone())),
            Some(b) if is_member(b) => None,
            Some(b) => rebuilt(a, recursive_difference(a, b), is_member(a)),
        }
    })
}

fn include(set: &Map, patterns: &[&[Str]]) -> Map {
    let mut out = Vec::new();
    for (key, below_key) in children(set) {
        let name = key.strip_prefix("f:");
        let matching: Vec<&[Str]> = patterns
            .iter()
            .filter(|p| p.first().is_some_and(|step| step == "*" || name == Some(step.as_str())))
            .map(|p| &p[1..])
            .collect();
        if matching.iter().any(|rest| rest.is_empty()) {
            out.push((key.clone(), Value::Object(below_key.clone())));
        } else if !matching.is_empty()
            && let Some(kept) = with_member(include(below_key, &matching), is_member(below_key))
        {
            out.push((key.clone(), kept));
        }
    }
    Map::from_entries(out)
}

fn collect_paths(set: &Map, prefix: &mut Vec<Str>, out: &mut Vec<Vec<Str>>) {
    let mut sorted: Vec<(Option<Element>, &Str, &Map)> =
        children(set).map(|(k, v)| (Element::parse(k).ok().flatten(), k, v)).collect();
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    for (_, key, node) in &sorted {
        if is_member(node) {
            out.push(prefix.iter().chain([*key]).cloned().collect());
        }
    }
    for (_, key, node) in sorted {
        prefix.push(key.clone());
        collect_paths(node, prefix, out);
        prefix.pop();
    }
}

/// Whether all elements are in the form that [`Element::serialized`] gives, and no node holds nothing.
fn is_canonical(set: &Map) -> bool {
    set.iter().all(|(key, value)| {
        let Value::Object(node) = value else { return false };
        if key == SELF {
            return node.is_empty() && set.len() > 1;
        }
        let well_formed =
            key.starts_with("f:") || matches!(Element::parse(key), Ok(Some(element)) if element.serialized() == *key);
        well_formed && is_canonical(node)
    })
}

/// Rewrites a set in its one form.
fn canonical(set: &Map) -> Result<Map, FieldSetError> {
    let mut nodes: Vec<(Str, Value)> = Vec::with_capacity(set.len());
    for (key, value) in set {
        if key == SELF {
            continue;
        }
        let Some(element) = Element::parse(key)? else { continue };
        let node_of = value.as_object().cloned().unwrap_or_default();
        let inner = canonical(&node_of)?;
        let member = is_member(&node_of) || inner.is_empty();
        if let Some(value) = with_member(inner, member) {
            nodes.push((element.serialized(), value));
        }
    }
    // Elements that were written differently may be the same.
    nodes.sort_by(|a, b| a.0.cmp(&b.0));
    let mut out: Vec<(Str, Value)> = Vec::with_capacity(nodes.len());
    let mut nodes = nodes.into_iter().peekable();
    while let Some((key, value)) = nodes.next() {
        let mut same = vec![value];
        while let Some((_, other)) = nodes.next_if(|(next, _)| *next == key) {
            same.push(other);
        }
        let joined = match same.pop() {
            Some(only) if same.is_empty() => only,
            last => {
                let sets =
                    same.into_iter().chain(last).map(|node| FieldSet(Map::from_sorted(vec![(key.clone(), node)])));
                FieldSet::union_of(sets.collect()).0.get(&key).cloned().unwrap_or_default()
            }
        };
        out.push((key, joined));
    }
    Ok(Map::from_sorted(out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patch::testing::json;

    fn set(text: &str) -> FieldSet {
        FieldSet::from_value(&json(text)).expect(text)
    }

    #[test]
    fn sets_are_read_into_one_form() {
        let check = |text: &str, want: &str| assert_eq!(set(text).to_value(), json(want), "{text}");
        check(r#"{"f:a":{".":{}}}"#, r#"{"f:a":{}}"#);
        check(r#"{".":{},"f:a":{"x:y":{}}}"#, r#"{"f:a":{}}"#);
        check(r#"{".":{},"f:a":{}}"#, r#"{"f:a":{}}"#);
        check(r#"{"k:{\"b\":1, \"a\":2}":{"f:x":{}}}"#, r#"{"k:{\"a\":2,\"b\":1}":{"f:x":{}}}"#);
        assert!(FieldSet::from_value(&json(r#"{"bad":{}}"#)).is_err());
    }

    #[test]
    fn algebra() {
        let a = set(r#"{"f:a":{".":{},"f:x":{},"f:y":{}},"f:b":{}}"#);
        let b = set(r#"{"f:a":{"f:x":{},"f:z":{}},"f:c":{}}"#);
        assert_eq!(a.union(&b), set(r#"{"f:a":{".":{},"f:x":{},"f:y":{},"f:z":{}},"f:b":{},"f:c":{}}"#));
        assert_eq!(a.intersection(&b), set(r#"{"f:a":{"f:x":{}}}"#));
        assert_eq!(a.difference(&b), set(r#"{"f:a":{".":{},"f:y":{}},"f:b":{}}"#));
        assert_eq!(a.difference(&set(r#"{"f:a":{}}"#)), set(r#"{"f:a":{"f:x":{},"f:y":{}},"f:b":{}}"#));
        assert_eq!(a.recursive_difference(&set(r#"{"f:a":{}}"#)), set(r#"{"f:b":{}}"#));
        assert_eq!(a.recursive_difference(&b), set(r#"{"f:a":{".":{},"f:y":{}},"f:b":{}}"#));
        assert_eq!(a.difference(&a), FieldSet::new());
        assert_eq!(set(r#"{"f:a":{}}"#).union(&set(r#"{"f:a":{"f:x":{}}}"#)), set(r#"{"f:a":{".":{},"f:x":{}}}"#));
    }

    #[test]
    fn what_does_not_change_is_shared() {
        let a = set(r#"{"f:a":{".":{},"f:x":{}},"f:b":{}}"#);
        assert!(a.difference(&set(r#"{"f:c":{},"f:a":{"f:q":{}}}"#)).0.shares(&a.0));
        assert!(a.union(&set(r#"{"f:b":{}}"#)).0.shares(&a.0));
    }

    #[test]
    fn paths_list_fields_before_what_is_below() {
        let s = set(r#"{"f:a":{".":{},"f:x":{}},"f:b":{},"f:l":{"k:{\"n\":10}":{},"k:{\"n\":9}":{"f:n":{}}}}"#);
        let shown: Vec<String> =
            s.paths().iter().map(|p| p.iter().map(|k| super::super::element::display(k)).collect()).collect();
        assert_eq!(shown, [".a", ".b", ".a.x", ".l[n=10]", ".l[n=9].n"]);
    }

    #[test]
    fn include_keeps_what_leads_to_the_pattern() {
        let s = set(r#"{"f:spec":{"f:c":{"k:{\"n\":1}":{".":{},"f:r":{"f:cpu":{}},"f:i":{}}},"f:x":{}},"f:m":{}}"#);
        let pattern = vec!["spec".into(), "c".into(), "*".into(), "r".into()];
        assert_eq!(s.include(&[pattern]), set(r#"{"f:spec":{"f:c":{"k:{\"n\":1}":{".":{},"f:r":{"f:cpu":{}}}}}}"#));
    }
}
