//! The addresses: each that a service holds has an object that names the service, and each such object a service. What
//! changes is looked at a moment later, everything from time to time.

use std::{net::IpAddr, sync::Arc, time::Duration};

use generic_server::{
    options::DeleteOptions,
    registry::Registry,
    tasks::{Task, TaskContext, TaskResult},
};
use machinery::{
    Value,
    meta::{
        Status, TimeForm, Timestamp,
        ip::{Family, family, parse_sloppy},
    },
};
use storage::cache::{Everything, Followed, Scope, Snapshot, WatchEvent};
use tokio::time::Instant;

use super::{PERIOD, all, complaints::Complaints, due::Due};
use crate::{
    service_network::service::Service,
    service_network::{
        AddressError, Network, Owner,
        addresses::{MANAGED_BY, MANAGED_BY_LABEL, is_labelled},
    },
};

/// How old an address without a service must be: its service may be about to be written.
const GRACE: Duration = Duration::from_secs(60);
/// How long after a change it is looked at: the other half of it is often on its way.
const SETTLE: Duration = Duration::from_secs(1);
const OF_SERVICE: &str = "ClusterIPAllocation";
const OF_ADDRESS: &str = "IPAddressAllocation";

/// What is looked at.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Key {
    /// Services come first: an address that one of them holds is no stray.
    Service(String, String),
    Address(String),
}

/// Keeps the addresses right.
pub(in crate::service_network) fn task(network: Arc<Network>, services: Arc<Registry>, events: Arc<Registry>) -> Task {
    let task = Task::new("start-service-ip-repair-controllers", move |cx| {
        let complaints = Complaints::new(events.clone(), "ipallocator-repair-controller");
        let repair = Repair { network: network.clone(), services: services.clone(), complaints, due: Due::new() };
        async move { repair.run(&cx).await }
    });
    task.after("start-kubernetes-service-cidr-controller")
}

struct Repair {
    network: Arc<Network>,
    services: Arc<Registry>,
    complaints: Complaints,
    due: Due<Key>,
}

impl Repair {
    async fn run(mut self, cx: &TaskContext) -> TaskResult {
        let addresses = self.network.addresses.objects().clone();
        let mut of_services = self.services.cache().follow(Scope::All, Arc::new(Everything));
        let mut of_addresses = addresses.cache().follow(Scope::All, Arc::new(Everything));
        // The first thing that a follower tells is everything.
        for follower in [&mut of_services, &mut of_addresses] {
            if follower.next().await.is_none() {
                return Ok(());
            }
        }
        self.look_at_all();
        let mut sweep = tokio::time::interval_at(Instant::now() + PERIOD, PERIOD);
        loop {
            while let Some(key) = self.due.pop(Instant::now()) {
                self.look_at(key).await?;
            }
            cx.ready();
            tokio::select! {
                () = cx.cancelled() => return Ok(()),
                () = self.due.wait() => {}
                _ = sweep.tick() => self.look_at_all(),
                next = of_services.next() => match next {
                    Some(Followed::Event(event)) => self.note_service(&event),
                    Some(Followed::Reset(_)) => self.look_at_all(),
                    None => return Ok(()),
                },
                next = of_addresses.next() => match next {
                    Some(Followed::Event(event)) => self.note_address(&event),
                    Some(Followed::Reset(_)) => self.look_at_all(),
                    None => return Ok(()),
                },
            }
        }
    }

    fn look_at_all(&mut self) {
        let now = Instant::now();
        let names = |registry: &Registry, snapshot: &Snapshot| -> Vec<(String, String)> {
            let objects = snapshot.range(registry.prefix(), None).filter_map(|entry| entry.object());
            objects.map(|o| (o.namespace().unwrap_or_default().to_owned(), o.name().to_owned())).collect()
        };
        for (namespace, name) in names(&self.services, &self.services.cache().latest()) {
            self.due.add(Key::Service(namespace, name), now);
        }
        let addresses = self.network.addresses.objects();
        for (_, name) in names(addresses, &addresses.cache().latest()) {
            self.due.add(Key::Address(name), now);
        }
    }

