//! Any bytes are read or refused as JSON; what is written of it is read again and written alike.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machinery::codec::json;

fuzz_target!(|bytes: &[u8]| {
    let Ok((value, _)) = json::decode_strict(bytes) else { return };
    assert_eq!(json::decode(bytes).as_ref(), Ok(&value));
    // 7.0 is written as 7, -0e1 as -0, so the first texts may differ.
    let text = json::encode(&json::decode(&json::encode(&value)).expect("JSON"));
    assert_eq!(json::encode(&json::decode(&text).expect("JSON")), text);
    assert_eq!(json::encode(&json::decode(&json::encode_pretty(&value)).expect("JSON")), text);
    let _ = json::decode_shallow(bytes);
});
