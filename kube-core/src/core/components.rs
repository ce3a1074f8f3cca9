//! Component statuses: whether the control plane's other parts answer. Nothing is stored, they are asked when a client asks.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use generic_server::{
    endpoint::Endpoint,
    handlers::computed::{Computed, ComputedSource},
};
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
const TIMEOUT: Duration = Duration::from_secs(2);

/// `componentstatuses`. Differs: a neighbour is healthy when its port answers; it is not asked for its health.
pub(crate) struct ComponentStatuses {
    pub(crate) store: Arc<dyn Store>,
}

#[async_trait]
impl ComputedSource for ComponentStatuses {
    async fn all(&self) -> Vec<Value> {
        let mut all = Vec::new();
        for name in NEIGHBOURS.iter().map(|(name, _)| *name).chain([STORE]) {
            all.extend(self.component(name).await);
        }
        all
    }

    async fn one(&self, name: &str) -> Result<Value, Status> {
        let none = || Status::not_found(&GroupResource::new("", "componentstatus"), name);
        self.component(name).await.ok_or_else(none)
    }
}

impl ComponentStatuses {
    /// What serves them.
    pub(crate) fn endpoint(self) -> Arc<dyn Endpoint> {
        Arc::new(Computed::new(super::component_statuses().build(), self))
    }

    /// The status of a part; `None` if there is none of the name.
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
            "kind" => "ComponentStatus", "apiVersion" => "v1", "metadata" => object! { "name" => name },
            "conditions" => array![object! { "type" => "Healthy", "status" => status, "message" => message }],
        })
    }
}

/// Whether somebody listens on a port of this machine; the error is upstream's of the request for its health.
async fn dial(port: u16) -> Result<(), String> {
    let failed = |why: &str| format!("Get \"https://127.0.0.1:{port}/healthz\": dial tcp 127.0.0.1:{port}: {why}");
    match tokio::time::timeout(TIMEOUT, tokio::net::TcpStream::connect(("127.0.0.1", port))).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            Err(failed("connect: connection refused"))
        }
        Ok(Err(error)) => Err(failed(&format!("connect: {error}"))),
        Err(_) => Err(failed("i/o timeout")),
    }
}

#[cfg(test)]
mod tests {
    use auth::Mode;
    use generic_server::request::{Request, RequestParts};
    use http::{HeaderMap, HeaderValue, Method, header};
    use http_body_util::BodyExt as _;
    use machinery::codec::json;
    use storage::memory::Memory;

    use super::*;

    async fn ask(path: &str, accept: &str) -> Result<Value, Status> {
        let uri: http::Uri = path.parse().expect("a path");
        let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_str(accept).expect("a header"))]);
        let request = Request::from(RequestParts::new(Method::GET, uri, headers, Arc::new(Mode::AlwaysAllow)));
        let statuses = ComponentStatuses { store: Memory::new() };
        let response = statuses.endpoint().serve(request).await?;
        let bytes = response.into_body().collect().await.expect("a body").to_bytes();
        Ok(json::decode(&bytes).expect("JSON"))
    }

    const ALL: &str = "/api/v1/componentstatuses";
    const STORE_ONLY: &str = "/api/v1/componentstatuses?fieldSelector=metadata.name=etcd-0";

    #[tokio::test]
    async fn they_are_selected_as_stored_objects_are() {
        let names = |list: Value| -> Vec<String> {
            let items = list.get("items").and_then(Value::as_array).unwrap_or_default().to_vec();
            items.iter().filter_map(|item| item.str_at(&["metadata", "name"]).map(str::to_owned)).collect()
        };
        let all = ask(ALL, "application/json").await.expect("a list");
        assert_eq!(all.str_at(&["kind"]), Some("ComponentStatusList"));
        assert_eq!(names(all), ["scheduler", "controller-manager", "etcd-0"]);
        let one = ask(STORE_ONLY, "application/json").await.expect("a list");
        assert_eq!(
            one.at(&["items"]).and_then(Value::as_array).map(|items| items[0].get("kind").is_none()),
            Some(true),
            "items of built-in lists have no kind"
        );
        assert_eq!(names(one), ["etcd-0"]);
        let labelled = ask(&format!("{ALL}?labelSelector=a"), "application/json").await.expect("a list");
        assert!(names(labelled).is_empty());
        let refused = ask(&format!("{ALL}?fieldSelector=a=b"), "application/json").await.expect_err("no such field");
        assert_eq!(refused.code, 400);
    }

    #[tokio::test]
    async fn they_come_as_tables_and_as_metadata() {
        let table = ask(STORE_ONLY, "application/json;as=Table;v=v1;g=meta.k8s.io").await.expect("a table");
        let cells = table.get("rows").and_then(Value::as_array).and_then(|rows| rows[0].get("cells").cloned());
        assert_eq!(cells, Some(array!["etcd-0", "Healthy", "ok", ""]));
        let form = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
        let list = ask(STORE_ONLY, form).await.expect("a list");
        let item = object! {
            "kind" => "PartialObjectMetadata", "apiVersion" => "meta.k8s.io/v1",
            "metadata" => object! { "name" => "etcd-0" },
        };
        assert_eq!(list.get("items"), Some(&array![item.clone()]));
        let form = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
        assert_eq!(ask(&format!("{ALL}/etcd-0"), form).await.expect("an object"), item);
        assert_eq!(ask(ALL, form).await.expect_err("a list").code, 406);
    }
}
