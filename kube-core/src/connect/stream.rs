//! `pods/exec`, `pods/attach` and `pods/portforward`: connections to a kubelet that the client speaks through.

use std::sync::Arc;

use async_trait::async_trait;
use auth::Attributes;
use generic_server::{
    endpoint::Endpoint,
    proxy::{ForwardError, forward_at, headers_of, wants_upgrade},
    request::Request,
    response::Response,
};
use http::{HeaderMap, Uri};
use machinery::meta::{GroupResource, status::Status};
use machinery::request::{Query, RequestInfo, Verb};
use streaming::{
    remote_command, tunnel,
    websocket::{asked_protocols, is_websocket},
};

use super::{
    Outlets, Websockets, admit, container, kubelet::Kubelet, metrics::StreamMetrics, target::with_query, warned,
    websocket,
};

/// What is streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Streamed {
    /// A command in a container.
    Exec,
    /// A container's own process.
    Attach,
    /// Ports of the pod.
    PortForward,
}

/// Serves streams.
pub(super) struct Stream {
    pub(super) what: Streamed,
    pub(super) outlets: Arc<Outlets>,
    /// The gate AuthorizePodWebsocketUpgradeCreatePermission.
    pub(super) needs_create: bool,
    pub(super) websockets: Websockets,
    pub(super) metrics: StreamMetrics,
}

#[async_trait]
impl Endpoint for Stream {
    async fn serve(&self, mut request: Request) -> Result<Response, Status> {
        let mut warnings = Vec::new();
        let answer = self.connect(&mut request, &mut warnings).await;
        warned(answer, &request, &warnings)
    }
}

impl Stream {
    async fn connect(&self, request: &mut Request, warnings: &mut Vec<String>) -> Result<Response, Status> {
        let outlets = &self.outlets;
        admit(&outlets.pods, request, self.options_kind(), warnings).await?;
        if self.needs_create {
            may_create(request).await?;
        }
        let (namespace, name) = (request.info.namespace.clone(), request.info.name.clone());
        let pod = outlets.pods.get_value(&namespace, &name).await?;
        let path = match self.what {
            Streamed::PortForward => format!("/portForward/{namespace}/{name}"),
            what => {
                let container = container::chosen(&pod, request.query.get("container").unwrap_or_default())?;
                let verb = if what == Streamed::Exec { "exec" } else { "attach" };
                format!("/{verb}/{namespace}/{name}/{container}")
            }
        };
        let node = pod.str_at(&["spec", "nodeName"]).unwrap_or_default();
        if node.is_empty() {
            return Err(Status::bad_request(format!("pod {name} does not have a host assigned")));
        }
        let kubelet = outlets.kubelets.find(node, &outlets.pods.group_resource()).await?;
        let path = with_query(&path, parameters(self.what, &request.query));
        let url = format!("https://{}{path}", kubelet.authority());
        let target = url.parse().map_err(Status::internal_error)?;
        if self.speaks_websocket(&kubelet) && self.is_asked_for(&request.headers) {
            return self.websocket(request, target).await;
        }
        if !wants_upgrade(&request.headers) {
            return Err(Status::bad_request("Upgrade request required"));
        }
        let headers = headers_of(request);
        let forwarded = forward_at(&outlets.kubelets.client, request, target, headers, outlets.rate);
        forwarded.await.map_err(failed)
    }

    /// Whether this server speaks WebSocket, and not the kubelet.
    fn speaks_websocket(&self, kubelet: &Kubelet) -> bool {
        let speaks =
            if self.what == Streamed::PortForward { self.websockets.tunnels } else { self.websockets.translates };
        let by_kubelet = self.websockets.extends && kubelet.has_websockets;
        if speaks {
            self.metrics.routed(self.what, by_kubelet);
        }
        speaks && !by_kubelet
    }

    /// Whether a client asks for one of the protocols that this server speaks; others are the kubelet's.
    fn is_asked_for(&self, headers: &HeaderMap) -> bool {
        let is_ours = |protocol: &str| match self.what {
            Streamed::PortForward => tunnel::carried(protocol).is_some(),
            _ => protocol == remote_command::PROTOCOL,
        };
        is_websocket(headers) && asked_protocols(headers).any(is_ours)
    }

    async fn websocket(&self, request: &mut Request, target: Uri) -> Result<Response, Status> {
        let (client, rate) = (&self.outlets.kubelets.client, self.outlets.rate);
        if self.what == Streamed::PortForward {
            return websocket::ports(request, client, target, rate, &self.metrics).await.map_err(failed);
        }
        let flag = |name| request.query.flag(name);
        let options = remote_command::CommandOptions {
            stdin: flag("stdin"),
            stdout: flag("stdout"),
            stderr: flag("stderr"),
            tty: flag("tty"),
            rate,
        };
        websocket::command(request, client, target, options, &self.metrics)
    }

    fn options_kind(&self) -> &'static str {
        match self.what {
            Streamed::Exec => "PodExecOptions",
            Streamed::Attach => "PodAttachOptions",
            Streamed::PortForward => "PodPortForwardOptions",
        }
    }
}

/// What a client is told when its request could not be handed on.
fn failed(why: ForwardError) -> Status {
    match why {
        ForwardError::Unreachable(why) => Status::unknown_error(format!("error dialing backend: {why}")),
        ForwardError::Protocol(why) | ForwardError::Broken(why) => Status::unknown_error(why),
    }
}

/// Who upgrades by GET, as WebSockets do, needs what who upgrades by POST needs: a permission to read runs no commands.
async fn may_create(request: &Request) -> Result<(), Status> {
    if request.info.verb == Verb::Create {
        return Ok(());
    }
    let info = RequestInfo { verb: Verb::Create, ..request.info.clone() };
    let decision = request.authorizer.authorize(&Attributes { user: &request.user, info: &info }).await;
    match &decision.error {
        _ if decision.is_allowed() => Ok(()),
        Some(error) => Err(Status::internal_error(error)),
        None => {
            let resource = GroupResource::new(info.group.clone(), info.resource.clone());
            Err(Status::forbidden(&resource, &info.name, decision.reason))
        }
    }
}

/// The query for the kubelet, which has names of its own for the streams.
fn parameters(what: Streamed, asked: &Query) -> Vec<(&'static str, String)> {
    if what == Streamed::PortForward {
        let ports: Vec<&str> = asked.all("ports").collect();
        return if ports.is_empty() { Vec::new() } else { vec![("port", ports.join(","))] };
    }
    let streams = [("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty")];
    let streams = streams.into_iter().filter(|(flag, _)| asked.flag(flag)).map(|(_, name)| (name, "1".to_owned()));
    let commands = asked.all("command").filter(|_| what == Streamed::Exec).map(|part| ("command", part.to_owned()));
    commands.chain(streams).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubelet_hears_which_streams_there_are() {
        let check = |what, asked: &str, expect: &str| {
            assert_eq!(with_query("", parameters(what, &Query::parse(asked))), expect);
        };
        check(
            Streamed::Exec,
            "command=ls&command=-l+x&stdin=true&stdout=true&stderr=false&container=c",
            "?command=ls&command=-l+x&input=1&output=1",
        );
        check(Streamed::Attach, "stdout=1&tty=true&command=x", "?output=1&tty=1");
        check(Streamed::PortForward, "ports=80&ports=81", "?port=80%2C81");
        check(Streamed::PortForward, "", "");
    }
}
