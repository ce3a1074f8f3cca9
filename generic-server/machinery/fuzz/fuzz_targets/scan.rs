//! Any bytes are scanned without a panic, and what is found in JSON is what a reader finds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machinery::codec::{json, scan};

fuzz_target!(|bytes: &[u8]| {
    let meta = scan::metadata(bytes);
    let _ = scan::field(bytes, &["spec", "nodeName"]);
    let Ok((value, repeated)) = json::decode_strict(bytes) else { return };
    let plain = repeated.is_empty() && std::str::from_utf8(bytes).is_ok();
    let (Some(meta), true) = (meta, plain) else { return };
    assert_eq!(meta.name.as_deref(), value.str_at(&["metadata", "name"]));
    let spliced = scan::with_resource_version(bytes, &meta, 7);
    let spliced = json::decode(&spliced).expect("a text with one more member");
    assert_eq!(spliced.str_at(&["metadata", "resourceVersion"]), Some("7"));
});
