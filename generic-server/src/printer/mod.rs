//! Table columns: a kind's columns as a table, and a function that makes an object's cells.

mod cells;

use std::sync::{Arc, OnceLock};

use machinery::{Str, Value};

use crate::{
    docs,
    resource::{Column, Printer},
};

pub use cells::*;

/// Where a column's description comes from.
#[derive(Clone, Copy)]
pub enum Doc {
    /// A member of a type, by the type's name below `io.k8s.api.` or `io.k8s.`.
    Of(&'static str, &'static str),
    /// A text that only the table has.
    Text(&'static str),
}

/// A column in a kind's table.
#[derive(Clone, Copy)]
pub struct Heading {
    name: &'static str,
    kind: &'static str,
    format: &'static str,
    priority: i64,
    doc: Doc,
}

const META: &str = "apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The column of the object's name.
pub const NAME: Heading =
    Heading { name: "Name", kind: "string", format: "name", priority: 0, doc: Doc::Of(META, "name") };

/// The column of the object's age.
pub const AGE: Heading = text("Age", Doc::Of(META, "creationTimestamp"));

/// A column of texts.
pub const fn text(name: &'static str, doc: Doc) -> Heading {
    Heading { name, kind: "string", format: "", priority: 0, doc }
}

/// A column of integers.
pub const fn integer(name: &'static str, doc: Doc) -> Heading {
    Heading { name, kind: "integer", format: "", priority: 0, doc }
}

/// A column of booleans.
pub const fn boolean(name: &'static str, doc: Doc) -> Heading {
    Heading { name, kind: "boolean", format: "", priority: 0, doc }
}

impl Heading {
    /// Of names.
    pub const fn named(mut self) -> Self {
        self.format = "name";
        self
    }

    /// Shown in wide output alone.
    pub const fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }

    /// The column, as rows hold it.
    pub fn column(&self) -> Column {
        let description = match self.doc {
            Doc::Text(text) => Str::new_static(text),
            Doc::Of(kind, member) => {
                let root = if kind.starts_with("apimachinery.") { "io.k8s." } else { "io.k8s.api." };
                docs::of_member(&format!("{root}{kind}"), member).map(Str::new_static).unwrap_or_default()
            }
        };
        Column {
            name: Str::new_static(self.name),
            kind: Str::new_static(self.kind),
            format: Str::new_static(self.format),
            description,
            priority: self.priority,
        }
    }
}

/// A kind's table, as data.
#[derive(Clone, Copy)]
pub struct Table {
    headings: &'static [Heading],
    cells: fn(&Value, i64) -> Vec<Value>,
    conditions: fn(&Value) -> Option<Value>,
    rank: Option<fn(&[u8]) -> i64>,
    /// Without objects there are no rows, rather than an empty list of them.
    nothing: bool,
}

/// A table at work: its columns are described when they are first asked for.
struct Printed {
    table: Table,
    columns: OnceLock<Vec<Column>>,
}

impl Table {
    /// Of headings and the function that makes a cell for each of them, given the time.
    pub const fn new(headings: &'static [Heading], cells: fn(&Value, i64) -> Vec<Value>) -> Self {
        Table { headings, cells, conditions: |_| None, rank: None, nothing: false }
    }

    /// With conditions of rows.
    pub const fn conditions(mut self, conditions: fn(&Value) -> Option<Value>) -> Self {
        self.conditions = conditions;
        self
    }

    /// With rows ordered by a number in their objects' JSON.
    pub const fn ranked(mut self, rank: fn(&[u8]) -> i64) -> Self {
        self.rank = Some(rank);
        self
    }

    /// What prints objects so.
    pub fn printer(self) -> Arc<dyn Printer> {
        Arc::new(Printed { table: self, columns: OnceLock::new() })
    }
}

impl Printer for Printed {
    fn columns(&self) -> &[Column] {
        self.columns.get_or_init(|| self.table.headings.iter().map(Heading::column).collect())
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        (self.table.cells)(object, now)
    }

    fn rank(&self) -> Option<fn(&[u8]) -> i64> {
        self.table.rank
    }

    fn has_no_rows(&self) -> bool {
        self.table.nothing
    }

    fn conditions(&self, object: &Value) -> Option<Value> {
        (self.table.conditions)(object)
    }
}

/// What kinds without columns of their own show: the name, and when the object was made.
pub const fn metadata() -> Table {
    const CREATED: Heading =
        Heading { name: "Created At", kind: "date", format: "", priority: 0, doc: Doc::Of(META, "creationTimestamp") };
    let cells = |object: &Value, _| vec![name(object), text_at(object, &["metadata", "creationTimestamp"])];
    Table { nothing: true, ..Table::new(&[NAME, CREATED], cells) }
}

/// A scale, whatever it is the scale of.
pub fn scale() -> Table {
    const HEADINGS: &[Heading] = &[
        text("Name", Doc::Of(META, "name")),
        integer("Desired", Doc::Of("autoscaling.v1.ScaleSpec", "replicas")),
        integer("Available", Doc::Of("autoscaling.v1.ScaleStatus", "replicas")),
        AGE,
    ];
    Table::new(HEADINGS, |scale, now| {
        let number = |path: &[&str]| Value::Int(int(scale, path));
        vec![name(scale), number(&["spec", "replicas"]), number(&["status", "replicas"]), age(scale, now)]
    })
}

/// The scale of a custom resource.
pub fn custom_scale() -> Table {
    const HEADINGS: &[Heading] = &[
        NAME,
        integer("Desired", Doc::Text("Number of desired replicas")),
        integer("Available", Doc::Text("Number of actual replicas")),
        Heading { name: "Age", kind: "date", format: "", priority: 0, doc: Doc::Of(META, "creationTimestamp") },
    ];
    Table::new(HEADINGS, |scale, now| {
        let number = |path: &[&str]| scale.at(path).cloned().unwrap_or_default();
        let made = scale.str_at(&["metadata", "creationTimestamp"]);
        let age = made.map_or(Value::Null, |made| since(Some(made), now).into());
        vec![name(scale), number(&["spec", "replicas"]), number(&["status", "replicas"]), age]
    })
}

/// An APIService, which the aggregator serves.
pub fn api_service() -> Table {
    const HEADINGS: &[Heading] = &[
        NAME,
        text("Service", Doc::Text("The reference to the service that hosts this API endpoint.")),
        text("Available", Doc::Text("Whether this service is available.")),
        AGE,
    ];
    Table::new(HEADINGS, |service, now| {
        let part = |name: &str| service.str_at(&["spec", "service", name]).unwrap_or_default();
        let hosted = service.at(&["spec", "service"]).is_some_and(|s| !s.is_null());
        let host = if hosted { format!("{}/{}", part("namespace"), part("name")) } else { "Local".to_owned() };
        let available = condition(service, "Available");
        let shown = match available.and_then(|c| c.str_at(&["status"])) {
            Some("True") => "True".to_owned(),
            Some(status) => {
                let reason = available.and_then(|c| c.str_at(&["reason"])).unwrap_or_default();
                if reason.is_empty() { status.to_owned() } else { format!("{status} ({reason})") }
            }
            None => "Unknown".to_owned(),
        };
        vec![name(service), host.into(), shown.into(), age(service, now)]
    })
}
