//! Brings the pools into line with the services there are: what was leaked comes back, what is missing is noted.

mod addresses;
mod complaints;
mod due;
mod ports;

use std::time::Duration;

use generic_server::registry::Lister;
use machinery::Value;

pub(super) use addresses::task as addresses;
pub(super) use ports::task as ports;

/// How often the pools are looked at as a whole.
const PERIOD: Duration = Duration::from_secs(3 * 60);

/// Every object of a registry that can be read.
fn all(registry: &Lister) -> impl Iterator<Item = Value> + use<> {
    let snapshot = registry.cache().latest();
    let found = snapshot.range(registry.prefix(), None).filter_map(|e| e.object().cloned());
    found.filter_map(|o| registry.decode(o.bytes()).ok()).collect::<Vec<_>>().into_iter()
}
