//! Why flags are refused, in etcd's words.

use crate::compaction::RetentionError;

/// Why etcd cannot start with the flags that it is given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlagError {
    /// An argument is no flag.
    #[error("{0:?} is not a valid flag")]
    NoFlag(String),
    /// There is no flag of this name.
    #[error("flag provided but not defined: -{0}")]
    Unknown(String),
    /// A flag comes without its value.
    #[error("flag needs an argument: -{0}")]
    NoValue(&'static str),
    /// A flag asks for something that this server does not do.
    #[error("--{flag}={value} cannot be served: {why}")]
    Refused {
        /// The flag.
        flag: &'static str,
        /// Its value.
        value: String,
        /// What the flag is for.
        why: &'static str,
    },
    /// A value cannot be read.
    #[error("invalid value {value:?} for flag -{flag}")]
    Invalid {
        /// The flag.
        flag: &'static str,
        /// Its value.
        value: String,
    },
    /// A value is neither true nor false.
    #[error("invalid boolean value {value:?} for -{flag}")]
    Bool {
        /// The flag.
        flag: &'static str,
        /// Its value.
        value: String,
    },
    /// A value is no list of URLs of servers.
    #[error("invalid value {value:?} for flag -{flag}: {why}")]
    Url {
        /// The flag.
        flag: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with one of them.
        why: UrlFault,
    },
    /// Where to listen is given, and not what clients are told.
    #[error("--advertise-client-urls is required when --listen-client-urls is set explicitly")]
    NotAdvertised,
    /// The initial cluster is somebody else's; holds this member's name.
    #[error("couldn't find local name {0:?} in the initial cluster configuration")]
    NotOfCluster(String),
    /// The initial cluster has several members; holds the flag's value.
    #[error("--initial-cluster={0} cannot be served: this etcd is one member")]
    Cluster(String),
    /// Certificates of clients are asked for, and nobody is trusted to sign them.
    #[error("--client-cert-auth needs --trusted-ca-file")]
    NoClientAuthority,
    /// Of certificate and key one is missing.
    #[error("--cert-file and --key-file go together")]
    HalfIdentity,
    /// How much history to keep cannot be read.
    #[error(transparent)]
    Retention(#[from] RetentionError),
    /// There is no such log level.
    #[error("unrecognized level: {0:?}")]
    LogLevel(String),
}

impl FlagError {
    pub(super) fn invalid(flag: &'static str, value: &str) -> Self {
        FlagError::Invalid { flag, value: value.to_owned() }
    }
}

/// Why a text is no URL of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlFault {
    /// It has no scheme.
    #[error("URL must contain a scheme")]
    NoScheme,
    /// It has another scheme.
    #[error("URL scheme must be http or https: {0}")]
    Scheme(String),
    /// It has a path.
    #[error("URL must not contain a path: {0}")]
    Path(String),
    /// It has no port.
    #[error("URL address does not have the form \"host:port\": {0}")]
    NoPort(String),
}
