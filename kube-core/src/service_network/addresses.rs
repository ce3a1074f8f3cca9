//! Who has which address: an `IPAddress` object for each, named by the address. Making one is a compare-and-swap, so that of
//! several servers only one can give an address out.

use std::{hash::BuildHasher as _, net::IpAddr, sync::Arc};

use generic_server::{
    options::DeleteOptions,
    registry::{Lister, Registry, read_error},
};
use machinery::{
    Value,
    meta::{
        Meta, Status,
        ip::{Cidr, Family, family},
    },
    object,
};
use storage::cache::{ReadAt, Snapshot};

use super::range::Usable;

/// Who gives addresses out, as the objects' label says.
pub(super) const MANAGED_BY: &str = "ipallocator.k8s.io";
/// The label that says so.
pub(super) const MANAGED_BY_LABEL: &str = "ipaddress.kubernetes.io/managed-by";
const FAMILY_LABEL: &str = "ipaddress.kubernetes.io/ip-family";
/// How many taken addresses are passed over before others get to run.
const PATIENCE: usize = 1024;

/// Why an address could not be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AddressError {
    /// None is left.
    #[error("range is full")]
    Full,
    /// Somebody has it.
    #[error("provided IP is already allocated")]
    Taken,
    /// It is in no range that is ready.
    #[error("the provided network does not match the current range")]
    NoRange,
    /// It is not in the range (of a dry run).
    #[error("the provided IP ({0}) is not in the valid range. The range of valid IPs is {1}")]
    Outside(IpAddr, String),
    /// It could not be written down.
    #[error("{}", .0.message)]
    Failed(Box<Status>),
}

/// The service that an address belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Its namespace.
    pub(crate) namespace: String,
    /// Its name.
    pub(crate) name: String,
}

impl Owner {
    /// The service itself.
    pub(crate) fn of(service: &Value) -> Self {
        let text = |key| service.str_at(&["metadata", key]).unwrap_or_default().to_owned();
        Owner { namespace: text("namespace"), name: text("name") }
    }

    /// The service that an `IPAddress` says it belongs to; none if it is something else.
    pub(super) fn named_by(address: &Value) -> Option<Self> {
        let part = |key| address.str_at(&["spec", "parentRef", key]).unwrap_or_default();
        let is_service = part("group").is_empty() && part("resource") == "services";
        is_service.then(|| Owner { namespace: part("namespace").to_owned(), name: part("name").to_owned() })
    }
}

/// The addresses of services.
pub(crate) struct Addresses {
    objects: Arc<Registry>,
    ranges: Arc<Lister>,
}

impl Addresses {
    pub(super) fn new(objects: Arc<Registry>, ranges: Arc<Lister>) -> Self {
        Addresses { objects, ranges }
    }

    pub(super) fn objects(&self) -> &Arc<Registry> {
        &self.objects
    }

    /// The networks of this family that addresses are given out of.
    fn ranges(&self, wanted: Family) -> Vec<Cidr> {
        let snapshot = self.ranges.cache().latest();
        let objects = snapshot.range(self.ranges.prefix(), None).filter_map(|entry| entry.object());
        let ready = objects.filter_map(|o| self.ranges.decode(o.bytes()).ok()).filter(is_ready);
        let mut cidrs = Vec::new();
        for range in ready {
            let texts = range.at(&["spec", "cidrs"]).and_then(Value::as_array).unwrap_or_default();
            let parsed = texts.iter().filter_map(Value::as_str).filter_map(Cidr::parse_sloppy);
            cidrs.extend(parsed.filter(|cidr| family(cidr.ip) == wanted));
        }
        cidrs
    }

    /// Whether an address can be given out.
    pub(super) fn covers(&self, ip: IpAddr) -> bool {
        self.ranges(family(ip)).iter().any(|cidr| Usable::of(*cidr).is_some_and(|usable| usable.contains(ip)))
    }

