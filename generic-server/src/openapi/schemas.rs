//! The definitions that one document refers to.

use std::collections::{BTreeMap, BTreeSet};

use machinery::{
    Str, Value,
    meta::GroupVersion,
    object,
    schema::{
        TypeId, builtin,
        openapi::{self, CustomKind, Flavor, Telling},
    },
};

use super::{frame::Described, members::Members};
use crate::docs;
use crate::resource::{REGISTERED, Resource};

/// Group versions that the servers beside the main one have registered, and those of what only others are asked.
const ELSEWHERE: &[(&str, &[&str])] = &[
    ("admission.k8s.io", &["v1", "v1beta1"]),
    ("apiextensions.k8s.io", &["v1", "v1beta1"]),
    ("apiregistration.k8s.io", &["v1", "v1beta1"]),
    ("imagepolicy.k8s.io", &["v1alpha1"]),
];

/// Definitions by name; built-in ones bring all that they refer to.
#[derive(Debug)]
pub(crate) struct Schemas {
    flavor: Flavor,
    built_in: BTreeSet<TypeId>,
    others: BTreeMap<Str, Value>,
    /// The group and version that the document is about; none if it is about all.
    about: Option<GroupVersion>,
}

impl Schemas {
    /// None yet.
    pub(crate) fn new(flavor: Flavor) -> Self {
        Schemas { flavor, built_in: BTreeSet::new(), others: BTreeMap::new(), about: None }
    }

    /// Which OpenAPI.
    pub(crate) fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// For a document of one group version: of kinds that are in all of them its own are named.
    pub(crate) fn only_of(&mut self, group: &Str, version: &Str) {
        self.about = Some(GroupVersion::new(group.clone(), version.clone()));
    }

    /// Just these built-in ones.
    pub(crate) fn of(flavor: Flavor, built_in: impl IntoIterator<Item = TypeId>) -> Self {
        Schemas { built_in: built_in.into_iter().collect(), ..Schemas::new(flavor) }
    }

    /// A reference to a built-in definition.
    pub(crate) fn built_in(&mut self, id: TypeId) -> Value {
        self.need(id);
        self.reference(&builtin::name(id))
    }

    /// A reference to a type that all groups share, by its name below `io.k8s.apimachinery.pkg.`.
    pub(crate) fn shared(&mut self, name: &str) -> Value {
        let id = builtin::by_name(&format!("io.k8s.apimachinery.pkg.{name}"));
        self.built_in(id.expect("shared types are in the facts table"))
    }

    /// A reference to a kind: a built-in one, or a custom one that is in the document by then.
    pub(crate) fn kind(&mut self, group: &str, version: &str, kind: &str) -> Value {
        match builtin::by_gvk(group, version, kind) {
            Some(id) => self.built_in(id),
            None => self.reference(&custom(group, version, kind, "", "").definition_name(kind)),
        }
    }

    /// Puts a custom kind and the kind of its lists in. `props` is the `openAPIV3Schema` of its version.
    pub(crate) fn custom_kind(&mut self, row: &Resource, props: Option<&Value>) {
        let own = row.selectable_fields.iter().filter(|field| !field.hidden);
        let fields: Vec<Value> = own.map(|f| object! { "jsonPath" => &f.name }).collect();
        let kind = CustomKind {
            selectable_fields: &fields,
            ..custom(&row.group, &row.version, &row.kind, &row.list_kind, &row.plural)
        };
        self.others.insert(kind.definition_name(&row.kind).into(), kind.schema(props, self.flavor, &prose));
        self.others.insert(kind.definition_name(&row.list_kind).into(), kind.list_schema(self.flavor, &prose));
        for metadata in ["ObjectMeta", "ListMeta"] {
            self.shared(&format!("apis.meta.v1.{metadata}"));
        }
    }

    /// Puts a definition of another making in.
    pub(crate) fn add(&mut self, name: &str, schema: Value) -> Value {
        self.others.insert(name.into(), schema);
        self.reference(name)
    }

