//! Table columns (`as=Table`, what `kubectl get` shows).

use machinery::{Str, Value};

/// One column's definition, as a Table names it.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The heading.
    pub name: Str,
    /// The OpenAPI type of the cells: string, integer, number, boolean, date.
    pub kind: Str,
    /// The OpenAPI format; `name` marks the column that names the object.
    pub format: Str,
    /// What the column shows.
    pub description: Str,
    /// 0 is shown always, above only in wide output.
    pub priority: i64,
}

/// Prints objects of one resource as rows.
pub trait Printer: Send + Sync {
    /// The columns.
    fn columns(&self) -> &[Column];

    /// The cells of an object, one a column. Times are cells of RFC 3339 text only where upstream sends them so; ages
    /// are computed against `now` (seconds since the epoch) as upstream does.
    fn cells(&self, object: &Value, now: i64) -> Vec<Value>;

    /// What rows of a list are ordered by, before their names; `None`: by their names alone.
    fn rank(&self) -> Option<fn(&[u8]) -> i64> {
        None
    }

    /// Whether a table of no objects has no rows, rather than an empty list of them: upstream's of kinds without columns of their
    /// own.
    fn has_no_rows(&self) -> bool {
        false
    }

    /// The row's conditions (upstream marks finished pods with one).
    fn conditions(&self, _object: &Value) -> Option<Value> {
        None
    }
}
