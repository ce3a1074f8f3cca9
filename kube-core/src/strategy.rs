//! The rules of kinds, as data: flags, and small pure functions where a kind has something of its own to say.

use std::sync::{Arc, OnceLock};

use generic_server::features::Features;
use generic_server::resource::{Generation, KindTraits, SecondLook, Strategy, WriteContext};
use machinery::{
    Value,
    meta::{field_error::FieldError, names::NameRule},
    object,
    patch::apply::ResetFields,
    schema::{
        LazySchema,
        builtin::{self, Gated},
        decode,
    },
};

use crate::validation::{Errors, Field};

/// A feature, and what it fills in.
type FeatureDefaults = (&'static str, fn(&mut Value));

/// What a kind's strategy says.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    /// What the kind is like.
    pub(crate) traits: KindTraits,
    /// A new object keeps the status that came with it.
    pub(crate) keeps_status: bool,
    /// Fills in what depends on other members.
    pub(crate) defaults: fn(&mut Value),
    /// Fills in more where a feature is on.
    pub(crate) feature_defaults: Option<FeatureDefaults>,
    /// The kind as it is where a feature is off.
    pub(crate) older: Option<(&'static str, &'static Rules)>,
    /// Why a document is none of the kind.
    pub(crate) refuse: fn(&Value) -> Option<String>,
    /// Brings a new object into its initial state, once its status is blank.
    pub(crate) create: fn(&WriteContext<'_>, &mut Value),
    /// Brings an update into line with the old object, once its status is the old one.
    pub(crate) update: fn(&WriteContext<'_>, &mut Value, &Value),
    /// What an update of the status leaves alone.
    pub(crate) status_leaves: &'static [&'static [&'static str]],
    /// Brings an update of the status into line, once all but metadata and status are the old object's.
    pub(crate) status_update: fn(&WriteContext<'_>, &mut Value, &Value),
    /// What is wrong with an object, beyond its metadata. It runs on updates too, unless the kind has `validate_update`.
    pub(crate) validate: fn(&WriteContext<'_>, &Field<'_>, &mut Errors),
    /// What is wrong with an update (new, old). A kind that has this calls its `validate` itself, where upstream does.
    pub(crate) validate_update: Option<fn(&WriteContext<'_>, &Field<'_>, &Field<'_>, &mut Errors)>,
    /// What is wrong with the new object of an update, where upstream says so before it looks at what changed in the metadata
    /// ([`SecondLook::WholeThenChanges`]); `validate_update` is then about the rest.
    pub(crate) revalidate: Option<fn(&WriteContext<'_>, &Field<'_>, &Field<'_>, &mut Errors)>,
    /// What is wrong with an update of the status (new, old).
    pub(crate) validate_status: fn(&WriteContext<'_>, &Field<'_>, &Field<'_>, &mut Errors),
    /// What the kind says of subresources other than status that edit the object.
    pub(crate) subresources: &'static [SubresourceRules],
    /// Members that nobody comes to own through the resource ("", where that is not just the status) or a subresource other
    /// than the status.
    pub(crate) resets: &'static [(&'static str, &'static [&'static [&'static str]])],
    /// Warnings for the author of an object, given the old one if it is an update.
    pub(crate) warn: fn(&Value, Option<&Value>) -> Vec<String>,
    /// Warnings for the author of a status.
    pub(crate) warn_status: fn(&Value) -> Vec<String>,
    /// Warnings for the author of an object as it came, whether or not it is accepted.
    pub(crate) warn_early: fn(&Value) -> Vec<String>,
    /// Seconds that a deleted object lives on, given what the request asked for.
    pub(crate) grace: fn(&Value, Option<i64>) -> Option<i64>,
    /// Whether an object in deletion may go once it has no finalizers.
    pub(crate) may_finish: fn(&Value) -> bool,
    /// What else changes when the deletion of an object begins.
    pub(crate) deleting: fn(&mut Value),
    /// Why the object of a name may not be deleted.
    pub(crate) refuse_delete: fn(&str) -> Option<&'static str>,
}

/// What a kind says of a subresource that edits the object.
#[derive(Clone, Copy)]
pub(crate) struct SubresourceRules {
    /// Its name.
    pub(crate) name: &'static str,
    /// Brings an update into line: restores what the subresource may not change.
    pub(crate) update: fn(&WriteContext<'_>, &mut Value, &Value),
    /// What is wrong with an update (new, old), beyond the object's metadata.
    pub(crate) validate: fn(&WriteContext<'_>, &Field<'_>, &Field<'_>, &mut Errors),
}

/// `generation` of kinds that count changes of their spec.
pub(crate) const SPEC: &[&str] = &["spec"];

impl Rules {
    /// A kind without status and generation, named by an RFC 1123 subdomain.
    pub(crate) const PLAIN: Rules = Rules {
        traits: KindTraits::PLAIN,
        keeps_status: false,
        defaults: |_| {},
        feature_defaults: None,
        older: None,
        refuse: |_| None,
        create: |_, _| {},
        update: |_, _, _| {},
        status_leaves: &[&["spec"]],
        status_update: |_, _, _| {},
        validate: |_, _, _| {},
        validate_update: None,
        revalidate: None,
        validate_status: |_, _, _, _| {},
        subresources: &[],
        resets: &[],
        warn: |_, _| Vec::new(),
        warn_status: |_| Vec::new(),
        warn_early: |_| Vec::new(),
        grace: |_, _| None,
        may_finish: |_| true,
        deleting: |_| {},
        refuse_delete: |_| None,
    };
    /// A kind with a status.
    pub(crate) const STATUS: Rules = Rules::PLAIN.with_status();
    /// A kind with a status and a spec whose changes count.
    pub(crate) const WORKLOAD: Rules = Rules::STATUS.counts(SPEC);
    /// A kind with a spec whose changes count, and no status.
    pub(crate) const COUNTED: Rules = Rules::PLAIN.counts(SPEC);

    /// With a status that only the status subresource writes.
    pub(crate) const fn with_status(mut self) -> Self {
        self.traits.has_status = true;
        self
    }

    /// With updates only of the version that the client has seen.
    pub(crate) const fn conditional(mut self) -> Self {
        self.traits.allows_unconditional_update = false;
        self
    }

    /// With objects that PUT creates.
    pub(crate) const fn create_on_update(mut self) -> Self {
        self.traits.allows_create_on_update = true;
        self
    }

    /// With another rule for names.
    pub(crate) const fn names(mut self, rule: NameRule) -> Self {
        self.traits.names = rule;
        self
    }

    /// With finalizers of any qualified name.
    pub(crate) const fn any_finalizers(mut self) -> Self {
        self.traits.knows_standard_finalizers = false;
        self
    }

    /// With changes below other members counted.
    pub(crate) const fn counts(mut self, members: &'static [&'static str]) -> Self {
        self.traits.generation = Generation::Members(members);
        self
    }

    /// With the object as the answer to a DELETE.
    pub(crate) const fn returns_deleted(mut self) -> Self {
        self.traits.returns_deleted_object = true;
        self
    }

    /// With dependents that a DELETE without a propagation policy leaves alone.
    pub(crate) const fn orphans(mut self) -> Self {
        self.traits.orphans_by_default = true;
        self
    }

    /// With annotations that stand for members of upstream's internal type.
    pub(crate) const fn hidden_annotations(mut self, names: &'static [&'static str]) -> Self {
        self.traits.hidden_annotations = names;
        self
    }

    /// With computed defaults.
    pub(crate) const fn defaults(mut self, rule: fn(&mut Value)) -> Self {
        self.defaults = rule;
        self
    }

    /// With defaults that a feature brings.
    pub(crate) const fn feature_defaults(mut self, gate: &'static str, rule: fn(&mut Value)) -> Self {
        self.feature_defaults = Some((gate, rule));
        self
    }

    /// With other rules where a feature is off.
    pub(crate) const fn unless(mut self, gate: &'static str, older: &'static Rules) -> Self {
        self.older = Some((gate, older));
        self
    }

    /// With documents that are refused.
    pub(crate) const fn refuse(mut self, rule: fn(&Value) -> Option<String>) -> Self {
        self.refuse = rule;
        self
    }

    /// With an initial state of its own.
    pub(crate) const fn create(mut self, rule: fn(&WriteContext<'_>, &mut Value)) -> Self {
        self.create = rule;
        self
    }

    /// With rules that an object must follow.
    pub(crate) const fn validate(mut self, rule: fn(&WriteContext<'_>, &Field<'_>, &mut Errors)) -> Self {
        self.validate = rule;
        self
    }

    /// With rules that an update must follow.
    pub(crate) const fn validate_update(
        mut self,
        rule: fn(&WriteContext<'_>, &Field<'_>, &Field<'_>, &mut Errors),
    ) -> Self {
        self.validate_update = Some(rule);
        self
    }

    /// With rules that the new object of an update must follow, looked at before what changed in the metadata.
    pub(crate) const fn revalidate(mut self, rule: fn(&WriteContext<'_>, &Field<'_>, &Field<'_>, &mut Errors)) -> Self {
        self.revalidate = Some(rule);
        self
    }

    /// With rules that an update of the status must follow.
    pub(crate) const fn validate_status(
        mut self,
        rule: fn(&WriteContext<'_>, &Field<'_>, &Field<'_>, &mut Errors),
    ) -> Self {
        self.validate_status = rule;
        self
    }

    /// With members that an update of the status leaves alone.
    pub(crate) const fn status_leaves(mut self, members: &'static [&'static [&'static str]]) -> Self {
        self.status_leaves = members;
        self
    }

    /// Whose status updates change nothing of the metadata, so that nobody comes to own any of it through them.
    pub(crate) const fn status_alone(mut self) -> Self {
        self.status_update = |_, new, old| restore_metadata(new, old);
        self.resets = &[("status", &[&["metadata"], &["spec"]])];
        self
    }

    /// With members that an update of the status brings into line.
    pub(crate) const fn status_update(mut self, rule: fn(&WriteContext<'_>, &mut Value, &Value)) -> Self {
        self.status_update = rule;
        self
    }

    /// With warnings for authors.
    pub(crate) const fn warn(mut self, rule: fn(&Value, Option<&Value>) -> Vec<String>) -> Self {
        self.warn = rule;
        self
    }

    /// With warnings for authors of statuses.
    pub(crate) const fn warn_status(mut self, rule: fn(&Value) -> Vec<String>) -> Self {
        self.warn_status = rule;
        self
    }

    /// With members that updates may not change.
    pub(crate) const fn update(mut self, rule: fn(&WriteContext<'_>, &mut Value, &Value)) -> Self {
        self.update = rule;
        self
    }
}

/// A kind's rules at work.
pub(crate) struct KindStrategy {
    rules: Rules,
    schema: LazySchema,
    blank: OnceLock<Option<Value>>,
    /// What of the kind is behind gates.
    gated: OnceLock<Vec<Gated>>,
    features: Features,
}

impl KindStrategy {
    /// Of a kind whose objects have this schema.
    pub(crate) fn new(mut rules: Rules, schema: LazySchema, second_look: SecondLook) -> Self {
        rules.traits.second_look = second_look;
        let features = Features::default();
        KindStrategy { rules, schema, blank: OnceLock::new(), gated: OnceLock::new(), features }
    }

    /// The status of an object about which nothing has been said, with what Go writes always.
    fn blank_status(&self) -> Option<Value> {
        let made = || decode(&self.schema, object! {}).ok().and_then(|(object, _)| object.get("status").cloned());
        self.blank.get_or_init(made).clone()
    }

    fn subresource(&self, name: &str) -> Option<&'static SubresourceRules> {
        self.rules.subresources.iter().find(|rules| rules.name == name)
    }

    /// Drops members of features that are off, unless the object had any of the feature's before.
    fn drop_disabled(&self, cx: &WriteContext<'_>, new: &mut Value, old: Option<&Value>) {
        let gated = self.gated.get_or_init(|| {
            let id = self.schema.resolve().as_object().and_then(|object| object.definition);
            id.map(builtin::gated).unwrap_or_default()
        });
        for gated in gated.iter().filter(|gated| !cx.features.is_on(gated.gate)) {
            if gated.is_in(new) && !old.is_some_and(|old| gated.is_in(old)) {
                gated.drop_from(new);
            }
        }
    }
}

impl Strategy for KindStrategy {
    fn traits(&self) -> &KindTraits {
        &self.rules.traits
    }

    fn with_features(&self, features: &Features) -> Option<Arc<dyn Strategy>> {
        let older = self.rules.older.filter(|(gate, _)| !features.is_on(gate)).map(|(_, rules)| *rules);
        if self.rules.feature_defaults.is_none() && older.is_none() {
            return None;
        }
        let rules = older.unwrap_or(self.rules);
        let kind = KindStrategy::new(rules, self.schema.clone(), self.rules.traits.second_look);
        Some(Arc::new(KindStrategy { features: features.clone(), ..kind }))
    }

    fn default(&self, object: &mut Value) {
        (self.rules.defaults)(object);
        if let Some((_, rule)) = self.rules.feature_defaults.filter(|(gate, _)| self.features.is_on(gate)) {
            rule(object);
        }
    }

    fn refuse_document(&self, object: &Value) -> Option<String> {
        (self.rules.refuse)(object)
    }

    fn prepare_create(&self, cx: &WriteContext<'_>, object: &mut Value) {
        if self.rules.traits.has_status && !self.rules.keeps_status {
            let map = object.make_object();
            match self.blank_status() {
                Some(blank) => map.insert("status", blank),
                None => map.remove("status"),
            };
        }
        self.drop_disabled(cx, object, None);
        (self.rules.create)(cx, object);
    }

    fn validate(&self, cx: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let mut errors = Errors::with(cx.features);
        (self.rules.validate)(cx, &Field::root(object), &mut errors);
        errors.into_vec()
    }

    fn validate_update(&self, cx: &WriteContext<'_>, new: &Value, old: &Value) -> Vec<FieldError> {
        let (new, old) = (Field::root(new), Field::root(old));
        let mut errors = Errors::with(cx.features);
        match self.rules.validate_update {
            Some(rule) => rule(cx, &new, &old, &mut errors),
            None if self.rules.revalidate.is_some() => {}
            None => (self.rules.validate)(cx, &new, &mut errors),
        }
        errors.into_vec()
    }

    fn revalidate(&self, cx: &WriteContext<'_>, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Errors::with(cx.features);
        if let Some(rule) = self.rules.revalidate {
            rule(cx, &Field::root(new), &Field::root(old), &mut errors);
        }
        errors.into_vec()
    }

    fn validate_status_update(&self, cx: &WriteContext<'_>, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Errors::with(cx.features);
        (self.rules.validate_status)(cx, &Field::root(new), &Field::root(old), &mut errors);
        errors.into_vec()
    }

    fn early_warnings(&self, object: &Value) -> Vec<String> {
        (self.rules.warn_early)(object)
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        (self.rules.warn)(object, None)
    }

    fn warnings_on_update(&self, new: &Value, old: &Value) -> Vec<String> {
        (self.rules.warn)(new, Some(old))
    }

    fn warnings_on_status_update(&self, new: &Value) -> Vec<String> {
        (self.rules.warn_status)(new)
    }

    fn prepare_update(&self, cx: &WriteContext<'_>, new: &mut Value, old: &Value) {
        if self.rules.traits.has_status {
            restore(new, old, &["status"]);
        }
        self.drop_disabled(cx, new, Some(old));
        (self.rules.update)(cx, new, old);
    }

    fn prepare_status_update(&self, cx: &WriteContext<'_>, new: &mut Value, old: &Value) {
        let members = [new.as_object(), old.as_object()].into_iter().flatten().flat_map(|map| map.keys().cloned());
        let others: Vec<_> =
            members.filter(|k| !matches!(k.as_str(), "metadata" | "status" | "apiVersion" | "kind")).collect();
        for member in others {
            restore(new, old, &[&member]);
        }
        for path in self.rules.status_leaves {
            restore(new, old, path);
        }
        (self.rules.status_update)(cx, new, old);
        self.drop_disabled(cx, new, Some(old));
    }

    fn prepare_subresource_update(&self, cx: &WriteContext<'_>, new: &mut Value, old: &Value) {
        if let Some(rules) = self.subresource(cx.subresource) {
            (rules.update)(cx, new, old);
        }
        self.drop_disabled(cx, new, Some(old));
    }

    fn validate_subresource_update(&self, cx: &WriteContext<'_>, new: &Value, old: &Value) -> Vec<FieldError> {
        let Some(rules) = self.subresource(cx.subresource) else { return self.validate_update(cx, new, old) };
        let mut errors = Errors::with(cx.features);
        (rules.validate)(cx, &Field::root(new), &Field::root(old), &mut errors);
        errors.into_vec()
    }

    fn reset_fields(&self, _version: &str, subresource: &str) -> ResetFields {
        if let Some((_, members)) = self.rules.resets.iter().find(|(name, _)| *name == subresource) {
            return ResetFields::exclude(members);
        }
        match subresource {
            "" if self.rules.traits.has_status => ResetFields::exclude(&[&["status"]]),
            "status" => ResetFields::exclude(self.rules.status_leaves),
            _ => ResetFields::None,
        }
    }

    fn refuse_delete(&self, name: &str) -> Option<&'static str> {
        (self.rules.refuse_delete)(name)
    }

    fn grace_period(&self, object: &Value, asked: Option<i64>) -> Option<i64> {
        (self.rules.grace)(object, asked)
    }

    fn may_finish_deletion(&self, object: &Value) -> bool {
        (self.rules.may_finish)(object)
    }

    fn mark_deletion(&self, object: &mut Value) {
        (self.rules.deleting)(object);
    }
}

/// The metadata that a client may change stays the old one: for subresources that are about something else.
pub(crate) fn restore_metadata(new: &mut Value, old: &Value) {
    for member in ["deletionTimestamp", "labels", "annotations", "finalizers", "ownerReferences"] {
        restore(new, old, &["metadata", member]);
    }
}

/// Puts what the old object has at a place into the new one, or removes it if the old one has nothing there.
pub(crate) fn restore(new: &mut Value, old: &Value, path: &[&str]) {
    match old.at(path) {
        Some(value) if new.at(path) != Some(value) => new.set(path, value.clone()),
        Some(_) => {}
        None => {
            new.remove_at(path);
        }
    }
}
