//! The group node.k8s.io: how nodes run containers.

mod validation;

use generic_server::resource::Resource;

use crate::{
    printer,
    row::{GroupVersion, Row},
    strategy::Rules,
};

const V1: GroupVersion = GroupVersion("node.k8s.io", "v1");

const RULES: Rules = Rules::PLAIN
    .create_on_update()
    .conditional()
    .any_finalizers()
    .validate(validation::class)
    .revalidate(|cx, new, _, errors| validation::class(cx, new, errors))
    .validate_update(validation::class_update);

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [V1.cluster("runtimeclasses", "RuntimeClass", "WQTu1GL3T2Q=").table(printer::RUNTIME_CLASSES).strategy(RULES)]
        .into_iter()
        .map(Row::build)
        .collect()
}
