//! Writes rows of the resource table down in one line each: a builder that fills in what follows from the names.

use std::sync::Arc;

use generic_server::{
    printer::{self, Table},
    resource::{
        Availability, Conversion, Converter, Deprecation, Resource, SelectableField, Subresource, SubresourceKind,
        UnknownField,
    },
};
use machinery::{
    Str,
    meta::{self, GvkRef},
    request::{Verb, Verbs},
    schema::{LazySchema, Schema, Shape, builtin},
};

use crate::{
    conversion::Renamed,
    strategy::{KindStrategy, Rules},
    validation::second_look,
};

/// The methods that a proxy passes on; discovery lists them as verbs.
const PROXY: Verbs = Verbs::of(&[Verb::Create, Verb::Delete, Verb::Get, Verb::Patch, Verb::Update]);
/// What exec, attach and port-forward answer to.
const STREAM: Verbs = Verbs::of(&[Verb::Create, Verb::Get]);

/// A group and version whose rows follow.
#[derive(Clone, Copy)]
pub(crate) struct GroupVersion(pub(crate) &'static str, pub(crate) &'static str);

impl GroupVersion {
    /// `v1` or `apps/v1`.
    pub(crate) fn api_version(self) -> Str {
        let GroupVersion(group, version) = self;
        if group.is_empty() { Str::new_static(version) } else { Str::from(format!("{group}/{version}")) }
    }

    /// A stored resource whose objects live in namespaces. `hash` is its storage version's.
    pub(crate) fn namespaced(self, plural: &'static str, kind: &'static str, hash: &'static str) -> Row {
        self.row(plural, kind, true).stored(plural, hash)
    }

    /// A stored resource of the whole cluster. `hash` is its storage version's.
    pub(crate) fn cluster(self, plural: &'static str, kind: &'static str, hash: &'static str) -> Row {
        self.row(plural, kind, false).stored(plural, hash)
    }

    /// A resource that is answered and not stored: a review, a binding.
    pub(crate) fn virtual_namespaced(self, plural: &'static str, kind: &'static str) -> Row {
        self.row(plural, kind, true).only(Verbs::CREATE)
    }

    /// The same, without a namespace.
    pub(crate) fn virtual_cluster(self, plural: &'static str, kind: &'static str) -> Row {
        self.row(plural, kind, false).only(Verbs::CREATE)
    }

    fn row(self, plural: &'static str, kind: &'static str, namespaced: bool) -> Row {
        let GroupVersion(group, version) = self;
        let id = builtin::by_gvk(group, version, kind).expect("every row's kind is in the facts table");
        let schema = LazySchema::from(Schema::of(Shape::Ref(id)));
        Row(Resource {
            group: Str::new_static(group),
            version: Str::new_static(version),
            plural: Str::new_static(plural),
            singular: Str::from(kind.to_ascii_lowercase()),
            kind: Str::new_static(kind),
            list_kind: Str::from(format!("{kind}List")),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced,
            verbs: Verbs::STANDARD,
            storage_version_hash: None,
            subresources: Vec::new(),
            schema: schema.clone(),
            built_in: true,
            storage_path: Str::new_static(plural),
            storage_version: meta::GroupVersion::new(Str::new_static(group), Str::new_static(version)),
            conversion: None,
            strategy: Arc::new(KindStrategy::new(Rules::PLAIN, schema.clone(), second_look(group, kind))),
            printer: printer::metadata().printer(),
            selectable_fields: Vec::new(),
            unknown_field: UnknownField::default(),
            deprecation: None,
            availability: Availability::default(),
        })
    }
}

/// A row in the making.
pub(crate) struct Row(Resource);

