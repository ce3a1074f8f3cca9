//! The messages and services of etcd's v3 API, as `proto` has them.

#![allow(missing_docs, unreachable_pub, clippy::all, reason = "generated; etcd's documentation says what they are")]

tonic::include_proto!("etcdserverpb");

/// What other packages call this one.
mod etcdserverpb {
    pub use super::*;
}

pub mod v3lockpb {
    tonic::include_proto!("v3lockpb");
}

pub mod v3electionpb {
    tonic::include_proto!("v3electionpb");
}
