//! What a kind is like, as data: what the handlers and the registry ask of it without an object at hand.

use machinery::{Value, meta::names};

/// What a kind's own rules of updates look at in the metadata, after the look that every update gets. Findings of each look
/// reach the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecondLook {
    /// Nothing.
    Nothing,
    /// What changed.
    #[default]
    Changes,
    /// All, as if the object were new.
    Whole,
    /// What changed, then all.
    ChangesThenWhole,
    /// All, then what changed. What [`super::Strategy::revalidate`] finds comes between the two.
    WholeThenChanges,
    /// All, and all again; what [`super::Strategy::revalidate`] finds comes between.
    WholeTwice,
}

/// What a change of an object must be about to count in `metadata.generation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// The kind has no generation.
    None,
    /// Something below these members (`spec`, `metadata.annotations`).
    Members(&'static [&'static str]),
    /// Anything but the metadata.
    Content,
}

/// What a kind is like.
#[derive(Clone, Copy, Debug)]
pub struct KindTraits {
    /// It has a status that only the status subresource writes.
    pub has_status: bool,
    /// What counts in `metadata.generation`.
    pub generation: Generation,
    /// Which names it allows.
    pub names: names::NameRule,
    /// A generateName is the name as it is: objects are called by what they are.
    pub has_literal_names: bool,
    /// Finalizers without a domain must be among the standard ones, as for upstream's core kinds.
    pub knows_standard_finalizers: bool,
    /// PUT of an object that does not exist creates it.
    pub allows_create_on_update: bool,
    /// PUT without a resourceVersion overwrites.
    pub allows_unconditional_update: bool,
    /// A new object's metadata are looked at when nothing else is wrong with it, and only then.
    pub judges_metadata_last: bool,
    /// What the rules of updates look at in the metadata.
    pub second_look: SecondLook,
    /// Objects may have dependents: if not, what a deletion says of them is passed over.
    pub may_have_dependents: bool,
    /// A DELETE without a propagation policy leaves dependents alone.
    pub orphans_by_default: bool,
    /// What whoever deletes an object without a word on its dependents is told.
    pub orphan_warning: Option<&'static str>,
    /// A first DELETE always leaves the object there, marked by [`super::Strategy::mark_deletion`] alone, for a controller to
    /// clear up what belongs to it: no grace period and no generation are counted then.
    pub marks_deletion: bool,
    /// A DELETE that is done at once answers the object (as for pods and namespaces) rather than a Status.
    pub returns_deleted_object: bool,
    /// The store forgets objects some time after their last write (events, `--event-ttl`).
    pub expires: bool,
    /// Annotations that stand for members of upstream's internal type: what only shows metadata is made of that type, and has
    /// none of them.
    pub hidden_annotations: &'static [&'static str],
}

impl KindTraits {
    /// Of a kind without status and generation, named by an RFC 1123 subdomain.
    pub const PLAIN: KindTraits = KindTraits {
        has_status: false,
        generation: Generation::None,
        names: names::name_is_dns_subdomain,
        has_literal_names: false,
        knows_standard_finalizers: true,
        allows_create_on_update: false,
        allows_unconditional_update: true,
        judges_metadata_last: false,
        second_look: SecondLook::Changes,
        may_have_dependents: true,
        orphans_by_default: false,
        orphan_warning: None,
        marks_deletion: false,
        returns_deleted_object: false,
        expires: false,
        hidden_annotations: &[],
    };

    /// Whether the kind has a generation.
    pub fn has_generation(&self) -> bool {
        self.generation != Generation::None
    }

    /// Whether an update, which is not of the status, is a change that the generation counts. (A status that has a
    /// subresource is the old one here.)
    pub fn counts_as_change(&self, new: &Value, old: &Value) -> bool {
        match self.generation {
            Generation::None => false,
            Generation::Members(members) => members.iter().any(|member| {
                let path: Vec<&str> = member.split('.').collect();
                !same(new.at(&path), old.at(&path))
            }),
            Generation::Content => !same_content(new, old),
        }
    }

    /// The name of an object that came with this generateName.
    pub fn generate_name(&self, base: &str) -> String {
        if self.has_literal_names { base.to_owned() } else { names::generate_name(base) }
    }
}

/// Whether a member is the same; absent, null and empty are.
fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.semantic_eq(b),
        (None, None) => true,
        (Some(v), None) | (None, Some(v)) => Value::Null.semantic_eq(v),
    }
}

/// Whether two objects are equal but for their metadata.
fn same_content(a: &Value, b: &Value) -> bool {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else { return a == b };
    let is_content = |key: &str| key != "metadata";
    let count = |map: &machinery::Map| map.keys().filter(|key| is_content(key)).count();
    count(a) == count(b) && a.iter().filter(|(key, _)| is_content(key)).all(|(key, value)| b.get(key) == Some(value))
}

#[cfg(test)]
mod tests {
    use machinery::object;

    use super::*;

    #[test]
    fn what_a_kind_counts_is_a_change() {
        let object = |spec: i64, label: &str, status: i64| {
            object! {
                "metadata" => object! { "labels" => object! { "a" => label } },
                "spec" => spec,
                "status" => status
            }
        };
        let check = |generation, new: Value, expect: bool| {
            let traits = KindTraits { generation, ..KindTraits::PLAIN };
            assert_eq!(traits.counts_as_change(&new, &object(1, "x", 1)), expect, "{generation:?} {new:?}");
        };
        check(Generation::None, object(2, "y", 2), false);
        check(Generation::Members(&["spec"]), object(2, "x", 1), true);
        check(Generation::Members(&["spec"]), object(1, "y", 2), false);
        check(Generation::Members(&["spec", "metadata.labels"]), object(1, "y", 1), true);
        check(Generation::Content, object(1, "y", 1), false);
        check(Generation::Content, object(1, "x", 2), true);
        check(Generation::Content, object! { "spec" => 1 }, true);
        check(Generation::Content, object! { "spec" => 1, "other" => 1 }, true);
    }

    #[test]
    fn objects_that_are_called_by_what_they_are_keep_their_generate_name() {
        let literal = KindTraits { has_literal_names: true, ..KindTraits::PLAIN };
        assert_eq!(literal.generate_name("192.0.2.1"), "192.0.2.1");
        let plain = KindTraits::PLAIN.generate_name("a-");
        assert!(plain.starts_with("a-") && plain.len() > "a-".len(), "{plain}");
    }
}