    /// A built-in definition. Two kinds belong to every version of every group that Kubernetes ever registered.
    fn definition(&self, id: TypeId, described: Described) -> Value {
        let telling = Telling { flavor: self.flavor, enums: described.enums };
        let mut schema = openapi::definition(id, telling, &prose);
        let kind = builtin::type_name(id);
        if let "DeleteOptions" | "WatchEvent" = kind {
            // The one document of v2 is that of all servers.
            let elsewhere = if self.flavor == Flavor::V2 { ELSEWHERE } else { &[] };
            let all = REGISTERED.iter().chain(elsewhere);
            let all = all.flat_map(|(group, versions)| versions.iter().map(move |v| (*group, *v)));
            let mut all: Vec<(&str, &str)> = match &self.about {
                None => all.collect(),
                Some(about) => vec![("", "v1"), (&about.group, &about.version)],
            };
            all.sort_unstable();
            all.dedup();
            let kinds = all.into_iter();
            let kinds =
                kinds.map(|(group, version)| object! { "group" => group, "version" => version, "kind" => kind });
            schema.set(&["x-kubernetes-group-version-kind"], kinds.collect::<Value>());
        }
        schema
    }

    /// The built-in definitions that are referred to.
    pub(crate) fn built_ins(&self) -> impl Iterator<Item = TypeId> {
        self.built_in.iter().copied()
    }

    /// The definitions of another making.
    pub(crate) fn others(&self) -> impl Iterator<Item = (&Str, &Value)> {
        self.others.iter()
    }

    /// Writes all definitions.
    pub(crate) fn write(&self, described: Described, members: &mut Members) {
        for id in &self.built_in {
            members.put(&builtin::name(*id), &self.definition(*id, described));
        }
        self.others.iter().for_each(|(name, schema)| members.put(name, schema));
    }

    fn need(&mut self, id: TypeId) {
        if self.built_in.insert(id) {
            for id in openapi::references(id) {
                self.need(id);
            }
        }
    }

    fn reference(&self, name: &str) -> Value {
        let root = match self.flavor {
            Flavor::V2 => "#/definitions/",
            Flavor::V3 => "#/components/schemas/",
        };
        object! { "$ref" => format!("{root}{name}") }
    }
}

fn custom<'a>(group: &'a str, version: &'a str, kind: &'a str, list_kind: &'a str, plural: &'a str) -> CustomKind<'a> {
    CustomKind { group, version, kind, list_kind, plural, selectable_fields: &[] }
}

fn prose(id: TypeId, member: Option<&str>) -> Option<Str> {
    let name = builtin::name(id);
    let text = match member {
        None => docs::of_type(&name),
        Some(member) => docs::of_member(&name, member),
    };
    text.map(Str::new_static).or_else(|| {
        let list = builtin::type_name(id);
        let kind = list.strip_suffix("List").filter(|kind| !kind.is_empty())?;
        match member {
            Some("items") => Some(format!("List of {}", plural(&kind.to_lowercase())).into()),
            None => Some(format!("{list} is a list of {kind} objects.").into()),
            Some(_) => None,
        }
    })
}

/// The plural of a word, as the names of resources are made.
fn plural(word: &str) -> String {
    match word {
        word if word.ends_with("endpoints") => word.to_owned(),
        word if word.ends_with('s') || word.ends_with("ch") => format!("{word}es"),
        word => match word.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'i', 'o', 'u'])) {
            Some(stem) => format!("{stem}ies"),
            None => format!("{word}s"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_says_what_it_holds() {
        let check = |list: &str, expect: &str| {
            let id = builtin::by_name(list).expect("the table has it");
            assert_eq!(prose(id, Some("items")).as_deref(), Some(expect));
        };
        check("io.k8s.api.core.v1.ServiceList", "List of services");
        check("io.k8s.api.core.v1.EndpointsList", "List of endpoints");
        check("io.k8s.api.networking.v1.NetworkPolicyList", "List of networkpolicies");
        check("io.k8s.api.networking.v1.IngressClassList", "List of ingressclasses");
        check("io.k8s.api.networking.v1.IngressList", "List of ingresses");
        let list = builtin::by_name("io.k8s.api.core.v1.ServiceAccountList").expect("the table has it");
        assert_eq!(prose(list, None).as_deref(), Some("ServiceAccountList is a list of ServiceAccount objects."));
    }
}
