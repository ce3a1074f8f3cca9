//! A document's type, as Go's decoder finds it before anything else is read.

use machinery::{Value, codec::json::scan, meta::go_text::json_type_name};

/// Go's words for a kind or apiVersion that is no text, where a document's type is looked for.
pub(crate) fn no_text_in(document: &Value) -> Option<String> {
    ["apiVersion", "kind"].into_iter().find_map(|key| type_text(document, key, None).err())
}

/// A document's `kind` or `apiVersion`; empty if it has none. Where Go looks for a document's type alone, a member may be
/// called by the name in any case, and of several the last one counts: of `text` if the document was read from JSON, else in
/// the order of their names.
pub(crate) fn type_text(document: &Value, key: &str, text: Option<&[u8]>) -> Result<String, String> {
    let members = document.as_object().into_iter().flatten();
    let named = members.map(|(name, value)| (name.as_str(), value)).filter(|(name, _)| is_called(name, key));
    let mut named: Vec<(&str, &Value)> = named.collect();
    if let (2.., Some(text)) = (named.len(), text) {
        let order = scan::names(text);
        named.sort_by_key(|(name, _)| order.iter().rposition(|written| written == name));
    }
    let mut found = "";
    for (_, value) in named {
        match value {
            Value::Null => {}
            Value::String(text) => found = text,
            other => {
                return Err(format!(
                    "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go struct field .{key} of \
                     type string",
                    json_type_name(other)
                ));
            }
        }
    }
    Ok(found.to_owned())
}

/// Whether Go's decoder takes a member's name for `key`: case is folded, and there is a Kelvin sign.
fn is_called(name: &str, key: &str) -> bool {
    match name.is_ascii() {
        true => name.eq_ignore_ascii_case(key),
        false => name.replace('\u{212a}', "k").replace('\u{17f}', "s").eq_ignore_ascii_case(key),
    }
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    fn check(text: &str, in_text: &str, by_name: &str) {
        let document = json::decode(text.as_bytes()).expect(text);
        let found = |text: Option<&[u8]>| type_text(&document, "kind", text).unwrap_or_else(|why| why);
        assert_eq!(found(Some(text.as_bytes())), in_text, "{text}");
        assert_eq!(found(None), by_name, "{text}");
    }

    #[test]
    fn the_last_member_of_the_name_in_any_case_is_the_kind() {
        check(r#"{"kind":"A"}"#, "A", "A");
        check(r#"{"KIND":"A"}"#, "A", "A");
        check("{\"\u{212a}ind\":\"A\"}", "A", "A");
        check(r#"{"kind":"A","KIND":"B"}"#, "B", "A");
        check(r#"{"KIND":"B","kind":"A","Kind":null}"#, "A", "A");
        check(r#"{"kinds":"A"}"#, "", "");
    }

    #[test]
    fn a_kind_is_a_string() {
        let why = "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of type string";
        check(r#"{"kind":"A","Kind":5}"#, why, why);
    }
}
