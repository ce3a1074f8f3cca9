//! Any two JSON texts (a zero byte stands between them) are a document and a patch; the first byte says of which kind. A
//! patch is applied or refused, and what it makes can be written.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use machinery::Value;
use machinery::codec::json;
use machinery::patch::{json_patch, merge, strategic};
use machinery::schema::{Schema, builtin};

static SCHEMAS: LazyLock<Vec<&'static Schema>> = LazyLock::new(|| {
    let kinds = [("", "v1", "Pod"), ("", "v1", "Service"), ("", "v1", "ConfigMap"), ("apps", "v1", "Deployment")];
    kinds.into_iter().filter_map(|(group, version, kind)| builtin::schema_of(group, version, kind)).collect()
});

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, texts)) = bytes.split_first() else { return };
    let mut texts = texts.splitn(2, |b| *b == 0).map(json::decode);
    let (Some(Ok(document)), Some(Ok(patch))) = (texts.next(), texts.next()) else { return };
    let before = json::encode(&document);
    match kind % 4 {
        0 => {
            let _ = json_patch::strict_errors(&patch);
            written(json_patch::apply(&document, &patch).ok());
        }
        1 => {
            let once = merge::apply(&document, &patch);
            if let Ok(once) = &once {
                assert_eq!(merge::apply(once, &patch).as_ref(), Ok(once));
            }
            written(once.ok());
        }
        _ => {
            let schema = SCHEMAS[usize::from(kind / 4) % SCHEMAS.len()];
            written(strategic::apply(&document, &patch, schema).ok());
        }
    }
    assert_eq!(json::encode(&document), before, "the document itself is left as it was");
});

/// What a patch has made is JSON.
fn written(result: Option<Value>) {
    if let Some(value) = result {
        let text = json::encode(&value);
        assert!(text.len() > 10 << 20 || json::decode(&text).is_ok());
    }
}
