//! Errors of admission plugin configurations.

use machinery::meta::{GoDuration, field_error::FieldError};
use outbound::KubeconfigError;

/// Why a plugin cannot be configured by what a file says to it. Shown, it is what upstream says where upstream has words.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PluginConfigError {
    /// It is of another kind.
    #[error("{api_version} {kind} is no {expected}")]
    OtherKind {
        /// What it says that it is.
        api_version: String,
        /// What it says that it is.
        kind: String,
        /// What it should be.
        expected: &'static str,
    },
    /// A member is of another type.
    #[error("{member} is no {expected}")]
    Type {
        /// Its place.
        member: String,
        /// What it should be.
        expected: &'static str,
    },
    /// A member, or something in it, is of another type.
    #[error("{member}: must be {expected}")]
    Shape {
        /// Its place.
        member: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// Fields are invalid, in these ways.
    #[error("{}", super::aggregated(.0.iter().map(ToString::to_string).collect()))]
    Invalid(Vec<FieldError>),
    /// A span of time is too short or too long.
    #[error("valid value is between {min} and {max}, got {found}")]
    Duration {
        /// The shortest that may be.
        min: GoDuration,
        /// The longest that may be.
        max: GoDuration,
        /// What is said.
        found: GoDuration,
    },
    /// The kubeconfig file that it names is wrong.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
}
