//! Any bytes are read or refused as a message of any built-in type (the first two bytes choose it); what is read is
//! written and read again as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machinery::codec::{json, protobuf};
use machinery::schema::builtin;

fuzz_target!(|bytes: &[u8]| {
    let _ = protobuf::decode(bytes);
    let _ = protobuf::watch_event(bytes);
    let Some((choice, message)) = bytes.split_first_chunk::<2>() else { return };
    let choice = usize::from(u16::from_le_bytes(*choice)) % builtin::definitions().count();
    let id = builtin::definitions().nth(choice).expect("a remainder");
    let Ok(value) = protobuf::decode_raw(id, message) else { return };
    let mut again = Vec::new();
    if protobuf::encode_raw(id, &value, &mut again).is_ok() {
        let read = protobuf::decode_raw(id, &again).expect("a message");
        assert_eq!(json::encode(&read), json::encode(&value));
    }
});
