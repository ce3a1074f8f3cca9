//! What is said of a request to people: where it comes from, and how it came.

use std::net::IpAddr;

use http::HeaderMap;
use machinery::meta::ip::parse_sloppy;

use super::Request;
use crate::serve::Peer;

/// Audit ids are cut to so many bytes where they are shown.
const MAX_AUDIT_ID: usize = 64;

/// The protocol, as Go's server names it.
pub(crate) fn protocol(request: &Request) -> &'static str {
    match request.extensions.get::<Peer>() {
        Some(peer) if peer.http2 => "HTTP/2.0",
        _ => "HTTP/1.1",
    }
}

/// The beginning of an audit id.
pub(crate) fn audit_id_cut(id: &str) -> &str {
    id.get(..MAX_AUDIT_ID).unwrap_or(id)
}

/// Where a request comes from, by what proxies say of it and, last, by its connection.
pub(crate) fn source_ips(request: &Request) -> Vec<IpAddr> {
    let read = |text: &str| parse_sloppy(text).map(|ip| ip.to_canonical());
    let mut found: Vec<IpAddr> = first(&request.headers, "x-forwarded-for")
        .map(|list| list.split(',').filter_map(|part| read(part.trim())).collect())
        .unwrap_or_default();
    if let Some(real) = first(&request.headers, "x-real-ip").and_then(read).filter(|real| !found.contains(real)) {
        found.push(real);
    }
    let remote = request.extensions.get::<Peer>().map(|peer| peer.remote.ip().to_canonical());
    if let Some(remote) = remote.filter(|remote| found.last() != Some(remote)) {
        found.push(remote);
    }
    found
}

/// The first of these addresses.
pub(crate) fn client_address(request: &Request) -> String {
    source_ips(request).first().map_or_else(|| "unknown".to_owned(), ToString::to_string)
}

fn first<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}
