//! Validation of definitions, by example.

use machinery::{Value, codec::json};

use super::{create, update};

/// A definition of one version; `spec` are members beside the usual ones, `schema` is its schema.
fn definition(spec: &str, schema: &str) -> Value {
    let text = format!(
        r#"{{"metadata":{{"name":"maps.e.dev"}},"spec":{{"group":"e.dev","scope":"Namespaced",
            "names":{{"plural":"maps","singular":"map","kind":"Map","listKind":"MapList"}},{spec}
            "versions":[{{"name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":{schema}}}}}]}},
            "status":{{"storedVersions":["v1"]}}}}"#
    );
    json::decode(text.as_bytes()).expect("JSON")
}

fn texts(errors: Vec<machinery::meta::field_error::FieldError>) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn old_ways_to_keep_unknown_fields_exclude_defaults_and_webhooks() {
    let check = |spec: &str, schema: &str, expect: &[&str]| {
        assert_eq!(texts(create(&definition(spec, schema))), expect, "{spec}");
    };
    let plain = r#"{"type":"object"}"#;
    let defaulted = r#"{"type":"object","properties":{"a":{"type":"integer","default":1}}}"#;
    let set = "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to \
               true in spec.versions[*].schema instead";
    check(r#""preserveUnknownFields":false,"#, defaulted, &[]);
    check(r#""preserveUnknownFields":true,"#, plain, &[set]);
    check(
        r#""preserveUnknownFields":true,"#,
        defaulted,
        &["spec.preserveUnknownFields: Invalid value: true: must be false in order to use defaults in the schema", set],
    );
    let webhook =
        r#"{"strategy":"Webhook","webhook":{"clientConfig":{"url":"https://h"},"conversionReviewVersions":["v1"]}}"#;
    check(&format!(r#""conversion":{webhook},"#), plain, &[]);
    check(
        &format!(r#""preserveUnknownFields":true,"conversion":{webhook},"#),
        plain,
        &[
            "spec.conversion.strategy: Invalid value: \"Webhook\": must be None if spec.preserveUnknownFields is true",
            set,
        ],
    );
}

#[test]
fn certificates_must_be_readable_once_a_definition_is_established() {
    let with = |bundle: &str, established: bool| {
        let conversion = format!(
            r#""conversion":{{"strategy":"Webhook","webhook":{{"conversionReviewVersions":["v1"],
                "clientConfig":{{"url":"https://h","caBundle":"{bundle}"}}}}}},"#
        );
        let mut definition = definition(&conversion, r#"{"type":"object"}"#);
        if established {
            let conditions = json::decode(br#"[{"type":"Established","status":"True"}]"#).expect("JSON");
            definition.set(&["status", "conditions"], conditions);
        }
        definition
    };
    let check = |old: (&str, bool), new: &str, refused: bool| {
        let found = texts(update(&with(new, old.1), &with(old.0, old.1)));
        assert_eq!(found.iter().any(|e| e.contains("unable to load root certificates")), refused, "{old:?} {found:?}");
    };
    assert_eq!(texts(create(&with("bm8=", false))), [] as [&str; 0]);
    check(("", false), "bm8=", false);
    check(("", true), "bm8=", true);
    check(("bm8=", true), "bm9w", false);
}

#[test]
fn an_update_keeps_what_was_stored_when_rules_were_fewer() {
    let check = |(spec, old): (&str, &str), new: &str, expect: &[&str]| {
        let found = texts(update(&definition(spec, new), &definition(spec, old)));
        let told: Vec<&str> = found.iter().map(|e| e.split(": ").next().unwrap_or_default()).collect();
        assert_eq!(told, expect, "{old} {new}");
    };
    let at = |rest: &str| format!("spec.validation.openAPIV3Schema{rest}");
    let of = |property: &str| format!(r#"{{"type":"object","properties":{{"a":{property}}}}}"#);
    // The same fault again, elsewhere too, is let be; one that is new is not.
    for (fault, other, told) in [
        (
            r#"{"type":"array","x-kubernetes-list-type":"set","items":{"type":"object"}}"#,
            r#"{"type":"array","x-kubernetes-list-type":"set","items":{"type":"object","properties":{"b":{"type":"string"}}}}"#,
            ".properties[a].items.x-kubernetes-map-type",
        ),
        (
            r#"{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string","nullable":true}}"#,
            r#"{"type":"array","x-kubernetes-list-type":"set","items":{"type":"integer","nullable":true}}"#,
            ".properties[a].items.nullable",
        ),
        (r#"{"type":"object","default":{"b":1}}"#, r#"{"type":"object","default":{"c":1}}"#, ".properties[a].default"),
        (r#"{"type":"text"}"#, r#"{"type":"word"}"#, ".properties[a].type"),
    ] {
        check(("", &of(fault)), &of(other), &[]);
        check(("", &of(r#"{"type":"string"}"#)), &of(fault), &[&at(told)]);
    }
    // A schema that is not structural may stay so as long as unknown fields are kept and nothing asks for more.
    let kept = r#""preserveUnknownFields":true,"#;
    let loose = r#"{"properties":{"a":{"anyOf":[{"type":"string"}]}}}"#;
    check((kept, loose), r#"{"properties":{"a":{"anyOf":[{"type":"integer"}]}}}"#, &[]);
    assert!(!update(&definition("", loose), &definition(kept, loose)).is_empty());
    let extended = r#"{"properties":{"a":{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"string"}]}}}"#;
    assert!(!update(&definition(kept, extended), &definition(kept, loose)).is_empty());
}

#[test]
fn versions_have_schemas() {
    let without = |schema: &str, kept: bool| {
        let spec = if kept { r#""preserveUnknownFields":true,"# } else { "" };
        let mut definition = definition(spec, r#"{"type":"object"}"#);
        definition.at_mut(&["spec", "versions"]).as_array_mut().expect("a list")[0]
            .set(&["schema"], json::decode(schema.as_bytes()).expect("JSON"));
        definition
    };
    let missing = "spec.versions[0].schema.openAPIV3Schema: Required value";
    assert_eq!(texts(create(&without("null", false))), [missing]);
    assert_eq!(texts(create(&without("{}", false))), [missing]);
    let pruned = format!("{missing}: because otherwise all fields are pruned");
    assert_eq!(texts(update(&without("{}", false), &without("{}", true))), [pruned]);
    assert_eq!(texts(update(&without("{}", true), &without("{}", true))), [] as [&str; 0]);
}

/// A definition with two versions, whose schemas differ.
fn two_versions(first: &str, second: &str) -> Value {
    let mut definition = definition("", first);
    let text = format!(r#"{{"name":"v2","served":true,"storage":false,"schema":{{"openAPIV3Schema":{second}}}}}"#);
    let version = json::decode(text.as_bytes()).expect("JSON");
    if let Some(versions) = definition.get_mut("spec").and_then(|s| s.get_mut("versions")).and_then(Value::as_array_mut)
    {
        versions.push(version);
    }
    definition
}

#[test]
fn what_versions_share_is_named_once() {
    let check = |first: &str, second: &str, expect: &[&str]| {
        assert_eq!(texts(create(&two_versions(first, second))), expect, "{first} {second}");
    };
    let bad = r#"{"type":"object","properties":{"a":{}}}"#;
    let why = "type: Required value: must not be empty for specified object fields";
    check(bad, bad, &[&format!("spec.validation.openAPIV3Schema.properties[a].{why}")]);
    check(bad, r#"{"type":"object"}"#, &[&format!("spec.versions[0].schema.openAPIV3Schema.properties[a].{why}")]);
    // Lists and maps that are empty are absent ones, a struct that is there is not.
    check(
        bad,
        &bad.replace(r#"{}"#, r#"{"properties":{},"required":[]}"#),
        &[&format!("spec.validation.openAPIV3Schema.properties[a].{why}")],
    );
    check(
        r#"{"type":"object","default":[]}"#,
        r#"{"type":"object"}"#,
        &[
            r#"spec.versions[0].schema.openAPIV3Schema.default: Invalid value: "array":  in body must be of type object: "array""#,
        ],
    );
    check(
        r#"{"type":"object","items":{}}"#,
        r#"{"type":"object"}"#,
        &[
            "spec.versions[0].schema.openAPIV3Schema.items.type: Required value: must not be empty for specified array items",
        ],
    );
}

#[test]
fn rules_are_looked_at_where_no_schema_in_them_is_wrong() {
    let rule = |text: &str| format!(r#""x-kubernetes-validations":[{{"rule":"{text}"}}]"#);
    let schema = format!(
        r#"{{"type":"object",{},"properties":{{
            "right":{{"type":"object",{}}},
            "wrong":{{"type":"object",{},"properties":{{"u":{{"type":"string","x-kubernetes-preserve-unknown-fields":false}}}}}}}}}}"#,
        rule("self.a"),
        rule("self.b"),
        rule("self.c")
    );
    let found = texts(create(&definition("", &schema)));
    let [unknown, undefined] = &found[..] else { panic!("{found:?}") };
    assert!(unknown.starts_with(
        "spec.validation.openAPIV3Schema.properties[wrong].properties[u].x-kubernetes-preserve-unknown-fields"
    ));
    assert!(
        undefined.starts_with("spec.validation.openAPIV3Schema.properties[right].x-kubernetes-validations[0].rule")
    );
}

#[test]
fn old_values_are_not_found_below_maps_of_an_unknown_type() {
    let schema = r#"{"type":"object","properties":{"m":{"type":"object","x-kubernetes-map-type":"odd","properties":{
        "a":{"type":"integer","x-kubernetes-validations":[{"rule":"self >= oldSelf"}]}}}}}"#;
    let expect = [
        r#"spec.validation.openAPIV3Schema.properties[m].x-kubernetes-map-type: Unsupported value: "odd": supported values: "atomic", "granular""#,
        "spec.validation.openAPIV3Schema.properties[m].properties[a].x-kubernetes-validations[0].rule: Invalid value: \
         \"self >= oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema within \
         spec.validation.openAPIV3Schema.properties[m]",
    ];
    assert_eq!(texts(create(&definition("", schema))), expect);
    assert!(create(&definition("", &schema.replace("odd", "atomic"))).is_empty());
}
