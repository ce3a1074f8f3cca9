//! What the directives and the types' strategies do, on built-in types.

use super::*;
use crate::patch::testing::{json, text};
use crate::schema::builtin;

fn deployment() -> &'static Schema {
    builtin::schema_of("apps", "v1", "Deployment").expect("a built-in")
}

fn service() -> &'static Schema {
    builtin::schema_of("", "v1", "Service").expect("a built-in")
}

#[track_caller]
fn check(schema: &Schema, original: &str, patch: &str, want: &str) {
    let got = apply(&json(original), &json(patch), schema);
    assert_eq!(got.as_ref().map(text), Ok(text(&json(want))), "{original} + {patch}");
}

#[track_caller]
fn check_refused(schema: &Schema, original: &str, patch: &str, code: u16, message: &str) {
    let e = apply(&json(original), &json(patch), schema).expect_err(patch);
    assert_eq!((e.code(), e.to_string().as_str()), (code, message), "{original} + {patch}");
}

/// A deployment with these containers, or a patch of them.
fn containers(list: &str) -> String {
    format!(r#"{{"spec":{{"template":{{"spec":{{"containers":{list}}}}}}}}}"#)
}

#[test]
fn lists_of_objects_merge_by_their_key_in_the_patchs_order() {
    let s = service();
    let before = r#"{"spec":{"ports":[{"name":"http","port":80},{"name":"https","port":443}]}}"#;
    check(
        s,
        before,
        r#"{"spec":{"ports":[{"port":80,"targetPort":9090},{"port":8443,"name":"alt"}]}}"#,
        r#"{"spec":{"ports":[{"name":"http","port":80,"targetPort":9090},{"port":8443,"name":"alt"},{"name":"https","port":443}]}}"#,
    );
    check(
        s,
        before,
        r#"{"spec":{"ports":[{"port":80,"$patch":"delete"}]}}"#,
        r#"{"spec":{"ports":[{"name":"https","port":443}]}}"#,
    );
    check(s, before, r#"{"spec":{"ports":[{"$patch":"replace"},{"port":1}]}}"#, r#"{"spec":{"ports":[{"port":1}]}}"#);
    check_refused(
        s,
        before,
        r#"{"spec":{"ports":[{"name":"http","targetPort":1}]}}"#,
        500,
        "map: map[name:http targetPort:1] does not contain declared merge key: port",
    );
}

#[test]
fn scalars_merge_as_a_set() {
    let s = service();
    let before = r#"{"metadata":{"finalizers":["a","b"]}}"#;
    check(s, before, r#"{"metadata":{"finalizers":["c","a"]}}"#, r#"{"metadata":{"finalizers":["c","a","b"]}}"#);
    check(
        s,
        before,
        r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["a","x"]}}"#,
        r#"{"metadata":{"finalizers":["b"]}}"#,
    );
    check(
        s,
        before,
        r#"{"metadata":{"$setElementOrder/finalizers":["b","c","a"],"finalizers":["c"]}}"#,
        r#"{"metadata":{"finalizers":["b","c","a"]}}"#,
    );
    check(
        s,
        before,
        r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["b"],"finalizers":["e"],"$setElementOrder/finalizers":["e","a"]}}"#,
        r#"{"metadata":{"finalizers":["e","a"]}}"#,
    );
    check(s, before, r#"{"metadata":{"finalizers":null}}"#, r#"{"metadata":{}}"#);
    check(s, before, r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":"a"}}"#, before);
    check(s, before, r#"{"metadata":{"$deleteFromPrimitiveList/labels":["a"]}}"#, before);
}

#[test]
fn atomic_lists_and_maps_follow_their_strategy() {
    let role = builtin::schema_of("rbac.authorization.k8s.io", "v1", "Role").expect("a built-in");
    check(
        role,
        r#"{"rules":[{"verbs":["get"]}]}"#,
        r#"{"rules":[{"verbs":["list"]}]}"#,
        r#"{"rules":[{"verbs":["list"]}]}"#,
    );
    check(
        service(),
        r#"{"spec":{"selector":{"a":"1","b":"2"}}}"#,
        r#"{"spec":{"selector":{"b":null,"c":"3"}}}"#,
        r#"{"spec":{"selector":{"a":"1","c":"3"}}}"#,
    );
}

#[test]
fn directives_in_objects() {
    let s = deployment();
    let before = r#"{"metadata":{"labels":{"a":"1"}},"spec":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1}}}}"#;
    check(
        s,
        before,
        r#"{"spec":{"strategy":{"$retainKeys":["type"],"type":"Recreate"}}}"#,
        r#"{"metadata":{"labels":{"a":"1"}},"spec":{"strategy":{"type":"Recreate"}}}"#,
    );
    check(
        s,
        before,
        r#"{"metadata":{"labels":{"$patch":"replace","b":"2"}},"spec":{"strategy":{"$patch":"delete"}}}"#,
        r#"{"metadata":{"labels":{"b":"2"}},"spec":{"strategy":{}}}"#,
    );
    check(s, before, r#"{"$patch":"delete"}"#, "{}");
    let whole = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"}}"#;
    check(s, whole, r#"{"$patch":"delete"}"#, r#"{"apiVersion":"apps/v1","kind":"Deployment"}"#);
    check(s, whole, r#"{"apiVersion":"v1","kind":"ConfigMap"}"#, whole);
    check(s, r#"{"metadata":{}}"#, r#"{"metadata":{"labels":{"$patch":"merge","ok":"yes"}}}"#, r#"{"metadata":{}}"#);
    let malformed = "invalid patch format of retainKeys";
    check_refused(s, before, r#"{"spec":{"strategy":{"$retainKeys":"type"}}}"#, 400, malformed);
    check_refused(s, before, r#"{"spec":{"strategy":{"$retainKeys":["x"],"type":"Recreate"}}}"#, 400, malformed);
    check_refused(
        s,
        before,
        r#"{"spec":{"strategy":{"$patch":7}}}"#,
        500,
        "unknown patch type: %!s(int64=7) in map: map[$patch:7]",
    );
}

#[test]
fn set_element_order_arranges_and_checks() {
    let s = deployment();
    let before = containers(r#"[{"name":"main","image":"m:1"},{"name":"side","image":"s:1"},{"name":"own"}]"#);
    let order = |patch: &str| format!(r#"{{"spec":{{"template":{{"spec":{patch}}}}}}}"#);
    check(
        s,
        &before,
        &order(
            r#"{"$setElementOrder/containers":[{"name":"side"},{"name":"main"}],"containers":[{"name":"main","image":"m:2"}]}"#,
        ),
        &containers(r#"[{"name":"side","image":"s:1"},{"name":"main","image":"m:2"},{"name":"own"}]"#),
    );
    check(
        s,
        &before,
        &order(
            r#"{"$setElementOrder/containers":[{"name":"main"}],"containers":[{"$patch":"delete","name":"side"},{"name":"main","image":"m:2"}]}"#,
        ),
        &containers(r#"[{"name":"main","image":"m:2"},{"name":"own"}]"#),
    );
    check_refused(
        s,
        &before,
        &order(r#"{"$setElementOrder/containers":["main"]}"#),
        500,
        "value for key 0 is not a map",
    );
    check_refused(
        s,
        &before,
        &order(r#"{"$setElementOrder/containers":{"name":"main"}}"#),
        500,
        "expected a []interface {}, but received a map[string]interface {}",
    );
    check_refused(
        s,
        &before,
        &order(r#"{"$setElementOrder/containers":[{"name":"side"}],"containers":[{"name":"main","image":"m:2"}]}"#),
        500,
        "The order in patch list:\n[map[image:m:2 name:main]]\n doesn't match $setElementOrder list:\n[map[name:side]]\n",
    );
    check_refused(
        s,
        &before,
        &order(r#"{"$setElementOrder/nonsense":[{"name":"side"}]}"#),
        500,
        "unable to find api field in struct PodSpec for the json field \"nonsense\"",
    );
}

#[test]
fn directives_in_lists_are_checked() {
    let s = deployment();
    let before = containers(r#"[{"name":"main"}]"#);
    check_refused(
        s,
        &before,
        &containers(r#"[{"name":"main","$patch":"explode"}]"#),
        500,
        "unknown patch type: explode in map: map[$patch:explode name:main]",
    );
    check_refused(
        s,
        &before,
        &containers(r#"[{"name":"main","$patch":"merge"}]"#),
        500,
        "merging lists cannot yet be specified in the patch",
    );
    check_refused(
        s,
        &before,
        &containers(r#"[{"$patch":"delete"}]"#),
        500,
        "map: map[$patch:delete] does not contain declared merge key: name",
    );
    check_refused(
        s,
        &before,
        &containers(r#"["main"]"#),
        500,
        "list element types are not identical: [[map[name:main]] [main]]",
    );
}

#[test]
fn values_take_their_types_form() {
    let s = deployment();
    check(s, r#"{"spec":{"replicas":1}}"#, r#"{"spec":{"replicas":2.0}}"#, r#"{"spec":{"replicas":2}}"#);
    let check_invalid = |patch: &str, value: &str, detail: &str| {
        let e = apply(&json(r#"{"spec":{"replicas":1},"metadata":{"name":"d"}}"#), &json(patch), s).expect_err(patch);
        assert_eq!(e, PatchError::Invalid { value: value.into(), detail: detail.into() });
    };
    check_invalid(r#"{"spec":{"replicas":"two"}}"#, "map[spec:map[replicas:two]]", "unrecognized type: int32");
    check_invalid(r#"{"spec":{"paused":"yes"}}"#, "map[spec:map[paused:yes]]", "unrecognized type: bool");
    check_invalid(r#"{"spec":"text"}"#, "map[spec:text]", "cannot restore struct from: string");
    check_invalid(r#"{"metadata":{"labels":["a"]}}"#, "map[metadata:map[labels:[a]]]", "cannot restore map from slice");
    check_invalid(
        &containers(r#"{"name":"main"}"#),
        "map[spec:map[template:map[spec:map[containers:map[name:main]]]]]",
        "cannot restore slice from map",
    );
    check_invalid(
        &containers(r#"[{"name":"main","args":[{"a":"b"}]}]"#),
        "map[spec:map[template:map[spec:map[containers:[map[args:[map[a:b]] name:main]]]]]]",
        "unrecognized type: string",
    );
}

#[test]
fn long_lists_merge_in_linear_time() {
    let list = |from: usize| {
        let items: Vec<String> = (from..from + 20_000).map(|i| format!(r#"{{"name":"n{i}"}}"#)).collect();
        containers(&format!("[{}]", items.join(",")))
    };
    let start = std::time::Instant::now();
    let merged = apply(&json(&list(0)), &json(&list(10_000)), deployment()).expect("merges");
    let all = merged.at(&["spec", "template", "spec", "containers"]).and_then(Value::as_array).map(<[Value]>::len);
    assert_eq!(all, Some(30_000));
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}
