//! Paths and operations of rows.

use machinery::{Map, Str, Value, meta::GroupVersionKind, object, request::Verb};

use super::{parameters, schemas::Schemas};
use crate::resource::{Resource, Subresource};

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The paths of one group version, in the making.
pub(crate) struct Paths<'a> {
    schemas: &'a mut Schemas,
    paths: Map,
}

/// What all operations of one path have in common.
struct Place<'a> {
    row: &'a Resource,
    sub: Option<&'a Subresource>,
    path: String,
    named: bool,
    namespaced: bool,
}

/// An operation, as it differs from others of its path.
struct Operation {
    method: &'static str,
    verb: &'static str,
    action: &'static str,
    infix: &'static str,
    suffix: &'static str,
    description: String,
    parameters: Vec<Value>,
    body: Option<Value>,
    /// The statuses that have an answer of this schema.
    answers: (&'static [&'static str], Value),
    streams: bool,
}

impl<'a> Paths<'a> {
    /// No paths yet; what they refer to goes into `schemas`.
    pub(crate) fn new(schemas: &'a mut Schemas) -> Self {
        Paths { schemas, paths: Map::new() }
    }

    /// The paths.
    pub(crate) fn into_value(self) -> Value {
        self.paths.into()
    }

    /// The definitions that the paths refer to.
    pub(crate) fn schemas(&mut self) -> &mut Schemas {
        self.schemas
    }

    /// A path of its own making.
    pub(crate) fn add(&mut self, path: &str, item: Value) {
        self.paths.insert(path, item);
    }

    /// All paths of a row.
    pub(crate) fn row(&mut self, row: &Resource) {
        let root = match row.group.as_str() {
            "" => format!("/api/{}", row.version),
            group => format!("/apis/{group}/{}", row.version),
        };
        let below = if row.namespaced { "/namespaces/{namespace}" } else { "" };
        let collection = format!("{root}{below}/{}", row.plural);
        let place = |path: String, named: bool, namespaced: bool| Place { row, sub: None, path, named, namespaced };
        self.collection(&place(collection.clone(), false, row.namespaced));
        self.object(&place(format!("{collection}/{{name}}"), true, row.namespaced));
        if row.namespaced && row.verbs.contains(Verb::List) {
            let everywhere = place(format!("{root}/{}", row.plural), false, false);
            let list = self.list(&everywhere, "ForAllNamespaces");
            self.item(&everywhere, vec![list]);
        }
        if row.built_in && row.verbs.contains(Verb::Watch) {
            self.watch(&place(format!("{root}/watch{below}/{}", row.plural), false, row.namespaced), "List");
            self.watch(&place(format!("{root}/watch{below}/{}/{{name}}", row.plural), true, row.namespaced), "");
            if row.namespaced {
                self.watch(&place(format!("{root}/watch/{}", row.plural), false, false), "ListForAllNamespaces");
            }
        }
        for sub in &row.subresources {
            let path = format!("{collection}/{{name}}/{}", sub.name);
            self.subresource(&Place { row, sub: Some(sub), path, named: true, namespaced: row.namespaced });
        }
    }

    fn collection(&mut self, place: &Place<'_>) {
        let (row, mut operations) = (place.row, Vec::new());
        if row.verbs.contains(Verb::List) {
            operations.push(self.list(place, ""));
        }
        if row.verbs.contains(Verb::Create) {
            operations.push(self.create(place, format!("create {}", one(&row.kind))));
        }
        if row.verbs.contains(Verb::DeleteCollection) {
            let mut taken = parameters::query(parameters::LIST);
            let mut body = None;
            if row.built_in {
                taken.retain(|p| !matches!(p.str_at(&["name"]), Some("allowWatchBookmarks" | "watch")));
                taken.extend(parameters::query(parameters::DELETE));
                taken.sort_by(|a, b| a.str_at(&["name"]).cmp(&b.str_at(&["name"])));
                body = Some(self.schemas.shared("apis.meta.v1.DeleteOptions"));
            }
            operations.push(Operation {
                method: "delete",
                verb: "delete",
                action: "deletecollection",
                infix: "Collection",
                suffix: "",
                description: format!("delete collection of {}", row.kind),
                parameters: taken,
                body,
                answers: (&["200"], self.schemas.shared("apis.meta.v1.Status")),
                streams: false,
            });
        }
        self.item(place, operations);
    }

