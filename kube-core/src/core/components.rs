//! Component statuses: whether the control plane's other parts answer. Nothing is stored, they are asked when a client asks.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use generic_server::{
    negotiate::Offer,
    pipeline::respond::{self, Response},
    request::Request,
    resource::Verb,
    server::Endpoint,
};
use http::StatusCode;
use machinery::{
    Value, array,
    meta::{gvk::GroupResource, status::Status},
    object,
};
use storage::Store;

/// Parts with a port of their own on this machine.
const NEIGHBOURS: [(&str, u16); 2] = [("scheduler", 10259), ("controller-manager", 10257)];
const STORE: &str = "etcd-0";
/// How long a part may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// `componentstatuses`. Differs: a neighbour is healthy when its port answers; it is not asked for its health.
pub(crate) struct ComponentStatuses {
    pub(crate) store: Arc<dyn Store>,
}

#[async_trait]
impl Endpoint for ComponentStatuses {
    async fn serve(&self, request: Request) -> Result<Response, Status> {
        let accepted = respond::accepted(&request, &Offer::PLAIN)?;
        if request.info.verb != Verb::Get {
            let mut items = Vec::new();
            for name in NEIGHBOURS.iter().map(|(name, _)| *name).chain([STORE]) {
                items.extend(self.component(name).await);
            }
            let list = object! {
                "kind" => "ComponentStatusList", "apiVersion" => "v1", "metadata" => Value::object(), "items" => items,
            };
            return Ok(respond::document(StatusCode::OK, &list, accepted));
        }
        let name = &request.info.name;
        let mut component = self
            .component(name)
            .await
            .ok_or_else(|| Status::not_found(&GroupResource::new("", "componentstatus"), name))?;
        component.set(&["kind"], "ComponentStatus");
        component.set(&["apiVersion"], "v1");
        Ok(respond::document(StatusCode::OK, &component, accepted))
    }
}

impl ComponentStatuses {
    /// The status of a part, without kind and apiVersion; `None` if there is none of the name.
    async fn component(&self, name: &str) -> Option<Value> {
        let found = match NEIGHBOURS.iter().find(|(known, _)| *known == name) {
            Some((_, port)) => dial(*port).await,
            None if name == STORE => self.store.health().await.map_err(|error| error.to_string()),
            None => return None,
        };
        let (status, message) = match found {
            Ok(()) => ("True", "ok".to_owned()),
            Err(why) => ("False", why),
        };
        Some(object! {
            "metadata" => object! { "name" => name },
            "conditions" => array![object! { "type" => "Healthy", "status" => status, "message" => message }],
        })
    }
}

/// Whether somebody listens on a port of this machine; the error is upstream's of the request for its health.
async fn dial(port: u16) -> Result<(), String> {
    let failed = |why: &str| format!("Get \"https://127.0.0.1:{port}/healthz\": dial tcp 127.0.0.1:{port}: {why}");
    match tokio::time::timeout(PATIENCE, tokio::net::TcpStream::connect(("127.0.0.1", port))).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            Err(failed("connect: connection refused"))
        }
        Ok(Err(error)) => Err(failed(&format!("connect: {error}"))),
        Err(_) => Err(failed("i/o timeout")),
    }
}
