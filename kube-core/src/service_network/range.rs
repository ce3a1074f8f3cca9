//! Arithmetic on the addresses of a network.

use std::net::IpAddr;

use machinery::meta::ip::{Cidr, Family, family};

/// The addresses of a network that services can have: neither the network's own nor IPv4's broadcast address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Usable {
    family: Family,
    /// The first usable address, as a number.
    first: u128,
    /// The last usable address.
    last: u128,
}

impl Usable {
    /// Of this network; `None` if it has none.
    pub(super) fn of(range: Cidr) -> Option<Self> {
        let family = family(range.ip);
        let bits: u32 = if range.ip.is_ipv4() { 32 } else { 128 };
        let free = bits.checked_sub(u32::from(range.prefix))?;
        let network = number(range.network());
        let end = network + 1u128.checked_shl(free).map_or(u128::MAX, |size| size - 1);
        let last = if family == Family::V4 { end.checked_sub(1)? } else { end };
        let first = network.checked_add(1)?;
        (first <= last).then_some(Usable { family, first, last })
    }

    /// Whether a service can have this address.
    pub(super) fn contains(&self, ip: IpAddr) -> bool {
        family(ip) == self.family && (self.first..=self.last).contains(&number(ip))
    }

    /// How many addresses at the start are left to those who ask for a certain one, as long as there are others.
    fn set_aside(&self) -> u128 {
        const LEAST: u128 = 16;
        const MOST: u128 = 256;
        const SHARE: u128 = 16;
        // Networks are counted whole, with the addresses that nobody can have.
        let size = (self.last - self.first).saturating_add(if self.family == Family::V4 { 3 } else { 2 });
        if size <= LEAST { 0 } else { (size / SHARE).clamp(LEAST, MOST) }
    }

    /// All addresses in the order in which they are tried: the upper part from somewhere in it, then the lower part.
    pub(super) fn from(&self, random: u64) -> impl Iterator<Item = IpAddr> + use<> {
        let middle = self.first + self.set_aside();
        let upper = around(middle, self.last, random);
        let lower = around(self.first, middle - 1, random);
        let family = self.family;
        upper.chain(lower).map(move |n| address(n, family))
    }
}

/// The numbers from `first` to `last`, beginning with a random one. None if there are none.
fn around(first: u128, last: u128, random: u64) -> impl Iterator<Item = u128> {
    let size = (last + 1).saturating_sub(first);
    let start = if size == 0 { first } else { first + u128::from(random) % size };
    (start..=last).chain(first..start)
}

fn number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn address(number: u128, family: Family) -> IpAddr {
    match family {
        #[allow(clippy::cast_possible_truncation, reason = "an IPv4 address was widened before")]
        Family::V4 => std::net::Ipv4Addr::from_bits(number as u32).into(),
        Family::V6 => std::net::Ipv6Addr::from_bits(number).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usable(text: &str) -> Option<Usable> {
        Usable::of(Cidr::parse_sloppy(text).expect("a CIDR"))
    }

    #[test]
    fn the_ends_of_a_network_belong_to_nobody() {
        let check = |range: &str, ip: &str, want: bool| {
            let ip = ip.parse().expect("an address");
            assert_eq!(usable(range).is_some_and(|u| u.contains(ip)), want, "{range} {ip}");
        };
        check("10.0.0.0/16", "10.0.0.0", false);
        check("10.0.0.0/16", "10.0.0.1", true);
        check("10.0.0.0/16", "10.0.255.254", true);
        check("10.0.0.0/16", "10.0.255.255", false);
        check("10.0.0.0/16", "fd00::1", false);
        check("fd00::/112", "fd00::", false);
        check("fd00::/112", "fd00::ffff", true);
        check("fd00::/112", "fd00::1:0", false);
        check("10.0.0.0/32", "10.0.0.0", false);
        check("0.0.0.0/0", "1.2.3.4", true);
        check("::/0", "ffff::", true);
    }

    #[test]
    fn every_address_is_tried_once_and_the_lower_ones_last() {
        let all: Vec<String> = usable("10.0.0.0/27").expect("some").from(3).map(|ip| ip.to_string()).collect();
        assert_eq!(all.len(), 30);
        assert_eq!((all[0].as_str(), all[13].as_str()), ("10.0.0.20", "10.0.0.19"));
        assert!(all[14..].iter().all(|ip| ip.parse::<std::net::Ipv4Addr>().is_ok_and(|ip| ip.octets()[3] <= 16)));
        let small: Vec<IpAddr> = usable("10.0.0.0/30").expect("some").from(0).collect();
        assert_eq!(small.len(), 2);
        assert!(usable("10.0.0.0/32").is_none());
        assert_eq!(usable("fd00::/64").expect("some").from(u64::MAX).take(3).count(), 3);
    }
}