impl Row {
    /// Short names for people.
    pub(crate) fn short(mut self, names: &[&'static str]) -> Self {
        self.0.short_names = names.iter().copied().map(Str::new_static).collect();
        self
    }

    /// A group of resources that the resource is in.
    pub(crate) fn category(mut self, name: &'static str) -> Self {
        self.0.categories.push(Str::new_static(name));
        self
    }

    /// What the resource serves, where that is not everything.
    pub(crate) fn only(mut self, verbs: Verbs) -> Self {
        self.0.verbs = verbs;
        self
    }

    /// The key's part below the storage prefix, where it is not the plural name.
    pub(crate) fn path(mut self, path: &'static str) -> Self {
        self.0.storage_path = Str::new_static(path);
        self
    }

    /// The group and version that objects are stored in, where that is another.
    pub(crate) fn stored_as(mut self, version: GroupVersion, conversion: impl Conversion + 'static) -> Self {
        self.0.storage_version = meta::GroupVersion::new(Str::new_static(version.0), Str::new_static(version.1));
        self.0.conversion = Some(Converter::Rule(Arc::new(conversion)));
        self
    }

    /// With a status subresource.
    pub(crate) fn status(self) -> Self {
        self.subresource("status", SubresourceKind::Status, None, Verbs::STATUS)
    }

    /// With a scale subresource. `selector` is the path of the label selector.
    pub(crate) fn scale(self, selector: &str) -> Self {
        let path = |text: &str| text.split('.').map(Str::from).collect::<Vec<_>>();
        let kind = SubresourceKind::Scale {
            spec_replicas: path("spec.replicas"),
            status_replicas: path("status.replicas"),
            selector: Some(path(selector)),
        };
        self.subresource("scale", kind, Some(GvkRef::new("autoscaling", "v1", "Scale")), Verbs::STATUS)
    }

    /// With a subresource of a rule of its own, whose documents are objects of the resource itself.
    pub(crate) fn sub(self, name: &'static str, verbs: Verbs) -> Self {
        self.subresource(name, SubresourceKind::Other, None, verbs)
    }

    /// With a subresource of a rule of its own, that is posted documents of another kind.
    pub(crate) fn post(self, name: &'static str, kind: GvkRef<'static>) -> Self {
        self.subresource(name, SubresourceKind::Other, Some(kind), Verbs::CREATE)
    }

    /// With a subresource that streams to and from a node. `options` is the kind of its query.
    pub(crate) fn stream(self, name: &'static str, options: &'static str) -> Self {
        self.subresource(name, SubresourceKind::Other, Some(GvkRef::new("", "v1", options)), STREAM)
    }

    /// With a proxy subresource. `options` is the kind of its query.
    pub(crate) fn proxy(self, options: &'static str) -> Self {
        self.subresource("proxy", SubresourceKind::Proxy, Some(GvkRef::new("", "v1", options)), PROXY)
    }

    /// Fields that selectors know, and how others are refused.
    pub(crate) fn fields(mut self, refusal: UnknownField, fields: impl IntoIterator<Item = SelectableField>) -> Self {
        self.0.selectable_fields = fields.into_iter().collect();
        self.0.unknown_field = refusal;
        self
    }

    /// The kind's rules.
    pub(crate) fn strategy(mut self, rules: Rules) -> Self {
        self.0.strategy =
            Arc::new(KindStrategy::new(rules, self.0.schema.clone(), second_look(&self.0.group, &self.0.kind)));
        self
    }

    /// The kind's Table columns.
    pub(crate) fn table(mut self, table: Table) -> Self {
        self.0.printer = table.printer();
        self
    }

    /// Served with a feature gate alone.
    pub(crate) fn gated(mut self, gate: &'static str) -> Self {
        self.0.availability.gate = Some(gate);
        self
    }

    /// There since a minor version of Kubernetes 1: servers that emulate an older one have no such resource.
    pub(crate) fn since(mut self, minor: u32) -> Self {
        self.0.availability.introduced = minor;
        self
    }

    /// Served only by servers that behave like versions before this one.
    pub(crate) fn until(mut self, minor: u32) -> Self {
        self.0.availability.removed = minor;
        self
    }

    /// Deprecated since a minor version, and gone three later; `instead` has the same kind, if anything has.
    pub(crate) fn deprecated_since(mut self, minor: u32, instead: Option<GroupVersion>) -> Self {
        let (api_version, kind) = (self.0.api_version(), &self.0.kind);
        let gone = minor + 3;
        let other = instead.map(|GroupVersion(group, version)| format!("; use {group}/{version} {kind}"));
        let other = other.unwrap_or_default();
        let warning = format!("{api_version} {kind} is deprecated in v1.{minor}+, unavailable in v1.{gone}+{other}");
        let removed_in = Str::from(format!("1.{gone}"));
        self.0.deprecation = Some(Deprecation { warning: warning.into(), removed_in });
        self
    }

    /// The same shape as the stored version's under another name.
    pub(crate) fn renamed_from(self, stored: GroupVersion) -> Self {
        let conversion = Renamed::new(self.0.api_version(), stored.api_version());
        self.stored_as(stored, conversion)
    }

    /// The warning that every request gets.
    pub(crate) fn deprecated(mut self, warning: &'static str) -> Self {
        self.0.deprecation = Some(Deprecation { warning: Str::new_static(warning), removed_in: Str::default() });
        self
    }

    /// The row. Discovery lists subresources by name.
    pub(crate) fn build(mut self) -> Resource {
        self.0.subresources.sort_by(|a, b| a.name.cmp(&b.name));
        self.0
    }

    fn stored(mut self, path: &'static str, hash: &'static str) -> Self {
        self.0.storage_path = Str::new_static(path);
        self.0.storage_version_hash = Some(Str::new_static(hash));
        self
    }

    fn subresource(
        mut self,
        name: &'static str,
        kind: SubresourceKind,
        response: Option<GvkRef<'static>>,
        verbs: Verbs,
    ) -> Self {
        let response_kind = response.unwrap_or_else(|| self.0.gvk()).to_owned();
        self.0.subresources.push(Subresource { name: Str::new_static(name), kind, response_kind, verbs });
        self
    }
}
