//! Writes what the fuzzers begin with: `fuzz-seeds FOLDER` makes a folder for each target. Everything is made of a few
//! objects and texts, so that no corpus has to be kept.

use std::path::PathBuf;

use machinery::codec::{cbor, json, protobuf, yaml};
use machinery::schema::{apply_defaults, builtin};
use machinery::{Value, array, object};

fn objects() -> Vec<Value> {
    let pod = json::decode(include_bytes!("../benches/pod.json")).expect("a pod");
    let mut all = vec![
        pod,
        object! {
            "apiVersion" => "v1", "kind" => "ConfigMap", "metadata" => object! {"name" => "a", "labels" => object! {"l" => "1"}},
            "data" => object! {"k" => "v", "multi" => "one\ntwo\n"}, "binaryData" => object! {"b" => "AAECAw=="},
        },
        object! {
            "apiVersion" => "apps/v1", "kind" => "Deployment", "metadata" => object! {"name" => "d"},
            "spec" => object! {
                "replicas" => 2, "selector" => object! {"matchLabels" => object! {"app" => "d"}},
                "strategy" => object! {"rollingUpdate" => object! {"maxSurge" => "25%", "maxUnavailable" => 1}},
                "template" => object! {"spec" => object! {"containers" => array![object! {"name" => "c", "image" => "i"}]}},
            },
        },
        object! {
            "apiVersion" => "v1", "kind" => "Service", "metadata" => object! {"name" => "s"},
            "spec" => object! {"ports" => array![object! {"port" => 80, "protocol" => "TCP", "targetPort" => "web"}]},
        },
        object! {
            "apiVersion" => "apiextensions.k8s.io/v1", "kind" => "CustomResourceDefinition", "metadata" => object! {},
            "spec" => object! {"versions" => array![object! {"name" => "v1", "schema" => object! {"openAPIV3Schema" => object! {
                "type" => "object", "default" => object! {"a" => array![1, 1.5, Value::Null]}, "additionalProperties" => false,
            }}}]},
        },
        object! {
            "apiVersion" => "coordination.k8s.io/v1", "kind" => "Lease", "metadata" => object! {"name" => "l"},
            "spec" => object! {"holderIdentity" => "me", "renewTime" => "2026-11-27T23:08:00.000123Z"},
        },
    ];
    for object in &mut all {
        let id = id_of(object);
        apply_defaults(builtin::schema(id), object);
    }
    all
}

fn id_of(object: &Value) -> machinery::schema::TypeId {
    let kind = machinery::meta::kind_of(object);
    builtin::by_gvk(&kind.group, &kind.version, &kind.kind).expect("a built-in kind")
}

/// The two bytes by which targets choose a type.
fn chosen(object: &Value, bytes: &[u8]) -> Vec<u8> {
    let place = builtin::definitions().position(|id| id == id_of(object)).expect("a definition");
    [&u16::try_from(place).expect("a few hundred").to_le_bytes(), bytes].concat()
}

const PATCHES: &[(u8, &str)] = &[
    (0, r#"[{"op":"replace","path":"/metadata/name","value":"b"},{"op":"remove","path":"/metadata/labels"}]"#),
    (
        0,
        r#"[{"op":"test","path":"/kind","value":"Pod"},{"op":"copy","from":"/metadata","path":"/spec/x"},{"op":"move","from":"/spec/x","path":"/y~1z"}]"#,
    ),
    (1, r#"{"metadata":{"labels":{"a":null,"b":"c"}},"spec":null}"#),
    (
        2,
        r#"{"spec":{"containers":[{"name":"web","image":"new"},{"$patch":"delete","name":"old"}],"$setElementOrder/containers":[{"name":"web"}]}}"#,
    ),
    (
        2,
        r#"{"spec":{"$retainKeys":["containers"],"$deleteFromPrimitiveList/x":["a"],"volumes":[{"$patch":"replace"}]}}"#,
    ),
];

const PARAMETERS: &[&str] = &[
    "a=b,c!=d,e in (f,g),h notin (i),!j,k",
    "x>1,y<2",
    "metadata.name=a,spec.nodeName!=b\\,c",
    "100m",
    "1.5Gi",
    "12e6",
    "-0.001",
    "1h30m0.5s",
    "2026-11-27T23:08:00Z",
    "2026-11-27T23:08:00.000123+01:00",
    "apps/v1",
    "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    "labelSelector=a%3Db&limit=5&continue=x+y&dryRun=All&pretty",
    "application/json;as=Table;v=v1;g=meta.k8s.io;q=0.5,application/vnd.kubernetes.protobuf,*/*",
    "application/yaml; charset=\"utf-8\"",
    r#"{"v":"meta.k8s.io/v1","rv":7,"start":"ns/a\u0000"}"#,
];

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(std::env::args_os().nth(1).expect("usage: fuzz-seeds FOLDER"));
    let mut seeds: Vec<(&str, Vec<u8>)> = Vec::new();
    for object in &objects() {
        let text = json::encode(object);
        let mut message = Vec::new();
        protobuf::encode_raw(id_of(object), object, &mut message).expect("a built-in kind");
        let envelope = protobuf::encode(object).expect("a built-in kind");
        seeds.push(("yaml", yaml::encode(object)));
        seeds.push(("protobuf", chosen(object, &message)));
        seeds.push(("protobuf", protobuf::watch_frame("ADDED", &envelope)[4..].to_vec()));
        seeds.push(("protobuf", envelope));
        seeds.push(("cbor", cbor::encode(object)));
        seeds.push(("cbor", chosen(object, &cbor::encode(object))));
        seeds.push(("types", chosen(object, &text)));
        for (kind, patch) in PATCHES {
            seeds.push(("patch", [&[*kind], &text[..], &[0], patch.as_bytes()].concat()));
        }
        for choice in 0..4 {
            seeds.push(("apply", [&[choice], &text[..], &[0], &text[..]].concat()));
        }
        seeds.push(("scan", text.clone()));
        seeds.push(("json", text));
    }
    seeds.extend(PARAMETERS.iter().map(|text| ("parameters", text.as_bytes().to_vec())));
    for (number, (target, bytes)) in seeds.iter().enumerate() {
        std::fs::create_dir_all(folder.join(target))?;
        std::fs::write(folder.join(target).join(format!("seed-{number}")), bytes)?;
    }
    Ok(())
}
