//! Through which proxies connections leave (`--egress-selector-config-file`).

use std::{collections::HashSet, path::Path};

use http::Uri;
use machinery::{
    Value,
    config::{self, ConfigKind, field, list, pointer, root, text},
    meta::{
        field_error::{BadValue, FieldError, aggregate},
        go_text::quote,
    },
    schema::Schema,
};
use outbound::{
    Identity,
    egress::{Network, Proxy, ProxyTls},
};

use super::Findings;
use crate::flags::Parsed;

/// Of each network that is named the proxy; `None`: connections leave without one.
pub type Selections = Vec<(Network, Option<Proxy>)>;

const KIND: ConfigKind = ConfigKind {
    group: "apiserver.k8s.io",
    kind: "EgressSelectorConfiguration",
    versions: &["v1beta1", "v1alpha1"],
    siblings: &[],
    registry: "pkg/server/egressselector/config.go:33",
    schema,
};

/// Where errors say that something stands.
const PLACE: &str = "service.connection";

fn schema(version: &str) -> Schema {
    let name = |kind: &str| format!("{version}.{kind}");
    let tls = config::object(
        name("TLSConfig"),
        [text("caBundle"), text("clientKey"), text("clientCert"), text("tlsServerName")],
    );
    let tcp = config::object(name("TCPTransport"), [text("url"), pointer("tlsConfig", tls)]);
    let uds = config::object(name("UDSTransport"), [text("udsName")]);
    let transport = config::object(name("Transport"), [pointer("tcp", tcp), pointer("uds", uds)]);
    let connection = config::object(name("Connection"), [text("proxyProtocol"), pointer("transport", transport)]);
    let selection = config::object(name("EgressSelection"), [text("name"), field("connection", connection)]);
    root(name("EgressSelectorConfiguration"), [list("egressSelections", selection)])
}

/// What the file says; `None` if there is none, or it says nothing.
pub(super) fn selections(flags: &Parsed, findings: &mut Findings) -> Option<Selections> {
    let path = flags.text("egress-selector-config-file");
    if path.is_empty() {
        return None;
    }
    if !Path::new(&path).exists() {
        findings.error(format!("egress-selector-config-file {path} does not exist"));
        return None;
    }
    let content = std::fs::read(&path).map_err(|error| {
        let why = crate::plain_io_error(&error).to_lowercase();
        format!("unable to read egress selector configuration from {path:?} [open {path}: {why}]")
    });
    let read = content.map_err(|why| format!("failed to read egress selector config: {why}"));
    match read.and_then(|content| self::read(&content)) {
        Ok(selections) => selections,
        Err(why) => {
            findings.error(why);
            None
        }
    }
}

fn read(content: &[u8]) -> Result<Option<Selections>, String> {
    let config = KIND.read(content).map_err(|why| format!("failed to read egress selector config: {why}"))?;
    let Some(services) = config.document.get("egressSelections").and_then(Value::as_array) else { return Ok(None) };
    let mut errors = Vec::new();
    for service in services {
        check(service, &mut errors);
    }
    let mut seen = HashSet::new();
    for (place, service) in services.iter().enumerate() {
        let name = name(service);
        if !seen.insert(name.clone()) {
            errors.push(FieldError::duplicate(format!("{PLACE}[{place}]"), name));
        } else if Network::named(&name).is_none() {
            errors.push(FieldError::not_supported(PLACE, name, ["cluster", "controlplane", "etcd"]));
        }
    }
    if let Some(why) = aggregate(&errors) {
        return Err(format!("failed to validate egress selector configuration: {why}"));
    }
    let selections = services.iter().filter_map(|service| {
        let network = Network::named(&name(service))?;
        let proxy = proxy(service).map_err(|why| {
            let name = network.name();
            format!("failed to setup egress selector: failed to create dialer for egressSelection {name:?}: {why}")
        });
        Some(proxy.map(|proxy| (network, proxy)))
    });
    selections.collect::<Result<_, _>>().map(Some)
}

fn name(service: &Value) -> String {
    service.str_at(&["name"]).unwrap_or_default().to_lowercase()
}

fn said<'a>(service: &'a Value, path: &[&str]) -> &'a str {
    service.str_at(path).unwrap_or_default()
}

fn check(service: &Value, errors: &mut Vec<FieldError>) {
    let protocol = said(service, &["connection", "proxyProtocol"]);
    let transport = service.at(&["connection", "transport"]).filter(|transport| !transport.is_null());
    let at = |member: &str| format!("{PLACE}.{member}");
    match (protocol, transport) {
        ("Direct", None) => {}
        ("Direct", Some(_)) => {
            errors.push(FieldError::invalid(at("transport"), "direct", "config must be absent for direct connect"));
        }
        ("HTTPConnect" | "GRPC", None) => {
            errors.push(FieldError::required(at("transport"), format!("transport must be set for {protocol}")));
        }
        ("HTTPConnect", Some(transport)) => check_connect(transport, errors),
        ("GRPC", Some(transport)) => match member(transport, "uds") {
            Some(uds) => check_socket(uds, errors),
            None => errors.push(FieldError::required(at("uds"), "UDS must be set with GRPC")),
        },
        _ => errors.push(FieldError::not_supported(at("protocol"), protocol, ["Direct", "HTTPConnect", "GRPC"])),
    }
}

