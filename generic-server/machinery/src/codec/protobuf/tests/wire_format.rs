//! Messages as no encoder of ours writes them: fields that come twice, in pieces, of the wrong kind, cut off.

use super::{packed, show};
use crate::codec::protobuf::wire::{self, key, put_bytes, put_message, put_varint};
use crate::codec::protobuf::{MAGIC, ProtoError, decode, decode_raw, wrap};
use crate::json;
use crate::schema::{TypeId, builtin};

fn definition(name: &str) -> TypeId {
    builtin::by_name(&format!("io.k8s.{name}")).expect(name)
}

/// A field of bytes that holds these parts.
fn m(number: u32, parts: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(&mut out, key(number, wire::BYTES), &parts.concat());
    out
}

/// A field that holds a number.
fn v(number: u32, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, key(number, wire::VARINT).into());
    put_varint(&mut out, value);
    out
}

fn check(name: &str, parts: &[&[u8]], want: &str) {
    let got = decode_raw(definition(name), &parts.concat()).map(|value| show(&value));
    let want = show(&json::decode(want.as_bytes()).expect(want));
    assert_eq!(got.as_deref(), Ok(want.as_str()), "{name}");
}

#[test]
fn messages_that_come_twice_are_merged() {
    let labels = |entries: &[(&str, &str)]| {
        let entry = |(k, v): &(&str, &str)| m(11, &[&m(1, &[k.as_bytes()]), &m(2, &[v.as_bytes()])]);
        entries.iter().flat_map(entry).collect::<Vec<u8>>()
    };
    let meta = "apimachinery.pkg.apis.meta.v1.ObjectMeta";
    // A value (metadata), a pointer in a pointer (securityContext.seLinuxOptions), maps, lists.
    check(
        "api.core.v1.ConfigMap",
        &[
            &m(1, &[&m(1, &[b"a"]), &labels(&[("x", "1"), ("y", "1")]), &m(14, &[b"f"])]),
            &m(1, &[]),
            &m(1, &[&m(3, &[b"b"]), &labels(&[("y", "2"), ("a", "3")]), &m(14, &[b"g"])]),
        ],
        r#"{"metadata":{"name":"a","namespace":"b","labels":{"a":"3","x":"1","y":"2"},"finalizers":["f","g"]}}"#,
    );
    check(
        "api.core.v1.Container",
        &[&m(1, &[b"c"]), &m(15, &[&v(2, 1), &m(3, &[&m(1, &[b"u"])])]), &m(15, &[&v(4, 0), &m(3, &[&m(4, &[b"l"])])])],
        r#"{"name":"c","resources":{},"securityContext":{"privileged":true,"runAsUser":0,
            "seLinuxOptions":{"user":"u","level":"l"}}}"#,
    );
    // An item of a list and the value of a map begin anew; so do times.
    check(
        "api.core.v1.PodSpec",
        &[&m(2, &[&m(1, &[b"a"])]), &m(2, &[&m(2, &[b"i"])])],
        r#"{"containers":[{"name":"a","resources":{}},{"name":"","image":"i","resources":{}}]}"#,
    );
    check(meta, &[&m(8, &[&v(1, 5)]), &m(8, &[])], "{}");
    check(meta, &[&m(8, &[&v(1, 5)]), &m(8, &[&v(1, 7)])], r#"{"creationTimestamp":"1970-01-01T00:00:07Z"}"#);
    // Of texts the last counts.
    check(meta, &[&m(1, &[b"a"]), &m(1, &[b"b"])], r#"{"name":"b"}"#);
    check(meta, &[&m(1, &[b"a"]), &m(1, &[])], "{}");
}

#[test]
fn messages_behind_other_json_are_merged_too() {
    let selector = "api.core.v1.ResourceFieldSelector";
    check(selector, &[&m(3, &[&m(1, &[b"1k"])]), &m(3, &[])], r#"{"resource":"","divisor":"1k"}"#);
    check(selector, &[&m(3, &[&m(1, &[b"1k"])]), &m(3, &[&m(1, &[b"2"])])], r#"{"resource":"","divisor":"2"}"#);
    let port = "api.core.v1.TCPSocketAction";
    check(port, &[&m(1, &[&v(1, 1), &m(3, &[b"web"])]), &m(1, &[&v(1, 0), &v(2, 80)])], r#"{"port":80}"#);
    check(port, &[&m(1, &[&v(1, 1)]), &m(1, &[&m(3, &[b"web"])])], r#"{"port":"web"}"#);
    check(
        "api.apps.v1.ControllerRevision",
        &[&m(2, &[&m(1, &[br#"{"a":1}"#])]), &m(2, &[]), &v(3, 4)],
        r#"{"metadata":{},"data":{"a":1},"revision":4}"#,
    );
    let schema = "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    let typed = |name: &str| m(5, &[name.as_bytes()]);
    let titled = |name: &str| m(7, &[name.as_bytes()]);
    check(schema, &[&m(28, &[&typed("a")]), &m(28, &[&titled("b")])], r#"{"not":{"type":"a","title":"b"}}"#);
    // items (24): a schema (1), a list of them (2); additionalProperties (30): a flag (1) or a schema (2)
    check(
        schema,
        &[&m(24, &[&m(1, &[&typed("a")])]), &m(24, &[&m(1, &[&titled("b")])])],
        r#"{"items":{"type":"a","title":"b"}}"#,
    );
    check(
        schema,
        &[&m(24, &[&m(2, &[&typed("a")])]), &m(24, &[&m(2, &[&typed("b")])])],
        r#"{"items":[{"type":"a"},{"type":"b"}]}"#,
    );
    check(schema, &[&m(30, &[&v(1, 1)]), &m(30, &[])], r#"{"additionalProperties":true}"#);
    check(schema, &[&m(30, &[&v(1, 1)]), &m(30, &[&m(2, &[&typed("a")])])], r#"{"additionalProperties":{"type":"a"}}"#);
}

#[test]
fn embedded_messages_that_come_twice_are_merged() {
    // A volume whose embedded source comes twice, with emptyDir (2), then with hostPath (1) and emptyDir; its name twice.
    check(
        "api.core.v1.Volume",
        &[b"\x0a\x01a\x12\x02\x12\x00\x12\x07\x0a\x03\x0a\x01/\x12\x00\x0a\x01b"],
        r#"{"name":"b","hostPath":{"path":"/"},"emptyDir":{}}"#,
    );
    check(
        "api.core.v1.Volume",
        &[&m(2, &[&m(1, &[&m(1, &[b"/"])])]), &m(2, &[&m(1, &[&m(2, &[b"File"])])])],
        r#"{"name":"","hostPath":{"path":"/","type":"File"}}"#,
    );
}

#[test]
fn entries_of_maps_are_read_by_their_numbers_alone() {
    let secret = "api.core.v1.Secret";
    let data = |parts: &[&[u8]]| m(2, parts);
    // The value twice: the last. No value: empty. A number of 0 or below is passed over. The key's wire type is not looked at.
    check(
        secret,
        &[
            &data(&[&m(1, &[b"k"]), &m(2, &[b"a"]), &m(2, &[b"b"])]),
            &data(&[&m(1, &[b"n"])]),
            &data(&[b"\x02\x01?", &m(1, &[b"z"])]),
            &data(&[b"\x08\x01w"]),
        ],
        r#"{"metadata":{},"data":{"k":"Yg==","n":"","z":"","w":""}}"#,
    );
    check(
        "api.authentication.v1.UserInfo",
        &[&m(4, &[&m(1, &[b"k"]), &m(2, &[&m(1, &[b"a"])]), &m(2, &[&m(1, &[b"b"]), &m(1, &[b"c"])])])],
        r#"{"extra":{"k":["b","c"]}}"#,
    );
    let ended = data(&[b"\x1c"]);
    let got = decode_raw(definition(secret), &ended).map_err(|e| e.to_string());
    assert_eq!(got, Err("proto: unexpected end of group".to_owned()));
}

#[test]
fn numbers_in_lists_come_one_by_one_or_packed_and_mixed() {
    let context = "api.core.v1.PodSecurityContext"; // supplementalGroups is 4
    check(context, &[b"\x22\x04\x01\x02\xac\x02"], r#"{"supplementalGroups":[1,2,300]}"#);
    check(context, &[&v(4, 1), &v(4, 2)], r#"{"supplementalGroups":[1,2]}"#);
    check(
        context,
        &[&v(4, 1), b"\x22\x02\x02\x03", &v(2, 7), &v(4, 4)],
        r#"{"supplementalGroups":[1,2,3,4],"runAsUser":7}"#,
    );
    check(context, &[b"\x22\x00"], "{}");
}

#[test]
fn unknown_fields_of_every_kind_are_passed_over() {
    let unknown: &[&[u8]] = &[
        &v(999, 7),
        &m(999, &[b"text"]),
        b"\xb9\x3e12345678",                         // eight bytes
        b"\xbd\x3e1234",                             // four
        b"\xbb\x3e\x08\x01\x1b\x10\x01\x1c\xbc\x3e", // a group with a group in it
    ];
    for field in unknown {
        check("api.core.v1.LocalObjectReference", &[field, &m(1, &[b"n"]), field], r#"{"name":"n"}"#);
    }
}

#[test]
fn numbers_are_cut_as_in_go() {
    let port = "api.core.v1.ContainerPort"; // containerPort is an int32, 3
    check(port, &[&v(3, 1 << 32 | 80)], r#"{"containerPort":80}"#);
    check(port, &[&v(3, u64::MAX)], r#"{"containerPort":-1}"#);
    check(port, &[b"\x18\x81\x80\x80\x80\x80\x80\x80\x80\x80\x7f"], r#"{"containerPort":1}"#);
    check("api.core.v1.SecurityContext", &[&v(2, 256)], r#"{"privileged":true}"#);
    check("api.core.v1.SecurityContext", &[&v(4, u64::MAX)], r#"{"runAsUser":-1}"#);
    // A field's number has 32 bits.
    check("api.core.v1.LocalObjectReference", &[b"\x8a\x80\x80\x80\x80\x01\x01n"], r#"{"name":"n"}"#);
}

#[test]
fn what_is_no_message_is_refused_in_upstreams_words() {
    let config_map = |raw: &[u8]| {
        let mut out = Vec::new();
        let written: Result<(), ProtoError> = wrap(&mut out, "v1", "ConfigMap", |out| {
            out.extend_from_slice(raw);
            Ok(())
        });
        written.map(|()| out).expect("written")
    };
    for (bytes, want) in [
        (Vec::new(), "empty data"),
        (MAGIC.to_vec(), "empty body"),
        (
            b"not protobuf".to_vec(),
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
        ),
        (packed("azhzAAoPCgJ2MRIJQ29uZmlnTWFwEgwKBQoDcGJ0EgYKAWsaACIA"), "unexpected EOF"),
        (b"k8s\0\x08\x01".to_vec(), "proto: wrong wireType = 0 for field TypeMeta"),
        (b"k8s\0\x0a\x02\x08\x01".to_vec(), "proto: wrong wireType = 0 for field APIVersion"),
        (b"k8s\0\x0a\x02\x10\x01".to_vec(), "proto: wrong wireType = 0 for field Kind"),
        (b"k8s\0\x10\x01".to_vec(), "proto: wrong wireType = 0 for field Raw"),
        (config_map(b"\x08\x01"), "proto: wrong wireType = 0 for field ObjectMeta"),
        (config_map(b"\x0d1234"), "proto: wrong wireType = 5 for field ObjectMeta"),
        (config_map(b"\x0b\x0c"), "proto: wrong wireType = 3 for field ObjectMeta"),
        (config_map(b"\x02\x01"), "proto: ConfigMap: illegal tag 0 (wire type 2)"),
        (config_map(b"\x80\x80\x80\x80\x40"), "proto: ConfigMap: illegal tag -2147483648 (wire type 17179869184)"),
        (config_map(b"\x0c"), "proto: ConfigMap: wiretype end group for non-group"),
        (config_map(b"\x04"), "proto: ConfigMap: wiretype end group for non-group"),
        (config_map(b"\x7b\x08\x01"), "unexpected EOF"),
        (config_map(b"\x7b\x7e\x7c"), "proto: illegal wireType 6"),
        (config_map(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), "proto: integer overflow"),
        (config_map(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), "proto: integer overflow"),
        (config_map(b"\xff\xff"), "unexpected EOF"),
        (config_map(b"\x78"), "unexpected EOF"),
        (config_map(b"\x79123"), "unexpected EOF"),
        (config_map(b"\x7a\x02a"), "unexpected EOF"),
        (config_map(b"\x7d12"), "unexpected EOF"),
        (config_map(b"\x0a"), "unexpected EOF"),
        (config_map(b"\x0a\x01"), "unexpected EOF"),
        (config_map(b"\x0a\x03\x0a\x02a"), "unexpected EOF"),
        (config_map(b"\x7e\x00"), "proto: illegal wireType 6"),
        (
            config_map(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
            "proto: negative length found during unmarshaling",
        ),
        (
            config_map(b"\x7a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
            "proto: negative length found during unmarshaling",
        ),
    ] {
        assert_eq!(decode(&bytes).expect_err(want).to_string(), want);
    }
}

#[test]
fn a_field_of_the_wrong_kind_is_called_as_in_go() {
    for (name, bytes, field) in [
        ("api.core.v1.PodSpec", b"\x30\x01", "DNSPolicy"),
        ("api.core.v1.Probe", b"\x08\x01", "ProbeHandler"),
        ("apimachinery.pkg.apis.meta.v1.ObjectMeta", b"\x28\x01", "UID"),
        ("apimachinery.pkg.apis.meta.v1.ObjectMeta", b"\x58\x01", "Labels"),
        ("api.core.v1.ConfigMapList", b"\x08\x01", "ListMeta"),
        ("api.core.v1.PodTemplateSpec", b"\x08\x01", "ObjectMeta"),
        ("api.core.v1.Container", b"\x12\x00", ""),
    ] {
        let want = (!field.is_empty()).then(|| format!("proto: wrong wireType = 0 for field {field}"));
        assert_eq!(decode_raw(definition(name), bytes).err().map(|e| e.to_string()), want);
    }
    for (name, bytes, want) in [
        ("api.core.v1.ResourceFieldSelector", m(3, &[&v(1, 1)]), "proto: wrong wireType = 0 for field String_"),
        ("api.core.v1.TCPSocketAction", m(1, &[&m(2, &[])]), "proto: wrong wireType = 2 for field IntVal"),
        (
            "apimachinery.pkg.apis.meta.v1.ObjectMeta",
            m(8, &[&m(1, &[])]),
            "proto: wrong wireType = 2 for field Seconds",
        ),
        ("api.apps.v1.ControllerRevision", m(2, &[&v(1, 1)]), "proto: wrong wireType = 0 for field Raw"),
    ] {
        assert_eq!(decode_raw(definition(name), &bytes).err().map(|e| e.to_string()).as_deref(), Some(want));
    }
}

#[test]
fn nesting_and_repetition_have_an_end() {
    // openAPIV3Schema: not: not: not: … (field 28 is a schema)
    let mut schema = Vec::new();
    for _ in 0..2000 {
        let mut outer = vec![0xe2, 0x01];
        put_varint(&mut outer, schema.len() as u64);
        outer.append(&mut schema);
        schema = outer;
    }
    let props = builtin::by_name("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps");
    assert_eq!(decode_raw(props.expect("a definition"), &schema), Err(ProtoError::Depth));
    // A list that holds a list that holds …
    let mut list = Vec::new();
    for _ in 0..2000 {
        let inner = std::mem::take(&mut list);
        wrap(&mut list, "v1", "List", |out| {
            put_message(out, 0x12, |out| {
                put_bytes(out, 0x0a, &inner);
                Ok::<(), ProtoError>(())
            })
        })
        .expect("written");
    }
    assert_eq!(decode(&list), Err(ProtoError::Depth));
    // A pod's spec with a million empty containers (field 2).
    let pod_spec = builtin::by_name("io.k8s.api.core.v1.PodSpec").expect("a definition");
    assert_eq!(decode_raw(pod_spec, &b"\x12\x00".repeat(1_000_000)), Err(ProtoError::TooMany));
}

#[test]
fn messages_that_come_again_and_again_take_no_square_of_time() {
    // Each of many times that metadata comes it has one more label.
    let mut bytes = Vec::new();
    for number in 0..100_000 {
        bytes.extend(m(1, &[&m(11, &[&m(1, &[format!("{number}").as_bytes()])])]));
    }
    assert_eq!(decode_raw(definition("api.core.v1.ConfigMap"), &bytes), Err(ProtoError::TooMany));
    let few = (0..200).map(|_| m(1, &[&m(11, &[&m(1, &[b"a"])])]));
    check("api.core.v1.ConfigMap", &[&few.flatten().collect::<Vec<u8>>()], r#"{"metadata":{"labels":{"a":""}}}"#);
}
