//! The group discovery.k8s.io: where the endpoints of services are.

mod rules;
mod validation;

use generic_server::resource::Resource;

use crate::{
    printer,
    row::{GroupVersion, Row},
};

const V1: GroupVersion = GroupVersion("discovery.k8s.io", "v1");

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [V1.namespaced("endpointslices", "EndpointSlice", "qgS0xkrxYAI=")
        .table(printer::ENDPOINT_SLICES)
        .strategy(rules::RULES)]
    .into_iter()
    .map(Row::build)
    .collect()
}
