//! Local keys: AES-CBC, AES-GCM and secretbox, in the form that upstream stores.

use aws_lc_rs::{
    aead::{self, Aad, LessSafeKey, Nonce, UnboundKey},
    cipher::{
        self, DecryptionContext, EncryptionContext, PaddedBlockDecryptingKey, PaddedBlockEncryptingKey,
        UnboundCipherKey,
    },
    iv::FixedLength,
    rand,
};
use crypto_secretbox::{KeyInit, XSalsa20Poly1305, aead::Aead};

use super::error::CipherError;

/// Bytes of AES-GCM's nonce.
const NONCE: usize = 12;
/// Bytes of a CBC block, and of its initialisation vector.
const BLOCK: usize = 16;
/// Bytes of secretbox's nonce.
const BOX_NONCE: usize = 24;

/// A key that encrypts values.
pub(super) enum Cipher {
    /// AES-CBC with PKCS#7 padding: a random vector, then the blocks. Not authenticated.
    Cbc(Box<(PaddedBlockEncryptingKey, PaddedBlockDecryptingKey)>),
    /// AES-GCM: a random nonce, the text, the tag. The value's storage path is authenticated with it.
    Gcm(LessSafeKey),
    /// XSalsa20 and Poly1305: a random nonce, the tag, the text.
    Secretbox(Box<XSalsa20Poly1305>),
}

pub(super) type Result<T> = std::result::Result<T, CipherError>;

impl Cipher {
    /// AES-CBC with a key of 16, 24 or 32 bytes.
    pub(super) fn cbc(key: &[u8]) -> Result<Cipher> {
        let algorithm = match key.len() {
            16 => &cipher::AES_128,
            24 => &cipher::AES_192,
            _ => &cipher::AES_256,
        };
        let key = || UnboundCipherKey::new(algorithm, key).map_err(|_| CipherError::KeyLength);
        let encrypt = PaddedBlockEncryptingKey::cbc_pkcs7(key()?).map_err(|_| CipherError::Failed)?;
        let decrypt = PaddedBlockDecryptingKey::cbc_pkcs7(key()?).map_err(|_| CipherError::Failed)?;
        Ok(Cipher::Cbc(Box::new((encrypt, decrypt))))
    }

    /// AES-GCM with a key of 16, 24 or 32 bytes.
    pub(super) fn gcm(key: &[u8]) -> Result<Cipher> {
        let algorithm = match key.len() {
            16 => &aead::AES_128_GCM,
            24 => &aead::AES_192_GCM,
            _ => &aead::AES_256_GCM,
        };
        let key = UnboundKey::new(algorithm, key).map_err(|_| CipherError::KeyLength)?;
        Ok(Cipher::Gcm(LessSafeKey::new(key)))
    }

    /// Secretbox with a key of 32 bytes.
    pub(super) fn secretbox(key: &[u8]) -> Result<Cipher> {
        let key = XSalsa20Poly1305::new_from_slice(key).map_err(|_| CipherError::KeyLength)?;
        Ok(Cipher::Secretbox(Box::new(key)))
    }

    /// Appends the encrypted value to `out`.
    pub(super) fn encrypt(&self, path: &str, value: &[u8], out: &mut Vec<u8>) -> Result<()> {
        match self {
            Cipher::Cbc(keys) => {
                let vector: [u8; BLOCK] = random()?;
                let mut text = value.to_vec();
                let context = EncryptionContext::Iv128(FixedLength::from(vector));
                keys.0.less_safe_encrypt(&mut text, context).map_err(|_| CipherError::Failed)?;
                out.extend_from_slice(&vector);
                out.extend_from_slice(&text);
            }
            Cipher::Gcm(key) => {
                let nonce: [u8; NONCE] = random()?;
                out.extend_from_slice(&nonce);
                let text = out.len();
                out.extend_from_slice(value);
                let nonce = Nonce::assume_unique_for_key(nonce);
                let tag = key
                    .seal_in_place_separate_tag(nonce, Aad::from(path), &mut out[text..])
                    .map_err(|_| CipherError::Failed)?;
                out.extend_from_slice(tag.as_ref());
            }
            Cipher::Secretbox(key) => {
                let nonce: [u8; BOX_NONCE] = random()?;
                out.extend_from_slice(&nonce);
                out.extend_from_slice(&key.encrypt(&nonce.into(), value).map_err(|_| CipherError::Failed)?);
            }
        }
        Ok(())
    }

