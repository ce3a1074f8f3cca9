//! The built-in API groups: one folder a group, one row a resource.
//!
//! `cargo run -p kube-core --example registry` shows a row at work: a registry of config maps over a store in memory.
//!
//! ```
//! let pods = kube_core::resources().into_iter().find(|row| row.group.is_empty() && row.plural == "pods").unwrap();
//! assert!(pods.namespaced && pods.subresource("status").is_some());
//! ```

pub mod admission;
pub mod capabilities;
mod compatible;
mod conversion;
mod defaults;
#[cfg(test)]
#[path = "../tests/late/mod.rs"]
#[allow(dead_code, reason = "other tests tell caches of changes one by one")]
mod late;
mod namespaces;
mod posted;
mod review;
mod row;
pub mod service_network;
mod strategy;
mod validation;

mod printer;

mod core;

mod admissionregistration;
pub mod apiserverinternal;
mod apps;
pub mod authentication;
mod authorization;
mod autoscaling;
mod batch;
mod certificates;
mod coordination;
mod discovery;
mod events;
mod flowcontrol;
mod networking;
mod node;
pub mod node_authorizer;
mod policy;
pub mod rbac;
mod resource;
mod scheduling;
mod storage;
mod storagemigration;

pub mod connect;
pub mod service_accounts;

mod server;

use generic_server::resource::Resource;

pub use compatible::resources_as;
pub use coordination::{LeadershipTimers, server_name};
pub use server::{BuildError, KubeCore, Options, build};

/// The rows of all built-in groups but apiextensions.k8s.io and apiregistration.k8s.io, which have servers of their own.
pub fn resources() -> Vec<Resource> {
    [
        core::resources,
        admissionregistration::resources,
        apiserverinternal::resources,
        apps::resources,
        authentication::resources,
        authorization::resources,
        autoscaling::resources,
        batch::resources,
        certificates::resources,
        coordination::resources,
        discovery::resources,
        events::resources,
        flowcontrol::resources,
        networking::resources,
        node::resources,
        policy::resources,
        rbac::resources,
        resource::resources,
        scheduling::resources,
        storage::resources,
        storagemigration::resources,
    ]
    .into_iter()
    .flat_map(|group| group())
    .collect()
}
