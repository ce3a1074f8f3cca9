//! How upstream shows the structs that have no names in JSON: by the names that Go has for their members, all of them, in
//! Go's order. Clients see it in what is wrong with a part as a whole.

use std::num::IntErrorKind;

use machinery::{
    Value,
    meta::{field_error::BadValue, go_text},
    schema::{Schema, Shape, builtin},
};

/// What a member is in Go, which says how it looks when it is not set.
#[derive(Clone, Copy)]
pub(crate) enum Go {
    /// A pointer, a list or a map of what has JSON names: `null` when unset.
    Plain,
    /// A text: `""` when unset.
    Text,
    /// A number: 0 when unset.
    Number,
    /// A truth value: false when unset.
    Bool,
    /// A label selector, or `null`.
    Selector,
    /// A struct that is always there.
    Struct(&'static [Member]),
    /// A pointer to a struct.
    Pointer(&'static [Member]),
    /// A list of structs.
    List(&'static [Member]),
}

/// A member: its name in Go, its name in the API, what it is.
#[derive(Clone, Copy)]
pub(crate) struct Member(pub(crate) &'static str, pub(crate) &'static str, pub(crate) Go);

/// The value as Go shows a struct with these members.
pub(crate) fn shown(value: &Value, members: &[Member]) -> BadValue {
    let mut out = String::new();
    write_struct(value, members, &mut out);
    BadValue::verbatim(out)
}

/// A label selector as Go shows it: it has names in JSON, in an order of their own.
pub(crate) fn shown_selector(selector: &Value) -> BadValue {
    let mut out = String::new();
    write_selector(selector, &mut out);
    BadValue::verbatim(out)
}

/// A value of a type that has names in JSON, or a list of such values, with the members in the order of the type's.
pub(crate) fn shown_of(name: &str, value: &Value) -> BadValue {
    let mut out = String::new();
    match (builtin::by_name(name), value) {
        (Some(id), Value::Array(items)) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_typed(builtin::schema(id), item, &mut out);
            }
            out.push(']');
        }
        (Some(id), value) => write_typed(builtin::schema(id), value, &mut out),
        (None, value) => out.push_str(&machinery::json::encode_text(value)),
    }
    BadValue::verbatim(out)
}

/// The numbers of protobuf stand in the order in which Go has the members.
fn write_typed(schema: &Schema, value: &Value, out: &mut String) {
    let (Some(object), Some(map)) = (schema.resolve().as_object(), value.as_object()) else {
        return write_items(schema, value, out);
    };
    let mut fields: Vec<_> = object.fields.iter().filter_map(|field| Some((field, map.get(&field.name)?))).collect();
    fields.sort_by_key(|(field, _)| field.proto.as_ref().map(|proto| proto.number));
    out.push('{');
    for (i, (field, member)) in fields.into_iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        out.push_str(&go_text::quote(&field.name));
        out.push(':');
        write_typed(&field.schema, member, out);
    }
    out.push('}');
}

fn write_items(schema: &Schema, value: &Value, out: &mut String) {
    let (Shape::List(of), Value::Array(items)) = (&schema.resolve().shape, value) else {
        return out.push_str(&machinery::json::encode_text(value));
    };
    out.push('[');
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        write_typed(of, item, out);
    }
    out.push(']');
}

fn write_struct(value: &Value, members: &[Member], out: &mut String) {
    out.push('{');
    for (i, Member(go_name, name, kind)) in members.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        out.push_str(&go_text::quote(go_name));
        out.push(':');
        write_member(value.get(name).unwrap_or(&Value::Null), *kind, out);
    }
    out.push('}');
}

fn write_member(value: &Value, kind: Go, out: &mut String) {
    match (kind, value) {
        (Go::Text, Value::Null) => out.push_str("\"\""),
        (Go::Number, Value::Null) => out.push('0'),
        (Go::Bool, Value::Null) => out.push_str("false"),
        (Go::Struct(members), _) => write_struct(value, members, out),
        (_, Value::Null) => out.push_str("null"),
        (Go::Plain | Go::Text | Go::Number | Go::Bool, _) => out.push_str(&machinery::json::encode_text(value)),
        (Go::Selector, _) => write_selector(value, out),
        (Go::Pointer(members), _) => write_struct(value, members, out),
        (Go::List(members), _) => {
            out.push('[');
            for (i, item) in value.as_array().unwrap_or_default().iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_struct(item, members, out);
            }
            out.push(']');
        }
    }
}

fn write_selector(selector: &Value, out: &mut String) {
    if selector.is_null() {
        out.push_str("null");
        return;
    }
    let parts = ["matchLabels", "matchExpressions"];
    let is_there = |part: &&str| selector.get(part).is_some_and(|v| !v.semantic_eq(&Value::Null));
    out.push('{');
    for (i, part) in parts.iter().filter(|p| is_there(p)).enumerate() {
        if i > 0 {
            out.push(',');
        }
        out.push_str(&go_text::quote(part));
        out.push(':');
        out.push_str(&machinery::json::encode_text(selector.get(part).unwrap_or(&Value::Null)));
    }
    out.push('}');
}

/// Why a text is no number of 64 bits, in Go's words.
pub(crate) fn not_an_int64(text: &str) -> Option<String> {
    let error = text.parse::<i64>().err()?;
    let why = match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    };
    Some(format!("strconv.ParseInt: parsing {}: {why}", go_text::quote(text)))
}

#[cfg(test)]
mod tests {
    use machinery::{array, object};

    use super::*;

    #[test]
    fn unset_members_are_shown_by_their_type() {
        const INNER: &[Member] = &[Member("Name", "name", Go::Text)];
        const OUTER: &[Member] = &[
            Member("Count", "count", Go::Number),
            Member("Flag", "flag", Go::Bool),
            Member("Values", "values", Go::Plain),
            Member("One", "one", Go::Struct(INNER)),
            Member("Maybe", "maybe", Go::Pointer(INNER)),
            Member("Many", "many", Go::List(INNER)),
        ];
        assert_eq!(
            shown(&object! {}, OUTER).to_string(),
            r#"{"Count":0,"Flag":false,"Values":null,"One":{"Name":""},"Maybe":null,"Many":null}"#
        );
        let set = object! { "count" => 2, "maybe" => object! { "name" => "x" }, "many" => array![object! {}], "values" => array![1] };
        assert_eq!(
            shown(&set, OUTER).to_string(),
            r#"{"Count":2,"Flag":false,"Values":[1],"One":{"Name":""},"Maybe":{"Name":"x"},"Many":[{"Name":""}]}"#
        );
    }

    #[test]
    fn what_has_names_in_json_is_shown_in_the_order_of_its_type() {
        let condition = object! { "message" => "m", "reason" => "r", "status" => "True", "type" => "T" };
        let text = r#"[{"type":"T","status":"True","reason":"r","message":"m"}]"#;
        assert_eq!(shown_of("apimachinery.pkg.apis.meta.v1.Condition", &array![condition]).to_string(), text);
        assert_eq!(shown_of("", &array![1]).to_string(), "[1]");
    }

    #[test]
    fn a_selector_shows_its_labels_first() {
        let selector =
            object! { "matchExpressions" => array![object! { "key" => "a" }], "matchLabels" => object! { "b" => "c" } };
        let text = r#"{"matchLabels":{"b":"c"},"matchExpressions":[{"key":"a"}]}"#;
        assert_eq!(shown_selector(&selector).to_string(), text);
        assert_eq!(shown_selector(&object! {}).to_string(), "{}");
    }
}
