//! Errors of admission manifests.

use std::{io, path::PathBuf};

use machinery::{
    Str,
    config::ConfigError,
    meta::field_error::{self, FieldError},
};

use super::SUFFIX;

/// Manifests that cannot be used. Shown, it is what upstream says.
#[derive(Debug, thiserror::Error)]
#[error("failed to load static {of} manifests from {directory:?}: {fault}")]
pub struct ManifestError {
    /// `policy` or `webhook`.
    pub of: &'static str,
    /// Their directory.
    pub directory: PathBuf,
    /// What is wrong with the first that is wrong.
    pub fault: Box<ManifestFault>,
}

/// What is wrong with manifests.
#[derive(Debug, thiserror::Error)]
pub enum ManifestFault {
    /// They cannot be read.
    #[error("{0}")]
    Read(io::Error),
    /// Something stands where only the documents of a file are parted.
    #[error("failed to split YAML documents in file {file:?}: invalid Yaml document separator: {separator}")]
    Separator {
        /// The file.
        file: String,
        /// What stands there.
        separator: String,
    },
    /// A document of a file, or an object in it.
    #[error("error loading {file}: {fault}")]
    Object {
        /// The file.
        file: String,
        /// What is wrong with it.
        fault: ObjectFault,
    },
    /// A binding is of a policy that is in no file.
    #[error("binding {binding:?} references policy {policy:?} which does not exist in the manifest directory")]
    NoPolicy {
        /// The binding.
        binding: String,
        /// The policy.
        policy: String,
    },
}

/// What is wrong with an object of a manifest.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ObjectFault {
    /// It cannot be decoded.
    #[error(transparent)]
    Form(#[from] ConfigError),
    /// It is an item of a list.
    #[error("failed to decode list item: {0}")]
    Item(Box<ObjectFault>),
    /// It is of a type that is known and not read here, as Go calls it.
    #[error("unsupported resource type *{0}")]
    Unsupported(String),
    /// Its fields are invalid, in these ways.
    #[error("{kind} {name:?}: {}", field_error::aggregate(.errors).unwrap_or_default())]
    Invalid {
        /// Its kind.
        kind: Str,
        /// Its name.
        name: String,
        /// What is wrong.
        errors: Vec<FieldError>,
    },
    /// It has no name.
    #[error("resource in file {file:?} must have a name")]
    NoName {
        /// Its file.
        file: String,
    },
    /// Its name is not one of files.
    #[error("{name:?} in file {file:?} must have a name ending with {SUFFIX:?}")]
    NameSuffix {
        /// Its name.
        name: String,
        /// Its file.
        file: String,
    },
    /// Another one of its kind has its name.
    #[error("duplicate name {name:?} found in file {file:?} (previously seen in {before:?})")]
    Duplicate {
        /// Its name.
        name: String,
        /// Its file.
        file: String,
        /// The other one's file.
        before: String,
    },
    /// A policy has parameters, which would be in the cluster.
    #[error("{kind} {name:?}: spec.paramKind is not supported for static manifests")]
    ParamKind {
        /// Its kind.
        kind: Str,
        /// Its name.
        name: String,
    },
    /// A binding has parameters, which would be in the cluster.
    #[error("binding {0:?}: spec.paramRef is not supported for static manifests")]
    ParamRef(String),
    /// A binding names no policy.
    #[error("binding {0:?} must reference a policy (spec.policyName)")]
    NoPolicyName(String),
    /// A binding names a policy that is none of files.
    #[error("binding {binding:?}: spec.policyName {policy:?} must end with {SUFFIX:?}")]
    PolicySuffix {
        /// The binding.
        binding: String,
        /// The policy.
        policy: String,
    },
    /// A webhook is not to be found without looking into the cluster.
    #[error("webhook {webhook:?} in {configuration:?} (file {file:?}): {fault}")]
    Client {
        /// The webhook.
        webhook: String,
        /// Its configuration.
        configuration: String,
        /// Its file.
        file: String,
        /// Why.
        fault: ClientFault,
    },
}

/// Why a webhook cannot be found without looking into the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientFault {
    /// It is behind a service.
    #[error("clientConfig.service is not supported for static manifests; use clientConfig.url instead")]
    Service,
    /// Nothing is said of where it is.
    #[error("clientConfig.url is required for static manifests")]
    NoUrl,
}
