//! Data keys: what a KMS plugin decrypts, and what values are encrypted with.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use aws_lc_rs::hkdf;

use super::{
    error::{CipherError, KmsError, ObjectError},
    keys::Cipher,
};

/// Bytes of a seed, of the salt in front of a value, and of the key made of both.
pub(super) const SEED: usize = 32;

/// The `source_type` of a stored object: the data key itself, and a seed.
pub(super) const TYPE_KEY: i32 = 0;
pub(super) const TYPE_SEED: i32 = 1;

/// A data key.
pub(super) enum DataKey {
    /// Used as it is (what servers before the seeds wrote).
    Plain(Cipher),
    /// Each value's key is derived from it and the value's salt.
    Seed(Vec<u8>),
}

impl DataKey {
    pub(super) fn new(bytes: Vec<u8>, source_type: i32) -> Result<DataKey, KmsError> {
        match source_type {
            TYPE_KEY => Ok(DataKey::Plain(Cipher::gcm(&bytes)?)),
            TYPE_SEED if (SEED..=64).contains(&bytes.len()) => Ok(DataKey::Seed(bytes)),
            TYPE_SEED => Err(ObjectError::Seed(bytes.len()).into()),
            other => Err(ObjectError::SourceType(other).into()),
        }
    }

    fn decrypt(&self, path: &str, data: &[u8]) -> Result<Vec<u8>, KmsError> {
        match self {
            DataKey::Plain(key) => Ok(key.decrypt(path, data)?),
            DataKey::Seed(seed) => {
                let (salt, text) = data.split_at_checked(SEED).ok_or(CipherError::TooShort)?;
                Ok(derive(seed, salt)?.decrypt(path, text)?)
            }
        }
    }
}

/// A data key that is kept.
pub(super) struct Kept {
    key: DataKey,
    /// It has decrypted a value, or was made here. Of others it is not known whether the plugin has told the truth.
    fits: AtomicBool,
}

impl Kept {
    /// One that was made here.
    pub(super) fn own(key: DataKey) -> Arc<Self> {
        Arc::new(Kept { key, fits: AtomicBool::new(true) })
    }

    /// One that the plugin has decrypted.
    pub(super) fn told(key: DataKey) -> Arc<Self> {
        Arc::new(Kept { key, fits: AtomicBool::new(false) })
    }

    /// Decrypts a value.
    pub(super) fn decrypt(&self, path: &str, data: &[u8]) -> Result<Vec<u8>, KmsError> {
        let value = self.key.decrypt(path, data)?;
        self.fits.store(true, Relaxed);
        Ok(value)
    }

    /// Whether it is certainly the key that it should be.
    pub(super) fn fits(&self) -> bool {
        self.fits.load(Relaxed)
    }
}

/// Makes a value's key of a seed and a salt (HKDF-SHA256's second half).
pub(super) fn derive(seed: &[u8], salt: &[u8]) -> Result<Cipher, KmsError> {
    struct Length;
    impl hkdf::KeyType for Length {
        fn len(&self) -> usize {
            SEED
        }
    }
    let mut key = [0; SEED];
    let seed = hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, seed);
    let made = seed.expand(&[salt], Length).and_then(|made| made.fill(&mut key));
    made.map_err(|_| KmsError::Derivation)?;
    Ok(Cipher::gcm(&key)?)
}
