//! StorageObjectInUseProtection: claims, volumes and classes of their attributes are not deleted from under their users.

use async_trait::async_trait;
use generic_server::admission::{Admission, Attributes, Operation, Steps};
use machinery::{
    Value,
    meta::{MetaMut, status::Status},
};

use super::creates;

/// The plugin.
pub(super) struct StorageProtection;

#[async_trait]
impl Admission for StorageProtection {
    fn steps(&self) -> Steps {
        Steps::Mutate
    }

    async fn mutate(&self, a: &Attributes<'_>, object: &mut Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        let finalizer = if creates(a, "persistentvolumeclaims") {
            "kubernetes.io/pvc-protection"
        } else if creates(a, "persistentvolumes") {
            "kubernetes.io/pv-protection"
        } else if a.operation == Operation::Create
            && a.row.group == "storage.k8s.io"
            && a.row.plural == "volumeattributesclasses"
        {
            "kubernetes.io/vac-protection"
        } else {
            return Ok(());
        };
        MetaMut::of(object).add_finalizer(finalizer);
        Ok(())
    }
}
