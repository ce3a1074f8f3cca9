use super::*;
use crate::json;
use crate::schema::structural;

fn read(text: &str) -> Value {
    json::decode(text.as_bytes()).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// Errors of a value of the member `v` of an object.
fn errors(schema: &str, value: &str) -> Vec<String> {
    let schema = structural::parse(&read(&format!(r#"{{"type":"object","properties":{{"v":{schema}}}}}"#)));
    let value = read(&format!(r#"{{"v":{value}}}"#));
    validate(&schema, &value, &Path::ROOT).iter().map(ToString::to_string).collect()
}

fn check(schema: &str, value: &str, want: &[&str]) {
    assert_eq!(errors(schema, value), want, "{schema} {value}");
}

#[test]
fn types_are_checked() {
    let integer = r#"{"type":"integer"}"#;
    check(integer, "2.0", &[]);
    check(integer, r#""1""#, &[r#"v: Invalid value: "string": v in body must be of type integer: "string""#]);
    check(
        integer,
        "1.5",
        &[
            r#"v: Invalid value: "number": v in body must be of type integer: "number""#,
            r#"<nil>: Invalid value: "": Checked value must be of type integer (default format) in v"#,
        ],
    );
    check(
        r#"{"type":"integer","format":"int32"}"#,
        "2147483648",
        &[r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in v"#],
    );
    check(r#"{"type":"number"}"#, "3", &[]);
    check(r#"{"type":"string"}"#, "null", &[r#"v: Invalid value: "null": v in body must be of type string: "null""#]);
    check(r#"{"type":"string","nullable":true}"#, "null", &[]);
    let either = r#"{"x-kubernetes-int-or-string":true}"#;
    check(either, "1.5", &[r#"v: Invalid value: "number": v in body must be of type integer,string: "number""#]);
    check(either, r#""a""#, &[]);
    check(r#"{"x-kubernetes-preserve-unknown-fields":true}"#, r#"[{"a":null}]"#, &[]);
    check(
        r#"{"type":"array","items":{"type":"object"}}"#,
        "[{},1]",
        &[r#"v[1]: Invalid value: "integer": v[1] in body must be of type object: "integer""#],
    );
}

#[test]
fn limits_are_doubles() {
    let largest = r#"{"type":"integer","maximum":9223372036854775000,"minimum":-9223372036854775000}"#;
    check(largest, "9223372036854774784", &[]);
    check(largest, "-9223372036854774784", &[]);
    check(
        largest,
        "9223372036854775807",
        &["v: Invalid value: 9223372036854775807: v in body should be less than or equal to 9223372036854774784"],
    );
    // The double next to the largest integer is none of its type.
    check(
        r#"{"type":"integer","maximum":9223372036854775807}"#,
        "1",
        &[r#"<nil>: Invalid value: "": Maximum boundary value must be of type integer (default format) in v"#],
    );
    // A limit that no integer holds is the least one to integers.
    let least = "v: Invalid value: 5: v in body should be less than or equal to -9223372036854775808";
    check(r#"{"type":"number","maximum":1e30}"#, "5", &[least]);
    check(r#"{"type":"number","maximum":1e30}"#, "5.5", &[]);
}

#[test]
fn what_an_object_has_too_few_or_too_many_of_is_checked_all_the_same() {
    let few = r#"{"type":"object","minProperties":2,"required":["b"],"properties":{"a":{"type":"string"}}}"#;
    let many = r#"{"type":"object","maxProperties":0,"required":["b"],"properties":{"a":{"type":"string"}}}"#;
    let below =
        [r#"v.a: Invalid value: "integer": v.a in body must be of type string: "integer""#, "v.b: Required value"];
    let few_errors = ["v: Invalid value: 1: v in body should have at least 2 properties", below[0], below[1]];
    check(few, r#"{"a":1}"#, &few_errors);
    check(many, r#"{"a":1}"#, &["v: Too many: 1: must have at most 0 items", below[0], below[1]]);
}

#[test]
fn restrictions_are_checked() {
    check(
        r#"{"type":"integer","minimum":2}"#,
        "1",
        &["v: Invalid value: 1: v in body should be greater than or equal to 2"],
    );
    check(
        r#"{"type":"number","maximum":1,"exclusiveMaximum":true}"#,
        "1.000001",
        &["v: Invalid value: 1.000001: v in body should be less than 1"],
    );
    check(
        r#"{"type":"number","multipleOf":0.1}"#,
        "0.35",
        &["v: Invalid value: 0.35: v in body should be a multiple of 0.1"],
    );
    check(r#"{"type":"number","multipleOf":0.1}"#, "0.3", &[]);
    check(
        r#"{"type":"integer","minimum":1.5}"#,
        "1",
        &[
            r#"<nil>: Invalid value: "": Minimum boundary value must be of type integer (default format) in v"#,
            "v: Invalid value: 1: v in body should be greater than or equal to 1.5",
        ],
    );
    check(r#"{"type":"string","maxLength":1}"#, r#""aé""#, &["v: Too long: may not be more than 1 byte"]);
    check(
        r#"{"type":"string","minLength":2}"#,
        r#""é""#,
        &[r#"v: Invalid value: "é": v in body should be at least 2 chars long"#],
    );
    check(
        r#"{"type":"string","pattern":"^a$"}"#,
        r#""b""#,
        &[r#"v: Invalid value: "b": v in body should match '^a$'"#],
    );
    check(
        r#"{"type":"string","format":"ipv4"}"#,
        r#""x""#,
        &[r#"v: Invalid value: "x": v in body must be of type ipv4: "x""#],
    );
    check(
        r#"{"type":"string","enum":["a",null]}"#,
        r#""b""#,
        &[r#"v: Unsupported value: "b": supported values: "a", "null""#],
    );
    check(r#"{"type":"array","items":{},"maxItems":1}"#, "[1,2]", &["v: Too many: 2: must have at most 1 item"]);
    check(
        r#"{"type":"array","items":{},"minItems":1}"#,
        "[]",
        &["v: Invalid value: 0: v in body should have at least 1 items"],
    );
    let map = r#"{"type":"object","additionalProperties":{"type":"integer"},"minProperties":1,"maxProperties":2}"#;
    check(map, "{}", &["v: Invalid value: 0: v in body should have at least 1 properties"]);
    check(map, r#"{"a":1,"b":2,"c":3}"#, &["v: Too many: 3: must have at most 2 items"]);
    check(map, r#"{"a":"x"}"#, &[r#"v.a: Invalid value: "string": v.a in body must be of type integer: "string""#]);
    check(
        r#"{"type":"object","required":["b","a"],"properties":{"a":{}}}"#,
        "{}",
        &["v.b: Required value", "v.a: Required value"],
    );
}

#[test]
fn branches_are_reported_as_upstream_does() {
    check(
        r#"{"type":"string","anyOf":[{"pattern":"^a"},{"minLength":3}]}"#,
        r#""b""#,
        &[
            r#"<nil>: Invalid value: "": "v" must validate at least one schema (anyOf)"#,
            r#"v: Invalid value: "b": v in body should match '^a'"#,
        ],
    );
    check(
        r#"{"type":"integer","oneOf":[{"multipleOf":2},{"multipleOf":3}]}"#,
        "6",
        &[r#"<nil>: Invalid value: "": "v" must validate one and only one schema (oneOf). Found 2 valid alternatives"#],
    );
    check(
        r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},
            "anyOf":[{"properties":{"a":{"enum":["x"]},"b":{"maximum":5}}},{"properties":{"a":{"enum":["y"]},"b":{"minimum":6}}}]}"#,
        r#"{"a":"x","b":6}"#,
        &[
            r#"<nil>: Invalid value: "": "v" must validate at least one schema (anyOf)"#,
            "v.b: Invalid value: 6: v.b in body should be less than or equal to 5",
        ],
    );
    check(
        r#"{"type":"integer","allOf":[{"minimum":3},{"maximum":5}]}"#,
        "2",
        &[
            "v: Invalid value: 2: v in body should be greater than or equal to 3",
            r#"<nil>: Invalid value: "": "v" must validate all the schemas (allOf)"#,
        ],
    );
    check(
        r#"{"type":"string","not":{"enum":["x"]}}"#,
        r#""x""#,
        &[r#"<nil>: Invalid value: "": "v" must not validate the schema (not)"#],
    );
}

#[test]
fn updates_may_keep_what_was_wrong() {
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer","maximum":1},"l":{"type":"array","x-kubernetes-list-type":"map",
        "x-kubernetes-list-map-keys":["k"],"items":{"type":"object","properties":{"k":{"type":"string"},"w":{"type":"integer","maximum":1}}}},
        "set":{"type":"array","x-kubernetes-list-type":"atomic","items":{"type":"integer","maximum":1}},
        "free":{"type":"object","required":["x"],"x-kubernetes-preserve-unknown-fields":true,"properties":{"y":{"type":"integer"}}},
        "in":{"type":"object","properties":{"l":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],
          "items":{"type":"object","properties":{"k":{"type":"string"},"w":{"type":"integer"}}}}},
          "allOf":[{"properties":{"l":{"items":{"properties":{"w":{"maximum":1}}}}}}]}}}"#;
    let schema = structural::parse(&read(schema));
    let check = |old: &str, new: &str, want: &[&str]| {
        let errors = validate_update(&schema, &read(old), &read(new), &Path::ROOT);
        assert_eq!(errors.iter().map(|e| e.field.as_str()).collect::<Vec<_>>(), want, "{old} {new}");
    };
    check(r#"{"n":5}"#, r#"{"n":5,"l":[]}"#, &[]);
    check(r#"{"n":5}"#, r#"{"n":6}"#, &["n"]);
    check("{}", r#"{"n":5}"#, &["n"]);
    check(r#"{"l":[{"k":"a","w":5},{"k":"b"}]}"#, r#"{"l":[{"k":"b","w":7},{"k":"a","w":5}]}"#, &["l[0].w"]);
    check(r#"{"set":[5,0]}"#, r#"{"set":[5,0],"n":1}"#, &[]);
    check(r#"{"set":[5,0]}"#, r#"{"set":[5,1]}"#, &["set[0]"]);
    // An object with members that are not specified is never the old one.
    check(r#"{"free":{"y":5}}"#, r#"{"free":{"y":5},"n":1}"#, &[]);
    check(r#"{"free":{"z":5}}"#, r#"{"free":{"z":5},"n":1}"#, &["free.x"]);
    // Inside of allOf items correspond as the schema outside says.
    let old = r#"{"in":{"l":[{"k":"a","w":5},{"k":"b","w":1}]}}"#;
    check(old, r#"{"in":{"l":[{"k":"b","w":0},{"k":"a","w":5}]}}"#, &[]);
    check(old, r#"{"in":{"l":[{"k":"b","w":9},{"k":"a","w":5}]}}"#, &["in.l[0].w", "<nil>"]);
}

#[test]
fn sets_and_maps_hold_nothing_twice() {
    let schema = r#"{"type":"object","properties":{"s":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
        "m":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object"}}}}"#;
    let schema = structural::parse(&read(schema));
    let value = read(r#"{"s":["a","b","a"],"m":[{"k":"x"},{"k":"y"},{"k":"x","z":1}]}"#);
    let texts: Vec<_> = validate_lists(&schema, &value, &Path::ROOT).iter().map(ToString::to_string).collect();
    assert_eq!(texts, [r#"m[2]: Duplicate value: {"k":"x"}"#, r#"s[2]: Duplicate value: "a""#]);
}

#[test]
fn errors_have_a_limit() {
    let value = format!("[{}]", vec!["1"; 5000].join(","));
    assert_eq!(errors(r#"{"type":"array","items":{"type":"string"}}"#, &value).len(), 1000);
    let listed: Vec<_> = (0..20_000).map(|i| format!("\"value-{i}\"")).collect();
    let schema = format!(r#"{{"type":"array","items":{{"type":"string","enum":[{}]}}}}"#, listed.join(","));
    let text: usize = errors(&schema, &format!("[{}]", vec!["\"x\""; 900].join(","))).iter().map(String::len).sum();
    assert!(text < 16 << 20, "{text}");
}
