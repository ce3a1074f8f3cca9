//! What is written by a codec is read again as it was: any value in JSON and YAML, any object of a built-in type in protobuf.

mod typed;

use machinery::Value;
use machinery::codec::{json, protobuf, yaml};
use machinery::schema::{self, TypeId, builtin};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use typed::{object, typed};

/// Texts that YAML must quote, fold or escape, among others.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z0-9./:_-]{0,20}",
        2 => any::<String>(),
        2 => "[ -~\n]{0,60}",
        1 => "([a-z]{1,12} ){10,30}[a-z]",
        1 => "[ \n\t\r'\"#:\\-]{0,8}",
        2 => select(vec!["true", "no", "~", "null", "1_000", "0x1f", "1:30", "2001-01-02", ".inf", "-", "<<", "=", "1e3", "0o7"])
            .prop_map(str::to_owned),
    ]
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        (-1000i64..1000).prop_map(Value::Int),
        any::<f64>().prop_filter_map("floats that are no integers in JSON", |f| {
            let mut text = Vec::new();
            machinery::value::write_float(&mut text, f);
            (f.is_finite() && String::from_utf8(text).ok()?.parse::<i64>().is_err()).then_some(Value::Float(f))
        }),
        text().prop_map(Value::from),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((text(), inner), 0..6).prop_map(object),
        ]
    })
}

/// What YAML can hold as upstream writes it: not every character, and no member called `<<`, which would be a merge.
fn fits_yaml(value: &Value) -> bool {
    let fits = |s: &str| !s.contains(['\u{fffe}', '\u{ffff}']);
    match value {
        Value::String(s) => fits(s),
        Value::Array(items) => items.iter().all(fits_yaml),
        Value::Object(members) => members.iter().all(|(name, value)| name != "<<" && fits(name) && fits_yaml(value)),
        _ => true,
    }
}

fn message() -> impl Strategy<Value = (TypeId, Value)> {
    let ids: Vec<TypeId> = builtin::definitions().filter(|id| protobuf::has_message(*id)).collect();
    select(ids).prop_flat_map(|id| typed(builtin::schema(id), 5).prop_map(move |value| (id, value)))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn json_is_read_as_it_was_written(value in value()) {
        prop_assert_eq!(json::decode(&json::encode(&value)), Ok(value.clone()));
        prop_assert_eq!(json::decode(&json::encode_pretty(&value)), Ok(value.clone()));
    }

    #[test]
    fn yaml_is_read_as_it_was_written(value in value().prop_filter("in YAML's characters", fits_yaml)) {
        let text = yaml::encode(&value);
        prop_assert_eq!(yaml::decode(&text), Ok(value.clone()), "{}", String::from_utf8_lossy(&text));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = json::decode_strict(&bytes);
        let _ = json::scan::metadata(&bytes);
        let _ = yaml::decode_strict(&bytes);
        let _ = protobuf::decode(&bytes);
        let enveloped = [&b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod"[..], &bytes].concat();
        let _ = protobuf::decode(&enveloped);
    }

    #[test]
    fn json_like_texts_are_read_or_refused_as_serde_json_does(text in r#"[\[\]{},:"\\0-9eE.+\-truefalsn a-c]{0,24}"#) {
        let ours = json::decode(text.as_bytes());
        let theirs = serde_json::from_str::<serde_json::Value>(&text);
        prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?} {:?}", ours, theirs);
    }

    #[test]
    fn messages_are_read_as_they_were_written((id, value) in message()) {
        let (mut value, unknown) = schema::decode(builtin::schema(id), value).expect("of its type");
        schema::settle(builtin::schema(id), &mut value);
        prop_assert!(unknown.is_empty());
        let mut bytes = Vec::new();
        protobuf::encode_raw(id, &value, &mut bytes).expect("encodes");
        let again = protobuf::decode_raw(id, &bytes).expect("decodes");
        let (want, got) = (json::encode_pretty(&value), json::encode_pretty(&again));
        prop_assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(&want), "{}", builtin::name(id));
        let mut twice = Vec::new();
        protobuf::encode_raw(id, &again, &mut twice).expect("encodes");
        prop_assert_eq!(bytes, twice);
    }
}

/// So many values of each type.
const EACH: u32 = 3;

/// Runs `check` on values of every built-in type that has a message, the same ones each time.
fn of_every_type(check: impl Fn(TypeId, Value)) {
    let mut runner = TestRunner::deterministic();
    for id in builtin::definitions().filter(|id| protobuf::has_message(*id)) {
        for _ in 0..EACH {
            let value = typed(builtin::schema(id), 4).new_tree(&mut runner).expect("a value").current();
            let (mut value, unknown) = schema::decode(builtin::schema(id), value).expect("of its type");
            schema::settle(builtin::schema(id), &mut value);
            assert!(unknown.is_empty(), "{}: {unknown:?}", builtin::name(id));
            check(id, value);
        }
    }
}

#[test]
fn every_type_is_read_as_it_was_written_in_every_encoding() {
    of_every_type(|id, value| {
        let name = builtin::name(id);
        let mut bytes = Vec::new();
        protobuf::encode_raw(id, &value, &mut bytes).expect("encodes");
        let again = protobuf::decode_raw(id, &bytes).expect("decodes");
        assert_eq!(json::encode(&again), json::encode(&value), "{name}");
        assert_eq!(json::decode(&json::encode(&value)).as_ref(), Ok(&value), "{name}");
        if fits_yaml(&value) {
            assert_eq!(yaml::decode(&yaml::encode(&value)).as_ref(), Ok(&value), "{name}");
        }
    });
}

#[test]
fn disturbed_messages_of_every_type_are_read_or_refused_and_what_is_read_can_be_written() {
    of_every_type(|id, value| {
        let mut message = Vec::new();
        protobuf::encode_raw(id, &value, &mut message).expect("encodes");
        let mut disturbed = vec![message[..message.len() / 2].to_vec(), [&message[..], &message[..]].concat()];
        for step in [1, 7, 31] {
            for at in (0..message.len()).step_by(step * 13).take(4) {
                let mut bytes = message.clone();
                bytes[at] = bytes[at].wrapping_add(u8::try_from(step * 37 % 251).expect("less than 256"));
                disturbed.push(bytes);
            }
        }
        for bytes in disturbed {
            let Ok(read) = protobuf::decode_raw(id, &bytes) else { continue };
            let mut again = Vec::new();
            if protobuf::encode_raw(id, &read, &mut again).is_ok() {
                let twice = protobuf::decode_raw(id, &again).expect("what was written is read");
                assert_eq!(json::encode(&twice), json::encode(&read), "{}", builtin::name(id));
            }
        }
    });
}
