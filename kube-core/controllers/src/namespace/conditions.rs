//! The conditions of a namespace that is being deleted.

use std::collections::BTreeMap;

use machinery::{
    Str, Value,
    meta::{GroupResource, TimeForm, Timestamp},
    object,
};

use super::content::Deleted;

const DISCOVERY: &str = "NamespaceDeletionDiscoveryFailure";
const PARSING: &str = "NamespaceDeletionGroupVersionParsingFailure";
const CONTENT: &str = "NamespaceDeletionContentFailure";
const REMAINING: &str = "NamespaceContentRemaining";
const FINALIZERS: &str = "NamespaceFinalizersRemaining";

/// Type, and reason and message when all is well, in the order in which they stand.
const WELL: [(&str, &str, &str); 5] = [
    (DISCOVERY, "ResourcesDiscovered", "All resources successfully discovered"),
    (PARSING, "ParsedGroupVersions", "All legacy kube types successfully parsed"),
    (CONTENT, "ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    (REMAINING, "ContentRemoved", "All content successfully removed"),
    (FINALIZERS, "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
];

/// What was found while content was deleted.
#[derive(Default)]
pub(super) struct Conditions {
    discovery: Option<String>,
    failures: Vec<String>,
    /// Objects left.
    remaining: BTreeMap<GroupResource, usize>,
    /// Objects that wait, by finalizer.
    finalizers: BTreeMap<Str, usize>,
}

impl Conditions {
    /// Not all resources are known.
    pub(super) fn discovery_failed(&mut self, message: &str) {
        self.discovery = Some(message.to_owned());
    }

    /// Something cannot be deleted.
    pub(super) fn content_failed(&mut self, message: &str) {
        self.failures.push(message.to_owned());
    }

    /// Notes what is left of a resource.
    pub(super) fn remaining(&mut self, resource: GroupResource, deleted: &Deleted) {
        if deleted.remaining == 0 {
            return;
        }
        *self.remaining.entry(resource).or_default() += deleted.remaining;
        for (finalizer, objects) in &deleted.finalizers {
            *self.finalizers.entry(finalizer.clone()).or_default() += objects;
        }
    }

    /// Reason and message of the condition, if it is true. While pods are waited for, nothing is said of what is left.
    fn found(&self, kind: &str, waits: bool) -> Option<(&'static str, String)> {
        let sorted = |mut texts: Vec<String>| {
            texts.sort_unstable();
            texts.join(", ")
        };
        match kind {
            DISCOVERY => Some(("DiscoveryFailed", self.discovery.clone()?)),
            CONTENT if !self.failures.is_empty() => {
                let (count, all) = (self.failures.len(), sorted(self.failures.clone()));
                let message = format!("Failed to delete all resource types, {count} remaining: {all}");
                Some(("ContentDeletionFailed", message))
            }
            REMAINING if !waits && !self.remaining.is_empty() => {
                let each = |(of, count): (&GroupResource, &usize)| {
                    format!("{}.{} has {count} resource instances", of.resource, of.group)
                };
                let all = sorted(self.remaining.iter().map(each).collect());
                Some(("SomeResourcesRemain", format!("Some resources are remaining: {all}")))
            }
            FINALIZERS if !waits && !self.finalizers.is_empty() => {
                let each = |(finalizer, count): (&Str, &usize)| format!("{finalizer} in {count} resource instances");
                let all = sorted(self.finalizers.iter().map(each).collect());
                let message = format!("Some content in the namespace has finalizers remaining: {all}");
                Some(("SomeFinalizersRemain", message))
            }
            _ => None,
        }
    }

    /// Brings the conditions of a namespace up to date. Times are those of changes of status.
    pub(super) fn write(&self, namespace: &mut Value, waits: bool) {
        let conditions = namespace.at(&["status", "conditions"]).and_then(Value::as_array).unwrap_or_default();
        let mut conditions = conditions.to_vec();
        for (kind, reason, message) in WELL {
            let (status, reason, message) = match self.found(kind, waits) {
                Some((reason, message)) => ("True", reason, message),
                None => ("False", reason, message.to_owned()),
            };
            let now = Timestamp::now().text(TimeForm::Seconds);
            let new = |since: &str| {
                object! {
                    "type" => kind, "status" => status, "lastTransitionTime" => since, "reason" => reason,
                    "message" => message.as_str(),
                }
            };
            match conditions.iter_mut().find(|condition| condition.str_at(&["type"]) == Some(kind)) {
                Some(old) => {
                    let kept = old.str_at(&["lastTransitionTime"]).filter(|_| old.str_at(&["status"]) == Some(status));
                    *old = new(&kept.map_or(now, str::to_owned));
                }
                None => conditions.push(new(&now)),
            }
        }
        namespace.set(&["status", "conditions"], conditions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(namespace: &Value) -> Vec<String> {
        let conditions = namespace.at(&["status", "conditions"]).and_then(Value::as_array).unwrap_or_default();
        let text = |c: &Value, key| c.str_at(&[key]).unwrap_or_default().to_owned();
        conditions.iter().map(|c| ["status", "reason", "message"].map(|key| text(c, key)).join("|")).collect()
    }

    #[test]
    fn all_five_stand_there_in_their_order() {
        let mut namespace = object! {};
        Conditions::default().write(&mut namespace, false);
        let expect: Vec<_> = WELL.iter().map(|(_, reason, message)| format!("False|{reason}|{message}")).collect();
        assert_eq!(texts(&namespace), expect);
        let before = namespace.clone();
        Conditions::default().write(&mut namespace, false);
        assert_eq!(namespace, before, "what stays as it is keeps its time");
    }

    #[test]
    fn what_is_left_is_told_by_resource_and_by_finalizer() {
        let mut conditions = Conditions::default();
        let deleted = |remaining, finalizers: &[(&'static str, usize)]| Deleted {
            remaining,
            finalizers: finalizers.iter().map(|(name, n)| (Str::new_static(name), *n)).collect(),
            ..Deleted::default()
        };
        conditions.remaining(GroupResource::new("example.com", "widgets"), &deleted(2, &[("example.com/b", 2)]));
        conditions.remaining(
            GroupResource::new("", "configmaps"),
            &deleted(1, &[("example.com/a", 1), ("example.com/b", 1)]),
        );
        conditions.content_failed("z");
        conditions.content_failed("a");
        let mut namespace = object! {};
        conditions.write(&mut namespace, false);
        assert_eq!(
            texts(&namespace)[2..],
            [
                "True|ContentDeletionFailed|Failed to delete all resource types, 2 remaining: a, z",
                "True|SomeResourcesRemain|Some resources are remaining: configmaps. has 1 resource instances, \
                 widgets.example.com has 2 resource instances",
                "True|SomeFinalizersRemain|Some content in the namespace has finalizers remaining: example.com/a in 1 \
                 resource instances, example.com/b in 3 resource instances",
            ]
        );
        Conditions::default().write(&mut namespace, false);
        assert!(texts(&namespace).iter().all(|text| text.starts_with("False|")));
    }
}