    fn object(&mut self, place: &Place<'_>) {
        let (row, mut operations) = (place.row, Vec::new());
        if row.verbs.contains(Verb::Get) {
            operations.push(self.read(place, format!("read the specified {}", row.kind)));
        }
        if row.verbs.contains(Verb::Update) {
            operations.push(self.replace(place, format!("replace the specified {}", row.kind)));
        }
        if row.verbs.contains(Verb::Patch) {
            operations.push(self.patch(place, format!("partially update the specified {}", row.kind)));
        }
        if row.verbs.contains(Verb::Delete) {
            operations.push(Operation {
                method: "delete",
                verb: "delete",
                action: "delete",
                infix: "",
                suffix: "",
                description: format!("delete {}", one(&row.kind)),
                parameters: parameters::query(parameters::DELETE),
                body: Some(self.schemas.shared("apis.meta.v1.DeleteOptions")),
                answers: (&["200", "202"], self.deleted(row)),
                streams: false,
            });
        }
        self.item(place, operations);
    }

    /// What a deletion answers: the object for the kinds that say so.
    fn deleted(&mut self, row: &Resource) -> Value {
        // A namespace is answered because it is still there.
        if row.built_in && row.strategy.traits().returns_deleted_object && row.kind != "Namespace" {
            return self.kind(&row.group, &row.version, &row.kind);
        }
        self.schemas.shared("apis.meta.v1.Status")
    }

    fn subresource(&mut self, place: &Place<'_>) {
        let sub = place.sub.expect("a place of a subresource");
        let (kind, name) = (&place.row.kind, &sub.name);
        let connects = sub.response_kind.kind.ends_with("Options");
        if connects {
            return self.connect(place, sub);
        }
        let mut operations = Vec::new();
        if sub.verbs.contains(Verb::Get) {
            let mut read = self.read(place, format!("read {name} of the specified {kind}"));
            if sub.name == "log" {
                read.parameters = parameters::query(parameters::LOG);
                read.answers.1 = object! { "type" => "string" };
            }
            operations.push(read);
        }
        if sub.verbs.contains(Verb::Create) {
            operations.push(self.create(place, format!("create {name} of {}", one(kind))));
        }
        if sub.verbs.contains(Verb::Update) {
            operations.push(self.replace(place, format!("replace {name} of the specified {kind}")));
        }
        if sub.verbs.contains(Verb::Patch) {
            operations.push(self.patch(place, format!("partially update {name} of the specified {kind}")));
        }
        self.item(place, operations);
    }

