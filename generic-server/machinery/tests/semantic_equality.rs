//! What upstream takes for equal: equality.Semantic.DeepEqual, of values as they are decoded.

use machinery::{Value, codec::json};

#[test]
fn what_is_semantically_one() {
    let check = |a: &str, b: &str, equal: bool| {
        let read = |text: &str| json::decode(text.as_bytes()).expect("JSON");
        let (a, b): (Value, Value) = (read(a), read(b));
        assert_eq!((a.semantic_eq(&b), b.semantic_eq(&a)), (equal, equal), "{a:?} {b:?}");
    };
    check(r#"{"a":null,"b":[]}"#, "{}", true);
    check("{}", "null", true);
    check("[]", "null", true);
    check(r#"{"a":1}"#, r#"{"a":1.0}"#, true);
    // A struct that is there, and one that is not.
    check(r#"{"a":{}}"#, "{}", false);
    check(r#"[{"a":{"b":{}}}]"#, r#"[{"a":{}}]"#, false);
    check(r#"{"a":{"b":null}}"#, r#"{"a":{}}"#, true);
}
