//! KMS plugins: other programs that encrypt the keys which values are encrypted with.

mod keys;
mod thread;
mod v1;
mod v2;

use std::{sync::Arc, time::Duration};

use self::{thread::Thread, v1::KmsV1, v2::KmsV2};
use super::error::{EncryptionFault, KmsError, UnwellPlugin};

/// A plugin's name in the file, and how it is reached.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Reached<'a> {
    pub(super) name: &'a str,
    /// `unix:///path`, or `unix:///@name`.
    pub(super) endpoint: &'a str,
    /// How long a call may take.
    pub(super) timeout: Duration,
}

/// Which protocol a plugin speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// The first one (the gate KMSv1): it encrypts each value's key. So many keys are kept.
    V1 { keys: i32 },
    /// It encrypts seeds of keys.
    V2,
}

/// A plugin, by the protocol that it speaks.
pub(super) enum Kms {
    V1(KmsV1),
    V2(KmsV2),
}

impl Kms {
    /// Starts to talk to a plugin.
    pub(super) fn start(reached: Reached<'_>, protocol: Protocol) -> Result<Arc<Kms>, EncryptionFault> {
        Ok(Arc::new(match protocol {
            Protocol::V1 { keys } => Kms::V1(KmsV1::start(reached, keys)?),
            Protocol::V2 => Kms::V2(KmsV2::start(reached)?),
        }))
    }

    fn thread(&self) -> &Thread {
        match self {
            Kms::V1(kms) => kms.thread(),
            Kms::V2(kms) => kms.thread(),
        }
    }

    fn protocol(&self) -> Protocol {
        match self {
            Kms::V1(kms) => Protocol::V1 { keys: kms.keys() },
            Kms::V2(_) => Protocol::V2,
        }
    }

    /// What it is called.
    pub(super) fn name(&self) -> &str {
        self.thread().reached().name
    }

    /// What values begin with that it has to do with.
    pub(super) fn prefix(&self) -> String {
        match self {
            Kms::V1(_) => format!("k8s:enc:kms:v1:{}:", self.name()),
            Kms::V2(_) => format!("k8s:enc:kms:v2:{}:", self.name()),
        }
    }

    /// Whether it is this plugin, reached in this way.
    pub(super) fn is(&self, reached: Reached<'_>, protocol: Protocol) -> bool {
        self.thread().reached() == reached && self.protocol() == protocol
    }

    /// Whether it speaks the first protocol.
    pub(super) fn is_first(&self) -> bool {
        matches!(self, Kms::V1(_))
    }

    /// Whether the plugin is well; why not.
    pub(super) fn health(&self) -> Result<(), KmsError> {
        match self {
            Kms::V1(kms) => kms.health(),
            Kms::V2(kms) => kms.health(),
        }
    }

    /// Why it is not well, if it is not.
    pub(super) fn unwell(&self) -> Option<UnwellPlugin> {
        self.health().err().map(|error| UnwellPlugin { name: self.name().to_owned(), error })
    }

    /// Appends the encrypted value to `out`.
    pub(super) async fn encrypt(&self, path: &str, value: &[u8], out: &mut Vec<u8>) -> Result<(), KmsError> {
        match self {
            Kms::V1(kms) => kms.encrypt(path, value, out).await,
            Kms::V2(kms) => kms.encrypt(path, value, out),
        }
    }

    /// Whether a stored value is as one that is written now.
    pub(super) fn is_current(&self, path: &str, stored: &[u8]) -> bool {
        match self {
            Kms::V1(kms) => kms.is_current(path, stored),
            Kms::V2(kms) => kms.is_current(stored),
        }
    }

    /// Has the data keys of stored values decrypted that are not known yet, each once.
    pub(super) async fn prepare(&self, stored: impl Iterator<Item = &[u8]> + Send) {
        match self {
            Kms::V1(kms) => kms.prepare(stored).await,
            Kms::V2(kms) => kms.prepare(stored).await,
        }
    }

    /// Decrypts a stored value. Waits for the plugin if the value's data key is not known.
    pub(super) fn decrypt(&self, path: &str, stored: &[u8]) -> Result<Vec<u8>, KmsError> {
        match self {
            Kms::V1(kms) => kms.decrypt(path, stored),
            Kms::V2(kms) => kms.decrypt(path, stored),
        }
    }
}
