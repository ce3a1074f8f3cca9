//! Pods.

mod affinity;
mod apparmor;
mod binding;
mod conditions;
mod defaults;
mod ephemeral_containers;
mod eviction;
mod image;
mod overlaps;
mod printer;
mod resize;
mod resources;
mod strategy;
pub(crate) mod template;
pub(crate) mod validation;
pub(super) mod volumes;
pub(crate) mod warnings;

pub(crate) use binding::Binding;
pub(crate) use defaults::template as template_defaults;
pub(crate) use eviction::Eviction;
pub(crate) use printer::table;
pub(crate) use resources::{
    Amounts, add, amounts_in, container_requests as requests, is_pod_level, pod_amounts, pod_limits, pod_requests,
    qos_class, raise,
};
pub(crate) use strategy::RULES;
pub(crate) use validation::validate_template;
