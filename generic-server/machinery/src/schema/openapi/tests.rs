use super::*;
use crate::json;

fn none(_: TypeId, _: Option<&str>) -> Option<Str> {
    None
}

fn read(text: &str) -> Value {
    json::decode(text.as_bytes()).unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[test]
fn definitions_are_published_with_their_extensions() {
    let check = |name: &str, flavor, want: &str| {
        let id = builtin::by_name(name).expect("a definition");
        assert_eq!(definition(id, flavor, &none), read(want), "{name}");
    };
    check(
        "io.k8s.api.autoscaling.v1.Scale",
        Flavor::V3,
        r##"{"type":"object","properties":{"apiVersion":{"type":"string"},"kind":{"type":"string"},
            "metadata":{"default":{},"allOf":[{"$ref":"#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}]},
            "spec":{"default":{},"allOf":[{"$ref":"#/components/schemas/io.k8s.api.autoscaling.v1.ScaleSpec"}]},
            "status":{"default":{},"allOf":[{"$ref":"#/components/schemas/io.k8s.api.autoscaling.v1.ScaleStatus"}]}},
            "x-kubernetes-group-version-kind":[{"group":"autoscaling","kind":"Scale","version":"v1"}]}"##,
    );
    check(
        "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference",
        Flavor::V2,
        r#"{"type":"object","required":["apiVersion","kind","name","uid"],"properties":{"apiVersion":{"type":"string"},
            "blockOwnerDeletion":{"type":"boolean"},"controller":{"type":"boolean"},"kind":{"type":"string"},"name":{"type":"string"},
            "uid":{"type":"string"}},"x-kubernetes-map-type":"atomic"}"#,
    );
    check(
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        Flavor::V3,
        r#"{"oneOf":[{"type":"string"},{"type":"number"}]}"#,
    );
    check(
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        Flavor::V3,
        r#"{"format":"int-or-string","oneOf":[{"type":"integer"},{"type":"string"}]}"#,
    );
    check("io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1", Flavor::V3, r#"{"type":"object"}"#);
    let meta = builtin::by_name(OBJECT_META).expect("ObjectMeta");
    let published = definition(meta, Flavor::V3, &none);
    assert_eq!(
        published.at(&["properties", "ownerReferences"]),
        Some(&read(
            r##"{"type":"array","items":{"$ref":"#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference"},
            "x-kubernetes-list-map-keys":["uid"],"x-kubernetes-list-type":"map","x-kubernetes-patch-merge-key":"uid",
            "x-kubernetes-patch-strategy":"merge"}"##
        ))
    );
    assert_eq!(published.str_at(&["properties", "managedFields", "x-kubernetes-list-type"]), Some("atomic"));
    let extension = |name: &str, member: &str, extension: &str, want: &str| {
        let published = definition(builtin::by_name(name).expect("a definition"), Flavor::V3, &none);
        assert_eq!(published.str_at(&["properties", member, extension]), Some(want), "{name}");
    };
    extension("io.k8s.api.core.v1.PersistentVolumeSpec", "claimRef", "x-kubernetes-map-type", "granular");
    let status = "io.k8s.api.core.v1.PersistentVolumeClaimStatus";
    extension(status, "allocatedResourceStatuses", "x-kubernetes-map-type", "granular");
    let spec = "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceSpec";
    extension(spec, "caBundle", "x-kubernetes-list-type", "atomic");
    let published = |name: &str, path: &[&str]| {
        definition(builtin::by_name(name).expect("a definition"), Flavor::V2, &none).at(path).cloned()
    };
    let enums = published("io.k8s.api.networking.v1.NetworkPolicySpec", &["properties", "policyTypes", "items"]);
    assert_eq!(enums, Some(read(r#"{"type":"string","enum":["Egress","Ingress"]}"#)));
    let of_values = ["properties", "allocatedResourceStatuses", "additionalProperties", "enum"];
    assert!(published(status, &of_values).is_some());
    let policy = published("io.k8s.api.core.v1.Container", &["properties", "imagePullPolicy"]);
    assert_eq!(
        policy,
        Some(read(
            r#"{"type":"string","enum":["Always","IfNotPresent","Never"],"description":"Possible enum values:\n - `\"Always\"`\n - `\"IfNotPresent\"`\n - `\"Never\"`"}"#
        ))
    );
    let silent = definition(
        builtin::by_name("io.k8s.api.core.v1.Container").expect("a definition"),
        Telling { flavor: Flavor::V3, enums: false },
        &|_, member| member.map(Str::from),
    );
    let policy = silent.at(&["properties", "imagePullPolicy"]);
    assert_eq!(policy, Some(&read(r#"{"type":"string","description":"imagePullPolicy"}"#)));
    let names: Vec<_> = references(meta).into_iter().map(builtin::type_name).collect();
    assert_eq!(names, ["ManagedFieldsEntry", "OwnerReference", "Time"]);
}

const KIND: CustomKind<'_> = CustomKind {
    group: "clocks.example.dev",
    version: "v1",
    kind: "Clock",
    list_kind: "ClockList",
    plural: "clocks",
    selectable_fields: &[],
};

#[test]
fn what_is_an_integer_or_a_string_is_published_as_alternatives() {
    let check = |given: &str, expect: &str| {
        let props = read(&format!(r#"{{"type":"object","properties":{{"port":{given}}}}}"#));
        let v3 = KIND.schema(Some(&props), Flavor::V3, &none);
        assert_eq!(v3.at(&["properties", "port"]), Some(&read(expect)), "{given}");
    };
    const EITHER: &str = r#"[{"type":"integer"},{"type":"string"}]"#;
    let marked = r#""x-kubernetes-int-or-string":true"#;
    check(&format!("{{{marked}}}"), &format!(r#"{{{marked},"anyOf":{EITHER}}}"#));
    let said = format!(r#"{{{marked},"anyOf":{EITHER}}}"#);
    check(&said, &said);
    let said = format!(r#"{{{marked},"allOf":[{{"anyOf":{EITHER}}},{{"pattern":"a"}}]}}"#);
    check(&said, &said);
    check(
        &format!(r#"{{{marked},"anyOf":[{{"minimum":1}}]}}"#),
        &format!(r#"{{{marked},"anyOf":[{{"minimum":1}}],"allOf":[{{"anyOf":{EITHER}}}]}}"#),
    );
}

#[test]
fn custom_kinds_are_published() {
    let props = read(
        r#"{"type":"object","properties":{"spec":{"type":"object","oneOf":[{"required":["a"]}],"properties":{
            "a":{"type":"string","nullable":true,"default":"x"},
            "emb":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}}}}}"#,
    );
    let v3 = KIND.schema(Some(&props), Flavor::V3, &none);
    assert_eq!(v3.at(&["properties", "spec", "properties", "a"]), props.at(&["properties", "spec", "properties", "a"]));
    assert_eq!(v3.at(&["properties", "spec", "properties", "emb", "required"]), Some(&array!["kind", "apiVersion"]));
    assert!(v3.at(&["properties", "metadata", "allOf"]).is_some() && v3.at(&["properties", "spec", "oneOf"]).is_some());
    let v2 = KIND.schema(Some(&props), Flavor::V2, &none);
    assert_eq!(v2.at(&["properties", "spec", "properties", "a"]), Some(&Value::object()));
    assert!(v2.at(&["properties", "spec", "oneOf"]).is_none());
    assert_eq!(v2.at(&["properties", "metadata", "$ref"]), Some(&format!("#/definitions/{OBJECT_META}").into()));
    assert_eq!(
        KIND.list_schema(Flavor::V3, &none).str_at(&["properties", "items", "items", "$ref"]),
        Some("#/components/schemas/dev.example.clocks.v1.Clock")
    );
    let kind = ["properties", "spec", "properties", "emb", "properties", "kind", "description"];
    assert!(v3.str_at(&kind).is_some_and(|text| text.starts_with("kind is a string value representing the type")));
    assert_eq!(
        v2.at(&["properties", "spec", "properties", "emb"]),
        Some(&read(r#"{"x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}"#))
    );
    let open = read(r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true}"#);
    let v2 = KIND.schema(Some(&open), Flavor::V2, &none);
    assert!(v2.get("properties").is_none() && v2.get("x-kubernetes-group-version-kind").is_some());
}
