//! Pods.

mod affinity;
mod apparmor;
mod defaults;
mod gates;
mod image;
mod printer;
mod resources;
mod strategy;
pub(super) mod volumes;

pub(crate) use defaults::template as template_defaults;
pub(crate) use gates::drop_disabled;
pub(crate) use printer::table;
pub(crate) use strategy::RULES;
