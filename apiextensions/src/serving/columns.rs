//! Table columns of custom resources.

use generic_server::{
    printer,
    resource::{Column, Printer},
};
use machinery::{
    Str, Value,
    codec::json,
    meta::{TimeForm, Timestamp, go_text},
};

use super::jsonpath::JsonPath;
use crate::definition::Version;

/// The columns of one version.
pub(super) struct Columns {
    columns: Vec<Column>,
    /// Of all columns but the first.
    paths: Vec<JsonPath>,
}

impl Columns {
    /// The columns that a version names; the age if it names none. A path that cannot be read ends the list.
    pub(super) fn of(version: Version<'_>) -> Self {
        let name = printer::NAME.column();
        let mut columns = Columns { columns: vec![name], paths: Vec::new() };
        for wanted in version.list("additionalPrinterColumns") {
            let text = |key: &str| wanted.str_at(&[key]).unwrap_or_default();
            let Some(path) = JsonPath::parse(text("jsonPath")) else { return columns };
            let description = match text("description") {
                "" => format!("Custom resource definition column (in JSONPath format): {}", text("jsonPath")),
                own => own.to_owned(),
            };
            let priority = wanted.get("priority").and_then(Value::as_i64).unwrap_or(0);
            columns.columns.push(column(text("name"), text("type"), text("format"), &description, priority));
            columns.paths.push(path);
        }
        if columns.paths.is_empty() {
            columns.columns.push(Column { kind: Str::new_static("date"), ..printer::AGE.column() });
            columns.paths.extend(JsonPath::parse(".metadata.creationTimestamp"));
        }
        columns
    }
}

fn column(name: &str, kind: &str, format: &str, description: &str, priority: i64) -> Column {
    Column { name: name.into(), kind: kind.into(), format: format.into(), description: description.into(), priority }
}

impl Printer for Columns {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let name = Value::from(object.str_at(&["metadata", "name"]).unwrap_or_default());
        let others = self.columns.iter().skip(1).zip(&self.paths);
        let cell = |(column, path): (&Column, &JsonPath)| {
            path.first(object).map_or(Value::Null, |value| cell(&column.kind, value, now))
        };
        std::iter::once(name).chain(others.map(cell)).collect()
    }
}

/// A value as a cell of a type; null if it does not fit.
fn cell(kind: &str, value: &Value, now: i64) -> Value {
    match (kind, value) {
        ("string", value) => Value::from(text(value)),
        ("integer", Value::Int(number)) => Value::from(*number),
        ("integer", Value::Float(number)) => Value::from(whole(*number)),
        ("number", Value::Int(number)) => Value::from(*number as f64),
        ("number", Value::Float(number)) => Value::from(*number),
        ("boolean", Value::Bool(yes)) => Value::from(*yes),
        ("date", Value::String(text)) => Value::from(age(text, now)),
        _ => Value::Null,
    }
}

/// As Go makes an integer of a number: one that is out of range becomes the least.
fn whole(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0; // 2^63
    if (-LIMIT..LIMIT).contains(&number) { number as i64 } else { i64::MIN }
}

/// As Go prints a value.
fn text(value: &Value) -> Str {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => Str::new_static("<no value>"),
        Value::Float(number) => go_text::float(*number).into(),
        other => String::from_utf8_lossy(&json::encode(other)).into_owned().into(),
    }
}

/// How long ago a time was. Texts that stand for no time, and Go's zero time, have no age.
fn age(text: &str, now: i64) -> String {
    const ZERO: i64 = -62_135_596_800; // the first second of the year 1
    if matches!(text, "" | "null") {
        return "<unknown>".to_owned();
    }
    match Timestamp::parse(text, TimeForm::Seconds) {
        Ok(time) if time.seconds() == ZERO => "<unknown>".to_owned(),
        Ok(time) => human_duration(now - time.seconds()),
        Err(_) => "<invalid>".to_owned(),
    }
}

/// Seconds with two or three digits of precision, as kubectl prints ages.
fn human_duration(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let two = |big: i64, big_unit: &str, small: i64, small_unit: &str| {
        if small == 0 { format!("{big}{big_unit}") } else { format!("{big}{big_unit}{small}{small_unit}") }
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => two(s / MINUTE, "m", s % MINUTE, "s"),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => two(s / HOUR, "h", s / MINUTE % 60, "m"),
        s if s < 2 * DAY => format!("{}h", s / HOUR),
        s if s < 8 * DAY => two(s / DAY, "d", s / HOUR % 24, "h"),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => two(s / YEAR, "y", s / DAY % 365, "d"),
        s => format!("{}y", s / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use machinery::{array, object};

    use super::*;

    #[test]
    fn ages_have_two_parts_while_they_are_short() {
        let check = |seconds, expect: &str| assert_eq!(human_duration(seconds), expect, "{seconds}");
        check(0, "0s");
        check(119, "119s");
        check(120, "2m");
        check(599, "9m59s");
        check(600, "10m");
        check(3 * 3600 - 1, "179m");
        check(3 * 3600 + 60, "3h1m");
        check(47 * 3600, "47h");
        check(49 * 3600, "2d1h");
        check(400 * 86400, "400d");
        check(800 * 86400, "2y70d");
        check(-5, "<invalid>");
    }

    #[test]
    fn cells_are_of_their_columns_type() {
        let check = |kind: &str, value: Value, expect: Value| assert_eq!(cell(kind, &value, 100), expect, "{kind}");
        check("string", 3.into(), "3".into());
        check("string", array![1, "a"], "[1,\"a\"]".into());
        check("string", object! { "a" => true }, "{\"a\":true}".into());
        check("integer", 3.7.into(), 3.into());
        check("integer", "3".into(), Value::Null);
        check("date", "1970-01-01T00:00:00Z".into(), "100s".into());
        check("date", "soon".into(), "<invalid>".into());
        check("date", "".into(), "<unknown>".into());
        check("date", "null".into(), "<unknown>".into());
        check("date", "0001-01-01T00:00:00Z".into(), "<unknown>".into());
        check("integer", 1e20.into(), i64::MIN.into());
        check("boolean", "true".into(), Value::Null);
    }
}
