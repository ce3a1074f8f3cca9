//! `pods/proxy`, `services/proxy` and `nodes/proxy`: HTTP to what they serve.

use std::{net::IpAddr, sync::Arc};

use async_trait::async_trait;
use generic_server::{
    endpoint::Endpoint,
    proxy::{ForwardError, forward_at, headers_of, wants_upgrade},
    request::Request,
    response::{self, Response},
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use machinery::{Value, meta::status::Status};
use outbound::HttpsClient;

use super::{
    Outlets, admit,
    rewrite::{Place, cleaned, rewritten},
    target::{authority, is_proxyable, parse},
    warned,
};

/// What is proxied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proxied {
    Pod,
    Service,
    Node,
}

/// Serves proxying.
pub(super) struct Proxy {
    pub(super) what: Proxied,
    pub(super) outlets: Arc<Outlets>,
}

/// Where a request goes.
struct Location<'a> {
    scheme: &'a str,
    authority: String,
    client: &'a HttpsClient,
}

#[async_trait]
impl Endpoint for Proxy {
    async fn serve(&self, mut request: Request) -> Result<Response, Status> {
        let mut warnings = Vec::new();
        let answer = self.connect(&mut request, &mut warnings).await;
        warned(answer, &request, &warnings)
    }
}

impl Proxy {
    async fn connect(&self, request: &mut Request, warnings: &mut Vec<String>) -> Result<Response, Status> {
        let (registry, kind) = match self.what {
            Proxied::Pod => (&self.outlets.pods, "PodProxyOptions"),
            Proxied::Service => (&self.outlets.services, "ServiceProxyOptions"),
            Proxied::Node => (&self.outlets.nodes, "NodeProxyOptions"),
        };
        admit(registry, request, kind, warnings).await?;
        let id = request.info.name.clone();
        let location = match self.what {
            Proxied::Pod => self.pod(&request.info.namespace, &id).await?,
            Proxied::Service => self.service(&request.info.namespace, &id).await?,
            Proxied::Node => self.node(&id).await?,
        };
        let (base, rest) = split_path(request.uri.path(), self.what != Proxied::Node);
        let is_read = matches!(request.method, Method::GET | Method::HEAD);
        if rest.is_empty() && is_read && !wants_upgrade(&request.headers) {
            return Ok(with_slash(&request.uri));
        }
        let base = base.to_owned();
        let query = request.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let rest = cleaned(rest);
        let target = format!("{}://{}{rest}{query}", location.scheme, location.authority);
        let target: Uri = target.parse().map_err(|e| Status::bad_request(format!("the path is no URL's: {e}")))?;
        let (upgrades, host) = (wants_upgrade(&request.headers), host_of(request));
        let headers = headers_for(request, &host, (!upgrades).then(|| format!("{base}{rest}")));
        match forward_at(location.client, request, target, headers, self.outlets.rate).await {
            Ok(answer) if upgrades => Ok(answer),
            Ok(answer) => rewritten(answer, Place { base, authority: location.authority, host }),
            Err(ForwardError::Unreachable(why)) if upgrades => {
                Err(Status::unknown_error(format!("error dialing backend: {why}")))
            }
            Err(ForwardError::Unreachable(why)) => {
                Err(Status::service_unavailable(format!("error trying to reach service: {why}")))
            }
            Err(ForwardError::Protocol(why) | ForwardError::Broken(why)) => Err(Status::unknown_error(why)),
        }
    }

