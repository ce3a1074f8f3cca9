//! Any JSON text is read or refused as an object of any built-in type (the first two bytes choose it); what is read takes
//! its defaults once, and is the same after a way through protobuf.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machinery::codec::{json, protobuf};
use machinery::schema::{apply_defaults, builtin, decode};

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, text)) = bytes.split_first_chunk::<2>() else { return };
    let Ok(value) = json::decode(text) else { return };
    let choice = usize::from(u16::from_le_bytes(*choice)) % builtin::definitions().count();
    let id = builtin::definitions().nth(choice).expect("a remainder");
    let schema = builtin::schema(id);
    let Ok((mut value, _)) = decode(schema, value) else { return };
    apply_defaults(schema, &mut value);
    let once = json::encode(&value);
    apply_defaults(schema, &mut value);
    assert_eq!(json::encode(&value), once);
    let mut message = Vec::new();
    if protobuf::has_message(id) && protobuf::encode_raw(id, &value, &mut message).is_ok() {
        let read = protobuf::decode_raw(id, &message).expect("a message");
        let mut again = Vec::new();
        protobuf::encode_raw(id, &read, &mut again).expect("what is read can be written");
        assert_eq!(protobuf::decode_raw(id, &again).map(|v| json::encode(&v)), Ok(json::encode(&read)));
    }
});
