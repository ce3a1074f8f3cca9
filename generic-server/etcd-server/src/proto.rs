//! The messages and services of etcd's v3 API, as `proto/etcd.proto` has them.

#![allow(missing_docs, unreachable_pub, clippy::all, reason = "generated; etcd's documentation says what they are")]

tonic::include_proto!("etcdserverpb");
