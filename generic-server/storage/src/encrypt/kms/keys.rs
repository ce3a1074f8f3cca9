//! The keys of single values that were used last.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use crate::encrypt::keys::{self, Cipher};

/// A value's key.
pub(super) struct ValueKey {
    gcm: Cipher,
    /// What servers before v1.25 wrote with it.
    cbc: Cipher,
}

impl ValueKey {
    pub(super) fn new(key: &[u8]) -> keys::Result<ValueKey> {
        Ok(ValueKey { gcm: Cipher::gcm(key)?, cbc: Cipher::cbc(key)? })
    }

    pub(super) fn encrypt(&self, path: &str, value: &[u8], out: &mut Vec<u8>) -> keys::Result<()> {
        self.gcm.encrypt(path, value, out)
    }

    pub(super) fn decrypt(&self, path: &str, text: &[u8]) -> keys::Result<Vec<u8>> {
        self.gcm.decrypt(path, text).or_else(|why| self.cbc.decrypt(path, text).map_err(|_| why))
    }

    /// Whether a value was written as values are written now.
    pub(super) fn wrote(&self, path: &str, text: &[u8]) -> bool {
        self.gcm.decrypt(path, text).is_ok()
    }
}

/// Keys by what the plugin has made of them; whose last use is longest ago goes first.
pub(super) struct LastKeys {
    most: usize,
    uses: u64,
    known: HashMap<Arc<[u8]>, (u64, Arc<ValueKey>)>,
    by_use: BTreeMap<u64, Arc<[u8]>>,
}

impl LastKeys {
    /// None yet, and never more than `most`.
    pub(super) fn new(most: usize) -> LastKeys {
        LastKeys { most, uses: 0, known: HashMap::new(), by_use: BTreeMap::new() }
    }

    /// A key, which is used by that.
    pub(super) fn get(&mut self, wrapped: &[u8]) -> Option<Arc<ValueKey>> {
        let (used, key) = self.known.get_mut(wrapped)?;
        let wrapped = self.by_use.remove(used)?;
        self.uses += 1;
        *used = self.uses;
        self.by_use.insert(self.uses, wrapped);
        Some(key.clone())
    }

    /// Forgets a key.
    pub(super) fn forget(&mut self, wrapped: &[u8]) {
        if let Some((used, _)) = self.known.remove(wrapped) {
            self.by_use.remove(&used);
        }
    }

    /// Keeps a key.
    pub(super) fn put(&mut self, wrapped: &[u8], key: Arc<ValueKey>) {
        let wrapped: Arc<[u8]> = wrapped.into();
        self.uses += 1;
        if let Some((used, _)) = self.known.insert(wrapped.clone(), (self.uses, key)) {
            self.by_use.remove(&used);
        }
        self.by_use.insert(self.uses, wrapped);
        if self.known.len() > self.most
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_goes_that_was_used_longest_ago() {
        let mut keys = LastKeys::new(2);
        let key = Arc::new(ValueKey::new(&[7; 32]).expect("a key"));
        keys.put(b"a", key.clone());
        keys.put(b"b", key.clone());
        assert!(keys.get(b"a").is_some());
        keys.put(b"c", key.clone());
        let known = [b"a", b"b", b"c"].map(|wrapped| keys.get(wrapped).is_some());
        assert_eq!(known, [true, false, true]);
        keys.put(b"c", key);
        assert!(keys.get(b"a").is_some(), "what is put again takes no other's place");
    }

    #[test]
    fn what_was_written_with_cbc_is_read_but_not_as_it_is_written_now() {
        let (key, path) = (ValueKey::new(&[7; 32]).expect("a key"), "/registry/secrets/a/b");
        let (mut now, mut then) = (Vec::new(), Vec::new());
        key.encrypt(path, b"value", &mut now).expect("encrypted");
        key.cbc.encrypt(path, b"value", &mut then).expect("encrypted");
        for text in [&now, &then] {
            assert_eq!(key.decrypt(path, text).as_deref(), Ok(&b"value"[..]));
        }
        assert!(key.wrote(path, &now) && !key.wrote(path, &then));
    }
}
