//! What documents become, and what values look like.

use super::*;
use crate::{Value, array, object};

fn text(value: &Value) -> String {
    String::from_utf8(encode(value)).expect("YAML is UTF-8")
}

#[test]
fn documents_are_read() {
    for (source, want) in [
        ("", Value::Null),
        ("# nothing", Value::Null),
        ("a: 1", object! {"a" => 1}),
        ("{\"a\": [1, 2.5, \"x\", null]}", object! {"a" => array![1, 2.5, "x", Value::Null]}),
        ("a: yes\nb: 'yes'\nc: 1.0\nd: 0x10", object! {"a" => true, "b" => "yes", "c" => 1, "d" => 16}),
        ("metadata:\n  name: y3\n---\nmetadata:\n  name: y4\n", object! {"metadata" => object! {"name" => "y3"}}),
        (
            "metadata: &m\n  name: y5\ndata: *m\n",
            object! {"metadata" => object! {"name" => "y5"}, "data" => object! {"name" => "y5"}},
        ),
        (
            "1: a\ntrue: b\n1.5: c\n2001-01-01: d",
            object! {"1" => "a", "true" => "b", "1.5" => "c", "2001-01-01" => "d"},
        ),
        ("1e200: a\n-1e200: b\n0.5: c", object! {".inf" => "a", "-.inf" => "b", "0.5" => "c"}),
        ("a: 1\na: 2", object! {"a" => 2}),
        (
            "text: |\n  two\n  lines\nfolded: >-\n  one\n  line\n",
            object! {"text" => "two\nlines\n", "folded" => "one line"},
        ),
        ("t: |\n  x", object! {"t" => "x"}),
        (
            "a: !!str 5\nb: !!int \"5\"\nc: !x 5\nd: !!binary aGk=\ne: !!float 5",
            object! {"a" => "5", "b" => 5, "c" => "5", "d" => "hi", "e" => 5},
        ),
        ("t: 2026-11-27T23:08:00Z", object! {"t" => "2026-11-27T23:08:00Z"}),
        (
            "b: &b {x: 1, z: 2}\nc:\n  <<: *b\n  z: 3",
            object! {"b" => object! {"x" => 1, "z" => 2}, "c" => object! {"x" => 1, "z" => 3}},
        ),
        (
            "a: &a {x: 1}\nb: &b {x: 2, z: 2}\nc: {<<: [*a, *b]}",
            object! {"a" => object! {"x" => 1}, "b" => object! {"x" => 2, "z" => 2}, "c" => object! {"x" => 1, "z" => 2}},
        ),
        ("a:\n- 1\n- b: 2\n  c:\n  - 3\n", object! {"a" => array![1, object! {"b" => 2, "c" => array![3]}]}),
        ("? a\n: b\n", object! {"a" => "b"}),
        ("a: &k x\n*k : v", object! {"a" => "x", "x" => "v"}),
        ("a:\nb: ~", object! {"a" => Value::Null, "b" => Value::Null}),
    ] {
        assert_eq!(decode(source.as_bytes()).as_ref(), Ok(&want), "{source}");
    }
}

#[test]
fn errors_read_like_go_yamls() {
    for (source, want) in [
        ("metadata: {name: y7\n", "yaml: line 1: did not find expected ',' or '}'"),
        ("metadata:\n\tname: y8\n", "yaml: line 2: found character that cannot start any token"),
        ("apiVersion: v1\n\tkind: ConfigMap\n", "yaml: line 2: found a tab character that violates indentation"),
        ("a: [\n", "yaml: line 1: did not find expected node content"),
        ("a: 1\nb: \"c\n", "yaml: line 3: found unexpected end of stream"),
        ("a: 1\nb\nc: 2\n", "yaml: line 3: could not find expected ':'"),
        ("x: [a, b\nc: d\n", "yaml: line 1: did not find expected ',' or ']'"),
        ("not: [closed", "yaml: line 1: did not find expected ',' or ']'"),
        ("a: b: c", "yaml: mapping values are not allowed in this context"),
        ("a: *nope", "yaml: unknown anchor 'nope' referenced"),
        ("a: &x {b: *x}", "yaml: anchor 'x' value contains itself"),
        ("b:\n  <<: 5", "yaml: map merge requires map or sequence of maps as the value"),
        ("a: !!int foo", "yaml: cannot decode !!str `foo` as a !!int"),
        ("a: !!binary '***'", "yaml: !!binary value contains invalid base64 data"),
        ("a: \u{1}", "yaml: control characters are not allowed"),
        ("? [a, b]\n: 1", "yaml: invalid map key: []interface {}{\"a\", \"b\"}"),
        ("a: {{ b }}", "yaml: invalid map key: map[interface {}]interface {}{\"b\":interface {}(nil)}"),
        ("a: .nan", "yaml: json: unsupported value: NaN"),
    ] {
        assert_eq!(decode(source.as_bytes()).expect_err(source).to_string(), want, "{source}");
    }
    assert_eq!(decode(b"a: \xff").expect_err("not UTF-8").to_string(), "yaml: invalid leading UTF-8 octet");
}

