//! Looks up what a token is bound to: its account, and a pod, secret or node.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use generic_server::registry::{Lister, Listers};
use machinery::{
    Str, Value,
    codec::{json, scan},
    meta::{TimeForm, Timestamp},
};
use storage::cache::{Object, ReadAt};

use super::claims::LEEWAY;

/// Where the objects are.
#[derive(Clone)]
pub struct Lookup {
    pub(super) accounts: Arc<Lister>,
    pub(super) pods: Arc<Lister>,
    pub(super) secrets: Arc<Lister>,
    pub(super) nodes: Arc<Lister>,
}

/// The kinds of objects that tokens are bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Account,
    /// Of a token that is kept in a secret: upstream says it in other words, and such a token ends as soon as its account
    /// is being deleted.
    LegacyAccount,
    Pod,
    Secret,
    Node,
}

/// An object that a token is bound to.
pub(super) struct Bound {
    kind: Kind,
    namespace: Str,
    name: Str,
    uid: Str,
    key: String,
    /// The revision at which the object was last found to be the one: as long as it stays, it still is.
    seen: AtomicU64,
}

const INVALIDATED: &str = "service account token has been invalidated";

impl Lookup {
    /// Of a server's listers.
    pub fn new(listers: &Listers) -> Self {
        let lister = |plural: &str| listers.of("", plural).clone();
        Lookup {
            accounts: lister("serviceaccounts"),
            pods: lister("pods"),
            secrets: lister("secrets"),
            nodes: lister("nodes"),
        }
    }

    fn lister(&self, kind: Kind) -> &Arc<Lister> {
        match kind {
            Kind::Account | Kind::LegacyAccount => &self.accounts,
            Kind::Pod => &self.pods,
            Kind::Secret => &self.secrets,
            Kind::Node => &self.nodes,
        }
    }

    /// An object to look for.
    pub(super) fn bound(&self, kind: Kind, namespace: &str, name: &str, uid: &str) -> Bound {
        let namespace = if kind == Kind::Node { "" } else { namespace };
        Bound {
            kind,
            namespace: namespace.into(),
            name: name.into(),
            uid: uid.into(),
            key: self.lister(kind).key(namespace, name),
            seen: AtomicU64::new(0),
        }
    }

    /// Whether the object is still there, and still the one that the token was made for. `now` is in seconds.
    pub(super) async fn check(&self, bound: &Bound, now: i64) -> Result<(), String> {
        let cache = self.lister(bound.kind).cache();
        let found = cache.latest().get(&bound.key).and_then(|entry| entry.object().cloned());
        let found = match found {
            Some(object) if object.revision() == bound.seen.load(Ordering::Relaxed) => return Ok(()),
            Some(object) => Some(object),
            // Another server may have made it just now.
            None => {
                let read = cache.get(&bound.key, ReadAt::Latest).await;
                read.ok().flatten().and_then(|entry| entry.object().cloned())
            }
        };
        let object = found.ok_or_else(|| bound.gone())?;
        bound.judge(&object, now)
    }

    /// A service account's latest state.
    pub(super) async fn account(&self, namespace: &str, name: &str) -> Option<Value> {
        let object = self.accounts.get(namespace, name, ReadAt::Latest).await.ok()?;
        json::decode(object.bytes()).ok()
    }

    /// A secret's latest state.
    pub(super) async fn secret(&self, namespace: &str, name: &str) -> Option<Arc<Object>> {
        self.secrets.get(namespace, name, ReadAt::Latest).await.ok()
    }
}

impl Bound {
    fn judge(&self, object: &Object, now: i64) -> Result<(), String> {
        let text = |path: &[&str]| scan::text(object.bytes(), path);
        let uid = text(&["metadata", "uid"]).unwrap_or_default();
        if *uid != *self.uid {
            return Err(self.another(&uid));
        }
        match text(&["metadata", "deletionTimestamp"]) {
            None => self.seen.store(object.revision(), Ordering::Relaxed),
            Some(at) => {
                let at = Timestamp::parse(&at, TimeForm::Seconds).map_or(i64::MAX, Timestamp::seconds);
                if self.kind == Kind::LegacyAccount || at < now - LEEWAY {
                    return Err(self.deleted());
                }
            }
        }
        Ok(())
    }

    fn gone(&self) -> String {
        match self.kind {
            Kind::Account | Kind::LegacyAccount => format!("serviceaccounts {:?} not found", self.name.as_str()),
            _ => INVALIDATED.to_owned(),
        }
    }

    fn deleted(&self) -> String {
        match self.kind {
            Kind::LegacyAccount => format!("ServiceAccount {}/{} has been deleted", self.namespace, self.name),
            Kind::Account => format!("service account {}/{} has been deleted", self.namespace, self.name),
            _ => INVALIDATED.to_owned(),
        }
    }

    fn another(&self, found: &str) -> String {
        let claimed = &self.uid;
        let bound = match self.kind {
            Kind::Account => return format!("service account UID ({found}) does not match claim ({claimed})"),
            Kind::LegacyAccount => return format!("ServiceAccount UID ({found}) does not match claim ({claimed})"),
            Kind::Pod => "pod",
            Kind::Secret => "secret",
            Kind::Node => "node",
        };
        format!("{bound} UID ({found}) does not match service account {bound} ref claim ({claimed})")
    }
}
