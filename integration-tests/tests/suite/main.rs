//! One test binary: real processes, real HTTPS, real clients.

mod aggregation;
mod bad_input;
mod conversion;
mod crd_versions;
mod crds;
mod disk;
mod durability;
mod encryption;
mod etcd;
mod every_kind;
mod go_clients;
mod helm;
mod kubectl;
mod kubectl_apply;
mod kubectl_operations;
mod kubelet;
mod protobuf;
mod readme;
mod several_servers;
mod slow_watchers;
mod snapshots;
mod storage_flags;
mod unreadable;
mod webhooks;
mod workspace;
mod writes;
