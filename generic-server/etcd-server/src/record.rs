//! Values as the store holds them: what etcd's data model says of a version of a key, and then the client's value.

use bytes::{BufMut, Bytes, BytesMut};

/// What is known of one version of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Version {
    /// The revision that wrote it.
    pub(crate) revision: i64,
    /// The revision that created the key; 0: this version is that the key is deleted.
    pub(crate) create_revision: i64,
    /// How often it was written since it was created.
    pub(crate) version: i64,
    /// The lease that it is attached to; 0: none.
    pub(crate) lease: i64,
    /// The store's own revision of it, by which its value is found.
    pub(crate) position: u64,
}

/// Bytes before the client's value.
const HEAD: usize = 4 * 8;

impl Version {
    /// Whether the key is there.
    pub(crate) fn exists(&self) -> bool {
        self.create_revision != 0
    }

    /// The stored form, with the client's value. A delete is stored too, since what comes after its revision is asked for.
    pub(crate) fn encode(&self, value: &[u8]) -> Bytes {
        let mut out = BytesMut::with_capacity(HEAD + value.len());
        for number in [self.revision, self.create_revision, self.version, self.lease] {
            out.put_i64_le(number);
        }
        out.extend_from_slice(value);
        out.freeze()
    }

    /// Reads what [`Version::encode`] made; `None` if it is too short.
    pub(crate) fn decode(position: u64, stored: &Bytes) -> Option<(Version, Bytes)> {
        let head = stored.get(..HEAD)?;
        let number = |at: usize| {
            let bytes = head[at * 8..at * 8 + 8].try_into().expect("eight bytes");
            i64::from_le_bytes(bytes)
        };
        let version =
            Version { revision: number(0), create_revision: number(1), version: number(2), lease: number(3), position };
        Some((version, stored.slice(HEAD..)))
    }
}

/// The client's value in a stored form.
pub(crate) fn value_of(stored: &Bytes) -> Bytes {
    stored.slice(HEAD.min(stored.len())..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_reads_back_with_its_value() {
        let version = Version { revision: 9, create_revision: 7, version: 2, lease: -3, position: 11 };
        let stored = version.encode(b"value");
        assert_eq!(Version::decode(11, &stored), Some((version, Bytes::from_static(b"value"))));
        assert_eq!(value_of(&stored), "value");
        assert_eq!(Version::decode(11, &stored.slice(..31)), None);
        assert!(version.exists() && !Version::default().exists());
    }
}