fn member<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    value.get(key).filter(|found| !found.is_null())
}

fn check_connect(transport: &Value, errors: &mut Vec<FieldError>) {
    let at = |member: &str| format!("{PLACE}.{member}");
    match (member(transport, "tcp"), member(transport, "uds")) {
        (Some(tcp), Some(_)) => {
            errors.push(FieldError::invalid(at("tcp"), as_go_shows(tcp), "TCP and UDS cannot both be set"));
        }
        (None, None) => errors.push(FieldError::required(at("tcp"), "One of TCP or UDS must be set")),
        (None, Some(uds)) => check_socket(uds, errors),
        (Some(tcp), None) => {
            let (url, tls) = (said(tcp, &["url"]), member(tcp, "tlsConfig"));
            if url.starts_with("http://") {
                if tls.is_some() {
                    let why = "config must not be present when using HTTP";
                    errors.push(FieldError::invalid(at("tlsConfig"), "nil", why));
                }
            } else if !url.starts_with("https://") {
                let why = "supported connection protocols are http:// and https://";
                errors.push(FieldError::invalid(at("url"), url, why));
            } else if let Some(tls) = tls {
                check_tls(tls, errors);
            } else {
                errors.push(FieldError::required(at("tlsConfig"), "TLSConfig must be present when using HTTPS"));
            }
        }
    }
}

/// A transport as Go prints its struct.
fn as_go_shows(tcp: &Value) -> BadValue {
    let shown = |of: &Value, names: &[(&str, &str)]| {
        let fields = names.iter().map(|(name, key)| format!("{name:?}:{}", quote(said(of, &[key]))));
        fields.collect::<Vec<_>>().join(",")
    };
    let tls = member(tcp, "tlsConfig").map_or_else(
        || "null".to_owned(),
        |tls| {
            let names = [
                ("CABundle", "caBundle"),
                ("ClientKey", "clientKey"),
                ("ClientCert", "clientCert"),
                ("TLSServerName", "tlsServerName"),
            ];
            format!("{{{}}}", shown(tls, &names))
        },
    );
    BadValue::verbatim(format!("{{{},\"TLSConfig\":{tls}}}", shown(tcp, &[("URL", "url")])))
}

fn check_socket(uds: &Value, errors: &mut Vec<FieldError>) {
    if said(uds, &["udsName"]).is_empty() {
        let why = "must be present for UDS connections";
        errors.push(FieldError::invalid(format!("{PLACE}.udsName"), "nil", why));
    }
}

fn check_tls(tls: &Value, errors: &mut Vec<FieldError>) {
    let at = |member: &str| format!("{PLACE}.tlsConfig.{member}");
    let mut check = |key: &str, what: &str, missing: Option<&str>| {
        let path = said(tls, &[key]);
        match missing {
            _ if Path::new(path).exists() => {}
            None if path.is_empty() => {}
            Some(missing) if path.is_empty() => errors.push(FieldError::invalid(at(key), "nil", missing)),
            _ => errors.push(FieldError::invalid(at(key), path, format!("TLS {what} does not exist"))),
        }
    };
    check("caBundle", "config ca bundle", None);
    check("clientCert", "client cert", Some("Using TLS requires clientCert"));
    check("clientKey", "client key", Some("Using TLS requires requires clientKey"));
}

/// The proxy of a selection that is sound.
fn proxy(service: &Value) -> Result<Option<Proxy>, String> {
    let transport = service.at(&["connection", "transport"]).unwrap_or(&Value::Null);
    let socket = member(transport, "uds").map(|uds| said(uds, &["udsName"]).into());
    Ok(Some(match (said(service, &["connection", "proxyProtocol"]), socket) {
        ("Direct", _) => return Ok(None),
        ("GRPC", Some(path)) => Proxy::Konnectivity(path),
        (_, Some(path)) => Proxy::ConnectSocket(path),
        _ => {
            let tcp = member(transport, "tcp").unwrap_or(&Value::Null);
            let url = said(tcp, &["url"]);
            let uri: Uri = url.parse().map_err(|error| format!("invalid proxy server url {url:?}: {error}"))?;
            let host = uri.host().unwrap_or_default();
            let port =
                uri.port_u16().ok_or_else(|| format!("invalid proxy server url {url:?}: missing port in address"))?;
            let tls = member(tcp, "tlsConfig").map(tls).transpose()?;
            Proxy::ConnectTcp { address: format!("{host}:{port}"), tls }
        }
    }))
}