    /// Subresources that hand the connection on: every method that they take is an operation.
    fn connect(&mut self, place: &Place<'_>, sub: &Subresource) {
        let proxies = sub.name == "proxy";
        let taken = match sub.name.as_str() {
            "attach" => &parameters::STREAMS[1..],
            "exec" => parameters::STREAMS,
            "portforward" => parameters::PORTS,
            _ => parameters::PROXY,
        };
        let all: &[(&str, &str)] = &[
            ("get", "Get"),
            ("post", "Post"),
            ("delete", "Delete"),
            ("head", "Head"),
            ("options", "Options"),
            ("patch", "Patch"),
            ("put", "Put"),
        ];
        let methods = if proxies { all } else { &all[..2] };
        let make = |suffix: &'static str| {
            let operation = |(method, infix): &(&'static str, &'static str)| Operation {
                method,
                verb: "connect",
                action: "connect",
                infix,
                suffix,
                description: format!(
                    "connect {} requests to {} of {}",
                    method.to_uppercase(),
                    sub.name,
                    place.row.kind
                ),
                parameters: parameters::query(taken),
                body: None,
                answers: (&["200"], object! { "type" => "string" }),
                streams: false,
            };
            methods.iter().map(operation).collect::<Vec<_>>()
        };
        self.item(place, make(""));
        if proxies {
            let deeper = Place { path: format!("{}/{{path}}", place.path), ..*place };
            self.item(&deeper, make("WithPath"));
        }
    }

    fn kind(&mut self, group: &str, version: &str, kind: &str) -> Value {
        self.schemas.kind(group, version, kind)
    }

    /// The schema of the documents of a place.
    fn document(&mut self, place: &Place<'_>) -> Value {
        match place.sub {
            Some(sub) => {
                let GroupVersionKind { group, version, kind } = &sub.response_kind;
                self.kind(group, version, kind)
            }
            None => self.kind(&place.row.group, &place.row.version, &place.row.kind),
        }
    }

    fn list(&mut self, place: &Place<'_>, suffix: &'static str) -> Operation {
        let row = place.row;
        Operation {
            method: "get",
            verb: "list",
            action: "list",
            infix: "",
            suffix,
            description: match row.built_in && row.verbs.contains(Verb::Watch) {
                true => format!("list or watch objects of kind {}", row.kind),
                false => format!("list objects of kind {}", row.kind),
            },
            parameters: parameters::query(parameters::LIST),
            body: None,
            answers: (&["200"], self.kind(&row.group, &row.version, &row.list_kind)),
            streams: true,
        }
    }

    fn watch(&mut self, place: &Place<'_>, suffix: &'static str) {
        let kind = &place.row.kind;
        let (what, how) = match place.named {
            true => ("changes to an object of kind", ", filtered to a single item with the 'fieldSelector' parameter"),
            false => ("individual changes to a list of", ""),
        };
        let operation = Operation {
            method: "get",
            verb: "watch",
            action: if place.named { "watch" } else { "watchlist" },
            infix: "",
            suffix,
            description: format!(
                "watch {what} {kind}. deprecated: use the 'watch' parameter with a list operation instead{how}."
            ),
            parameters: parameters::query(parameters::LIST),
            body: None,
            answers: (&["200"], self.schemas.shared("apis.meta.v1.WatchEvent")),
            streams: true,
        };
        self.item(place, vec![operation]);
    }

    fn read(&mut self, place: &Place<'_>, description: String) -> Operation {
        let taken = if place.row.built_in { &[][..] } else { parameters::READ };
        Operation {
            method: "get",
            verb: "read",
            action: "get",
            infix: "",
            suffix: "",
            description,
            parameters: parameters::query(taken),
            body: None,
            answers: (&["200"], self.document(place)),
            streams: false,
        }
    }

    fn create(&mut self, place: &Place<'_>, description: String) -> Operation {
        let document = self.document(place);
        Operation {
            method: "post",
            verb: "create",
            action: "post",
            infix: "",
            suffix: "",
            description,
            parameters: parameters::query(parameters::WRITE),
            body: Some(document.clone()),
            answers: (&["200", "201", "202"], document),
            streams: false,
        }
    }

    fn replace(&mut self, place: &Place<'_>, description: String) -> Operation {
        let document = self.document(place);
        Operation {
            method: "put",
            verb: "replace",
            action: "put",
            infix: "",
            suffix: "",
            description,
            parameters: parameters::query(parameters::WRITE),
            body: Some(document.clone()),
            answers: (&["200", "201"], document),
            streams: false,
        }
    }

    fn patch(&mut self, place: &Place<'_>, description: String) -> Operation {
        let document = self.document(place);
        Operation {
            method: "patch",
            verb: "patch",
            action: "patch",
            infix: "",
            suffix: "",
            description,
            parameters: parameters::query(parameters::PATCH),
            body: Some(self.schemas.shared("apis.meta.v1.Patch")),
            answers: if place.row.built_in { (&["200", "201"], document) } else { (&["200"], document) },
            streams: false,
        }
    }

    /// Writes a path. Parameters that all its operations have stand beside them.
    fn item(&mut self, place: &Place<'_>, operations: Vec<Operation>) {
        if operations.is_empty() {
            return;
        }
        let mut common = Vec::new();
        if place.named {
            common.push(parameters::path("name", &format!("name of the {}", place.row.kind)));
        }
        if place.namespaced {
            common.push(parameters::path("namespace", "object name and auth scope, such as for teams and projects"));
        }
        if place.path.ends_with("{path}") {
            common.push(parameters::path("path", "path to the resource"));
        }
        if operations.iter().all(|o| o.action != "connect") {
            common.push(parameters::pretty());
        }
        let shared = |parameter: &Value| operations.iter().all(|o| o.parameters.contains(parameter));
        let first = operations[0].parameters.iter();
        if operations.len() == 1 || operations[0].action == "connect" {
            common.extend(first.filter(|p| shared(p)).cloned());
        }
        common.sort_by(|a, b| a.str_at(&["name"]).cmp(&b.str_at(&["name"])));
        let mut item = Map::new();
        for mut operation in operations {
            operation.parameters.retain(|p| !common.contains(p));
            item.insert(operation.method, written(place, operation));
        }
        item.insert("parameters", common);
        self.paths.insert(place.path.as_str(), item);
    }
}