    async fn pod(&self, namespace: &str, id: &str) -> Result<Location<'_>, Status> {
        let invalid = || Status::bad_request(format!("invalid pod request {id:?}"));
        let (scheme, name, port) = parse(id).ok_or_else(invalid)?;
        let pod = self.outlets.pods.get_value(namespace, name).await?;
        let port = if port.is_empty() { first_port(&pod) } else { port.to_owned() };
        let ip = pod_ips(&pod).next().unwrap_or_default();
        if !ip.parse().is_ok_and(is_proxyable) {
            return Err(Status::bad_request("address not allowed"));
        }
        Ok(self.plain(scheme, authority(ip, &port)))
    }

    async fn service(&self, namespace: &str, id: &str) -> Result<Location<'_>, Status> {
        let invalid = || Status::bad_request(format!("invalid service request {id:?}"));
        let (scheme, name, port) = parse(id).ok_or_else(invalid)?;
        let mut port = port.to_owned();
        if let Ok(number) = port.parse::<i64>() {
            let service = self.outlets.services.get_value(namespace, name).await?;
            let ports = service.at(&["spec", "ports"]).and_then(Value::as_array).unwrap_or_default();
            let found =
                ports.iter().find(|p| p.get("port").and_then(Value::as_i64) == Some(number)).ok_or_else(|| {
                    Status::service_unavailable(format!("no service port {number} found for service {name:?}"))
                })?;
            port = found.str_at(&["name"]).unwrap_or_default().to_owned();
        }
        let none = |of: &str| Status::service_unavailable(format!("no endpoints available for service {of:?}"));
        let endpoints = match self.outlets.endpoints.get_value(namespace, name).await {
            Ok(endpoints) => endpoints,
            Err(status) if status.is_not_found() => {
                return Err(Status::not_found(&self.outlets.services.group_resource(), name));
            }
            Err(status) => return Err(status),
        };
        let subsets = endpoints.at(&["subsets"]).and_then(Value::as_array).unwrap_or_default();
        if subsets.is_empty() {
            return Err(none(name));
        }
        let mut open = Vec::new();
        for subset in subsets {
            let list = |key: &str| subset.get(key).and_then(Value::as_array).unwrap_or_default();
            let named = list("ports").iter().find(|p| p.str_at(&["name"]).unwrap_or_default() == port);
            let Some(number) = named.and_then(|p| p.get("port")).and_then(Value::as_i64) else { continue };
            for address in list("addresses") {
                if let Some(ip) = self.checked_ip(namespace, address).await {
                    open.push(authority(ip, &number.to_string()));
                }
            }
        }
        if open.is_empty() {
            return Err(none(id));
        }
        let any = uuid::Uuid::new_v4().as_u64_pair().0 as usize % open.len();
        Ok(self.plain(scheme, open.swap_remove(any)))
    }

    /// The address of an endpoint, if it is that of the pod that it names: an endpoint may be written by anybody.
    async fn checked_ip<'v>(&self, namespace: &str, address: &'v Value) -> Option<&'v str> {
        let ip = address.str_at(&["ip"])?;
        if address.str_at(&["targetRef", "namespace"]) != Some(namespace) {
            return None;
        }
        let pod = self.outlets.pods.get_value(namespace, address.str_at(&["targetRef", "name"])?).await.ok()?;
        pod_ips(&pod).any(|own| own == ip).then_some(ip)
    }

    async fn node(&self, id: &str) -> Result<Location<'_>, Status> {
        let invalid = || Status::bad_request(format!("invalid node request {id:?}"));
        let (scheme, name, port) = parse(id).ok_or_else(invalid)?;
        let kubelets = &self.outlets.kubelets;
        let kubelet = kubelets.find(name, &kubelets.nodes.group_resource()).await?;
        let resolved = tokio::net::lookup_host((kubelet.host.as_str(), 0)).await;
        let addresses: Vec<IpAddr> =
            resolved.map_err(|e| Status::bad_request(e.to_string()))?.map(|a| a.ip()).collect();
        // The kubelet's own port too: a node says of itself where that is.
        if addresses.is_empty() || !addresses.into_iter().all(is_proxyable) {
            return Err(Status::bad_request("address not allowed"));
        }
        if port.is_empty() || port == kubelet.port {
            return Ok(Location { scheme: "https", authority: kubelet.authority(), client: &kubelets.client });
        }
        Ok(self.plain(scheme, authority(&kubelet.host, port)))
    }

    fn plain(&self, scheme: &str, authority: String) -> Location<'_> {
        let scheme = if scheme == "https" { "https" } else { "http" };
        Location { scheme, authority, client: &self.outlets.plain }
    }
}

