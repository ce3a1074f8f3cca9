//! What a store takes: the bounds on keys and values that every backend keeps alike.

use crate::Error;

/// The longest key, in bytes.
pub const MAX_KEY: usize = 4096;

/// The largest value, in bytes: what etcd takes by default in a request (1.5 MiB), less the room its other parts need.
pub const MAX_VALUE: usize = 1536 * 1024 - 8 * 1024;

/// Refuses an empty key, one that is too long, and one with a NUL byte (the embedded store's separator).
pub fn check_key(key: &str) -> Result<(), Error> {
    if key.is_empty() {
        return Err(Error::InvalidKey("a key must not be empty".into()));
    }
    if key.len() > MAX_KEY {
        return Err(Error::InvalidKey(format!("a key of {} bytes is longer than {MAX_KEY}", key.len())));
    }
    if memchr::memchr(0, key.as_bytes()).is_some() {
        return Err(Error::InvalidKey("a key must not hold a NUL byte".into()));
    }
    Ok(())
}

/// Refuses a value that is larger than [`MAX_VALUE`].
pub fn check_value(value: &[u8]) -> Result<(), Error> {
    if value.len() > MAX_VALUE {
        return Err(Error::TooLarge { size: value.len(), limit: MAX_VALUE });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_bounds() {
        let check = |key: &str, ok: bool| assert_eq!(check_key(key).is_ok(), ok, "{key:.20}");
        check("", false);
        check("/registry/pods/default/web", true);
        check("a\0b", false);
        check(&"k".repeat(MAX_KEY), true);
        check(&"k".repeat(MAX_KEY + 1), false);
    }

    #[test]
    fn values_have_a_bound() {
        assert!(check_value(&vec![0; MAX_VALUE]).is_ok());
        assert!(matches!(check_value(&vec![0; MAX_VALUE + 1]), Err(Error::TooLarge { .. })));
    }
}
