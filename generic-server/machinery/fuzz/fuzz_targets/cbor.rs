//! Any bytes are read or refused as CBOR, as no type and as any built-in type (the first two bytes choose it); what is read is
//! written and read again as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machinery::codec::{cbor, json};
use machinery::schema::{self, builtin};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(value) = cbor::decode(bytes) {
        let written = cbor::encode_plain(&value);
        let read = cbor::decode(&written).expect("what was written");
        assert_eq!(json::encode(&read), json::encode(&value));
        assert_eq!(cbor::encode_plain(&read), written);
        let _ = cbor::notation(bytes);
    }
    let _ = cbor::type_meta(bytes);
    let Some((choice, document)) = bytes.split_first_chunk::<2>() else { return };
    let choice = usize::from(u16::from_le_bytes(*choice)) % builtin::definitions().count();
    let id = builtin::definitions().nth(choice).expect("a remainder");
    let Ok((value, _)) = cbor::decode_as(builtin::schema(id), document) else { return };
    let Ok((value, unknown)) = schema::decode(builtin::schema(id), value) else { return };
    assert!(unknown.is_empty(), "{unknown:?}");
    let mut written = Vec::new();
    cbor::put(&mut written, &value, Some(builtin::schema(id)));
    let (read, unknown) = cbor::decode_as(builtin::schema(id), &written).expect("what was written");
    assert_eq!(unknown, None);
    let (read, _) = schema::decode(builtin::schema(id), read).expect("what was written");
    assert_eq!(json::encode(&read), json::encode(&value));
});
