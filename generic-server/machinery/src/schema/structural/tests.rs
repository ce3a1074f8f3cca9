use super::*;
use crate::json;
use crate::value::Path;

fn read(text: &str) -> Value {
    json::decode(text.as_bytes()).unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[test]
fn plain_nodes_stay_plain() {
    let text = r#"{"type":"object","properties":{"a":{"type":"string","description":"d"},"b":{"x-kubernetes-int-or-string":true,"maximum":3}}}"#;
    let schema = parse(&read(text));
    let object = schema.as_object().expect("an object");
    let a = object.field("a").expect("a");
    assert!(a.schema.validation.is_none() && matches!(a.schema.shape, Shape::String(_)));
    let b = object.field("b").expect("b");
    assert!(matches!(b.schema.shape, Shape::IntOrString));
    assert_eq!(b.schema.validation.as_ref().and_then(|v| v.maximum), Some(3.0));
}

#[test]
fn what_has_nothing_to_look_for_below_is_plain() {
    let check = |text: &str, expect: bool| assert_eq!(parse(&read(text)).plain, expect, "{text}");
    let below = |schema: &str| {
        format!(
            r#"{{"type":"object","properties":{{"a":{{"type":"array","items":{{"type":"object","properties":{{"b":{schema}}}}}}}}}}}"#
        )
    };
    check(&below(r#"{"type":"string","maxLength":3}"#), true);
    check(&below(r#"{"type":"string","default":"x"}"#), false);
    check(&below(r#"{"type":"object","x-kubernetes-embedded-resource":true}"#), false);
    check(&below(r#"{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}}"#), false);
    check(r#"{"type":"object","additionalProperties":{"type":"string","default":"x"}}"#, false);
    // Its own default is its parent's business.
    check(r#"{"type":"object","default":{},"properties":{"a":{"type":"string"}}}"#, true);
}

/// Errors of a whole schema, with `$` for where it stands.
fn errors(schema: &str) -> Vec<String> {
    let checked = check(&read(schema), &Path::ROOT.field("$"), CheckOptions::default());
    checked.errors.iter().map(ToString::to_string).collect()
}

fn whole(schema: &str, want: &[&str]) {
    assert_eq!(errors(schema), want, "{schema}");
}

/// As [`whole`], for the schema of the property `v`; paths in `want` start there.
fn property(schema: &str, want: &[&str]) {
    let want: Vec<_> = want.iter().map(|w| format!("$.properties[v]{w}")).collect();
    assert_eq!(errors(&format!(r#"{{"type":"object","properties":{{"v":{schema}}}}}"#)), want, "{schema}");
}

#[test]
fn schemas_must_be_structural() {
    whole("{}", &["$.type: Required value: must not be empty at the root"]);
    whole(r#"{"type":"string"}"#, &[r#"$.type: Invalid value: "string": must be object at the root"#]);
    whole(
        r#"{"type":"object","additionalProperties":{"type":"string"}}"#,
        &["$.additionalProperties: Forbidden: must not be used at the root"],
    );
    property("{}", &[".type: Required value: must not be empty for specified object fields"]);
    property(r#"{"type":"array"}"#, &[".items: Required value: must be specified"]);
    property(
        r#"{"type":"array","items":{}}"#,
        &[".items.type: Required value: must not be empty for specified array items"],
    );
    property(
        r#"{"type":"string","oneOf":[{"description":"x"},{"type":"string"}]}"#,
        &[
            ".oneOf[0].description: Forbidden: must be empty to be structural",
            ".oneOf[1].type: Forbidden: must be empty to be structural",
        ],
    );
    property(r#"{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]}"#, &[]);
    property(r#"{"x-kubernetes-int-or-string":true,"allOf":[{"anyOf":[{"type":"integer"},{"type":"string"}]}]}"#, &[]);
    whole(
        r#"{"type":"object","anyOf":[{"properties":{"a":{"minimum":1}}}]}"#,
        &["$.properties[a]: Required value: because it is defined in $.anyOf[0].properties[a]"],
    );
    property(
        r#"{"type":"string","pattern":"["}"#,
        &[
            r#".pattern: Invalid value: "[": must be a valid regular expression, but isn't: error parsing regexp: missing closing ]: `[`"#,
        ],
    );
    whole(
        r#"{"type":"object","properties":{"metadata":{"type":"object","properties":{"labels":{"type":"object"}}}}}"#,
        &[
            "$.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
        ],
    );
    whole(
        r#"{"type":"object","properties":{"metadata":{"type":"object","properties":{"name":{"type":"string","maxLength":9}}}}}"#,
        &[],
    );
}

#[test]
fn what_crds_have_not_is_forbidden() {
    property(r##"{"$ref":"#/x"}"##, &[".$ref: Forbidden: $ref is not supported"]);
    property(
        r#"{"type":"text"}"#,
        &[
            r#".type: Unsupported value: "text": supported values: "array", "boolean", "integer", "number", "object", "string""#,
        ],
    );
    property(
        r#"{"type":"array","items":{"type":"string"},"uniqueItems":true}"#,
        &[".uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic"],
    );
    property(
        r#"{"type":"object","additionalProperties":{"type":"string"},"properties":{"a":{"type":"string"}}}"#,
        &[".additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
    );
    whole(
        r#"{"$schema":"x","type":"object"}"#,
        &[r#"$: Invalid value: "": OpenAPIV3Schema 'schema' is not supported"#],
    );
}

#[test]
fn lists_and_their_keys_fit_together() {
    let list = |items: &str, rest: &str| format!(r#"{{"type":"array","items":{items},{rest}}}"#);
    let keyed = r#""x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"]"#;
    property(
        &list(r#"{"type":"object","properties":{"k":{"type":"string"}}}"#, keyed),
        &[
            ".items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
        ],
    );
    property(&list(r#"{"type":"object","required":["k"],"properties":{"k":{"type":"string"}}}"#, keyed), &[]);
    property(
        &list(r#"{"type":"string"}"#, keyed),
        &[r#".items.type: Invalid value: "string": must be object if parent array's x-kubernetes-list-type is map"#],
    );
    property(
        &list(r#"{"type":"object"}"#, keyed),
        &[r#".x-kubernetes-list-map-keys: Invalid value: ["k"]: entries must all be names of item properties"#],
    );
    property(
        &list(r#"{"type":"object"}"#, r#""x-kubernetes-list-type":"set""#),
        &[
            ".items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set",
        ],
    );
}

#[test]
fn defaults_fit_their_schema() {
    property(
        r#"{"type":"object","default":{"b":1},"properties":{"a":{"type":"string"}}}"#,
        &[r#".default: Invalid value: {"b":1}: must not have unknown fields"#],
    );
    property(
        r#"{"type":"string","default":1}"#,
        &[r#".default: Invalid value: "integer":  in body must be of type string: "integer""#],
    );
    property(r#"{"x-kubernetes-int-or-string":true,"default":true}"#, &[]);
    whole(
        r#"{"type":"object","properties":{"kind":{"type":"string","default":"K"}}}"#,
        &["$.properties[kind].default: Forbidden: must not be set in top-level kind"],
    );
    let embedded = r#""x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true"#;
    property(
        &format!(r#"{{"type":"object",{embedded},"default":{{"apiVersion":"v1"}}}}"#),
        &[".default.kind: Required value"],
    );
    let name = |name: &str| {
        format!(
            r#"{{"type":"object",{embedded},"properties":{{"metadata":{{"type":"object","properties":{{"namespace":{{"type":"string","default":"{name}"}}}}}}}}}}"#
        )
    };
    property(&name("good"), &[]);
    assert!(errors(&format!(r#"{{"type":"object","properties":{{"v":{}}}}}"#, name("Bad_")))[0].contains(
        r#"[namespace].default: Invalid value: "Bad_": must result in valid metadata: metadata.namespace: "#
    ));
}

#[test]
fn the_root_beside_a_status_has_few_members() {
    let props = read(r#"{"type":"object","minProperties":1}"#);
    let options = CheckOptions { status_subresource: true, ..CheckOptions::default() };
    let errors = check(&props, &Path::ROOT.field("$"), options).errors;
    let text = errors[0].to_string();
    assert!(
        text.starts_with(
            r#"$: Invalid value: {"ID":"","Schema":"","Ref":null,"Description":"","Type":"object","Nullable":false,"#
        ),
        "{text}"
    );
    assert!(
        text.contains(r#""MinProperties":1,"Required":null,"Items":null,"#)
            && text.contains("}: only [Description Type"),
        "{text}"
    );
}
