//! Why encryption at rest fails: configurations that cannot be used, plugins that are not well, values that stay closed.

use std::{io, path::PathBuf, time::Duration};

use machinery::config::ConfigError;

/// Why an encryption configuration is not used.
#[derive(Debug, thiserror::Error)]
pub enum EncryptionError {
    /// The file is wrong.
    #[error("error while parsing encryption provider configuration file: {}: {fault}", .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        fault: EncryptionFault,
    },
    /// A plugin that the file names is not well.
    #[error(transparent)]
    Plugin(#[from] UnwellPlugin),
}

/// What is wrong with the file of an encryption configuration.
#[derive(Debug, thiserror::Error)]
pub enum EncryptionFault {
    /// It cannot be read.
    #[error("{0}")]
    Read(io::Error),
    /// It is no configuration of this kind.
    #[error(transparent)]
    Document(#[from] ConfigError),
    /// Its fields are of other types.
    #[error("cannot be read: {0}")]
    Shape(serde_json::Error),
    /// It names a plugin of the first protocol, and the gate is off.
    #[error(
        "KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 instead.  Set \
         --feature-gates=KMSv1=true to use the deprecated KMSv1 feature."
    )]
    FirstKms,
    /// Its fields are invalid, in these ways, each with its place.
    #[error("{}", .0.join(", "))]
    Invalid(Vec<String>),
    /// A key cannot be used.
    #[error(transparent)]
    Key(#[from] CipherError),
    /// The system has nothing left to run a plugin's client on.
    #[error("no {what} for the KMS provider: {error}")]
    Client {
        /// What it has not.
        what: &'static str,
        /// What it says.
        error: io::Error,
    },
}

/// A KMS plugin that is not well.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("KMS provider {name}: {error}")]
pub struct UnwellPlugin {
    /// The provider's name.
    pub name: String,
    /// Why.
    pub error: KmsError,
}

/// Why a KMS plugin is not well, or a value cannot be encrypted or decrypted with its help.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum KmsError {
    /// It was not asked yet.
    #[error("the plugin has not answered yet")]
    NotAsked,
    /// It did not answer a call.
    #[error("the plugin did not answer {method} in {timeout:?}")]
    Timeout {
        /// The call.
        method: &'static str,
        /// How long it was waited for.
        timeout: Duration,
    },
    /// A call failed; what the plugin or the way to it says.
    #[error("{0}")]
    Call(String),
    /// It cannot be reached, or cannot do anything now.
    #[error("{0}")]
    Away(String),
    /// It speaks another version of the protocol.
    #[error("expected KMSv2 API version v2, got {0}")]
    Version(String),
    /// It speaks another version of the first protocol.
    #[error("KMS provider api version {0} is not supported, only v1beta1 is supported now")]
    FirstVersion(String),
    /// It could not encrypt, or not decrypt, a word.
    #[error("failed to perform {section} section of the healthz check, error: {error}")]
    Probe {
        /// What it could not do.
        section: &'static str,
        /// Why.
        error: Box<KmsError>,
    },
    /// It says of itself that it is not well.
    #[error("got unexpected healthz status: {0}")]
    Healthz(String),
    /// It has answered, or a value was stored with, what no plugin may.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// It could not decrypt a data key.
    #[error("failed to decrypt DEK, error: {0}")]
    DataKey(Box<KmsError>),
    /// There is no data key to write with, for the plugin was never well.
    #[error("got unexpected nil transformer: {0}")]
    NeverWell(Box<UnwellPlugin>),
    /// The data key must not be used any more to write.
    #[error("the data key of KMS provider {0} has expired, since its status is unknown")]
    Expired(String),
    /// The thread that calls the plugin is gone.
    #[error("the KMS provider's thread has ended")]
    ThreadEnded,
    /// The thread that calls the plugin is busy.
    #[error("the KMS provider did not answer")]
    NoAnswer,
    /// No key could be made of a seed.
    #[error("no key could be derived")]
    Derivation,
    /// The key does not fit, or the value.
    #[error(transparent)]
    Cipher(#[from] CipherError),
}

/// What is wrong with what is stored beside a value that a plugin's key encrypts.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ObjectError {
    /// It cannot be decoded.
    #[error("{0}")]
    Decode(prost::DecodeError),
    /// It cannot be encoded.
    #[error("{0}")]
    Encode(prost::EncodeError),
    /// Its data key is of no kind that there is.
    #[error("unknown encryptedDEKSourceType: {0}")]
    SourceType(i32),
    /// Its data key has too many bytes, or none.
    #[error("failed to validate encrypted DEK source: it has {0} bytes")]
    Source(usize),
    /// The name of the plugin's key has too many bytes, or none.
    #[error("failed to validate key id: it has {0} bytes")]
    KeyId(usize),
    /// Its annotations have too many bytes.
    #[error("failed to validate annotations: they have {0} bytes")]
    Annotations(usize),
    /// Its key is cut short.
    #[error("invalid data encountered by envelope transformer: failed to read uint16 length prefixed data")]
    NoKey,
    /// It has no value.
    #[error("encrypted data is empty")]
    NoData,
    /// A seed has too few or too many bytes.
    #[error("invalid seed length {0} used for key generation")]
    Seed(usize),
}

/// Why a key does not encrypt or decrypt, without details that could help an attacker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CipherError {
    /// The key is of no length that its cipher has.
    #[error("the key has the wrong length")]
    KeyLength,
    /// What is stored is too short.
    #[error("the stored data was shorter than the required size")]
    TooShort,
    /// What is stored is no number of blocks.
    #[error("the stored data is not a multiple of the block size")]
    NoBlocks,
    /// What is stored was encrypted with another key, or changed.
    #[error("the stored data cannot be decrypted with this key")]
    Refused,
    /// Encryption failed.
    #[error("the value could not be encrypted")]
    Failed,
    /// The system gives no random numbers.
    #[error("no random bytes")]
    NoRandom,
}

/// Why a stored value stays closed. Clients see the text.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(super) enum DecryptError {
    /// It is encrypted, and is to be read as it is.
    #[error("identity transformer tried to read encrypted data")]
    Identity,
    /// No provider has written it.
    #[error("no matching prefix found")]
    NoProvider,
    #[error(transparent)]
    Cipher(#[from] CipherError),
    #[error(transparent)]
    Kms(#[from] KmsError),
}
