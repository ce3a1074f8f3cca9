//! Names and conditions: what the next write to a definition's status is.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use machinery::{
    Str, Value,
    codec::{json, scan},
};
use storage::cache::Object;

use crate::definition::{
    API_APPROVED, Approval, Condition, Definition, ESTABLISHED, NAMES_ACCEPTED, Names, approval_of, approval_problem,
    condition, is_true, set_condition,
};

/// A change to a definition's status.
pub(super) type Edit = Box<dyn Fn(&mut Value) + Send + Sync>;

/// What comes next.
pub(super) enum Step {
    Write(Edit),
    Done,
}

/// Who has which names: by group, and by the definitions' names.
#[derive(Default)]
pub(super) struct Claims(Mutex<HashMap<Str, Group>>);

type Group = HashMap<Str, Claim>;

/// The names of one definition.
struct Claim {
    accepted: Names,
    /// Some of the names that it asks for belong to others.
    wanting: bool,
}

/// The names that a definition gets, and which of them it does not get.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Decision {
    pub(super) accepted: Names,
    /// Reason and message of the last conflict.
    pub(super) conflict: Option<(&'static str, String)>,
}

/// The outcome of a claim.
pub(super) struct Claimed {
    pub(super) names: Decision,
    /// Definitions that wanted a name which is free now.
    pub(super) released: Vec<Str>,
}

impl Claims {
    fn lock(&self) -> MutexGuard<'_, HashMap<Str, Group>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over the names that a stored definition has.
    pub(super) fn restore(&self, object: &Object) {
        let part = |path: &[&str]| scan::field(object.bytes(), path).and_then(|raw| json::decode(raw).ok());
        let Some(group) = part(&["spec", "group"]).as_ref().and_then(Value::as_shared_str).cloned() else { return };
        let accepted = Names::read(part(&["status", "acceptedNames"]).as_ref());
        let claim = Claim { accepted, wanting: false };
        self.lock().entry(group).or_default().entry(Str::from(object.name())).or_insert(claim);
    }

    /// Decides on the names of a definition, and keeps them for it.
    pub(super) fn claim(&self, name: &str, definition: &Value) -> Claimed {
        let definition = Definition(definition);
        let (has, asks) = (definition.accepted_names(), definition.asked_names());
        let mut claims = self.lock();
        let group = claims.entry(definition.group()).or_default();
        let decision = {
            let others = group.iter().filter(|(other, _)| *other != name);
            decide(&asks, &has, &others.map(|(_, claim)| &claim.accepted).collect::<Vec<_>>())
        };
        let claim = Claim { accepted: decision.accepted.clone(), wanting: decision.conflict.is_some() };
        let before = group.insert(name.into(), claim);
        let changed = before.is_some_and(|before| before.accepted != decision.accepted);
        let released = if changed { wanting(group, name) } else { Vec::new() };
        Claimed { names: decision, released }
    }

    /// The definition is gone: who wanted its names? Its name ends in its group.
    pub(super) fn release(&self, name: &str) -> Vec<Str> {
        let Some((_, group)) = name.split_once('.') else { return Vec::new() };
        let mut claims = self.lock();
        let Some(members) = claims.get_mut(group) else { return Vec::new() };
        let released = if members.remove(name).is_some() { wanting(members, name) } else { Vec::new() };
        if members.is_empty() {
            claims.remove(group);
        }
        released
    }
}

fn wanting(group: &Group, but: &str) -> Vec<Str> {
    let others = group.iter().filter(|(name, claim)| claim.wanting && *name != but);
    others.map(|(name, _)| name.clone()).collect()
}

/// The names that a definition may have, given those of the others in its group. Every name is decided on alone.
fn decide(asks: &Names, has: &Names, others: &[&Names]) -> Decision {
    let of_resources = others.iter().flat_map(|o| [&o.plural, &o.singular].into_iter().chain(&o.short_names));
    let resources: HashSet<&Str> = of_resources.collect();
    let resource = |name: &Str| resources.contains(name);
    let kind = |name: &Str| others.iter().any(|o| o.kind == *name || o.list_kind == *name);
    let in_use = |name: &Str| format!("{name:?} is already in use");
    let mut decision = Decision { accepted: has.clone(), conflict: None };
    let mut take = |asked: &Str, had: &Str, taken: bool, reason: &'static str, place: fn(&mut Names) -> &mut Str| {
        if asked != had && taken {
            decision.conflict = Some((reason, in_use(asked)));
        } else {
            *place(&mut decision.accepted) = asked.clone();
        }
    };
    take(&asks.plural, &has.plural, resource(&asks.plural), "PluralConflict", |n| &mut n.plural);
    take(&asks.singular, &has.singular, resource(&asks.singular), "SingularConflict", |n| &mut n.singular);
    let had: HashSet<&Str> = has.short_names.iter().collect();
    let taken: Vec<String> = asks
        .short_names
        .iter()
        .filter(|name| !had.contains(name) && **name != has.plural && **name != has.singular)
        .filter(|name| resource(name))
        .map(in_use)
        .collect();
    if taken.is_empty() {
        decision.accepted.short_names = asks.short_names.clone();
    } else {
        let message = if taken.len() == 1 { taken.concat() } else { format!("[{}]", taken.join(", ")) };
        decision.conflict = Some(("ShortNamesConflict", message));
    }
    let mut take = |asked: &Str, had: &Str, taken: bool, reason: &'static str, place: fn(&mut Names) -> &mut Str| {
        if asked != had && taken {
            decision.conflict = Some((reason, in_use(asked)));
        } else {
            *place(&mut decision.accepted) = asked.clone();
        }
    };
    take(&asks.kind, &has.kind, kind(&asks.kind), "KindConflict", |n| &mut n.kind);
    take(&asks.list_kind, &has.list_kind, kind(&asks.list_kind), "ListKindConflict", |n| &mut n.list_kind);
    decision.accepted.categories = asks.categories.clone();
    decision
}