/// The first port that a container of the pod names; empty if there is none.
fn first_port(pod: &Value) -> String {
    let containers = pod.at(&["spec", "containers"]).and_then(Value::as_array).unwrap_or_default();
    let first = |container: &Value| container.get("ports")?.as_array()?.first()?.get("containerPort")?.as_i64();
    containers.iter().find_map(first).map(|port| port.to_string()).unwrap_or_default()
}

fn pod_ips(pod: &Value) -> impl Iterator<Item = &str> {
    let ips = pod.at(&["status", "podIPs"]).and_then(Value::as_array).unwrap_or_default();
    ips.iter().filter_map(|ip| ip.str_at(&["ip"]))
}

/// The path up to `proxy`, and what follows it, as the client has written it.
fn split_path(path: &str, namespaced: bool) -> (&str, &str) {
    // /api/v1/namespaces/NAMESPACE/RESOURCE/NAME/proxy or /api/v1/RESOURCE/NAME/proxy
    let segments = if namespaced { 7 } else { 5 };
    let end = path.match_indices('/').nth(segments).map_or(path.len(), |(at, _)| at);
    path.split_at(end)
}

/// The headers for what is proxied to: it is asked as this server was, and is told where it is to be found.
fn headers_for(request: &Request, host: &str, path: Option<String>) -> HeaderMap {
    let mut headers = headers_of(request);
    for name in ["x-forwarded-host", "x-forwarded-proto", "x-forwarded-uri"] {
        match request.headers.get(name) {
            Some(own) => drop(headers.insert(name, own.clone())),
            None => drop(headers.remove(name)),
        }
    }
    if let Ok(host) = HeaderValue::from_str(host) {
        headers.insert(header::HOST, host);
    }
    if let Some(path) = path.and_then(|path| HeaderValue::from_str(&path).ok()) {
        headers.insert("x-forwarded-uri", path);
    }
    headers
}

/// The host that the client has asked.
fn host_of(request: &Request) -> String {
    let named = request.header(header::HOST.as_str()).map(str::to_owned);
    named.or_else(|| request.uri.authority().map(ToString::to_string)).unwrap_or_default()
}

/// Relative links need a slash at the end of the root.
fn with_slash(uri: &Uri) -> Response {
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut response = response::text(StatusCode::MOVED_PERMANENTLY, "");
    let headers = response.headers_mut();
    headers.clear();
    if let Ok(location) = HeaderValue::from_str(&format!("{}/{query}", uri.path())) {
        headers.insert(header::LOCATION, location);
    }
    response
}

#[cfg(test)]
mod tests {
    use machinery::{array, object};

    use super::*;

    #[test]
    fn what_follows_proxy_is_handed_on_as_it_is() {
        let check =
            |path: &str, namespaced: bool, rest: &str| assert_eq!(split_path(path, namespaced).1, rest, "{path}");
        check("/api/v1/namespaces/n/pods/p/proxy", true, "");
        check("/api/v1/namespaces/n/pods/p/proxy/", true, "/");
        check("/api/v1/namespaces/n/services/s:80/proxy/a%2Fb/c", true, "/a%2Fb/c");
        check("/api/v1/nodes/n/proxy/metrics", false, "/metrics");
    }

    #[test]
    fn a_pod_serves_at_its_first_port() {
        let ports = array![object! { "containerPort" => 8080 }];
        let containers = array![object! { "name" => "a" }, object! { "ports" => ports }];
        let ips = array![object! { "ip" => "192.0.2.1" }];
        let pod = object! { "spec" => object! { "containers" => containers }, "status" => object! { "podIPs" => ips } };
        assert_eq!(first_port(&pod), "8080");
        assert_eq!(pod_ips(&pod).collect::<Vec<_>>(), ["192.0.2.1"]);
    }
}
