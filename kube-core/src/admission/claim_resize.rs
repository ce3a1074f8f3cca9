//! PersistentVolumeClaimResize: a claim grows only where its storage class lets it.

use std::sync::Arc;

use async_trait::async_trait;
use generic_server::{
    admission::{Admission, Attributes, Operation, Steps},
    registry::Lister,
};
use machinery::{
    Value,
    meta::{Quantity, status::Status},
};

/// The plugin.
pub(super) struct ClaimResize {
    pub(super) classes: Arc<Lister>,
}

#[async_trait]
impl Admission for ClaimResize {
    fn steps(&self) -> Steps {
        Steps::Validate
    }

    async fn validate(&self, a: &Attributes<'_>, object: &Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        let is_claim = a.row.group.is_empty() && a.row.plural == "persistentvolumeclaims";
        let Some(old) = a.old.filter(|_| is_claim && a.operation == Operation::Update && a.subresource.is_empty())
        else {
            return Ok(());
        };
        if asked(object) <= asked(old) {
            return Ok(());
        }
        if old.str_at(&["status", "phase"]) != Some("Bound") {
            return Err(a.forbidden(object, "Only bound persistent volume claims can be expanded"));
        }
        if !self.may_grow(object, old) {
            let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
                       support resize";
            return Err(a.forbidden(object, why));
        }
        Ok(())
    }
}

impl ClaimResize {
    fn may_grow(&self, claim: &Value, old: &Value) -> bool {
        let name = class_of(claim);
        if name.is_empty() || name != class_of(old) {
            return false;
        }
        let snapshot = self.classes.cache().latest();
        let class = snapshot.get(&self.classes.key("", name)).and_then(|entry| entry.object().cloned());
        let class = class.and_then(|class| self.classes.decode(class.bytes()).ok());
        class.is_some_and(|class| class.get("allowVolumeExpansion").and_then(Value::as_bool) == Some(true))
    }
}

/// The storage that a claim asks for.
fn asked(claim: &Value) -> Quantity {
    let amount = claim.at(&["spec", "resources", "requests", "storage"]);
    amount.and_then(|amount| Quantity::from_value(amount).ok()).unwrap_or_default()
}

/// The class of a claim: an annotation names it first.
fn class_of(claim: &Value) -> &str {
    let annotated = claim.str_at(&["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"]);
    annotated.or_else(|| claim.str_at(&["spec", "storageClassName"])).unwrap_or_default()
}
