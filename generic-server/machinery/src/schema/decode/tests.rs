use super::*;
use crate::json;

fn kind(group: &str, version: &str, kind: &str) -> &'static Schema {
    builtin::schema_of(group, version, kind).expect("a built-in kind")
}

fn read(text: &str) -> Value {
    json::decode(text.as_bytes()).expect("JSON")
}

fn decoded(schema: &Schema, text: &str) -> (String, Vec<String>) {
    let (value, unknown) = decode(schema, read(text)).expect("a document of the type");
    assert_eq!(decode(schema, value.clone()), Ok((value.clone(), vec![])), "decoding twice is decoding once");
    (String::from_utf8(json::encode(&value)).expect("UTF-8"), unknown)
}

#[test]
fn members_that_go_omits_go_and_members_that_it_writes_come() {
    let check = |schema: &Schema, text: &str, want: &str| assert_eq!(decoded(schema, text).0, want);
    let map = kind("", "v1", "ConfigMap");
    check(
        map,
        r#"{"kind":"ConfigMap","data":{},"immutable":false}"#,
        r#"{"immutable":false,"kind":"ConfigMap","metadata":{}}"#,
    );
    check(
        map,
        r#"{"data":{"a":null},"immutable":null,"metadata":{"name":"","labels":{},"generation":0,"creationTimestamp":null}}"#,
        r#"{"data":{"a":""},"metadata":{}}"#,
    );
    let secret = kind("", "v1", "Secret");
    check(secret, r#"{"data":{"a":"aGk\n="}}"#, r#"{"data":{"a":"aGk="},"metadata":{}}"#);
    check(secret, r#"{"data":{"a":"aGkgaGl="}}"#, r#"{"data":{"a":"aGkgaGk="},"metadata":{}}"#);
    check(secret, r#"{"data":{"a":"YX=="}}"#, r#"{"data":{"a":"YQ=="},"metadata":{}}"#);
    check(secret, r#"{"data":{"a":[104,105]}}"#, r#"{"data":{"a":"aGk="},"metadata":{}}"#);
    let role = kind("rbac.authorization.k8s.io", "v1", "ClusterRole");
    check(role, "{}", r#"{"metadata":{},"rules":null}"#);
    check(role, r#"{"rules":[]}"#, r#"{"metadata":{},"rules":[]}"#);
    check(role, r#"{"rules":[null]}"#, r#"{"metadata":{},"rules":[{"verbs":null}]}"#);
    let event = kind("", "v1", "Event");
    check(
        event,
        r#"{"lastTimestamp":"2024-01-01T01:00:00.5+01:00"}"#,
        r#"{"eventTime":null,"firstTimestamp":null,"involvedObject":{},"lastTimestamp":"2024-01-01T00:00:00Z","metadata":{},"reportingComponent":"","reportingInstance":"","source":{}}"#,
    );
}

#[test]
fn an_empty_list_counts_where_defaults_ask_for_it() {
    let hpa = kind("autoscaling", "v2", "HorizontalPodAutoscaler");
    let (text, _) = decoded(hpa, r#"{"spec":{"behavior":{"scaleUp":{"policies":[]}},"metrics":[]}}"#);
    assert!(text.contains(r#""scaleUp":{"policies":[]}"#) && !text.contains("metrics"), "{text}");
}

#[test]
fn errors_show_numbers_as_they_were_written() {
    let pod = kind("", "v1", "Pod");
    for number in ["1.0", "1e3", "9223372036854775808", "-0.50"] {
        let text = format!(r#"{{"spec":{{"containers":[{{"name":"c"}}],"terminationGracePeriodSeconds":{number}}}}}"#);
        let error = decode_text(pod, read(&text), Some(text.as_bytes())).expect_err("no integer").to_string();
        let want = format!(
            "json: cannot unmarshal number {number} into Go struct field PodSpec.spec.terminationGracePeriodSeconds of type int64"
        );
        assert_eq!(error, want);
    }
}

#[test]
fn quantities_keep_the_form_in_which_numbers_were_written() {
    let quota = kind("", "v1", "ResourceQuota");
    let text = r#"{"spec":{"hard":{"a":1e3,"b":1E+2,"c":1.5,"d":"2e3","e":100000000000000000000}}}"#;
    let (value, _) = decode_text(quota, read(text), Some(text.as_bytes())).expect("a quota");
    let hard = value.at(&["spec", "hard"]).expect("amounts");
    let expect = crate::object! { "a" => "1e3", "b" => "100", "c" => "1500m", "d" => "2e3", "e" => "100E" };
    assert_eq!(*hard, expect);
}

#[test]
fn json_schemas_short_forms_are_read() {
    let crd = kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let Some(props) = builtin::by_name("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
    else {
        panic!("no JSONSchemaProps")
    };
    assert!(crd.as_object().is_some());
    let (text, unknown) = decoded(
        builtin::schema(props),
        r#"{"additionalProperties":true,"items":{"type":"string","foo":1,"nullable":false},"default":null,"enum":[null,1],
            "properties":{"a":{"additionalProperties":false,"bar":1}}}"#,
    );
    assert_eq!(
        text,
        r#"{"additionalProperties":true,"enum":[null,1],"items":{"type":"string"},"properties":{"a":{"additionalProperties":false}}}"#
    );
    assert_eq!(unknown, ["properties.a.bar"]);
}

#[test]
fn unknown_members_are_dropped_and_named() {
    let (text, unknown) = decoded(
        kind("apps", "v1", "Deployment"),
        r#"{"spec":{"foo":1,"template":{"spec":{"bar":{},"containers":[{"name":"c","Image":"x","ports":[{"containerPort":1,"qux":0}]}]}}}}"#,
    );
    assert!(!text.contains("foo") && !text.contains("Image") && !text.contains("qux"), "{text}");
    assert_eq!(
        unknown,
        [
            "spec.foo",
            "spec.template.spec.bar",
            "spec.template.spec.containers[0].Image",
            "spec.template.spec.containers[0].ports[0].qux"
        ]
    );
}

#[test]
fn wrong_types_are_refused_in_gos_words() {
    let check = |schema: &Schema, text: &str, want: &str| {
        assert_eq!(decode(schema, read(text)), Err(DecodeError(want.into())), "{text}");
    };
    let map = kind("", "v1", "ConfigMap");
    let go = "json: cannot unmarshal";
    check(map, r#"{"data":{"a":1}}"#, &format!("{go} number into Go struct field ConfigMap.data of type string"));
    let csr = kind("certificates.k8s.io", "v1", "CertificateSigningRequest");
    let extra = |value: &str| format!(r#"{{"spec":{{"extra":{value},"request":"","signerName":""}}}}"#);
    let place = "into Go struct field CertificateSigningRequestSpec.spec.extra of type";
    check(csr, &extra("1"), &format!("{go} number {place} map[string]v1.ExtraValue"));
    check(csr, &extra(r#"{"a":1}"#), &format!("{go} number {place} v1.ExtraValue"));
    check(csr, &extra(r#"{"a":[1]}"#), &format!("{go} number {place} string"));
    check(map, r#"{"data":[]}"#, &format!("{go} array into Go struct field ConfigMap.data of type map[string]string"));
    check(
        map,
        r#"{"metadata":[]}"#,
        &format!("{go} array into Go struct field ConfigMap.metadata of type v1.ObjectMeta"),
    );
    check(map, "[]", &format!("{go} array into Go value of type v1.ConfigMap"));
    check(
        map,
        r#"{"metadata":{"managedFields":"x"}}"#,
        &format!("{go} string into Go struct field ObjectMeta.metadata.managedFields of type []v1.ManagedFieldsEntry"),
    );
    check(
        map,
        r#"{"metadata":{"creationTimestamp":5}}"#,
        &format!("{go} number into Go struct field ObjectMeta.metadata.creationTimestamp of type string"),
    );
    let pod = kind("", "v1", "Pod");
    let probe = |probe: &str| format!(r#"{{"spec":{{"containers":[{{"livenessProbe":{probe}}}]}}}}"#);
    let port = "HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32";
    check(pod, &probe(r#"{"httpGet":{"port":80.5}}"#), &format!("{go} number 80.5 into Go struct field {port}"));
    check(pod, &probe(r#"{"httpGet":{"port":[]}}"#), &format!("{go} array into Go struct field {port}"));
    check(
        pod,
        &probe(r#"{"periodSeconds":2147483648}"#),
        &format!(
            "{go} number 2147483648 into Go struct field Probe.spec.containers.livenessProbe.periodSeconds of type int32"
        ),
    );
    check(
        pod,
        r#"{"spec":{"containers":"x"}}"#,
        &format!("{go} string into Go struct field PodSpec.spec.containers of type []v1.Container"),
    );
    check(
        pod,
        r#"{"spec":{"containers":[{"imagePullPolicy":1}]}}"#,
        &format!("{go} number into Go struct field Container.spec.containers.imagePullPolicy of type v1.PullPolicy"),
    );
    check(
        kind("", "v1", "Service"),
        r#"{"spec":{"ipFamilies":[true]}}"#,
        &format!("{go} bool into Go struct field ServiceSpec.spec.ipFamilies of type v1.IPFamily"),
    );
    let secret = kind("", "v1", "Secret");
    for (data, at) in
        [("plain text", 5), ("%%%", 0), ("abcde", 4), ("ab=", 3), ("ab=c", 2), ("abc=d", 4), ("a=", 1), ("ab\ncd%", 5)]
    {
        let text =
            String::from_utf8(json::encode(&crate::object! {"data" => crate::object! {"k" => data}})).expect("UTF-8");
        check(secret, &text, &format!("illegal base64 data at input byte {at}"));
    }
}

#[test]
fn numbers_are_doubles() {
    let schema = builtin::by_name("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
        .map(builtin::schema)
        .expect("the table has JSONSchemaProps");
    let text = r#"{"maximum":9223372036854775807,"minimum":-9007199254740993,"multipleOf":3}"#;
    let want = r#"{"maximum":9223372036854776000,"minimum":-9007199254740992,"multipleOf":3}"#;
    assert_eq!(decoded(schema, text).0, want);
}