    /// Decrypts a stored value.
    pub(super) fn decrypt(&self, path: &str, stored: &[u8]) -> Result<Vec<u8>> {
        match self {
            Cipher::Cbc(keys) => {
                let (vector, text) = stored.split_first_chunk::<BLOCK>().ok_or(CipherError::TooShort)?;
                if text.is_empty() || text.len() % BLOCK != 0 {
                    return Err(CipherError::NoBlocks);
                }
                let mut text = text.to_vec();
                let context = DecryptionContext::Iv128(FixedLength::from(vector));
                let len = keys.1.decrypt(&mut text, context).map_err(|_| CipherError::Refused)?.len();
                text.truncate(len);
                Ok(text)
            }
            Cipher::Gcm(key) => {
                let (nonce, text) = stored.split_first_chunk::<NONCE>().ok_or(CipherError::TooShort)?;
                let mut text = text.to_vec();
                let nonce = Nonce::assume_unique_for_key(*nonce);
                let len = key.open_in_place(nonce, Aad::from(path), &mut text).map_err(|_| CipherError::Refused)?.len();
                text.truncate(len);
                Ok(text)
            }
            Cipher::Secretbox(key) => {
                let (nonce, text) = stored.split_first_chunk::<BOX_NONCE>().ok_or(CipherError::TooShort)?;
                key.decrypt(&(*nonce).into(), text).map_err(|_| CipherError::Refused)
            }
        }
    }
}

/// Random bytes.
pub(super) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).map_err(|_| CipherError::NoRandom)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn every_cipher_reads_what_it_wrote_and_refuses_what_was_changed() {
        let check = |cipher: Cipher, authentic: bool, path: bool| {
            for value in [&b""[..], b"{}", &[7; 5000]] {
                let mut stored = Vec::new();
                cipher.encrypt("/registry/secrets/a/b", value, &mut stored).unwrap();
                assert_eq!(cipher.decrypt("/registry/secrets/a/b", &stored).unwrap(), value);
                assert_eq!(cipher.decrypt("/registry/secrets/a/c", &stored).is_ok(), !path, "moved to another path");
                let mut again = Vec::new();
                cipher.encrypt("/registry/secrets/a/b", value, &mut again).unwrap();
                assert_ne!(stored, again, "nonces are random");
                for len in [0, 5, 15, stored.len() - 1] {
                    assert!(cipher.decrypt("/registry/secrets/a/b", &stored[..len]).is_err(), "{len}");
                }
                *stored.last_mut().unwrap() ^= 1;
                let changed = cipher.decrypt("/registry/secrets/a/b", &stored);
                assert!(!authentic || changed.is_err());
            }
        };
        for len in [16, 24, 32] {
            check(Cipher::cbc(&vec![1; len]).unwrap(), false, false);
            check(Cipher::gcm(&vec![1; len]).unwrap(), true, true);
        }
        check(Cipher::secretbox(&[1; 32]).unwrap(), true, false);
        assert!(Cipher::gcm(&[1; 17]).is_err());
        assert!(Cipher::secretbox(&[1; 16]).is_err());
    }

    #[test]
    fn known_texts_are_read() {
        // NIST SP 800-38A, F.2.1 (CBC-AES128), with the padding block that its first plaintext block takes.
        let cbc = Cipher::cbc(&hex("2b7e151628aed2a6abf7158809cf4f3c")).unwrap();
        let stored =
            hex("000102030405060708090a0b0c0d0e0f7649abac8119b246cee98e9b12e9197d8964e0b149c10b7b682e6e39aaeb731c");
        assert_eq!(cbc.decrypt("", &stored).unwrap(), hex("6bc1bee22e409f96e93d7e117393172a"));
        // The GCM specification's test case 14: a zero key, nonce and block.
        let gcm = Cipher::gcm(&[0; 32]).unwrap();
        let stored = hex("000000000000000000000000cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919");
        assert_eq!(gcm.decrypt("", &stored).unwrap(), [0; 16]);
        // NaCl's own test of secretbox.
        let secretbox =
            Cipher::secretbox(&hex("1b27556473e985d462cd51197a9a46c76009549eac6474f206c4ee0844f68389")).unwrap();
        let stored = hex(concat!(
            "69696ee955b62b73cd62bda875fc73d68219e0036b7a0b37f3ffc7703f9400e52a7dfb4b3d3305d98e993b9f48681273c29650ba32fc",
            "76ce48332ea7164d96a4476fb8c531a1186ac0dfc17c98dce87b4da7f011ec48c97271d2c20f9b928fe2270d6fb863d51738b48eeee3",
            "14a7cc8ab932164548e526ae90224368517acfeabd6bb3732bc0e9da99832b61ca01b6de56244a9e88d5f9b37973f622a43d14a6599b",
            "1f654cb45a74e355a5",
        ));
        let text = secretbox.decrypt("", &stored).unwrap();
        assert!(text.len() == 131 && text.starts_with(&hex("be075fc53c81f2d5cf141316ebeb0c7b")));
    }
}
