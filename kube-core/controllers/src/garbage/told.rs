//! What users are told: events about the objects that stay, each once as long as there are not very many.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use machinery::Str;

use super::{facts::Reference, graph::Place, source::Source};
use crate::events::{About, Events};

/// So many are remembered; when there are more nothing new is told.
const REMEMBERED: usize = 1024;

/// Who tells.
pub(super) struct Told {
    events: Events,
    once: Mutex<HashSet<(Str, &'static str)>>,
}

/// An owner as events name it.
pub(super) fn shown(reference: &Reference, namespace: &str) -> String {
    let Reference { api_version, kind, name, uid, .. } = reference;
    format!("[{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}]")
}

impl Told {
    pub(super) fn new(events: Events) -> Self {
        Told { events, once: Mutex::default() }
    }

    /// Tells by a warning about the object with this uid at this place.
    pub(super) async fn about(&self, place: &Place<Source>, uid: &str, reason: &'static str, message: &str) {
        let about = About {
            api_version: &place.kind.api_version(),
            kind: place.kind.kind(),
            namespace: &place.namespace,
            name: &place.name,
            uid,
        };
        self.events.make(&about, "Warning", reason, message).await;
    }

    /// The same, but once.
    pub(super) async fn once(&self, place: &Place<Source>, uid: &str, reason: &'static str, message: &str) {
        let is_new = {
            let mut once = self.once.lock().unwrap_or_else(PoisonError::into_inner);
            once.len() < REMEMBERED && once.insert((uid.into(), reason))
        };
        if is_new {
            self.about(place, uid, reason, message).await;
        }
    }

    /// An object is gone: if one comes again that is like it, it is told again.
    pub(super) fn forget(&self, uid: &str) {
        let mut once = self.once.lock().unwrap_or_else(PoisonError::into_inner);
        if !once.is_empty() {
            once.retain(|(known, _)| known != uid);
        }
    }
}
