//! Any bytes are read or refused as JSON; what is read is written and read again as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machinery::codec::json;

fuzz_target!(|bytes: &[u8]| {
    let Ok((value, _)) = json::decode_strict(bytes) else { return };
    assert_eq!(json::decode(bytes).as_ref(), Ok(&value));
    assert_eq!(json::decode(&json::encode(&value)).as_ref(), Ok(&value));
    assert_eq!(json::decode(&json::encode_pretty(&value)).as_ref(), Ok(&value));
    let _ = json::decode_shallow(bytes);
});
