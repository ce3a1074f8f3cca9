//! The namespaces that are always there.

use std::sync::Arc;

use generic_server::{registry::Registry, tasks::Task};
use machinery::object;

/// The namespaces that the server makes.
const SYSTEM: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Makes the system namespaces where they are missing.
pub(crate) fn system_namespaces(registry: Arc<Registry>) -> Task {
    Task::new("start-system-namespaces-controller", move |cx| {
        let registry = registry.clone();
        async move {
            registry.cache().ready().await?;
            for name in SYSTEM {
                ensure(&registry, name).await?;
            }
            cx.ready();
            Ok(())
        }
    })
}

async fn ensure(registry: &Registry, name: &str) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    if registry.cache().latest().get(&registry.key("", name)).is_some() {
        return Ok(());
    }
    let namespace = object! {
        "kind" => "Namespace", "apiVersion" => "v1", "metadata" => object! { "name" => name },
    };
    match registry.create_as_server(namespace).await {
        Ok(_) => Ok(()),
        Err(status) if status.is_already_exists() => Ok(()), // another server was faster
        Err(status) => Err(status.into()),
    }
}
