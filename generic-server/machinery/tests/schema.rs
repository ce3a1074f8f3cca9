//! Properties of the schema engine on any document.

use machinery::schema::{self, Schema, builtin, structural};
use machinery::value::Path;
use machinery::{Map, Str, Value, object};
use proptest::prelude::*;

/// Any JSON, with names that schemas know among the members.
fn json() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec![
        "apiVersion",
        "kind",
        "metadata",
        "spec",
        "status",
        "name",
        "labels",
        "containers",
        "ports",
        "protocol",
        "port",
        "template",
        "replicas",
        "selector",
        "data",
        "items",
        "type",
        "properties",
        "default",
        "creationTimestamp",
        "a",
        "b",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-9.0e9..9.0e9).prop_map(Value::from),
        "[a-z=0-9]{0,8}".prop_map(Value::from),
        Just(Value::from("2024-01-01T00:00:00Z")),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((names.clone(), inner), 0..6)
                .prop_map(|m| Value::Object(m.into_iter().map(|(k, v)| (Str::from(k), v)).collect::<Map>())),
        ]
    })
}

fn kinds() -> impl Strategy<Value = &'static Schema> {
    prop::sample::select(builtin::kinds().iter().map(|k| builtin::schema(k.id)).collect::<Vec<_>>())
}

fn custom() -> Schema {
    let text = object! { "type" => "string", "default" => "x" };
    let item = object! { "type" => "object", "properties" => object! { "a" => text.clone(), "name" => text.clone() } };
    let spec = object! {
        "type" => "object",
        "properties" => object! {
            "a" => text,
            "items" => object! { "type" => "array", "items" => item.clone() },
            "data" => object! { "type" => "object", "additionalProperties" => item },
            "template" => object! { "type" => "object", "x-kubernetes-embedded-resource" => true, "x-kubernetes-preserve-unknown-fields" => true },
        },
    };
    structural::parse(&object! { "type" => "object", "properties" => object! { "spec" => spec } })
}

proptest! {
    #[test]
    fn decoding_twice_is_decoding_once(schema in kinds(), value in json()) {
        if let Ok((once, _)) = schema::decode(schema, value) {
            prop_assert_eq!(schema::decode(schema, once.clone()), Ok((once, vec![])));
        }
    }

    #[test]
    fn defaults_are_set_once(schema in kinds(), value in json()) {
        let mut once = value;
        schema::apply_defaults(schema, &mut once);
        let mut twice = once.clone();
        schema::apply_defaults(schema, &mut twice);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn reading_a_custom_resource_twice_is_reading_it_once(value in json()) {
        let schema = custom();
        let mut once = value;
        if schema::read_custom(&schema, &mut once).is_ok() {
            let mut twice = once.clone();
            prop_assert_eq!(schema::read_custom(&schema, &mut twice), Ok(vec![]));
            prop_assert_eq!(&once, &twice);
            let unchanged = schema::validate_update(&schema, &once, &once, &Path::ROOT);
            prop_assert!(unchanged.is_empty(), "{:?}", unchanged);
        }
    }

    #[test]
    fn any_schema_can_be_parsed_and_checked(value in json()) {
        let _ = structural::check(&value, &Path::ROOT.field("schema"), structural::CheckOptions::default());
    }

    #[test]
    fn any_pattern_is_compiled_or_refused(text in r"[a-c(){}\[\]\\^$.|?*+:,0-9PQEdwsi<>=!-]{0,24}") {
        if let Ok(regex) = schema::pattern::Regex::new(&text) {
            let _ = regex.is_match("abc(1)");
        }
    }
}
