//! Any bytes are read or refused as YAML; what is read is written without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machinery::codec::yaml;

fuzz_target!(|bytes: &[u8]| {
    if let Ok((value, _)) = yaml::decode_strict(bytes) {
        let _ = yaml::decode(&yaml::encode(&value));
    }
});