#[test]
fn keys_that_a_mapping_has_twice_are_told_with_the_line_of_their_value() {
    for (source, want) in [
        ("a: 1\nb: 2", None),
        ("a: {k: 1, k: 2}", Some("yaml: unmarshal errors:\n  line 1: key \"k\" already set in map")),
        (
            "a: x\nb:\n  1: x\n  1:\n    y: z\na: y\n",
            Some("yaml: unmarshal errors:\n  line 5: key 1 already set in map\n  line 6: key \"a\" already set in map"),
        ),
        ("1: a\n\"1\": b", None),
    ] {
        let (value, errors) = decode_strict(source.as_bytes()).expect(source);
        assert_eq!(errors.as_deref(), want, "{source}");
        assert_eq!(Ok(value), decode(source.as_bytes()));
    }
}

#[test]
fn documents_that_are_mostly_aliases_are_refused() {
    let laughs = |levels: usize| {
        let mut source = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
        for i in 1..levels {
            let items = vec![format!("*a{}", i - 1); 9].join(", ");
            source.push_str(&format!("a{i}: &a{i} [{items}]\n"));
        }
        source
    };
    assert!(decode(laughs(3).as_bytes()).is_ok());
    for levels in [7, 40] {
        let error = decode(laughs(levels).as_bytes()).expect_err("too many aliases");
        assert_eq!(error.to_string(), "yaml: document contains excessive aliasing");
    }
}

#[test]
fn nesting_has_an_end() {
    let deep = 100_000;
    for source in ["[".repeat(deep), "{a: ".repeat(deep), "- ".repeat(deep)] {
        assert!(decode(source.as_bytes()).is_err());
    }
    let mut source = String::from("a0: &a0 [x]\n");
    for i in 1..3000 {
        source.push_str(&format!("a{i}: &a{i} [*a{}]\n", i - 1));
    }
    assert!(decode(source.as_bytes()).is_err());
}

#[test]
fn values_are_laid_out_like_go_yamls() {
    for (value, want) in [
        (Value::Null, "null\n"),
        (object! {}, "{}\n"),
        (array![], "[]\n"),
        (object! {"b" => array![], "a" => object! {}}, "a: {}\nb: []\n"),
        (
            object! {"spec" => object! {"list" => array!["x", object! {"b" => 1, "a" => array![1, array![2, 3], array![]]}]}},
            "spec:\n  list:\n  - x\n  - a:\n    - 1\n    - - 2\n      - 3\n    - []\n    b: 1\n",
        ),
        (array![array![object! {"a" => 1}]], "- - a: 1\n"),
        (
            object! {"a" => "true", "b" => "", "c" => "a: b", "d" => "it's", "e" => "'", "y" => 2.5, "f" => 1.0e21, "g" => 1234567.5},
            "a: \"true\"\nb: \"\"\nc: 'a: b'\nd: it's\ne: ''''\nf: 1e+21\ng: 1.2345675e+06\n\"y\": 2.5\n",
        ),
        (
            object! {"text" => "two\n\nlines\n", "keep" => "a\n\n", "strip" => "a\nb", "lead" => "  a\nb", "z" => "end"},
            "keep: |+\n  a\n\nlead: |2-\n    a\n  b\nstrip: |-\n  a\n  b\ntext: |\n  two\n\n  lines\nz: end\n",
        ),
        (
            array!["a\nb", "a\tb", "a\\b\"", "\t\u{1}é\u{fffe}"],
            "- |-\n  a\n  b\n- \"a\\tb\"\n- a\\b\"\n- \"\\t\\x01é\\uFFFE\"\n",
        ),
        (
            object! {"message" => "pods is forbidden: User \"alice\" cannot list resource \"pods\" in API group \"\" in the namespace \"conf-auth-forbidden\""},
            "message: 'pods is forbidden: User \"alice\" cannot list resource \"pods\" in API group\n  \"\" in the namespace \"conf-auth-forbidden\"'\n",
        ),
        (object! {"k".repeat(129) => "v"}, &format!("? {}\n: v\n", "k".repeat(129))),
        (
            object! {"a" => "word ".repeat(30).trim_end().to_owned()},
            &format!("a: {}\n  {}\n", "word ".repeat(16).trim_end(), "word ".repeat(14).trim_end()),
        ),
    ] {
        assert_eq!(text(&value), want);
        assert_eq!(decode(want.as_bytes()).as_ref(), Ok(&value), "{want}");
    }
}

#[test]
fn the_deepest_values_are_written() {
    let depth = crate::json::MAX_DEPTH;
    let text = "[".repeat(depth) + &"]".repeat(depth);
    let value = crate::json::decode(text.as_bytes()).expect("JSON");
    assert!(!encode(&value).is_empty());
}
