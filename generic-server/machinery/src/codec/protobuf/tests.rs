//! Objects as upstream encodes them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

mod wire_format;

use super::*;
use crate::json;
use crate::schema::{TypeId, builtin};
use crate::{Value, array, object};

fn packed(text: &str) -> Vec<u8> {
    STANDARD.decode(text).expect("base64")
}

fn show(value: &Value) -> String {
    String::from_utf8(json::encode(value)).expect("UTF-8")
}

/// What the real server sent of a recorded file, if the environment names the folder.
fn recorded(file: &str) -> Option<Value> {
    let folder = std::env::var_os("KUBE_REFERENCE_DIR")?;
    let text = std::fs::read(std::path::Path::new(&folder).join(file)).expect("the folder has the file");
    Some(json::decode(&text).expect("JSON"))
}

/// Some kinds are stored in a version that is not served.
fn other_version(said: &Envelope<'_>) -> Option<TypeId> {
    let group = said.api_version.split_once('/').map_or("", |(group, _)| group);
    builtin::kinds().iter().find(|k| k.group == group && k.kind == said.kind).map(|k| k.id)
}

fn decode_any_version(bytes: &[u8]) -> Result<Value, ProtoError> {
    match decode(bytes) {
        Err(ProtoError::NoMessage { .. }) => decode_as(other_version(&envelope(bytes)?).expect("a kind"), bytes),
        decoded => decoded,
    }
}

