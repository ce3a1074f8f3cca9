//! Where API servers are reached by each other: each writes that into the store, under a lease that ends soon after the server.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use generic_server::{registry::Backing, tasks::Task};
use machinery::{
    Str, Value, array,
    codec::{json, protobuf},
    object,
};
use storage::{Error, Expect, Range, Store};

/// How long an address is good for that is not written again.
const TTL: Duration = Duration::from_secs(15);
/// How often it is written.
const EVERY: Duration = Duration::from_secs(10);
/// The label that says whose it is.
const OWNER: &str = "apiserverIdentity";

/// The addresses in the store.
#[derive(Clone)]
pub(super) struct Addresses {
    store: Arc<dyn Store>,
    prefix: String,
}

impl Addresses {
    pub(super) fn new(backing: &Backing) -> Self {
        Addresses { store: backing.store.clone(), prefix: format!("{}/peerserverleases/", backing.root) }
    }

    /// Says for the time of a lease where a server is.
    async fn write(&self, name: &str, own: SocketAddr, count: i64) -> Result<(), Error> {
        let key = format!("{}{name}", self.prefix);
        let address = object! {
            "kind" => "Endpoints", "apiVersion" => "v1",
            "metadata" => object! { "generation" => count, "labels" => object! { OWNER => name } },
            "subsets" => array![object! {
                "addresses" => array![object! { "ip" => own.ip().to_string() }],
                "ports" => array![object! { "name" => "https", "port" => i64::from(own.port()), "protocol" => "TCP" }],
            }],
        };
        loop {
            let (found, _) = self.store.get(&key).await?;
            let expect = found.map_or(Expect::Absent, |kv| Expect::Revision(kv.mod_revision));
            match self.store.put(&key, Bytes::from(json::encode(&address)), expect, Some(TTL)).await {
                Err(Error::Conflict { .. }) => {} // it has ended between the two
                done => return done.map(|_| ()),
            }
        }
    }

    async fn remove(&self, name: &str) -> Result<(), Error> {
        let key = format!("{}{name}", self.prefix);
        match self.store.get(&key).await? {
            (Some(found), _) => self.store.delete(&key, found.mod_revision).await.map(|_| ()),
            (None, _) => Ok(()),
        }
    }

    /// Where some servers are, as host and port; those that are gone are left out.
    pub(super) async fn find(&self, names: &[Str]) -> Result<Vec<String>, Error> {
        let range = Range { prefix: self.prefix.clone(), ..Range::default() };
        let found = self.store.range(range).await?;
        let all = found.items.iter().filter_map(|kv| read(&kv.value));
        Ok(all.filter(|(name, _)| names.contains(name)).map(|(_, address)| address).collect())
    }
}

/// Whose address it is, and what it is, in JSON or protobuf.
fn read(stored: &[u8]) -> Option<(Str, String)> {
    let stored = match stored.starts_with(b"k8s\0") {
        true => protobuf::decode(stored).ok()?,
        false => json::decode(stored).ok()?,
    };
    let name = stored.str_at(&["metadata", "labels", OWNER])?;
    let first = |value: &Value, list: &str| value.get(list).and_then(Value::as_array).and_then(<[_]>::first).cloned();
    let subset = first(&stored, "subsets")?;
    let (address, port) = (first(&subset, "addresses")?, first(&subset, "ports")?);
    let (ip, port) = (address.str_at(&["ip"])?, port.get("port").and_then(Value::as_i64)?);
    let host = if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() };
    Some((Str::from(name), format!("{host}:{port}")))
}

/// Tells the others where this server is, as long as it runs.
pub(super) fn announce(addresses: Addresses, name: String, own: SocketAddr) -> Task {
    Task::new("peer-endpoint-lease", move |cx| {
        let (addresses, name) = (addresses.clone(), name.clone());
        async move {
            for count in 1.. {
                addresses.write(&name, own, count).await?;
                cx.ready();
                tokio::select! {
                    () = cx.cancelled() => break,
                    () = tokio::time::sleep(EVERY) => {}
                }
            }
            addresses.remove(&name).await?;
            Ok(())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_whose_it_is() {
        let check = |text: &str, expect: Option<(&str, &str)>| {
            let expect = expect.map(|(name, address)| (Str::from(name), address.to_owned()));
            assert_eq!(read(text.as_bytes()), expect, "{text}");
        };
        let of = |ip: &str| {
            format!(
                r#"{{"kind":"Endpoints","apiVersion":"v1","metadata":{{"labels":{{"apiserverIdentity":"apiserver-a"}}}},
                "subsets":[{{"addresses":[{{"ip":"{ip}"}}],"ports":[{{"name":"https","port":6443}}]}}]}}"#
            )
        };
        check(&of("10.0.0.1"), Some(("apiserver-a", "10.0.0.1:6443")));
        check(&of("fd00::1"), Some(("apiserver-a", "[fd00::1]:6443")));
        check(r#"{"metadata":{"labels":{"apiserverIdentity":"a"}},"subsets":[]}"#, None);
        check("no object", None);
    }
}
