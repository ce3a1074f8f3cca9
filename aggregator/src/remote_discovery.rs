//! Discovery of remote servers, for the discovery of the whole chain.

use std::time::Duration;

use bytes::Bytes;
use generic_server::{
    discovery::{Freshness, Group, Resources, Version},
    pages::RemoteGroups,
};
use http::{Response, header};
use http_body_util::{BodyExt, Limited};
use machinery::{Value, codec::json};
use outbound::{full, root_cause};

use crate::backends::{Backend, Backends};

/// The largest discovery document that is believed, in bytes.
const LIMIT: usize = 8 << 20;
const TIMEOUT: Duration = Duration::from_secs(5);
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// A GET as the server itself.
pub(crate) async fn get(
    backend: &Backend,
    path: &str,
    accept: &str,
    patience: Duration,
) -> Result<Response<hyper::body::Incoming>, String> {
    let (host, port) = backend.resolver.resolve(&backend.service).map_err(|why| why.to_string())?;
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let client = backend.client.as_ref().map_err(Clone::clone)?;
    let request = http::Request::get(format!("https://{host}:{port}{path}"))
        .header(header::ACCEPT, accept)
        .header("x-remote-user", "system:kube-aggregator")
        .header("x-remote-group", "system:masters")
        .body(full(""))
        .map_err(|e| e.to_string())?;
    match tokio::time::timeout(patience, client.request(request)).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(error)) => Err(root_cause(&error)),
        Err(_) => Err("context deadline exceeded".to_owned()),
    }
}

/// Asks a server for its resources: all groups at once, or else the one group version.
pub(crate) async fn fetch(backend: &Backend) -> Option<Resources> {
    if let Some(document) = document(backend, "/apis", AGGREGATED).await
        && document.str_at(&["kind"]) == Some("APIGroupDiscoveryList")
    {
        let groups = document.get("items").and_then(Value::as_array).unwrap_or_default();
        let group = groups.iter().find(|g| g.str_at(&["metadata", "name"]) == Some(&backend.group))?;
        let versions = group.get("versions").and_then(Value::as_array).unwrap_or_default();
        let version = versions.iter().find(|v| v.str_at(&["version"]) == Some(&backend.version))?;
        return Some(Resources::from_aggregated(version.get("resources").unwrap_or(&Value::Null)));
    }
    let path = format!("/apis/{}/{}", backend.group, backend.version);
    let list = document(backend, &path, "application/json").await?;
    Some(Resources::from_list(list.get("resources").unwrap_or(&Value::Null)))
}

async fn document(backend: &Backend, path: &str, accept: &str) -> Option<Value> {
    let response = get(backend, path, accept, TIMEOUT).await.ok()?;
    if !response.status().is_success() {
        return None;
    }
    let read = Limited::new(response.into_body(), LIMIT).collect();
    let body: Bytes = tokio::time::timeout(TIMEOUT, read).await.ok()?.ok()?.to_bytes();
    json::decode(&body).ok()
}

impl RemoteGroups for Backends {
    fn generation(&self) -> u64 {
        Backends::generation(self)
    }

    fn groups(&self) -> Vec<Group> {
        let local = self.local();
        let local = local.iter().map(|own| Group {
            name: own.group.clone(),
            priority: own.group_priority,
            versions: vec![Version {
                name: own.version.clone(),
                priority: own.version_priority,
                resources: None,
                freshness: Freshness::Current,
            }],
        });
        let remote = self.all().into_iter().map(|backend| Group {
            name: backend.group.clone(),
            priority: backend.group_priority,
            versions: vec![Version {
                name: backend.version.clone(),
                priority: backend.version_priority,
                resources: backend.resources.load_full(),
                freshness: if backend.state.load().is_ok() { Freshness::Current } else { Freshness::Stale },
            }],
        });
        local.chain(remote).collect()
    }
}
