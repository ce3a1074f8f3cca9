//! The group flowcontrol.apiserver.k8s.io: how many requests of whom at once.

mod bootstrap;
mod consumer;
mod levels;
mod mandatory;
mod printers;
mod producer;
mod rules;
mod validation;

use std::sync::Arc;

use generic_server::{flow_control::FlowControl, registry::Registry, resource::Resource, tasks::Task};

use crate::row::{GroupVersion, Row};

const V1: GroupVersion = GroupVersion("flowcontrol.apiserver.k8s.io", "v1");

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [
        V1.cluster("flowschemas", "FlowSchema", "GJVAJZSZBIw=")
            .table(printers::FLOW_SCHEMAS)
            .strategy(rules::FLOW_SCHEMAS)
            .status(),
        V1.cluster("prioritylevelconfigurations", "PriorityLevelConfiguration", "Kir5PVfvNeI=")
            .table(printers::PRIORITY_LEVELS)
            .strategy(rules::PRIORITY_LEVELS)
            .status(),
    ]
    .into_iter()
    .map(Row::build)
    .collect()
}

/// What keeps the objects of the start, and tells the pipeline of all.
pub(crate) fn tasks(schemas: &Arc<Registry>, levels: &Arc<Registry>, control: Option<&Arc<FlowControl>>) -> Vec<Task> {
    let consumer = control.map(|control| consumer::task(schemas.clone(), levels.clone(), control.clone()));
    let producer = producer::task(schemas.clone(), levels.clone());
    std::iter::once(producer).chain(consumer).collect()
}
