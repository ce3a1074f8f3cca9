//! The authorities that sign requests: which files hold the one of a signer, and for how long it signs.

use std::{path::PathBuf, time::Duration};

use x509::{Issuer, IssuerError};

pub(crate) const API_SERVER_CLIENT: &str = "kubernetes.io/kube-apiserver-client";
pub(crate) const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
pub(crate) const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
pub(crate) const LEGACY: &str = "kubernetes.io/legacy-unknown";

/// The files of an authority, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorityFiles {
    /// Its certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// Why an authority cannot sign: which of its files is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    /// The certificate.
    #[error("error reading CA cert file {:?}: {why}", path.display().to_string())]
    Certificate {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The key.
    #[error("error reading CA key file {:?}: {why}", path.display().to_string())]
    Key {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// Who signs for which signer, and for how long at most. Signers without an authority do not sign.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authorities {
    /// kubernetes.io/kube-apiserver-client.
    pub api_server_client: Option<AuthorityFiles>,
    /// kubernetes.io/kube-apiserver-client-kubelet.
    pub kubelet_client: Option<AuthorityFiles>,
    /// kubernetes.io/kubelet-serving.
    pub kubelet_serving: Option<AuthorityFiles>,
    /// kubernetes.io/legacy-unknown.
    pub legacy: Option<AuthorityFiles>,
    /// How long certificates last that do not ask for less.
    pub duration: Duration,
}

impl Authorities {
    /// One authority for all signers.
    pub fn one(files: AuthorityFiles, duration: Duration) -> Self {
        Authorities {
            api_server_client: Some(files.clone()),
            kubelet_client: Some(files.clone()),
            kubelet_serving: Some(files.clone()),
            legacy: Some(files),
            duration,
        }
    }

    fn each(&self) -> [(&'static str, &Option<AuthorityFiles>); 4] {
        [
            (API_SERVER_CLIENT, &self.api_server_client),
            (KUBELET_CLIENT, &self.kubelet_client),
            (KUBELET_SERVING, &self.kubelet_serving),
            (LEGACY, &self.legacy),
        ]
    }

    /// The authority of a signer.
    pub(crate) fn of(&self, signer: &str) -> Option<&AuthorityFiles> {
        self.each().into_iter().find(|(name, _)| *name == signer)?.1.as_ref()
    }

    /// Checks that each authority is one.
    ///
    /// # Errors
    /// What is wrong with which file.
    pub fn check(&self) -> Result<(), AuthorityError> {
        self.each().into_iter().filter_map(|(_, files)| files.as_ref()).try_for_each(|files| files.read().map(drop))
    }
}

impl AuthorityFiles {
    /// Reads it as it is now: who renews it needs not tell anybody.
    pub(crate) fn read(&self) -> Result<Issuer, AuthorityError> {
        let of_certificate = |why: String| AuthorityError::Certificate { path: self.certificate.clone(), why };
        let of_key = |why: String| AuthorityError::Key { path: self.key.clone(), why };
        let certificate = std::fs::read(&self.certificate).map_err(|error| of_certificate(error.to_string()))?;
        let key = std::fs::read(&self.key).map_err(|error| of_key(error.to_string()))?;
        Issuer::from_pem(&certificate, &key).map_err(|error| match error {
            IssuerError::Key(why) => of_key(why),
            IssuerError::Certificate(why) => of_certificate(why),
        })
    }
}