/// Decodes and encodes; the bytes may differ only where JSON text inside the message had another layout.
fn check_round_trip(name: &str, bytes: &[u8], inexact: &mut usize) -> Value {
    let value = decode_any_version(bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
    let again = match encode(&value) {
        Err(ProtoError::NoMessage { .. }) => {
            let said = envelope(bytes).expect("decoded above");
            encode_as(other_version(&said).expect("decoded above"), said.api_version, said.kind, &value)
        }
        again => again,
    };
    let again = again.unwrap_or_else(|e| panic!("{name}: {e}"));
    if again != bytes {
        *inexact += 1;
        assert_eq!(decode_any_version(&again).as_ref(), Ok(&value), "{name}");
        let json_inside = [&b"FieldsV1"[..], b"ControllerRevision", b"resource.k8s.io"];
        assert!(
            json_inside.iter().any(|w| bytes.windows(w.len()).any(|b| b == *w)),
            "{name}: {}",
            bytes.escape_ascii()
        );
    }
    value
}

#[test]
fn recorded_objects_are_decoded_and_encoded_as_the_real_server_does() {
    let Some(pairs) = recorded("protobuf.json") else { return };
    let (mut compared, mut inexact) = (0, 0);
    for pair in pairs.as_array().expect("a list") {
        let path = pair.str_at(&["path"]).expect("a path");
        let bytes = packed(pair.str_at(&["protobuf"]).expect("bytes"));
        let mut want = pair.get("json").expect("JSON").clone();
        if !bytes.starts_with(MAGIC) {
            continue;
        }
        // The server knows the type of claim templates without reading it: it is not in the message.
        if let Some(templates) = want.get_mut("spec").and_then(|s| s.get_mut("volumeClaimTemplates")) {
            for template in templates.as_array_mut().expect("a list") {
                template.remove_at(&["apiVersion"]);
                template.remove_at(&["kind"]);
            }
        }
        let got = check_round_trip(path, &bytes, &mut inexact);
        assert_eq!(show(&got), show(&want), "{path}");
        compared += 1;
    }
    assert!(compared > 500 && inexact * 50 < compared, "{inexact} of {compared}");
}

#[test]
fn recorded_values_of_etcd_are_decoded() {
    let Some(recorded) = recorded("etcd.json") else { return };
    let (mut compared, mut inexact) = (0, 0);
    for entry in recorded.as_array().expect("a list") {
        let key = entry.str_at(&["key"]).expect("a key");
        let bytes = packed(entry.str_at(&["value"]).expect("a value"));
        if bytes.starts_with(MAGIC) {
            check_round_trip(key, &bytes, &mut inexact);
            compared += 1;
        }
    }
    assert!(compared > 20 && inexact * 20 < compared, "{inexact} of {compared}");
}

#[test]
fn objects_are_read_and_written() {
    for (bytes, want) in [
        (
            "azhzAAoPCgJ2MRIJQ29uZmlnTWFwEhYKDAoCcGJaBgoBbBIBMRIGCgFrEgF2GgAiAA==",
            object! {
                "apiVersion" => "v1", "kind" => "ConfigMap",
                "metadata" => object! {"name" => "pb", "labels" => object! {"l" => "1"}},
                "data" => object! {"k" => "v"},
            },
        ),
        (
            "azhzAAoTCgJ2MRINRGVsZXRlT3B0aW9ucxIRIgpCYWNrZ3JvdW5kKgNBbGwaACIA",
            object! {
                "apiVersion" => "v1", "kind" => "DeleteOptions",
                "propagationPolicy" => "Background", "dryRun" => array!["All"],
            },
        ),
        (
            // With a field that nobody knows.
            "azhzAAoPCgJ2MRIJQ29uZmlnTWFwEhkKBQoDcGJ4EgYKAWsSAXbiAwd1bmtub3duGgAiAA==",
            object! {
                "apiVersion" => "v1", "kind" => "ConfigMap",
                "metadata" => object! {"name" => "pbx"}, "data" => object! {"k" => "v"},
            },
        ),
    ] {
        let got = decode(&packed(bytes)).expect(bytes);
        assert_eq!(show(&got), show(&want));
        assert_eq!(decode(&encode(&want).expect("encodes")).expect("decodes"), want);
    }
}

#[test]
fn kinds_of_messages_alone_are_read_and_written() {
    for value in [
        object! {
            "apiVersion" => "meta.k8s.io/v1", "kind" => "PartialObjectMetadataList",
            "metadata" => object! {"resourceVersion" => "7"},
            "items" => array![object! {"metadata" => object! {"name" => "a", "generation" => 2}}],
        },
        object! {
            "apiVersion" => "v1", "kind" => "RangeAllocation",
            "metadata" => object! {"name" => "r"}, "range" => "30000-32767", "data" => "AgQ=",
        },
        object! {"apiVersion" => "v1", "kind" => "List", "metadata" => object! {}, "items" => array![object! {"a" => 1}]},
    ] {
        assert_eq!(show(&decode(&encode(&value).expect("encodes")).expect("decodes")), show(&value));
    }
}

#[test]
fn values_behind_special_messages_are_read_and_written() {
    let value = object! {
        "apiVersion" => "v1", "kind" => "Pod",
        "metadata" => object! {"name" => "p", "creationTimestamp" => "2026-11-27T23:08:00Z"},
        "spec" => object! {
            "activeDeadlineSeconds" => 5,
            "containers" => array![object! {
                "name" => "c",
                "livenessProbe" => object! {"httpGet" => object! {"path" => "/", "port" => "web"}, "periodSeconds" => 3},
                "readinessProbe" => object! {"tcpSocket" => object! {"port" => 80}},
                "resources" => object! {"limits" => object! {"cpu" => "100m", "memory" => "1Gi"}},
            }],
            "securityContext" => object! {"supplementalGroups" => array![1, 2, 3], "runAsUser" => 0},
            "volumes" => array![object! {"name" => "v", "emptyDir" => object! {}}],
        },
        "status" => object! {},
    };
    assert_eq!(show(&decode(&encode(&value).expect("encodes")).expect("decodes")), show(&value));
    let crd = object! {
        "apiVersion" => "apiextensions.k8s.io/v1", "kind" => "CustomResourceDefinition", "metadata" => object! {},
        "spec" => object! {
            "group" => "g", "names" => object! {"kind" => "K", "plural" => "ks"}, "scope" => "Cluster",
            "versions" => array![object! {
                "name" => "v1", "served" => true, "storage" => true,
                "schema" => object! {"openAPIV3Schema" => object! {
                    "additionalProperties" => false,
                    "default" => object! {"a" => array![1, Value::Null]},
                    "enum" => array!["a", 1],
                    "items" => object! {"additionalProperties" => object! {"type" => "string"}},
                    "maximum" => 1.5,
                    "x-kubernetes-preserve-unknown-fields" => true,
                }},
                "subresources" => object! {"status" => object! {}},
            }],
        },
        "status" => object! {
            "acceptedNames" => object! {"kind" => "", "plural" => ""},
            "conditions" => Value::Null, "storedVersions" => Value::Null,
        },
    };
    assert_eq!(show(&decode(&encode(&crd).expect("encodes")).expect("decodes")), show(&crd));
}

#[test]
fn whatever_is_cut_off_or_changed_is_read_without_a_panic() {
    let whole = packed("azhzAAoPCgJ2MRIJQ29uZmlnTWFwEhYKDAoCcGJaBgoBbBIBMRIGCgFrEgF2GgAiAA==");
    for end in 0..whole.len() {
        let _ = decode(&whole[..end]);
        for byte in [0, 1, 0x7f, 0x80, 0xff] {
            let mut changed = whole.clone();
            changed[end] = byte;
            let _ = decode(&changed);
        }
    }
}

#[test]
fn a_watch_frame_holds_the_event() {
    let object =
        encode(&object! {"apiVersion" => "v1", "kind" => "ConfigMap", "metadata" => object! {}}).expect("encodes");
    let frame = watch_frame("ADDED", &object);
    assert_eq!(
        frame.len(),
        4 + usize::try_from(u32::from_be_bytes([frame[0], frame[1], frame[2], frame[3]])).expect("fits")
    );
    let mut stream = frame.clone();
    stream.extend_from_slice(b"rest");
    let (content, rest) = read_frame(&stream, 1 << 20).expect("complete");
    assert_eq!(rest, b"rest");
    assert_eq!(watch_event(content), Ok(("ADDED", object.as_slice())));
    assert_eq!(read_frame(&frame[..frame.len() - 1], 1 << 20), None);
    assert_eq!(read_frame(&frame, 3), None);
}
