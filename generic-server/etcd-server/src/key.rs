//! Ranges of keys as requests name them, and the names that keys have in the store.

use std::{ops::Bound, sync::Arc};

use bytes::Bytes;

/// A range of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyRange {
    /// One key.
    One(Bytes),
    /// All keys from one on.
    From(Bytes),
    /// From one key on, before another.
    Between(Bytes, Bytes),
}

impl KeyRange {
    /// The range that a key and a range end name: no end is one key, an end of a zero byte is all keys from there on.
    pub(crate) fn of(key: &Bytes, range_end: &Bytes) -> KeyRange {
        match &range_end[..] {
            [] => KeyRange::One(key.clone()),
            [0] => KeyRange::From(key.clone()),
            _ => KeyRange::Between(key.clone(), range_end.clone()),
        }
    }

    /// Whether no key can be in it.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, KeyRange::Between(start, end) if start >= end)
    }

    /// Whether a key is in it.
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        match self {
            KeyRange::One(one) => one == key,
            KeyRange::From(start) => &start[..] <= key,
            KeyRange::Between(start, end) => &start[..] <= key && key < &end[..],
        }
    }

    /// Its bounds, for a map that is ordered by keys. There are none for an empty range, on which maps would panic.
    pub(crate) fn bounds(&self) -> Option<(Bound<Bytes>, Bound<Bytes>)> {
        if self.is_empty() {
            return None;
        }
        Some(match self {
            KeyRange::One(key) => (Bound::Included(key.clone()), Bound::Included(key.clone())),
            KeyRange::From(start) => (Bound::Included(start.clone()), Bound::Unbounded),
            KeyRange::Between(start, end) => (Bound::Included(start.clone()), Bound::Excluded(end.clone())),
        })
    }
}

/// What a key of the store is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StoreKey {
    /// A client's key.
    Key(Bytes),
    /// A lease.
    Lease(i64),
    /// Something about the database as a whole, by its name.
    Meta(String),
}

const TEXT: char = 'k';
const HEX: char = 'x';
const LEASE: char = 'l';
const META: char = 'm';

/// The store's name of a client's key. The store takes text without zero bytes; other keys are written in hexadecimal.
pub(crate) fn store_key(key: &[u8]) -> Arc<str> {
    match std::str::from_utf8(key) {
        Ok(text) if !key.contains(&0) => format!("{TEXT}{text}").into(),
        _ => {
            let digit = |nibble: u8| char::from_digit(nibble.into(), 16).expect("a nibble is one digit");
            let digits = key.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
            std::iter::once(HEX).chain(digits).collect::<String>().into()
        }
    }
}

/// The store's name of a lease.
pub(crate) fn lease_key(id: i64) -> Arc<str> {
    format!("{LEASE}{id}").into()
}

/// The store's name of something about the database as a whole.
pub(crate) fn meta_key(name: &str) -> Arc<str> {
    format!("{META}{name}").into()
}

/// What a key of the store is; `None` for what this version does not know.
pub(crate) fn parse_store_key(name: &str) -> Option<StoreKey> {
    let mut rest = name.chars();
    let kind = rest.next()?;
    let rest = rest.as_str();
    match kind {
        TEXT => Some(StoreKey::Key(Bytes::copy_from_slice(rest.as_bytes()))),
        HEX => {
            let digit = |byte: &u8| (*byte as char).to_digit(16).map(|digit| digit as u8);
            let pairs = rest.as_bytes().chunks(2);
            let bytes = pairs.map(|pair| Some(digit(pair.first()?)? << 4 | digit(pair.get(1)?)?));
            bytes.collect::<Option<Vec<u8>>>().map(|bytes| StoreKey::Key(bytes.into()))
        }
        LEASE => rest.parse().ok().map(StoreKey::Lease),
        META => Some(StoreKey::Meta(rest.to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_holds_the_keys_that_its_ends_say() {
        let check = |key: &'static str, end: &'static str, inside: &[&str], outside: &[&str]| {
            let range = KeyRange::of(&Bytes::from(key), &Bytes::from(end));
            for (keys, expect) in [(inside, true), (outside, false)] {
                for key in keys {
                    assert_eq!(range.contains(key.as_bytes()), expect, "{range:?} {key}");
                }
            }
            assert_eq!(range.is_empty(), inside.is_empty());
            assert_eq!(range.bounds().is_none(), inside.is_empty());
        };
        check("a", "", &["a"], &["", "a\0", "b"]);
        check("a", "\0", &["a", "b", "\u{ff}"], &["", "A"]);
        check("a", "c", &["a", "a\0", "b\u{ff}"], &["c", "d", ""]);
        check("\0", "\0", &["\0", "a"], &[""]);
        check("c", "a", &[], &["a", "b", "c"]);
        check("a", "a", &[], &["a"]);
    }

    #[test]
    fn keys_of_any_bytes_have_a_name_in_the_store() {
        for key in [&b"/registry/pods/a"[..], b"", b"\0", b"a\0b", b"\xff\x00\x80", "é".as_bytes(), &[7; 5000]] {
            let name = store_key(key);
            assert!(!name.contains('\0'));
            assert_eq!(parse_store_key(&name), Some(StoreKey::Key(Bytes::copy_from_slice(key))));
        }
        assert_eq!(parse_store_key(&lease_key(-7)), Some(StoreKey::Lease(-7)));
        assert_eq!(parse_store_key(&meta_key("a")), Some(StoreKey::Meta("a".into())));
        assert_eq!(parse_store_key("z"), None);
        assert_eq!(parse_store_key("x0"), None);
    }
}
