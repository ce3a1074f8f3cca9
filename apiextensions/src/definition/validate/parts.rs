//! What the versions of a definition have in common, as upstream's internal form hoists it.

use machinery::{Value, schema::structural};

use crate::definition::view::Definition;

/// What all versions have in common; `None` where they differ (or where none has it).
pub(super) struct Parts<'a> {
    pub(super) schema: Option<&'a Value>,
    pub(super) subresources: Option<&'a Value>,
    pub(super) columns: Option<&'a Value>,
    pub(super) fields: Option<&'a Value>,
}

impl<'a> Parts<'a> {
    pub(super) fn of(definition: &'a Value) -> Self {
        let common = |key: &str| {
            let mut parts = Definition(definition).versions().map(|v| part(v.0, key));
            let first = parts.next()??;
            parts.all(|p| p.is_some_and(|p| is_same(p, first, false))).then_some(first)
        };
        Parts {
            schema: common("schema"),
            subresources: common("subresources"),
            columns: common("additionalPrinterColumns"),
            fields: common("selectableFields"),
        }
    }

    /// A version's part that is not hoisted.
    pub(super) fn own<'v>(&self, version: &'v Value, key: &str) -> Option<&'v Value> {
        let hoisted = match key {
            "schema" => self.schema,
            "subresources" => self.subresources,
            "additionalPrinterColumns" => self.columns,
            _ => self.fields,
        };
        if hoisted.is_some() { None } else { part(version, key) }
    }

    /// `spec.versions` as upstream prints the internal form.
    pub(super) fn versions_text(&self, definition: &Value) -> String {
        let versions = Definition(definition).versions().map(|v| self.version_text(v.0));
        let all: Vec<String> = versions.collect();
        match definition.at(&["spec", "versions"]) {
            Some(Value::Array(_)) => format!("[{}]", all.join(",")),
            _ => "null".to_owned(),
        }
    }

    fn version_text(&self, version: &Value) -> String {
        let flag = |key: &str| version.get(key).and_then(Value::as_bool).unwrap_or(false);
        let warning = version.get("deprecationWarning").map_or_else(|| "null".to_owned(), machinery::json::encode_text);
        let schema = self.own(version, "schema").map_or_else(
            || "null".to_owned(),
            |schema| {
                let inner = schema.get("openAPIV3Schema").filter(|s| s.as_object().is_some());
                let inner = inner.map_or_else(|| "null".to_owned(), structural::internal_text);
                format!("{{\"OpenAPIV3Schema\":{inner}}}")
            },
        );
        let name = machinery::json::encode_text(version.get("name").unwrap_or(&Value::from("")));
        format!(
            "{{\"Name\":{name},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{warning},\
             \"Schema\":{schema},\"Subresources\":{},\"AdditionalPrinterColumns\":{},\"SelectableFields\":{}}}",
            flag("served"),
            flag("storage"),
            flag("deprecated"),
            self.own(version, "subresources").map_or_else(|| "null".to_owned(), subresources_text),
            self.own(version, "additionalPrinterColumns")
                .map_or_else(|| "null".to_owned(), |c| list_text(c, column_text)),
            self.own(version, "selectableFields").map_or_else(|| "null".to_owned(), |f| list_text(f, field_text)),
        )
    }
}

fn part<'v>(version: &'v Value, key: &str) -> Option<&'v Value> {
    version.get(key).filter(|p| match p {
        Value::Null => false,
        Value::Array(list) => !list.is_empty(),
        _ => true,
    })
}

/// Whether two parts are one: as for upstream's types, lists and maps that are empty are absent ones, but a struct that is there is
/// not. What may be any JSON is compared as it stands.
fn is_same(a: &Value, b: &Value, maps: bool) -> bool {
    const MAPS: [&str; 4] = ["properties", "patternProperties", "definitions", "dependencies"];
    let is_absent = |key: &str, value: &Value| match value {
        _ if maps => false,
        Value::Null => true,
        _ if matches!(key, "default" | "example") => false,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => MAPS.contains(&key) && members.is_empty(),
        _ => false,
    };
    match (a, b) {
        (Value::Object(left), Value::Object(right)) => {
            let both = left.iter().all(|(key, value)| match right.get(key) {
                Some(other) if !maps && matches!(key.as_str(), "default" | "example") => value == other,
                Some(other) => is_same(value, other, !maps && MAPS.contains(&key.as_str())),
                None => is_absent(key, value),
            });
            both && right.iter().all(|(key, value)| left.get(key).is_some() || is_absent(key, value))
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right.iter()).all(|(a, b)| is_same(a, b, false))
        }
        _ => a == b,
    }
}

fn list_text(list: &Value, item: fn(&Value) -> String) -> String {
    let items: Vec<String> = list.as_array().unwrap_or_default().iter().map(item).collect();
    format!("[{}]", items.join(","))
}

fn text(value: &Value, key: &str) -> String {
    machinery::json::encode_text(value.get(key).filter(|v| !v.is_null()).unwrap_or(&Value::from("")))
}

fn subresources_text(value: &Value) -> String {
    let status = if value.get("status").is_some_and(|s| !s.is_null()) { "{}" } else { "null" };
    let scale = value.get("scale").filter(|s| s.as_object().is_some()).map_or_else(
        || "null".to_owned(),
        |scale| {
            let selector =
                scale.get("labelSelectorPath").map_or_else(|| "null".to_owned(), machinery::json::encode_text);
            format!(
                "{{\"SpecReplicasPath\":{},\"StatusReplicasPath\":{},\"LabelSelectorPath\":{selector}}}",
                text(scale, "specReplicasPath"),
                text(scale, "statusReplicasPath"),
            )
        },
    );
    format!("{{\"Status\":{status},\"Scale\":{scale}}}")
}

fn column_text(column: &Value) -> String {
    let priority = column.get("priority").and_then(Value::as_i64).unwrap_or(0);
    format!(
        "{{\"Name\":{},\"Type\":{},\"Format\":{},\"Description\":{},\"Priority\":{priority},\"JSONPath\":{}}}",
        text(column, "name"),
        text(column, "type"),
        text(column, "format"),
        text(column, "description"),
        text(column, "jsonPath"),
    )
}

fn field_text(field: &Value) -> String {
    format!("{{\"JSONPath\":{}}}", text(field, "jsonPath"))
}
