//! The facts table of every type that v1.36 serves by default, compiled in as text and read definition by definition, on
//! first use. `types.tsv` is made by `tools/builtin-types/generate.py`.

mod gated;
mod parse;
mod scheme;

use std::sync::{LazyLock, OnceLock};

use super::{ProtoField, Schema, TypeId};
use crate::Str;

pub use gated::{Gated, gated, gates};
pub use scheme::Scheme;

static TEXT: &str = include_str!("types.tsv");

struct Row {
    /// Without `io.k8s.` and `api.`.
    name: &'static str,
    json: &'static str,
}

struct Table {
    definitions: Vec<Row>,
    messages: Vec<Row>,
    kinds: Vec<BuiltinKind>,
    schemas: Vec<OnceLock<Schema>>,
    message_cells: Vec<OnceLock<Message>>,
}

static TABLE: LazyLock<Table> = LazyLock::new(Table::read);

/// A kind of the table, and its definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BuiltinKind {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// Its definition.
    pub id: TypeId,
}

/// A protobuf message without a definition of its own: an embedded one, `Time`, `Unknown`, options …
#[derive(Clone, Debug)]
pub struct Message {
    /// The full name (`k8s.io.api.core.v1.ProbeHandler`).
    pub name: &'static str,
    /// The fields by number. For embedded messages the names are the members' JSON names.
    pub fields: Vec<(Str, ProtoField)>,
}

impl Table {
    fn read() -> Self {
        let (mut definitions, mut messages, mut kinds) = (Vec::new(), Vec::new(), Vec::new());
        for line in TEXT.lines() {
            let (name, rest) = line.split_once('\t').expect("a row has three columns");
            let (kinds_of, json) = rest.split_once('\t').expect("a row has three columns");
            if kinds_of == "message" {
                messages.push(Row { name, json });
                continue;
            }
            let id = TypeId(u16::try_from(definitions.len()).expect("a few hundred rows"));
            for text in kinds_of.split(',').filter(|k| !k.is_empty()) {
                let mut parts = text.split('/');
                let mut next = || parts.next().expect("group/version/kind");
                kinds.push(BuiltinKind { group: next(), version: next(), kind: next(), id });
            }
            definitions.push(Row { name, json });
        }
        kinds.sort_unstable();
        let schemas = definitions.iter().map(|_| OnceLock::new()).collect();
        let message_cells = messages.iter().map(|_| OnceLock::new()).collect();
        Table { definitions, messages, kinds, schemas, message_cells }
    }
}

/// The whole table, as text: what hashes of documents that are made of it begin with.
pub fn facts() -> &'static str {
    TEXT
}

/// The definition called `name`, as OpenAPI v2 and v3 call it: `io.k8s.api.core.v1.PodSpec`.
pub fn by_name(name: &str) -> Option<TypeId> {
    let name = name.strip_prefix("io.k8s.").unwrap_or(name);
    by_short_name(name.strip_prefix("api.").unwrap_or(name))
}

fn by_short_name(name: &str) -> Option<TypeId> {
    let row = TABLE.definitions.binary_search_by(|row| row.name.cmp(name)).ok()?;
    Some(TypeId(row as u16))
}

/// The definition of a kind. Kinds that stand in every group (`DeleteOptions`, `WatchEvent`) are found in each.
pub fn by_gvk(group: &str, version: &str, kind: &str) -> Option<TypeId> {
    let of_meta = || scheme::is_of_meta(group, version, kind).then(|| find("", "v1", kind)).flatten();
    find(group, version, kind).or_else(of_meta)
}

/// Whether a kind of this group version is served.
fn is_served(group: &str, version: &str) -> bool {
    let first = TABLE.kinds.partition_point(|k| (k.group, k.version) < (group, version));
    TABLE.kinds.get(first).is_some_and(|k| (k.group, k.version) == (group, version))
}

fn find(group: &str, version: &str, kind: &str) -> Option<TypeId> {
    let kinds = &TABLE.kinds;
    let i = kinds.binary_search_by(|k| (k.group, k.version, k.kind).cmp(&(group, version, kind))).ok()?;
    Some(kinds[i].id)
}

/// The definition that a protobuf message has (`k8s.io.api.core.v1.PodSpec`).
pub fn by_message(message: &str) -> Option<TypeId> {
    let name = message.strip_prefix("k8s.io.")?;
    match name.strip_prefix("api.") {
        Some(short) => by_short_name(short),
        None => by_short_name(&name.replace('_', "-")),
    }
}

/// Every kind of the table, by group, version and kind.
pub fn kinds() -> &'static [BuiltinKind] {
    &TABLE.kinds
}

/// Every definition.
pub fn definitions() -> impl Iterator<Item = TypeId> {
    (0..TABLE.definitions.len()).map(|i| TypeId(i as u16))
}

/// The definition's full name: `io.k8s.api.core.v1.PodSpec`.
pub fn name(id: TypeId) -> String {
    let short = short_name(id);
    const STAGED: [&str; 3] = ["apimachinery.", "apiextensions-apiserver.", "kube-aggregator."];
    let staged = STAGED.iter().any(|repository| short.starts_with(repository));
    if staged { format!("io.k8s.{short}") } else { format!("io.k8s.api.{short}") }
}