    fn note_service(&mut self, event: &WatchEvent) {
        let WatchEvent::Object { object, .. } = event else { return };
        let at = Instant::now() + SETTLE;
        self.due.add(Key::Service(object.namespace().unwrap_or_default().to_owned(), object.name().to_owned()), at);
        // A service that is gone may have left its addresses behind.
        if let Ok(service) = self.services.decode(object.bytes()) {
            for ip in Service(&service).addresses() {
                self.due.add(Key::Address(ip.to_string()), at);
            }
        }
    }

    fn note_address(&mut self, event: &WatchEvent) {
        let WatchEvent::Object { object, .. } = event else { return };
        let at = Instant::now() + SETTLE;
        self.due.add(Key::Address(object.name().to_owned()), at);
        if let Ok(address) = self.network.addresses.objects().decode(object.bytes())
            && let Some(owner) = Owner::named_by(&address)
        {
            self.due.add(Key::Service(owner.namespace, owner.name), at);
        }
    }

    async fn look_at(&mut self, key: Key) -> TaskResult {
        match key {
            Key::Service(namespace, name) => self.look_at_service(&Owner { namespace, name }).await,
            Key::Address(name) => self.look_at_address(&name).await,
        }
    }

    /// The service as the cache has it.
    fn service(&self, owner: &Owner) -> Option<Value> {
        let snapshot = self.services.cache().latest();
        let entry = snapshot.get(&self.services.key(&owner.namespace, &owner.name))?;
        self.services.decode(entry.object()?.bytes()).ok()
    }

    /// The address's object as the cache has it.
    fn address(&self, name: &str) -> Option<Value> {
        let objects = self.network.addresses.objects();
        let snapshot = objects.cache().latest();
        objects.decode(snapshot.get(&objects.key("", name))?.object()?.bytes()).ok()
    }

    async fn look_at_service(&mut self, owner: &Owner) -> TaskResult {
        let Some(service) = self.service(owner) else { return Ok(()) };
        for ip in Service(&service).addresses() {
            self.look_at_held(&service, owner, ip).await?;
        }
        Ok(())
    }

    /// Looks at an address that a service holds.
    async fn look_at_held(&mut self, service: &Value, owner: &Owner, ip: IpAddr) -> TaskResult {
        let of = match family(ip) {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        };
        if !self.network.addresses.covers(ip) {
            let note =
                format!("Cluster IP [{of}]: {ip} is not within any configured Service CIDR; please recreate service");
            self.complaints.make(service, ("ClusterIPOutOfRange", OF_SERVICE), note).await;
            return Ok(());
        }
        let Some(address) = self.address(&ip.to_string()) else {
            // The cache may be behind: who gives the address back has removed the service first.
            if !self.still_holds(owner, ip).await? {
                return Ok(());
            }
            let done = self.note(owner, ip).await?;
            if done {
                let note = format!("Cluster IP [{of}]: {ip} is not allocated; repairing");
                self.complaints.make(service, ("ClusterIPNotAllocated", OF_SERVICE), note).await;
            }
            return Ok(());
        };
        let named = Owner::named_by(&address);
        if named.as_ref() == Some(owner) {
            return if is_labelled(&address) { Ok(()) } else { self.replace(owner, ip, &address).await };
        }
        let theirs = named.as_ref().and_then(|other| self.service(other));
        if theirs.is_some_and(|theirs| Service(&theirs).addresses().any(|held| held == ip)) {
            let note = format!("Cluster IP [{of}]:{ip} was assigned to multiple services; please recreate service");
            self.complaints.make(service, ("ClusterIPAlreadyAllocated", OF_SERVICE), note).await;
            return Ok(());
        }
        if !self.still_holds(owner, ip).await? {
            return Ok(());
        }
        let note = format!(
            "the ClusterIP [{of}]: {ip} for Service {}/{} has a wrong reference; repairing",
            owner.namespace, owner.name
        );
        self.complaints.make(service, ("ClusterIPNotAllocated", OF_SERVICE), note).await;
        self.replace(owner, ip, &address).await
    }