/// The kind with its article; those that end as plurals do have none.
fn one(kind: &str) -> String {
    let article = if kind.starts_with(['A', 'E', 'I', 'O', 'U']) { "an" } else { "a" };
    if kind.ends_with('s') && !kind.ends_with("ss") { kind.to_owned() } else { format!("{article} {kind}") }
}

fn written(place: &Place<'_>, operation: Operation) -> Value {
    let row = place.row;
    let group = group_id(&row.group);
    let version = capital(&row.version);
    let scope = if place.namespaced { "Namespaced" } else { "" };
    let sub = place.sub.map_or_else(String::new, |sub| capital(&sub.name));
    let id = format!(
        "{}{}{version}{}{scope}{}{sub}{}",
        operation.verb,
        capital(&group),
        operation.infix,
        row.kind,
        operation.suffix
    );
    let GroupVersionKind { group: group_name, version: version_name, kind } = match place.sub {
        Some(sub) if row.built_in => sub.response_kind.clone(),
        _ => row.gvk().to_owned(),
    };
    let mut out = object! {
        "tags" => vec![format!("{group}_{}", row.version)],
        "description" => operation.description,
        "operationId" => id,
        "responses" => responses(row, operation.action, &operation.answers, operation.streams),
        "x-kubernetes-action" => operation.action,
        "x-kubernetes-group-version-kind" =>
            object! { "group" => group_name, "version" => version_name, "kind" => kind },
    };
    if !operation.parameters.is_empty() {
        out.set(&["parameters"], operation.parameters);
    }
    if let Some(schema) = operation.body {
        let mut body = object! { "content" => content(body_types(row, operation.action), &schema) };
        if !operation.action.starts_with("delete") {
            body.set(&["required"], true);
        }
        out.set(&["requestBody"], body);
    }
    out
}

fn body_types(row: &Resource, action: &str) -> &'static [&'static str] {
    const PATCHES: &[&str] = &[
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
    ];
    match (action, row.built_in) {
        ("patch", true) => PATCHES,
        ("patch", false) => &PATCHES[..3],
        (_, true) => &["*/*"],
        (_, false) => &[JSON, YAML],
    }
}

fn responses(row: &Resource, action: &str, (statuses, schema): &(&[&str], Value), streams: bool) -> Value {
    const STREAMS: [&str; 2] = ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];
    let text = schema.str_at(&["type"]) == Some("string");
    let types: Vec<&str> = match (text, row.built_in, streams) {
        (true, ..) if action == "get" => vec!["text/plain", JSON, PROTOBUF, YAML],
        (true, ..) => vec!["*/*"],
        (_, false, _) => vec![JSON, YAML],
        (_, true, false) => vec![JSON, PROTOBUF, YAML],
        (_, true, true) => vec![JSON, STREAMS[0], PROTOBUF, STREAMS[1], YAML],
    };
    let mut out = Map::new();
    for status in *statuses {
        let description = match *status {
            "201" => "Created",
            "202" => "Accepted",
            _ => "OK",
        };
        out.insert(*status, object! { "description" => description, "content" => content(&types, schema) });
    }
    out.insert("401", object! { "description" => "Unauthorized" });
    out.into()
}

fn content(types: &[&str], schema: &Value) -> Value {
    types.iter().map(|t| (Str::from(*t), object! { "schema" => schema.clone() })).collect::<Map>().into()
}

/// `rbacAuthorization` for `rbac.authorization.k8s.io`, `core` for the core group, `crdExampleDev` for `crd.example.dev`.
pub(crate) fn group_id(group: &str) -> String {
    if group.is_empty() {
        return "core".to_owned();
    }
    let group = group.strip_suffix(".k8s.io").unwrap_or(group);
    let mut words = group.split(['.', '-']);
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |id, word| id + &capital(word))
}

pub(crate) fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
