//! Which API servers the cluster has: each renews a lease in kube-system as long as it runs. Leases of servers that are
//! long gone are removed by those that run.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use aws_lc_rs::digest::{SHA256, digest};
use generic_server::{
    options::DeleteOptions,
    registry::Registry,
    tasks::{Task, TaskResult},
};
use machinery::{
    Str, Value,
    meta::{Status, TimeForm, Timestamp},
    object,
};

const NAMESPACE: &str = "kube-system";
const IDENTITY: &str = "kube-apiserver";
const IDENTITY_LABEL: &str = "apiserver.kubernetes.io/identity";
const HOST_LABEL: &str = "kubernetes.io/hostname";
const PEER_ADDRESS: &str = "kubernetes.io/peer-advertise-address";
/// How long a lease is good for, in seconds.
const DURATION: i64 = 3600;
/// How often a server renews its lease.
const RENEW_EVERY: Duration = Duration::from_secs(10);
/// How often leases that have run out are looked for.
const COLLECT_EVERY: Duration = Duration::from_secs(3600);

/// The lease of one server.
#[derive(Clone)]
struct Lease {
    leases: Arc<Registry>,
    name: String,
    holder: String,
    host: Str,
    /// Where other servers reach this one, if they are told.
    address: Option<String>,
}

/// Renews this server's lease, and removes those that have run out.
pub(crate) fn tasks(leases: &Arc<Registry>, host: &Str, address: Option<SocketAddr>) -> [Task; 2] {
    let name = server_name(host);
    let holder = format!("{name}_{}", uuid::Uuid::new_v4());
    let lease =
        Lease { leases: leases.clone(), name, holder, host: host.clone(), address: address.map(|a| a.to_string()) };
    let renew = Task::new("start-kube-apiserver-identity-lease-controller", move |cx| {
        let lease = lease.clone();
        async move {
            lease.leases.cache().ready().await?;
            loop {
                lease.renew().await?;
                cx.ready();
                tokio::select! {
                    () = cx.cancelled() => return Ok(()),
                    () = tokio::time::sleep(RENEW_EVERY) => {}
                }
            }
        }
    });
    let leases = leases.clone();
    let collect = Task::new("start-kube-apiserver-identity-lease-garbage-collector", move |cx| {
        let leases = leases.clone();
        async move {
            leases.cache().ready().await?;
            loop {
                collect(&leases).await?;
                cx.ready();
                tokio::select! {
                    () = cx.cancelled() => return Ok(()),
                    () = tokio::time::sleep(COLLECT_EVERY) => {}
                }
            }
        }
    });
    [renew.after("start-system-namespaces-controller"), collect]
}

/// What the server on a host is called, in metrics and in its lease: `apiserver-` and 26 letters and digits that depend on
/// the host's name and on what the server is.
pub fn server_name(host: &str) -> String {
    let mut text = Vec::new();
    for part in [host, IDENTITY] {
        text.extend(u16::try_from(part.len()).unwrap_or(u16::MAX).to_be_bytes());
        text.extend(part.as_bytes());
    }
    format!("apiserver-{}", base32(&digest(&SHA256, &text).as_ref()[..16]))
}

/// Base 32 (RFC 4648) in lower case, without padding.
fn base32(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let bit = |at: usize| bytes.get(at / 8).map_or(0, |byte| usize::from(byte >> (7 - at % 8) & 1));
    let digits = (0..(bytes.len() * 8).div_ceil(5)).map(|i| (0..5).fold(0, |n, k| n << 1 | bit(i * 5 + k)));
    digits.map(|digit| char::from(ALPHABET[digit])).collect()
}

impl Lease {
    async fn renew(&self) -> TaskResult {
        let place = (NAMESPACE, self.name.as_str(), "");
        match self.leases.edit_as(IDENTITY, place, |lease| Ok(self.renewed(lease.clone()))).await {
            Ok(_) => return Ok(()),
            Err(status) if status.is_not_found() => {}
            Err(status) => return Err(status.into()),
        }
        let lease = object! {
            "kind" => "Lease", "apiVersion" => "coordination.k8s.io/v1",
            "metadata" => object! { "name" => self.name.as_str(), "namespace" => NAMESPACE },
        };
        match self.leases.create_as(IDENTITY, self.renewed(lease)).await {
            Ok(_) => Ok(()),
            Err(status) if status.is_already_exists() => Ok(()), // another server of this host was faster
            Err(status) => Err(status.into()),
        }
    }

    fn renewed(&self, mut lease: Value) -> Value {
        lease.set(&["metadata", "labels", IDENTITY_LABEL], IDENTITY);
        lease.set(&["metadata", "labels", HOST_LABEL], self.host.clone());
        if let Some(address) = &self.address {
            lease.set(&["metadata", "annotations", PEER_ADDRESS], address.as_str());
        }
        lease.set(&["spec", "holderIdentity"], self.holder.as_str());
        lease.set(&["spec", "leaseDurationSeconds"], DURATION);
        lease.set(&["spec", "renewTime"], Timestamp::now().text(TimeForm::Micros));
        lease
    }
}

async fn collect(leases: &Registry) -> Result<(), Status> {
    let snapshot = leases.cache().latest();
    let now = Timestamp::now().seconds();
    for entry in snapshot.range(&leases.namespace_prefix(NAMESPACE), None) {
        let Some(object) = entry.object().filter(|o| o.labels().get(IDENTITY_LABEL) == Some(IDENTITY)) else {
            continue;
        };
        let lease = leases.decode(object.bytes())?;
        if !has_run_out(&lease, now) {
            continue;
        }
        // Only as it was looked at: the server may be back.
        let version = object.revision().to_string();
        let options = DeleteOptions { resource_version: Some(version.into()), ..Default::default() };
        match leases.delete_admitted(NAMESPACE, object.name(), &options).await {
            Ok(_) => tracing::info!(lease = object.name(), "a server that has not renewed its lease is forgotten"),
            Err(status) if status.is_not_found() || status.code == 409 => {}
            Err(status) => return Err(status),
        }
    }
    Ok(())
}

/// Whether a lease has run out. One that does not say for how long it is good is good for nothing.
fn has_run_out(lease: &Value, now: i64) -> bool {
    let renewed = lease.str_at(&["spec", "renewTime"]).and_then(|t| Timestamp::parse(t, TimeForm::Micros).ok());
    let duration = lease.at(&["spec", "leaseDurationSeconds"]).and_then(Value::as_i64);
    match (renewed, duration) {
        (Some(renewed), Some(duration)) => renewed.seconds().saturating_add(duration) < now,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_upstreams() {
        assert_eq!(server_name("vm"), "apiserver-wlv32tlttr4jl3gtroqexyxapa");
        assert_eq!((base32(b"foobar"), base32(b"")), ("mzxw6ytboi".to_owned(), String::new()));
    }

    #[test]
    fn a_lease_runs_out_when_its_time_is_over() {
        let check = |spec: Value, now: i64, want: bool| {
            assert_eq!(has_run_out(&object! { "spec" => spec.clone() }, now), want, "{spec:?}");
        };
        let spec = object! { "renewTime" => "1970-01-01T00:00:10.000000Z", "leaseDurationSeconds" => 60 };
        check(spec.clone(), 70, false);
        check(spec, 71, true);
        check(object! { "renewTime" => "1970-01-01T00:00:10.000000Z" }, 11, true);
        check(object! { "leaseDurationSeconds" => 60 }, 11, true);
    }
}
