//! Which servers of the cluster run: each writes its address into the store, under a lease that ends soon after the server.

use std::{net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use generic_server::registry::Backing;
use machinery::{array, codec::json, object};
use storage::{Error, Expect, Range, Store};

/// How long a server counts as running that no longer says so.
const TTL: Duration = Duration::from_secs(15);

/// The addresses of running servers.
pub(super) struct ApiServers {
    store: Arc<dyn Store>,
    prefix: String,
}

impl ApiServers {
    pub(super) fn new(backing: &Backing) -> Self {
        ApiServers { store: backing.store.clone(), prefix: format!("{}/masterleases/", backing.root) }
    }

    /// Says that the server at this address runs, for the time of a lease.
    pub(super) async fn renew(&self, address: IpAddr) -> Result<(), Error> {
        let key = format!("{}{address}", self.prefix);
        loop {
            let (found, _) = self.store.get(&key).await?;
            let expect = found.map_or(Expect::Absent, |kv| Expect::Revision(kv.mod_revision));
            let lease = object! {
                "kind" => "Endpoints", "apiVersion" => "v1", "metadata" => object! {},
                "subsets" => array![object! { "addresses" => array![object! { "ip" => address.to_string() }] }],
            };
            match self.store.put(&key, Bytes::from(json::encode(&lease)), expect, Some(TTL)).await {
                Err(Error::Conflict { .. }) => {} // it has ended between the two
                done => return done.map(|_| ()),
            }
        }
    }

    /// Says that the server runs no longer.
    pub(super) async fn remove(&self, address: IpAddr) -> Result<(), Error> {
        let key = format!("{}{address}", self.prefix);
        match self.store.get(&key).await? {
            (Some(found), _) => self.store.delete(&key, found.mod_revision).await.map(|_| ()),
            (None, _) => Ok(()),
        }
    }

    /// The servers that run, in order of their addresses' texts.
    pub(super) async fn list(&self) -> Result<Vec<String>, Error> {
        let range = Range { prefix: self.prefix.clone(), ..Range::default() };
        let found = self.store.range(range).await?;
        Ok(found.items.iter().filter_map(|kv| kv.key.strip_prefix(self.prefix.as_str())).map(str::to_owned).collect())
    }
}
