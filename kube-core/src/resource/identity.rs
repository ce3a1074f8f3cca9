//! The identity of a device.

use std::fmt;

use machinery::{Value, meta::go_text};

/// A device, or a share of one, as claims name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct DeviceId<'a> {
    pub(super) driver: &'a str,
    pool: &'a str,
    device: &'a str,
    share: &'a str,
}

impl<'a> DeviceId<'a> {
    /// The device that a result of an allocation or a report is about.
    pub(super) fn of(named: &'a Value) -> Self {
        let text = |member: &str| named.get(member).and_then(Value::as_str).unwrap_or_default();
        DeviceId { driver: text("driver"), pool: text("pool"), device: text("device"), share: text("shareID") }
    }

    /// The name as errors show it.
    pub(super) fn shown(&self) -> String {
        let [driver, pool, device, share] = [self.driver, self.pool, self.device, self.share].map(go_text::quote);
        format!("{{\"Driver\":{driver},\"Pool\":{pool},\"Device\":{device},\"ShareID\":{share}}}")
    }

    /// The devices that are allocated to a claim.
    pub(super) fn allocated(claim: &'a Value) -> impl Iterator<Item = Self> + use<'a> {
        let results = claim.at(&["status", "allocation", "devices", "results"]).and_then(Value::as_array);
        results.unwrap_or_default().iter().map(DeviceId::of)
    }
}

impl fmt::Display for DeviceId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.driver, self.pool, self.device)?;
        if self.share.is_empty() { Ok(()) } else { write!(f, "/{}", self.share) }
    }
}