    /// Whether the service holds the address, as the store has it.
    async fn still_holds(&self, owner: &Owner, ip: IpAddr) -> Result<bool, Status> {
        match self.services.get_value(&owner.namespace, &owner.name).await {
            Ok(service) => Ok(Service(&service).addresses().any(|held| held == ip)),
            Err(status) if status.is_not_found() => Ok(false),
            Err(status) => Err(status),
        }
    }

    /// Writes down whose the address is; false if another server was faster.
    async fn note(&self, owner: &Owner, ip: IpAddr) -> Result<bool, AddressError> {
        match self.network.addresses.note(owner, ip).await {
            Ok(()) => Ok(true),
            Err(AddressError::Taken) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn replace(&self, owner: &Owner, ip: IpAddr, address: &Value) -> TaskResult {
        if self.remove(address).await? {
            self.note(owner, ip).await?;
        }
        Ok(())
    }

    /// Removes an address's object if it is still what was looked at.
    async fn remove(&self, address: &Value) -> Result<bool, Status> {
        let text = |key| address.str_at(&["metadata", key]).unwrap_or_default();
        let options = DeleteOptions { resource_version: Some(text("resourceVersion").into()), ..Default::default() };
        match self.network.addresses.objects().delete_admitted("", text("name"), &options).await {
            Ok(_) => Ok(true),
            Err(status) if status.is_not_found() || status.code == 409 => Ok(false),
            Err(status) => Err(status),
        }
    }

    /// Looks whether an address that was given out for a service belongs to one.
    async fn look_at_address(&mut self, name: &str) -> TaskResult {
        let Some(address) = self.address(name).filter(is_ours) else { return Ok(()) };
        let Some(owner) = Owner::named_by(&address) else {
            let named = address.at(&["spec", "parentRef"]).map(machinery::patch::go_format).unwrap_or_default();
            let note = format!(
                "IPAddress {name} appears to have been modified, not referencing a Service {named}: cleaning up"
            );
            self.complaints.make(&address, ("IPAddressNotAllocated", OF_ADDRESS), note).await;
            self.remove(&address).await?;
            return Ok(());
        };
        let Some(ip) = parse_sloppy(name) else { return Ok(()) };
        let service = self.service(&owner);
        if service.as_ref().is_some_and(|service| Service(service).addresses().any(|held| held == ip)) {
            return Ok(());
        }
        if let Some(holder) = all(&self.services).find(|s| Service(s).addresses().any(|held| held == ip)) {
            return self.look_at_held(&holder, &Owner::of(&holder), ip).await;
        }
        let age = age(&address);
        if age <= GRACE {
            self.due.add(Key::Address(name.to_owned()), Instant::now() + (GRACE - age) + SETTLE);
            return Ok(());
        }
        if self.still_holds(&owner, ip).await? {
            return Ok(());
        }
        let of = format!("IPAddress: {name} for Service {}/{}", owner.namespace, owner.name);
        let (reason, note) = match service {
            None => ("IPAddressNotAllocated", format!("{of} appears to have leaked: cleaning up")),
            Some(_) => ("IPAddressWrongReference", format!("{of} has a wrong reference; cleaning up")),
        };
        self.complaints.make(&address, (reason, OF_ADDRESS), note).await;
        self.remove(&address).await?;
        Ok(())
    }
}

/// Whether an address was given out for a service.
fn is_ours(address: &Value) -> bool {
    address.str_at(&["metadata", "labels", MANAGED_BY_LABEL]) == Some(MANAGED_BY)
}

fn age(object: &Value) -> Duration {
    let created = object.str_at(&["metadata", "creationTimestamp"]).unwrap_or_default();
    let created = Timestamp::parse(created, TimeForm::Seconds).map_or(i64::MIN, Timestamp::seconds);
    Duration::from_secs(u64::try_from(Timestamp::now().seconds().saturating_sub(created)).unwrap_or(0))
}
