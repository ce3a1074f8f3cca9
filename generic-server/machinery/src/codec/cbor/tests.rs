use super::*;
use crate::json;
use crate::schema::builtin;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hexadecimal");
    digits.chunks(2).map(pair).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn value(text: &str) -> Value {
    json::decode(text.as_bytes()).expect("JSON")
}

/// What a document `{"a": ITEM}` is read as: JSON, or what is said of it.
fn read(item: &str) -> String {
    match decode(&[bytes("a1 41 61"), bytes(item)].concat()) {
        Ok(value) => json::encode_text(value.get("a").expect("a member")),
        Err(error) => error.to_string(),
    }
}

#[test]
fn values_are_written_in_the_deterministic_form() {
    for (text, want) in [
        ("null", "f6"),
        ("true", "f5"),
        ("0", "00"),
        ("23", "17"),
        ("24", "1818"),
        ("-1", "20"),
        ("-500", "3901f3"),
        ("1000000", "1a000f4240"),
        ("9223372036854775807", "1b7fffffffffffffff"),
        ("-9223372036854775808", "3b7fffffffffffffff"),
        ("1.5", "f93e00"),
        ("65504.5", "fa477fe080"),
        ("5.960464477539063e-8", "f90001"),
        ("0.00006103515625", "f90400"),
        ("1e300", "fb7e37e43c8800759c"),
        ("0.1", "fb3fb999999999999a"),
        ("100000.5", "fa47c35040"),
        (r#""a""#, "4161"),
        ("[1,[]]", "820180"),
        (r#"{"bb":1,"c":2,"a":3}"#, "a3416103416302426262 01"),
        (
            r#"{"aaaaaaaaaaaaaaaaaaaaaaaa":1,"b":2}"#,
            "a2 4162 02 5818 616161616161616161616161616161616161616161616161 01",
        ),
    ] {
        let mut out = Vec::new();
        put(&mut out, &value(text), None);
        assert_eq!(hex(&out), want.replace(' ', ""), "{text}");
    }
}

#[test]
fn bytes_and_fractions_of_built_in_types_are_written_as_such() {
    let check = |text: &str, want: &str| assert_eq!(hex(&encode(&value(text))), want.replace(' ', ""), "{text}");
    check(
        r#"{"apiVersion":"v1","kind":"Secret","data":{"a":"aGk="}}"#,
        "d9d9f7 a3 4464617461 a1 4161 d6426869 446b696e64 46536563726574 4a61706956657273696f6e 427631",
    );
    check(
        r#"{"apiVersion":"a.b/v1","kind":"Secret","data":"aGk="}"#,
        "d9d9f7 a3 4464617461 4461476b3d 446b696e64 46536563726574 4a61706956657273696f6e 46612e622f7631",
    );
}

#[test]
fn numbers_of_half_precision_are_read_exactly() {
    for (bits, want) in
        [(0x3c00, 1.0), (0x7bff, 65504.0), (0x0001, 2f64.powi(-24)), (0x0400, 2f64.powi(-14)), (0xc400, -4.0)]
    {
        assert_eq!(head::half(bits), want);
    }
}

#[test]
fn items_are_values() {
    for (item, want) in [
        ("00", "0"),
        ("1b7fffffffffffffff", "9223372036854775807"),
        ("3b7fffffffffffffff", "-9223372036854775808"),
        ("f93c00", "1"),
        ("fb3ff199999999999a", "1.1"),
        ("f6", "null"),
        ("6161", r#""a""#),
        ("4161", r#""a""#),
        ("41ff", "\"\u{fffd}\""),
        ("5f4161426263ff", r#""abc""#),
        ("7f616162c3bcff", r#""aü""#),
        ("9f0102ff", "[1,2]"),
        ("bf4162014163 02ff", r#"{"b":1,"c":2}"#),
        // Tags are looked through, but for those that expect an encoding of the byte strings in them.
        ("d9d9f7 4161", r#""a""#),
        ("c6 4161", r#""a""#),
        ("d6 426869", r#""aGk=""#),
        ("d5 43fbff00", r#""-_8A""#),
        ("d7 426869", r#""6869""#),
        ("d6 82 426869 d7 4161", r#"["aGk=","61"]"#),
        ("d6 6161", r#""a""#),
        ("c0 74323032342d30312d30315430303a30303a30305a", r#""2024-01-01T00:00:00Z""#),
        ("c1 1a5fee6600", r#""2021-01-01T00:00:00Z""#),
        ("c1 fb41d7fb998010000 0", r#""2021-01-01T00:00:00.25Z""#),
    ] {
        assert_eq!(read(item), want, "{item}");
    }
}

#[test]
fn what_is_no_document_is_told_in_upstreams_words() {
    for (item, want) in [
        ("", "unexpected EOF"),
        ("0000", "cbor: 1 bytes of extraneous data starting at index 4"),
        ("18", "unexpected EOF"),
        ("1c", "cbor: invalid additional information 28 for type positive integer"),
        ("1f", "cbor: invalid additional information 31 for type positive integer"),
        ("ff", "cbor: unexpected \"break\" code"),
        ("f818", "cbor: invalid simple value 24 for type primitives"),
        ("bf4161ff", "cbor: unexpected \"break\" code"),
        ("5f6161ff", "cbor: wrong element type UTF-8 text string for indefinite-length byte string"),
        ("5f5f4161ffff", "cbor: indefinite-length byte string chunk is not definite-length"),
        ("5bffffffffffffffff", "cbor: byte string length 18446744073709551615 is too large, causing integer overflow"),
        ("9bffffffffffffffff", "cbor: array length 18446744073709551615 is too large, it would cause integer overflow"),
        ("9b0000000100000000", "cbor: exceeded max number of elements 2147483647 for CBOR array"),
        ("ba00200001", "cbor: exceeded max number of key-value pairs 2097152 for CBOR map"),
        ("c24101", "cbor: data item of cbor type tag is not accepted by protocol: bignum"),
        ("f97e00", "cbor: data item of cbor type primitives is not accepted by protocol: floating-point NaN"),
        ("f97c00", "cbor: data item of cbor type primitives is not accepted by protocol: floating-point infinity"),
        (
            "f7",
            "cbor: data item of cbor type primitives is not accepted by protocol: simple value 23 is not recognized",
        ),
        ("61ff", "cbor: invalid UTF-8 string"),
        (
            "1bffffffffffffffff",
            "cbor: cannot unmarshal positive integer into Go value of type int64 (18446744073709551615 overflows Go's int64)",
        ),
        (
            "3bffffffffffffffff",
            "cbor: cannot unmarshal negative integer into Go value of type int64 (-18446744073709551616 overflows Go's int64)",
        ),
        ("a1 01 01", "cbor: cannot unmarshal positive integer into Go value of type string"),
        ("a2 4162 01 6162 02", "cbor: found duplicate map key \"b\" at map element index 1"),
        ("c0 01", "cbor: tag number 0 must be followed by text string, got positive integer"),
        ("c1 6161", "cbor: tag number 1 must be followed by integer or floating-point number, got UTF-8 text string"),
    ] {
        assert_eq!(read(item), want, "{item}");
    }
    assert_eq!(decode(b"").expect_err("nothing").to_string(), "EOF");
    let error = decode(&[0x80]).expect_err("a list").to_string();
    assert_eq!(error, "cbor: cannot unmarshal array into Go value of type map[string]interface {}");
}

#[test]
fn nesting_has_limits() {
    let nested = |depth: usize| [vec![0xa1, 0x41, b'a'], vec![0x81; depth], vec![0xf6]].concat();
    assert!(decode(&nested(500)).is_ok());
    for depth in [600, 9_999, 10_000, 3_000_000] {
        let error = decode(&nested(depth)).expect_err("too deep").to_string();
        assert_eq!(error, "cbor: exceeded max nested level 10000");
    }
    let tags = [vec![0xa1, 0x41, b'a'], vec![0xc6; 9_999], vec![0xf6]].concat();
    assert!(decode(&tags).is_ok());
    // What a type does not have may nest as deep as upstream's may.
    let pod = builtin::schema_of("", "v1", "Pod").expect("a kind");
    let (value, unknown) = decode_as(pod, &nested(9_999)).expect("a pod");
    assert_eq!((value, unknown), (Value::object(), Some(CborError::UnknownField(0))));
}

#[test]
fn types_take_what_upstreams_take() {
    let read = |kind: &str, hex: &str| {
        let schema = builtin::schema_of("", "v1", kind).expect("a kind");
        match decode_as(schema, &bytes(hex)) {
            Ok((value, None)) => json::encode_text(&value),
            Ok((value, Some(unknown))) => format!("{} {unknown}", json::encode_text(&value)),
            Err(error) => error.to_string(),
        }
    };
    for (kind, hex, want) in [
        // data: bytes with a tag, base64 without one, a list of numbers
        ("Secret", "a1 6464617461 a1 4161 d6426869", r#"{"data":{"a":"aGk="}}"#),
        ("Secret", "a1 6464617461 a1 4161 4461476b3d", r#"{"data":{"a":"aGk="}}"#),
        ("Secret", "a1 6464617461 a1 4161 821868 1869", r#"{"data":{"a":"aGk="}}"#),
        (
            "Secret",
            "a1 6464617461 a1 4161 426869",
            "cbor: failed to decode base64 from byte string: illegal base64 data at input byte 0",
        ),
        (
            "Secret",
            "a1 6464617461 a1 4161 6461476b3d",
            "cbor: cannot unmarshal UTF-8 text string into Go struct field v1.Secret.data of type []uint8",
        ),
        // members that are unknown, twice, or of other types
        ("Secret", "a2 4178 01 4464617461 a0", r#"{"data":{}} cbor: found unknown field at map element index 0"#),
        ("Secret", "a2 4464617461 a0 6464617461 a0", "cbor: found duplicate map key \"data\" at map element index 1"),
        ("Secret", "a2 4178 01 4178 02", "cbor: found duplicate map key \"x\" at map element index 1"),
        ("Secret", "a1 01 02", "{} cbor: found unknown field at map element index 0"),
        (
            "Pod",
            "a1 4473706563 01",
            "cbor: cannot unmarshal positive integer into Go struct field v1.Pod.spec of type v1.PodSpec",
        ),
        (
            // The members that lead there are told from the outside alone.
            "Pod",
            "a1 4473706563 a1 4d726573746172 74506f6c696379 05",
            "cbor: cannot unmarshal positive integer into Go struct field v1.Pod.spec of type v1.RestartPolicy",
        ),
        (
            "Pod",
            "a1 4473706563 a1 6870726 96f72697479 1b0000000100000000",
            "cbor: cannot unmarshal positive integer into Go struct field v1.Pod.spec of type int32 (4294967296 overflows int32)",
        ),
        (
            "Pod",
            "a1 4473706563 80",
            "cbor: cannot unmarshal array into Go struct field v1.Pod.spec of type v1.PodSpec (cannot decode CBOR array to struct without toarray option)",
        ),
        ("Pod", "a1 4473706563 f6", r#"{"spec":null}"#),
        ("Pod", "a1 4473706563 d9d9f7 a0", r#"{"spec":{}}"#),
    ] {
        assert_eq!(read(kind, hex), want, "{kind} {hex}");
    }
}

#[test]
fn documents_say_what_they_are() {
    let read = |hex: &str| type_meta(&bytes(hex)).map_err(|error| error.to_string());
    let meta = Ok(("v1".into(), "Pod".into()));
    assert_eq!(read("d9d9f7 a3 446b696e64 43506f64 6a61706956657273696f6e 627631 4178 a1 01 02"), meta);
    assert_eq!(
        read("a1 446b696e64 01"),
        Err("cbor: cannot unmarshal positive integer into Go struct field v1.TypeMeta.kind of type string".into())
    );
    assert_eq!(read("a2 4178 01 6178 02"), Err("cbor: found duplicate map key \"x\" at map element index 1".into()));
}

#[test]
fn errors_show_documents_in_diagnostic_notation() {
    for (hex, want) in [
        ("d9d9f7 a1 4161 83 01 20 6162", r#"55799({'a': [1, -1, "b"]})"#),
        ("9f f5 f6 f93e00 ff", "[_ true, null, 1.5]"),
        ("82 41ff 40", "[h'ff', h'']"),
        ("81 f93c00", "[1.0]"),
        ("7f6161ff", r#"(_ "a")"#),
        ("67 c3bc 0a 27 22 5c 07", r#""\u00fc\n'\"\\\u0007""#),
    ] {
        assert_eq!(notation(&bytes(hex)), want);
    }
}

#[test]
fn what_is_written_is_read() {
    for text in [
        r#"{"a":[1,-2,1.5,"x",null,true,{"b":{}}],"c":"ü"}"#,
        r#"{"apiVersion":"v1","kind":"Secret","data":{"a":"aGk="},"metadata":{"name":"s"}}"#,
    ] {
        let value = value(text);
        assert_eq!(decode(&encode(&value)), Ok(value.clone()), "{text}");
        assert_eq!(decode(&encode_plain(&value)), Ok(value), "{text}");
    }
}

#[test]
fn events_hold_encoded_documents() {
    let frame = watch_frame("ADDED", &encode_plain(&Value::object()));
    assert_eq!(hex(&frame), "d9d9f7a244747970654541444445 44466f626a656374d9d9f7a0".replace(' ', ""));
}
