//! Any JSON text is a configuration that is applied to any object (a zero byte stands between them), and any object takes
//! the place of another: the managers that result are well-formed.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use machinery::Value;
use machinery::codec::json;
use machinery::meta::GroupVersionKind;
use machinery::patch::apply::{FieldSet, OneVersion, ResetFields, Write, apply, is_valid, track_update};
use machinery::schema::{Schema, builtin, decode};

static KINDS: LazyLock<Vec<(GroupVersionKind, &'static Schema)>> = LazyLock::new(|| {
    let kinds = [("", "v1", "Pod"), ("", "v1", "Service"), ("", "v1", "ConfigMap"), ("apps", "v1", "Deployment")];
    let of = |(group, version, kind)| {
        Some((GroupVersionKind::new(group, version, kind), builtin::schema_of(group, version, kind)?))
    };
    kinds.into_iter().filter_map(of).collect()
});

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, texts)) = bytes.split_first() else { return };
    let (kind, schema) = &KINDS[usize::from(*choice) % KINDS.len()];
    let mut texts = texts.splitn(2, |b| *b == 0).map(json::decode);
    let (Some(Ok(live)), Some(Ok(config))) = (texts.next(), texts.next()) else { return };
    if let Ok(set) = FieldSet::from_value(&config) {
        assert_eq!(FieldSet::from_value(&set.to_value()).as_ref(), Ok(&set));
    }
    // Handlers bring both into their type first.
    let (Ok((mut live, _)), Ok((mut config, _))) = (decode(schema, live), decode(schema, config)) else { return };
    for object in [&mut live, &mut config] {
        object.set(&["apiVersion"], kind.api_version());
        object.set(&["kind"], &kind.kind);
    }
    let write = Write {
        manager: "fuzz",
        subresource: "",
        kind,
        now: "2026-11-27T23:08:00Z",
        reset: &ResetFields::None,
        versions: &OneVersion,
    };
    // What is stored has been checked when it came.
    if !is_valid(live.at(&["metadata", "managedFields"])) {
        return;
    }
    if let Ok(object) = apply(Some(&live), &config, schema, &write, choice & 0x80 != 0) {
        well_formed(&object);
    }
    let mut new = config;
    track_update(Some(&live), &mut new, schema, &write);
    well_formed(&new);
});

fn well_formed(object: &Value) {
    let managers = object.at(&["metadata", "managedFields"]);
    assert!(is_valid(managers), "{}", String::from_utf8_lossy(&json::encode(object)));
}