    /// Takes this address for the service.
    pub(crate) async fn take(&self, owner: &Owner, ip: IpAddr) -> Result<(), AddressError> {
        if !self.covers(ip) {
            return Err(AddressError::NoRange);
        }
        self.note(owner, ip).await
    }

    /// Takes any address of this family for the service.
    pub(crate) async fn take_next(&self, owner: &Owner, wanted: Family) -> Result<IpAddr, AddressError> {
        let (known, is_latest) = self.objects.cache().peek_all();
        match self.take_free(owner, wanted, &known).await {
            // Addresses that were given back may still be in the cache.
            Err(AddressError::Full) if !is_latest => {
                let stored = self.objects.cache().read(ReadAt::Latest).await;
                let unread = |error| read_error(&error);
                let stored = stored.map_err(|error| AddressError::Failed(Box::new(unread(error))))?;
                self.take_free(owner, wanted, &stored).await
            }
            done => done,
        }
    }

    /// Takes an address that is not among the `known` ones.
    async fn take_free(&self, owner: &Owner, wanted: Family, known: &Snapshot) -> Result<IpAddr, AddressError> {
        let ranges = self.ranges(wanted);
        for usable in ranges.iter().filter_map(|cidr| Usable::of(*cidr)) {
            for (tried, ip) in usable.from(random()).enumerate() {
                if tried % PATIENCE == PATIENCE - 1 {
                    tokio::task::yield_now().await;
                }
                if known.get(&self.objects.key("", &ip.to_string())).is_some() {
                    continue;
                }
                match self.note(owner, ip).await {
                    Ok(()) => return Ok(ip),
                    Err(AddressError::Taken) => {} // by another server, or since
                    Err(error) => return Err(error),
                }
            }
        }
        Err(AddressError::Full)
    }

    /// Whether an address may be asked for; takes nothing.
    pub(crate) fn look(&self, ip: IpAddr) -> Result<(), AddressError> {
        let ranges = self.ranges(family(ip));
        let fits = |cidr: &Cidr| Usable::of(*cidr).is_some_and(|usable| usable.contains(ip));
        match ranges.first() {
            None => Err(AddressError::NoRange),
            Some(_) if ranges.iter().any(fits) => Ok(()),
            Some(first) => Err(AddressError::Outside(ip, format!("{}/{}", first.network(), first.prefix))),
        }
    }

    /// What a dry run shows in place of an address.
    pub(crate) fn look_next(&self, wanted: Family) -> Result<IpAddr, AddressError> {
        self.ranges(wanted).first().map(|cidr| cidr.network()).ok_or(AddressError::Full)
    }

    /// Writes down whose the address is.
    pub(super) async fn note(&self, owner: &Owner, ip: IpAddr) -> Result<(), AddressError> {
        let object = object! {
            "kind" => "IPAddress", "apiVersion" => "networking.k8s.io/v1",
            "metadata" => object! {
                "name" => ip.to_string(),
                "labels" => object! { FAMILY_LABEL => family_label(ip), MANAGED_BY_LABEL => MANAGED_BY },
            },
            "spec" => object! { "parentRef" => object! {
                "resource" => "services", "namespace" => owner.namespace.as_str(), "name" => owner.name.as_str(),
            } },
        };
        match self.objects.create_as_server(object).await {
            Ok(_) => Ok(()),
            Err(status) if status.is_already_exists() => Err(AddressError::Taken),
            Err(status) => Err(AddressError::Failed(Box::new(status))),
        }
    }

    /// Gives an address back that the service has; one that is somebody else's stays.
    pub(crate) async fn give_back(&self, owner: &Owner, ip: IpAddr) {
        let name = ip.to_string();
        let version = match self.objects.get_value("", &name).await {
            Ok(object) if Owner::named_by(&object).as_ref() == Some(owner) => {
                Meta::of(&object).resource_version().into()
            }
            Ok(_) => return,
            Err(status) if status.is_not_found() => return,
            Err(status) => {
                tracing::warn!(ip = name, error = status.message, "an address could not be given back");
                return;
            }
        };
        // By the time that it is deleted somebody else may have got it.
        let options = DeleteOptions { resource_version: Some(version), ..DeleteOptions::default() };
        match self.objects.delete_as_server_if("", &name, &options).await {
            Ok(_) => {}
            Err(status) if status.is_not_found() => {}
            // The repair finds it.
            Err(status) => tracing::warn!(ip = name, error = status.message, "an address could not be given back"),
        }
    }
}

