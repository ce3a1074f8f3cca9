//! Lists that are written item by item: what stands around the items is known once their sizes are.

use super::ProtoError;
use super::encode::message_of;
use super::envelope::MAGIC;
use super::wire::{BYTES, key, put_bytes, put_message, put_varint};
use crate::Value;

/// The number of the field `items` in every list's message; no field comes after it.
const ITEMS: u32 = 2;

/// The bytes before and after the items of a list, in its envelope. `list` is the list without items, `items` how many
/// bytes [`put_item`] makes of all of them together.
pub fn list_frame(list: &Value, items: usize) -> Result<(Vec<u8>, Vec<u8>), ProtoError> {
    let message = message_of(list)?;
    let mut head = MAGIC.to_vec();
    put_message(&mut head, key(1, BYTES), |out| {
        put_bytes(out, key(1, BYTES), list.str_at(&["apiVersion"]).unwrap_or_default().as_bytes());
        put_bytes(out, key(2, BYTES), list.str_at(&["kind"]).unwrap_or_default().as_bytes());
        Ok::<_, ProtoError>(())
    })?;
    put_varint(&mut head, key(2, BYTES).into());
    put_varint(&mut head, (message.len() + items) as u64);
    head.extend_from_slice(&message);
    let mut tail = Vec::with_capacity(4);
    put_bytes(&mut tail, key(3, BYTES), b"");
    put_bytes(&mut tail, key(4, BYTES), b"");
    Ok((head, tail))
}

/// Appends an object's message as an item of a list.
pub fn put_item(out: &mut Vec<u8>, message: &[u8]) {
    put_bytes(out, key(ITEMS, BYTES), message);
}

/// How many bytes [`put_item`] appends for a message of so many.
pub fn item_len(message: usize) -> usize {
    let bits = usize::BITS - (message | 1).leading_zeros();
    1 + bits.div_ceil(7) as usize + message
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::protobuf::{encode, envelope, plan::Target};
    use crate::schema::builtin;
    use crate::{array, object};

    #[test]
    fn item_by_item_is_what_a_whole_list_is() {
        let item = |name: &str| object! { "metadata" => object! { "name" => name }, "data" => object! { "a" => "b" } };
        let list = |items: Value| {
            object! {
                "kind" => "ConfigMapList", "apiVersion" => "v1",
                "metadata" => object! { "resourceVersion" => "7", "remainingItemCount" => 3 }, "items" => items,
            }
        };
        let items: Vec<Value> = ["a", &"b".repeat(300), "c"].into_iter().map(item).collect();
        let whole = encode(&list(Value::from(items.clone()))).expect("a list");
        let messages: Vec<Vec<u8>> = items
            .into_iter()
            .map(|mut item| {
                item.make_object().insert("kind", "ConfigMap");
                item.make_object().insert("apiVersion", "v1");
                envelope(&encode(&item).expect("an item")).expect("its envelope").raw.to_vec()
            })
            .collect();
        let size = messages.iter().map(|message| item_len(message.len())).sum();
        let (mut built, tail) = list_frame(&list(array![]), size).expect("a frame");
        messages.iter().for_each(|message| put_item(&mut built, message));
        built.extend(tail);
        assert_eq!(built, whole);
    }

    #[test]
    fn the_length_of_an_item_is_known_before() {
        for len in [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152] {
            let mut out = Vec::new();
            put_item(&mut out, &vec![0; len]);
            assert_eq!(item_len(len), out.len(), "{len}");
        }
    }

    #[test]
    fn items_are_the_last_field_of_every_list() {
        let mut lists = 0;
        for kind in builtin::kinds().iter().filter(|k| k.kind.ends_with("List")) {
            let Some(plan) = Target::Definition(kind.id).plan() else { continue };
            if !plan.members.iter().any(|member| member.name == "items") {
                continue;
            }
            let numbers: Vec<u32> = plan.fields.list.iter().map(|field| field.number).collect();
            assert_eq!(numbers, [1, ITEMS], "{}", kind.kind);
            lists += 1;
        }
        assert!(lists > 50, "{lists}");
    }
}
