//! NamespaceAutoProvision and NamespaceExists: what becomes of writes in namespaces that are not there.

use std::sync::Arc;

use async_trait::async_trait;
use generic_server::{
    admission::{Admission, Attributes, Operation, Steps},
    registry::{Lister, Registry},
};
use machinery::{Value, meta::status::Status, object};

/// NamespaceAutoProvision: they are made.
pub(super) struct AutoProvision(pub(super) Arc<Registry>);

/// NamespaceExists: they are refused.
pub(super) struct Exists(pub(super) Arc<Lister>);

/// Whether a write is one within a namespace.
fn is_within(a: &Attributes<'_>) -> bool {
    !a.namespace.is_empty() && !a.is_of("", "namespaces")
}

#[async_trait]
impl Admission for AutoProvision {
    fn steps(&self) -> Steps {
        Steps::Mutate
    }

    async fn mutate(&self, a: &Attributes<'_>, object: &mut Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        if a.dry_run || a.operation != Operation::Create || !is_within(a) {
            return Ok(());
        }
        match self.0.get_value("", a.namespace).await {
            Ok(_) => return Ok(()),
            Err(status) if status.code == 404 => {}
            Err(status) => return Err(a.forbidden(object, status.message)),
        }
        let namespace = object! {
            "apiVersion" => "v1", "kind" => "Namespace", "metadata" => object! { "name" => a.namespace },
        };
        match self.0.create_as_server(namespace).await {
            Ok(_) => Ok(()),
            Err(status) if status.code == 409 => Ok(()), // somebody else has made it
            Err(status) => Err(a.forbidden(object, status.message)),
        }
    }
}

#[async_trait]
impl Admission for Exists {
    fn steps(&self) -> Steps {
        Steps::Validate
    }

    async fn validate(&self, a: &Attributes<'_>, _object: &Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        if a.operation == Operation::Connect || !is_within(a) {
            return Ok(());
        }
        self.0.get_value("", a.namespace).await.map(|_| ())
    }
}
