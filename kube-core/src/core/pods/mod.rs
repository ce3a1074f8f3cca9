//! Pods.

mod affinity;
mod apparmor;
mod binding;
mod conditions;
mod defaults;
mod eviction;
mod gates;
mod image;
mod printer;
mod resources;
mod strategy;
pub(super) mod volumes;

pub(crate) use binding::Binding;
pub(crate) use defaults::template as template_defaults;
pub(crate) use eviction::Eviction;
pub(crate) use gates::drop_disabled;
pub(crate) use printer::table;
pub(crate) use strategy::RULES;
