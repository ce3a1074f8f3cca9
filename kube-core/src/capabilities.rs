//! What the operator of the server lets pods have, as upstream's capabilities: said once for the process, before anything is served.

use std::sync::OnceLock;

static ALLOW_PRIVILEGED: OnceLock<bool> = OnceLock::new();

/// Says whether containers may be privileged (`--allow-privileged`). Said once.
pub fn allow_privileged(allow: bool) {
    let _ = ALLOW_PRIVILEGED.set(allow); // a process has one command line
}

/// Whether containers may be privileged. Where nobody has said it there is no operator, and they may.
pub(crate) fn allows_privileged() -> bool {
    ALLOW_PRIVILEGED.get().copied().unwrap_or(true)
}
