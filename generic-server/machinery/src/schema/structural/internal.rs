//! Schemas as upstream's internal type prints them in error messages: every member, in the order of the Go struct.

use crate::Value;

/// How a member of the internal JSONSchemaProps is printed.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Flag,
    /// As it is, or null.
    Plain,
    Schema,
    Schemas,
    SchemaMap,
    SchemaOrBool,
    SchemaOrList,
    SchemaOrStrings,
    Docs,
    Rules,
}

/// The members: Go's name, JSON's, and the form.
const MEMBERS: [(&str, &str, Form); 43] = [
    ("ID", "id", Form::Text),
    ("Schema", "$schema", Form::Text),
    ("Ref", "$ref", Form::Plain),
    ("Description", "description", Form::Text),
    ("Type", "type", Form::Text),
    ("Nullable", "nullable", Form::Flag),
    ("Format", "format", Form::Text),
    ("Title", "title", Form::Text),
    ("Default", "default", Form::Plain),
    ("Maximum", "maximum", Form::Plain),
    ("ExclusiveMaximum", "exclusiveMaximum", Form::Flag),
    ("Minimum", "minimum", Form::Plain),
    ("ExclusiveMinimum", "exclusiveMinimum", Form::Flag),
    ("MaxLength", "maxLength", Form::Plain),
    ("MinLength", "minLength", Form::Plain),
    ("Pattern", "pattern", Form::Text),
    ("MaxItems", "maxItems", Form::Plain),
    ("MinItems", "minItems", Form::Plain),
    ("UniqueItems", "uniqueItems", Form::Flag),
    ("MultipleOf", "multipleOf", Form::Plain),
    ("Enum", "enum", Form::Plain),
    ("MaxProperties", "maxProperties", Form::Plain),
    ("MinProperties", "minProperties", Form::Plain),
    ("Required", "required", Form::Plain),
    ("Items", "items", Form::SchemaOrList),
    ("AllOf", "allOf", Form::Schemas),
    ("OneOf", "oneOf", Form::Schemas),
    ("AnyOf", "anyOf", Form::Schemas),
    ("Not", "not", Form::Schema),
    ("Properties", "properties", Form::SchemaMap),
    ("AdditionalProperties", "additionalProperties", Form::SchemaOrBool),
    ("PatternProperties", "patternProperties", Form::SchemaMap),
    ("Dependencies", "dependencies", Form::SchemaOrStrings),
    ("AdditionalItems", "additionalItems", Form::SchemaOrBool),
    ("Definitions", "definitions", Form::SchemaMap),
    ("ExternalDocs", "externalDocs", Form::Docs),
    ("Example", "example", Form::Plain),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Form::Plain),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", Form::Flag),
    ("XIntOrString", "x-kubernetes-int-or-string", Form::Flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Form::Plain),
    ("XListType", "x-kubernetes-list-type", Form::Plain),
    ("XMapType", "x-kubernetes-map-type", Form::Plain),
];

const RULES: (&str, &str, Form) = ("XValidations", "x-kubernetes-validations", Form::Rules);

/// The Go names of the members that a schema has, in the order of the Go struct.
pub(super) fn members_of(props: &Value) -> impl Iterator<Item = &'static str> {
    MEMBERS.iter().chain([&RULES]).filter(|(_, json, _)| props.get(json).is_some()).map(|(go, ..)| *go)
}

/// A schema as upstream's messages show it.
pub fn internal_text(props: &Value) -> String {
    let mut out = String::new();
    schema(props, &mut out);
    out
}

/// The `items` of a schema as upstream's messages show them.
pub(super) fn items_text(props: &Value) -> String {
    let mut out = String::new();
    member(props.get("items"), Form::SchemaOrList, &mut out);
    out
}

/// A rule of `x-kubernetes-validations` as upstream's messages show it.
pub fn rule_text(rule: &Value) -> String {
    let text = |key: &str| crate::json::encode_text(&rule.str_at(&[key]).unwrap_or_default().into());
    let plain = |key: &str| rule.get(key).map_or_else(|| "null".to_owned(), crate::json::encode_text);
    format!(
        r#"{{"Rule":{},"Message":{},"MessageExpression":{},"Reason":{},"FieldPath":{},"OptionalOldSelf":{}}}"#,
        text("rule"),
        text("message"),
        text("messageExpression"),
        plain("reason"),
        text("fieldPath"),
        plain("optionalOldSelf"),
    )
}

fn schema(props: &Value, out: &mut String) {
    for (i, (go, json, form)) in MEMBERS.iter().chain([&RULES]).enumerate() {
        out.push_str(if i == 0 { "{\"" } else { ",\"" });
        out.push_str(go);
        out.push_str("\":");
        member(props.get(json), *form, out);
    }
    out.push('}');
}

fn member(value: Option<&Value>, form: Form, out: &mut String) {
    let Some(value) = value.filter(|v| !v.is_null()) else {
        out.push_str(match form {
            Form::Text => "\"\"",
            Form::Flag => "false",
            _ => "null",
        });
        return;
    };
    match form {
        Form::Text | Form::Flag | Form::Plain => out.push_str(&crate::json::encode_text(value)),
        Form::Schema => schema(value, out),
        Form::Schemas => list(value.as_array().unwrap_or_default(), out, schema),
        Form::SchemaMap => map(value, out, schema),
        Form::SchemaOrBool => {
            out.push_str(if *value == Value::Bool(false) {
                "{\"Allows\":false,\"Schema\":"
            } else {
                "{\"Allows\":true,\"Schema\":"
            });
            optional_schema(value, out);
            out.push('}');
        }
        Form::SchemaOrList => {
            out.push_str("{\"Schema\":");
            optional_schema(value, out);
            out.push_str(",\"JSONSchemas\":");
            match value.as_array() {
                Some(schemas) => list(schemas, out, schema),
                None => out.push_str("null"),
            }
            out.push('}');
        }
        Form::SchemaOrStrings => map(value, out, |value, out| {
            out.push_str("{\"Schema\":");
            optional_schema(value, out);
            out.push_str(",\"Property\":");
            out.push_str(&value.as_array().map_or_else(|| "null".to_owned(), |_| crate::json::encode_text(value)));
            out.push('}');
        }),
        Form::Docs => {
            let text = |key: &str| crate::json::encode_text(&value.str_at(&[key]).unwrap_or_default().into());
            out.push_str(&format!(r#"{{"Description":{},"URL":{}}}"#, text("description"), text("url")));
        }
        Form::Rules => list(value.as_array().unwrap_or_default(), out, |rule, out| out.push_str(&rule_text(rule))),
    }
}

fn optional_schema(value: &Value, out: &mut String) {
    match value {
        Value::Object(_) => schema(value, out),
        _ => out.push_str("null"),
    }
}

fn list(values: &[Value], out: &mut String, write: fn(&Value, &mut String)) {
    out.push('[');
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        write(value, out);
    }
    out.push(']');
}

fn map(value: &Value, out: &mut String, write: fn(&Value, &mut String)) {
    out.push('{');
    for (i, (name, value)) in value.as_object().into_iter().flatten().enumerate() {
        if i > 0 {
            out.push(',');
        }
        out.push_str(&crate::json::encode_text(&name.into()));
        out.push(':');
        write(value, out);
    }
    out.push('}');
}