/// The name of the Go type: `PodSpec`.
pub fn type_name(id: TypeId) -> &'static str {
    short_name(id).rsplit('.').next().expect("a split has a first part")
}

/// The last part of the Go package that has the type: `v1`, `resource`, `intstr`, `runtime`.
pub fn package(id: TypeId) -> &'static str {
    short_name(id).rsplit('.').nth(1).expect("names have packages")
}

/// The Go type of a member where it is a named one, as reflection prints it (`v1.PullPolicy`). Only error texts ask for it.
pub(crate) fn named_go_type(id: TypeId, field: &str) -> Option<&'static str> {
    let lines = include_str!("go-types.txt").lines();
    let mut words = lines.map(|line| line.split(' '));
    let mut row = words.find(|w| w.clone().take(2).eq([short_name(id), field]))?;
    row.nth(2)
}

fn short_name(id: TypeId) -> &'static str {
    TABLE.definitions[id.0 as usize].name
}

/// A definition's schema; read from the text when it is first asked for.
pub fn schema(id: TypeId) -> &'static Schema {
    TABLE.schemas[id.0 as usize]
        .get_or_init(|| parse::schema(id, short_name(id), TABLE.definitions[id.0 as usize].json))
}

/// The schema of a kind.
pub fn schema_of(group: &str, version: &str, kind: &str) -> Option<&'static Schema> {
    by_gvk(group, version, kind).map(schema)
}

/// A protobuf message that has no definition, by its full name.
pub fn message(name: &str) -> Option<&'static Message> {
    let i = TABLE.messages.binary_search_by(|row| row.name.cmp(name)).ok()?;
    Some(TABLE.message_cells[i].get_or_init(|| parse::message(TABLE.messages[i].name, TABLE.messages[i].json)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{ListType, Shape, StringFormat};

    fn field(definition: &str, field: &str) -> crate::schema::Field {
        let Shape::Object(object) = &schema(by_name(definition).expect("definition")).shape else {
            panic!("an object")
        };
        object.field(field).expect("field").clone()
    }

    #[test]
    fn every_row_is_read_and_refers_to_rows() {
        assert!(definitions().count() > 500);
        for id in definitions() {
            assert_eq!(by_name(&name(id)), Some(id));
            if let Shape::Object(object) = &schema(id).shape {
                assert!(object.fields.is_sorted_by(|a, b| a.name < b.name), "{}", name(id));
                for embedded in &object.embedded {
                    assert!(
                        message(&embedded.message).is_some() || by_message(&embedded.message).is_some(),
                        "{embedded:?}"
                    );
                }
            }
        }
        for row in &TABLE.messages {
            assert!(message(row.name).is_some());
        }
    }

    #[test]
    fn kinds_are_found() {
        let pod = by_gvk("", "v1", "Pod").expect("Pod");
        assert_eq!(name(pod), "io.k8s.api.core.v1.Pod");
        let version = "io.k8s.api.apiserverinternal.v1alpha1.StorageVersion";
        assert_eq!(by_name(version).map(name).as_deref(), Some(version));
        let options = by_gvk("", "v1", "DeleteOptions").expect("DeleteOptions");
        for (group, version) in [("apps", "v1"), ("apiextensions.k8s.io", "v1"), ("meta.k8s.io", "v1")] {
            assert_eq!(by_gvk(group, version, "DeleteOptions"), Some(options), "{group}/{version}");
        }
        assert_eq!(by_gvk("apps", "v1", "Pod"), None);
        assert_eq!(by_gvk("example.com", "v1", "DeleteOptions"), None);
        assert_eq!(by_gvk("", "v1", "pod"), None);
        assert_eq!(
            by_message("k8s.io.kube_aggregator.pkg.apis.apiregistration.v1.APIService"),
            by_gvk("apiregistration.k8s.io", "v1", "APIService")
        );
    }

    #[test]
    fn facts_of_a_member_are_on_it() {
        let containers = field("io.k8s.api.core.v1.PodSpec", "containers");
        assert_eq!(containers.schema.list_type, ListType::Map(vec!["name".into()]));
        let patch = containers.schema.patch.as_ref().expect("patch strategy");
        assert!(patch.merge && !patch.retain_keys && patch.merge_key.as_deref() == Some("name"));
        assert!(containers.required && containers.keep);
        let replicas = field("io.k8s.api.apps.v1.DeploymentSpec", "replicas");
        assert!(replicas.pointer && !replicas.keep);
        for line in include_str!("go-types.txt").lines() {
            let words: Vec<_> = line.split(' ').collect();
            let id = by_short_name(words[0]).unwrap_or_else(|| panic!("{line}"));
            assert!(schema(id).as_object().is_some_and(|o| o.field(words[1]).is_some()), "{line}");
            assert_eq!(named_go_type(id, words[1]), Some(words[2]));
        }
        let time = field("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "creationTimestamp");
        assert!(matches!(time.schema.shape, Shape::String(StringFormat::Time)) && !time.keep);
    }
}