fn tls(tls: &Value) -> Result<ProxyTls, String> {
    let read = |key: &str| {
        let path = said(tls, &[key]);
        std::fs::read(path).map_err(|error| format!("open {path}: {}", crate::plain_io_error(&error).to_lowercase()))
    };
    let (certificate, key) = (said(tls, &["clientCert"]), said(tls, &["clientKey"]));
    let unread = |why: String| format!("failed to read key pair {certificate} & {key}, got {why}");
    let identity =
        Identity { certificate: read("clientCert").map_err(unread)?, key: read("clientKey").map_err(unread)? };
    let bundle = match said(tls, &["caBundle"]) {
        "" => Vec::new(),
        path => read("caBundle").map_err(|why| format!("failed to read cert file {path}, got {why}"))?,
    };
    let server_name = Some(said(tls, &["tlsServerName"])).filter(|name| !name.is_empty()).map(str::to_owned);
    Ok(ProxyTls { bundle, identity, server_name })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Option<Selections>, String> {
        let head = "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\n";
        read(format!("{head}{text}").as_bytes())
    }

    fn of_connection(connection: &str) -> Result<Option<Selections>, String> {
        read_text(&format!("egressSelections: [{{name: cluster, connection: {connection}}}]"))
    }

    #[test]
    fn each_network_has_its_proxy() {
        let text = "egressSelections:\n\
                    - {name: Cluster, connection: {proxyProtocol: GRPC, transport: {uds: {udsName: /run/k.sock}}}}\n\
                    - {name: etcd, connection: {proxyProtocol: Direct}}\n\
                    - {name: controlplane, connection: {proxyProtocol: HTTPConnect, transport: {tcp: {url: 'http://p:8131'}}}}\n";
        let expect = vec![
            (Network::Cluster, Some(Proxy::Konnectivity("/run/k.sock".into()))),
            (Network::Etcd, None),
            (Network::ControlPlane, Some(Proxy::ConnectTcp { address: "p:8131".into(), tls: None })),
        ];
        assert_eq!(read_text(text), Ok(Some(expect)));
        let socket = of_connection("{proxyProtocol: HTTPConnect, transport: {uds: {udsName: /run/c.sock}}}");
        assert_eq!(socket, Ok(Some(vec![(Network::Cluster, Some(Proxy::ConnectSocket("/run/c.sock".into())))])));
        assert_eq!(read_text(""), Ok(None), "nothing is configured");
    }

    #[test]
    fn what_does_not_hold_is_refused_in_upstreams_words() {
        let check = |connection: &str, expect: &str| {
            let why = of_connection(connection).expect_err(expect);
            assert_eq!(why, format!("failed to validate egress selector configuration: {expect}"), "{connection}");
        };
        check(
            "{proxyProtocol: Socks}",
            "service.connection.protocol: Unsupported value: \"Socks\": supported values: \"Direct\", \"HTTPConnect\", \"GRPC\"",
        );
        check(
            "{proxyProtocol: Direct, transport: {}}",
            "service.connection.transport: Invalid value: \"direct\": config must be absent for direct connect",
        );
        check(
            "{proxyProtocol: GRPC, transport: {tcp: {url: 'http://a:1'}}}",
            "service.connection.uds: Required value: UDS must be set with GRPC",
        );
        check(
            "{proxyProtocol: HTTPConnect, transport: {tcp: {url: 'http://a:1'}, uds: {udsName: /x}}}",
            "service.connection.tcp: Invalid value: {\"URL\":\"http://a:1\",\"TLSConfig\":null}: TCP and UDS cannot both be set",
        );
        check(
            "{proxyProtocol: HTTPConnect}",
            "service.connection.transport: Required value: transport must be set for HTTPConnect",
        );
        check(
            "{proxyProtocol: HTTPConnect, transport: {}}",
            "service.connection.tcp: Required value: One of TCP or UDS must be set",
        );
        check(
            "{proxyProtocol: HTTPConnect, transport: {tcp: {url: 'ftp://a'}}}",
            "service.connection.url: Invalid value: \"ftp://a\": supported connection protocols are http:// and https://",
        );
        check(
            "{proxyProtocol: HTTPConnect, transport: {tcp: {url: 'https://a:1'}}}",
            "service.connection.tlsConfig: Required value: TLSConfig must be present when using HTTPS",
        );
        check(
            "{proxyProtocol: HTTPConnect, transport: {tcp: {url: 'https://a:1', tlsConfig: {clientCert: /no/such}}}}",
            "[service.connection.tlsConfig.clientCert: Invalid value: \"/no/such\": TLS client cert does not exist, \
             service.connection.tlsConfig.clientKey: Invalid value: \"nil\": Using TLS requires requires clientKey]",
        );
        let of_names = |names: &[&str]| {
            let selections =
                names.iter().map(|name| format!("{{name: {name}, connection: {{proxyProtocol: Direct}}}}"));
            read_text(&format!("egressSelections: [{}]", selections.collect::<Vec<_>>().join(", ")))
        };
        let why = of_names(&["cluster", "master", "Cluster"]).expect_err("two are wrong");
        assert_eq!(
            why,
            "failed to validate egress selector configuration: [service.connection: Unsupported value: \"master\": supported \
             values: \"cluster\", \"controlplane\", \"etcd\", service.connection[2]: Duplicate value: \"cluster\"]"
        );
        assert!(
            read_text("other: 1").is_err_and(|why| why.ends_with("strict decoding error: unknown field \"other\""))
        );
    }
}