fn family_label(ip: IpAddr) -> &'static str {
    match family(ip) {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    }
}

/// Whether the labels of an address are those that it was given out with.
pub(super) fn is_labelled(address: &Value) -> bool {
    let label = |key| address.str_at(&["metadata", "labels", key]);
    let ip = address.str_at(&["metadata", "name"]).and_then(|name| name.parse().ok());
    label(MANAGED_BY_LABEL) == Some(MANAGED_BY) && label(FAMILY_LABEL) == ip.map(family_label)
}

/// Whether a range gives addresses out: it is not on its way out, and nobody has said that it is not ready.
fn is_ready(range: &Value) -> bool {
    let deleting = range.at(&["metadata", "deletionTimestamp"]).is_some_and(|t| !t.is_null());
    let conditions = range.at(&["status", "conditions"]).and_then(Value::as_array).unwrap_or_default();
    let ready = conditions.iter().find(|c| c.str_at(&["type"]) == Some("Ready"));
    !deleting && ready.is_none_or(|c| c.str_at(&["status"]) == Some("True"))
}

/// Each `RandomState` has keys of its own, from the system's randomness.
pub(super) fn random() -> u64 {
    std::hash::RandomState::new().hash_one(0)
}

#[cfg(test)]
mod tests {
    use generic_server::{
        admission::Chain,
        registry::{Backing, RegistrySettings},
    };
    use storage::Memory;

    use super::*;
    use crate::late;

    async fn registry(store: &Arc<late::Late>, plural: &str) -> Arc<Registry> {
        let rows = crate::resources();
        let row = rows.into_iter().find(|row| row.group == "networking.k8s.io" && row.plural == plural);
        let settings = RegistrySettings::default();
        let backing = Backing { store: store.clone(), encryption: None, root: "/registry".into(), settings };
        let lister = Lister::start(row.expect("a row"), &backing);
        let registry = Arc::new(Registry::new(lister, Arc::new(Chain::default())));
        registry.ready().await.expect("it fills");
        registry
    }

    async fn server(store: &Arc<late::Late>) -> (Addresses, Arc<Registry>) {
        let ranges = registry(store, "servicecidrs").await;
        (Addresses::new(registry(store, "ipaddresses").await, ranges.lister().clone()), ranges)
    }

    #[tokio::test]
    async fn an_address_that_was_given_back_is_found_whatever_the_cache_says() {
        let memory = Memory::new();
        let stores = [late::Late::new(&memory, 0), late::Late::new(&memory, 0)];
        let [(one, ranges), (other, _)] = [server(&stores[0]).await, server(&stores[1]).await];
        let range = object! {
            "kind" => "ServiceCIDR", "apiVersion" => "networking.k8s.io/v1",
            "metadata" => object! { "name" => "kubernetes" },
            "spec" => object! { "cidrs" => machinery::array!["10.0.0.0/30"] },
        };
        ranges.create_as_server(range).await.expect("made");
        let service = |name: &str| Owner { namespace: "default".into(), name: name.into() };
        let first = one.take_next(&service("a"), Family::V4).await.expect("free");
        one.take_next(&service("b"), Family::V4).await.expect("free");
        assert!(matches!(one.take_next(&service("c"), Family::V4).await, Err(AddressError::Full)));

        stores[0].hold();
        other.give_back(&service("a"), first).await;
        assert_eq!(one.take_next(&service("c"), Family::V4).await.expect("the one that was given back"), first);
    }
}
