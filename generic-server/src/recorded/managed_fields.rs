//! Objects without their managed fields: `omitManagedFields`.

use bytes::Bytes;
use machinery::{
    Value,
    codec::json::{
        self,
        scan::{self, Step},
    },
};

/// What stands before and behind the managed fields in the compact JSON of an object; `None` if it has none.
pub(crate) fn cut(object: &Bytes) -> Option<(Bytes, Bytes)> {
    const KEY: &[u8] = b"\"managedFields\":";
    let value = scan::at(object, &[Step::Member("metadata"), Step::Member("managedFields")])?;
    let start = value.as_ptr() as usize - object.as_ptr() as usize;
    let (mut from, mut to) = (start.checked_sub(KEY.len())?, start + value.len());
    if !object[..start].ends_with(KEY) {
        return None;
    }
    // A comma goes with it: the one before, or that behind the first member.
    match (object[..from].last(), object.get(to)) {
        (Some(b','), _) => from -= 1,
        (_, Some(b',')) => to += 1,
        _ => {}
    }
    Some((object.slice(..from), object.slice(to..)))
}

/// An object, a list or a table without the managed fields of its objects.
pub(crate) fn without(pieces: Vec<Bytes>) -> Vec<Bytes> {
    if let [object] = pieces.as_slice()
        && let Some((before, behind)) = cut(object)
    {
        return vec![before, behind];
    }
    let text = pieces.concat();
    let Ok(mut value) = json::decode(&text) else { return vec![text.into()] };
    strip(&mut value);
    if let Some(items) = value.get_mut("items").and_then(Value::as_array_mut) {
        items.iter_mut().for_each(strip);
    }
    if let Some(rows) = value.get_mut("rows").and_then(Value::as_array_mut) {
        rows.iter_mut().filter_map(|row| row.get_mut("object")).for_each(strip);
    }
    vec![json::encode_document(&value).into()]
}

fn strip(object: &mut Value) {
    if object.at(&["metadata", "managedFields"]).is_some() {
        object.remove_at(&["metadata", "managedFields"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managed_fields_are_left_out_wherever_they_stand() {
        let check = |text: &'static str, expect: &str| {
            let found = without(vec![Bytes::from_static(text.as_bytes())]).concat();
            let [found, expect] = [&found, expect.as_bytes()].map(|text| json::decode(text).expect("JSON"));
            assert_eq!(found, expect, "{text}");
        };
        check(r#"{"metadata":{"managedFields":[{"a":[1]}],"name":"x"}}"#, r#"{"metadata":{"name":"x"}}"#);
        check(r#"{"metadata":{"name":"x","managedFields":[]},"b":1}"#, r#"{"metadata":{"name":"x"},"b":1}"#);
        check(r#"{"metadata":{"managedFields":[]},"b":1}"#, r#"{"metadata":{},"b":1}"#);
        check(r#"{"metadata":{"name":"x"}}"#, r#"{"metadata":{"name":"x"}}"#);
        check(
            r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"managedFields":[]}}]}"#,
            r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{}}]}"#,
        );
        check(
            r#"{"kind":"Table","rows":[{"cells":[],"object":{"metadata":{"managedFields":[],"name":"x"}}}]}"#,
            r#"{"kind":"Table","rows":[{"cells":[],"object":{"metadata":{"name":"x"}}}]}"#,
        );
    }
}
