//! Networks in CIDR notation.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// A network: its first address, and how many leading bits are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// The first address (the bits behind the prefix are zero).
    pub network: IpAddr,
    /// The fixed bits: up to 32 or 128.
    pub prefix: u8,
}

impl Cidr {
    /// The address at this distance from the first; `None` outside the network.
    pub fn nth(&self, distance: u128) -> Option<IpAddr> {
        let free = self.bits() - u32::from(self.prefix);
        if free < 128 && distance >> free != 0 {
            return None;
        }
        Some(match self.network {
            IpAddr::V4(first) => Ipv4Addr::from(u32::from(first).checked_add(u32::try_from(distance).ok()?)?).into(),
            IpAddr::V6(first) => Ipv6Addr::from(u128::from(first).checked_add(distance)?).into(),
        })
    }

    fn bits(&self) -> u32 {
        if self.network.is_ipv4() { 32 } else { 128 }
    }
}

impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || format!("invalid CIDR address: {text}");
        let (address, prefix) = text.split_once('/').ok_or_else(invalid)?;
        let address: IpAddr = address.parse().map_err(|_| invalid())?;
        let bits: u8 = if address.is_ipv4() { 32 } else { 128 };
        let is_number = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
        let prefix = prefix.parse().ok().filter(|prefix| is_number && *prefix <= bits).ok_or_else(invalid)?;
        let network = match address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
                Ipv4Addr::from(u32::from(address) & mask).into()
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
                Ipv6Addr::from(u128::from(address) & mask).into()
            }
        };
        Ok(Self { network, prefix })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_and_counted() {
        let check = |text: &str, distance: u128, expect: Option<&str>| {
            let cidr: Cidr = text.parse().expect("parses");
            assert_eq!(cidr.nth(distance).map(|address| address.to_string()).as_deref(), expect, "{text} {distance}");
        };
        check("10.0.0.0/24", 1, Some("10.0.0.1"));
        check("10.0.0.77/24", 255, Some("10.0.0.255"));
        check("10.0.0.0/24", 256, None);
        check("0.0.0.0/0", u128::from(u32::MAX), Some("255.255.255.255"));
        check("10.0.0.5/32", 0, Some("10.0.0.5"));
        check("10.0.0.5/32", 1, None);
        check("fd00::/108", 1, Some("fd00::1"));
        check("::/0", u128::MAX, Some("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"));
        assert_eq!("fd00::ffff/64".parse::<Cidr>().map(|cidr| cidr.to_string()), Ok("fd00::/64".to_owned()));
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in ["", "10.0.0.0", "10.0.0.0/33", "10.0.0/24", "fd00::/129", "10.0.0.0/-1", "10.0.0.0/+8", "x/8"] {
            assert_eq!(text.parse::<Cidr>(), Err(format!("invalid CIDR address: {text}")));
        }
    }
}