/// The next write to a definition's status.
pub(super) fn next(definition: &Value, names: &Decision) -> Step {
    naming(definition, names)
        .or_else(|| approval(definition))
        .or_else(|| establishing(definition))
        .map_or(Step::Done, Step::Write)
}

fn naming(definition: &Value, decision: &Decision) -> Option<Edit> {
    let accepted = match &decision.conflict {
        None => Condition::new(NAMES_ACCEPTED, true, "NoConflicts", "no conflicts found"),
        Some((reason, message)) => Condition::new(NAMES_ACCEPTED, false, reason, message.clone()),
    };
    if Definition(definition).accepted_names() == decision.accepted && accepted.is_in(definition) {
        return None;
    }
    let established = is_true(definition, ESTABLISHED);
    let first = condition(definition, ESTABLISHED).is_none();
    let pending = match decision.conflict {
        None if !established => {
            Some(Condition::new(ESTABLISHED, false, "Installing", "the initial names have been accepted"))
        }
        Some(_) if first => Some(Condition::new(ESTABLISHED, false, "NotAccepted", "not all names are accepted")),
        _ => None,
    };
    let names = decision.accepted.to_value();
    Some(Box::new(move |new| {
        new.set(&["status", "acceptedNames"], names.clone());
        set_condition(new, &accepted);
        if let Some(pending) = &pending {
            set_condition(new, pending);
        }
    }))
}

fn approval(definition: &Value) -> Option<Edit> {
    let approval = approval_of(definition)?;
    let wanted = match &approval {
        Approval::Approved(address) => {
            Condition::new(API_APPROVED, true, "ApprovedAnnotation", format!("approved in {address}"))
        }
        Approval::Bypassed(why) => {
            Condition::new(API_APPROVED, false, "UnapprovedAnnotation", format!("not approved: {why:?}"))
        }
        Approval::Invalid => {
            Condition::new(API_APPROVED, false, "InvalidAnnotation", approval_problem(&approval).unwrap_or_default())
        }
        Approval::Missing => {
            Condition::new(API_APPROVED, false, "MissingAnnotation", approval_problem(&approval).unwrap_or_default())
        }
    };
    (!wanted.is_in(definition)).then(|| Box::new(move |new: &mut Value| set_condition(new, &wanted)) as Edit)
}

fn establishing(definition: &Value) -> Option<Edit> {
    if !is_true(definition, NAMES_ACCEPTED) || is_true(definition, ESTABLISHED) {
        return None;
    }
    let wanted = Condition::new(ESTABLISHED, true, "InitialNamesAccepted", "the initial names have been accepted");
    Some(Box::new(move |new| set_condition(new, &wanted)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(plural: &str, singular: &str, kind: &str, short: &[&str]) -> Names {
        Names {
            plural: plural.into(),
            singular: singular.into(),
            kind: kind.into(),
            list_kind: format!("{kind}List").into(),
            short_names: short.iter().map(|s| Str::from(*s)).collect(),
            categories: Vec::new(),
        }
    }

    #[test]
    fn each_name_is_decided_on_alone() {
        let other = names("foxes", "fox", "Fox", &["fx"]);
        let check = |asks: Names, conflict: Option<(&'static str, &str)>, accepted: Names| {
            let decision = decide(&asks, &Names::default(), &[&other]);
            assert_eq!(decision.conflict, conflict.map(|(r, m)| (r, m.to_owned())));
            assert_eq!(decision.accepted, accepted);
        };
        check(names("cats", "cat", "Cat", &["c"]), None, names("cats", "cat", "Cat", &["c"]));
        let mut kindless = names("vixens", "vixen", "Fox", &[]);
        kindless.list_kind = "VixenList".into();
        let mut accepted = kindless.clone();
        accepted.kind = Str::default();
        check(kindless, Some(("KindConflict", "\"Fox\" is already in use")), accepted);
        check(
            names("cats", "fx", "Cat", &["fox", "foxes", "k"]),
            Some(("ShortNamesConflict", "[\"fox\" is already in use, \"foxes\" is already in use]")),
            Names { singular: Str::default(), short_names: Vec::new(), ..names("cats", "", "Cat", &[]) },
        );
    }

    #[test]
    fn what_one_has_it_keeps() {
        let has = names("cats", "cat", "Cat", &["c"]);
        let asks = names("cats", "kitten", "Cat", &["c", "d"]);
        let other = names("dogs", "cat", "Dog", &["c"]);
        assert_eq!(decide(&asks, &has, &[&other]).conflict, None);
        assert_eq!(decide(&asks, &has, &[&other]).accepted, asks);
    }
}
