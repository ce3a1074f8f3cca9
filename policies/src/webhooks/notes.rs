//! What webhooks leave in the audit log.

use generic_server::{admission::Attributes, audit::Level};
use machinery::{Str, Value, codec::json};

use super::source::Hook;

/// The round of admission, and the webhook's place in it.
type Place = (usize, usize);

fn key(prefix: &str, (round, index): Place) -> String {
    format!("{prefix}webhook.admission.k8s.io/round_{round}_index_{index}")
}

/// A webhook was called, and has changed the object or not.
pub(super) fn mutated(place: Place, a: &Attributes<'_>, hook: &Hook, mutated: bool) {
    if a.audit.level() >= Level::Metadata {
        let mut value = head(hook);
        value.extend_from_slice(format!(",\"mutated\":{mutated}}}").as_bytes());
        a.annotate(Level::Metadata, key("mutation.", place), String::from_utf8_lossy(&value).into_owned());
    }
}

/// A webhook's patch was applied.
pub(super) fn patched(place: Place, a: &Attributes<'_>, hook: &Hook, patch: &Value) {
    if a.audit.level() >= Level::Request {
        let mut value = head(hook);
        value.extend_from_slice(b",\"patch\":");
        json::encode_into(&mut value, patch);
        value.extend_from_slice(b",\"patchType\":\"JSONPatch\"}");
        a.annotate(Level::Request, key("patch.", place), String::from_utf8_lossy(&value).into_owned());
    }
}

/// A webhook has failed, and the write goes on without it.
pub(super) fn failed_open(kind: &str, place: Place, a: &Attributes<'_>, name: &Str) {
    if a.audit.level() >= Level::Metadata {
        a.annotate(Level::Metadata, key(&format!("failed-open.{kind}."), place), name.clone());
    }
}

fn head(hook: &Hook) -> Vec<u8> {
    let mut out = b"{\"configuration\":".to_vec();
    json::write_string(&mut out, &hook.configuration);
    out.extend_from_slice(b",\"webhook\":");
    json::write_string(&mut out, &hook.name);
    out
}
