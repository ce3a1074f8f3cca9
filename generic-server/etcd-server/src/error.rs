//! What a request can be refused for, in etcd's words: clients compare them.

use tonic::{Code, Status};

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the texts say it")]
pub enum Refusal {
    #[error("etcdserver: key is not provided")]
    EmptyKey,
    #[error("etcdserver: key not found")]
    KeyNotFound,
    #[error("etcdserver: value is provided")]
    ValueProvided,
    #[error("etcdserver: lease is provided")]
    LeaseProvided,
    #[error("etcdserver: too many operations in txn request")]
    TooManyOps,
    #[error("etcdserver: duplicate key given in txn request")]
    DuplicateKey,
    #[error("etcdserver: invalid sort option")]
    InvalidSortOption,
    #[error("etcdserver: mvcc: required revision has been compacted")]
    Compacted,
    #[error("etcdserver: mvcc: required revision is a future revision")]
    FutureRevision,
    #[error("etcdserver: mvcc: database space exceeded")]
    NoSpace,
    #[error("etcdserver: requested lease not found")]
    LeaseNotFound,
    #[error("etcdserver: lease already exists")]
    LeaseExists,
    #[error("etcdserver: too large lease TTL")]
    LeaseTtlTooLarge,
    #[error("etcdserver: request is too large")]
    RequestTooLarge,
    #[error("etcdserver: corrupt cluster")]
    Corrupt,
    #[error("etcdserver: server stopped")]
    Stopped,
    #[error("etcdserver: member not found")]
    MemberNotFound,
    #[error("etcdserver: bad leader transferee")]
    BadTransferee,
    #[error("etcdserver: this server is a cluster of one member, which cannot be changed")]
    OneMember,
    /// The store does not answer.
    #[error("etcdserver: {0}")]
    Unavailable(String),
}

impl Refusal {
    fn code(&self) -> Code {
        match self {
            Refusal::EmptyKey
            | Refusal::KeyNotFound
            | Refusal::ValueProvided
            | Refusal::LeaseProvided
            | Refusal::TooManyOps
            | Refusal::DuplicateKey
            | Refusal::InvalidSortOption
            | Refusal::RequestTooLarge => Code::InvalidArgument,
            Refusal::Compacted | Refusal::FutureRevision | Refusal::LeaseTtlTooLarge => Code::OutOfRange,
            Refusal::NoSpace => Code::ResourceExhausted,
            Refusal::LeaseNotFound | Refusal::MemberNotFound => Code::NotFound,
            Refusal::LeaseExists | Refusal::BadTransferee => Code::FailedPrecondition,
            Refusal::Corrupt => Code::DataLoss,
            Refusal::OneMember => Code::Unimplemented,
            Refusal::Stopped | Refusal::Unavailable(_) => Code::Unavailable,
        }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Status {
        Status::new(refusal.code(), refusal.to_string())
    }
}

impl From<storage::Error> for Refusal {
    fn from(error: storage::Error) -> Refusal {
        match error {
            storage::Error::NoSpace(_) => Refusal::NoSpace,
            storage::Error::Closed => Refusal::Stopped,
            storage::Error::Corrupt(why) => {
                tracing::error!(why, "the store is damaged");
                Refusal::Corrupt
            }
            error => Refusal::Unavailable(error.to_string()),
        }
    }
}
