//! Table columns of built-in kinds.

use std::sync::LazyLock;

use generic_server::resource::{Column, Printer};
use machinery::{Str, Value};

/// What kinds without columns of their own show: the name, and when the object was made.
pub(crate) struct Metadata;

static METADATA: LazyLock<[Column; 2]> = LazyLock::new(|| {
    let column = |name: &'static str, kind: &'static str, format: &'static str| Column {
        name: Str::new_static(name),
        kind: Str::new_static(kind),
        format: Str::new_static(format),
        description: Str::default(),
        priority: 0,
    };
    [column("Name", "string", "name"), column("Created At", "date", "")]
});

impl Printer for Metadata {
    fn columns(&self) -> &[Column] {
        &*METADATA
    }

    fn cells(&self, object: &Value, _now: i64) -> Vec<Value> {
        let text = |path: &[&str]| Value::from(object.str_at(path).unwrap_or_default());
        vec![text(&["metadata", "name"]), text(&["metadata", "creationTimestamp"])]
    }
}
