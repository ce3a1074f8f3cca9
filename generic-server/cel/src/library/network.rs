//! `ip()` and `cidr()`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use machinery::meta::go_text::quote;
use machinery::meta::netip;

use super::{Library, args};
use crate::types::Type;
use crate::value::{Error, Opaque, Result, Value};

const IP: &str = "net.IP";
const CIDR: &str = "net.CIDR";

#[derive(Clone, Copy, Debug, PartialEq)]
struct Ip(IpAddr);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Cidr {
    ip: IpAddr,
    bits: u8,
}

impl Opaque for Ip {
    fn type_name(&self) -> &'static str {
        IP
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        (other as &dyn std::any::Any).downcast_ref() == Some(self)
    }

    fn size(&self) -> Option<u64> {
        Some(if self.0.is_ipv4() { 4 } else { 16 })
    }
}

impl Opaque for Cidr {
    fn type_name(&self) -> &'static str {
        CIDR
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        (other as &dyn std::any::Any).downcast_ref() == Some(self)
    }

    fn size(&self) -> Option<u64> {
        Some(u64::from(self.bits).div_ceil(8))
    }
}

pub(super) fn add(library: &mut Library) {
    use Type::{Bool, Int, String};
    let ip = || Type::opaque(IP);
    library.global(
        "ip",
        "string_to_ip",
        &[String],
        ip(),
        |a| args!(a, Value::String(s) => parse_ip(s).map(ip_value).map_err(Error::Failed)),
    );
    library.global(
        "isIP",
        "is_ip",
        &[String],
        Bool,
        |a| args!(a, Value::String(s) => Ok(Value::Bool(parse_ip(s).is_ok()))),
    );
    library.global("ip.isCanonical", "ip_is_canonical", &[String], Bool, |a| {
        args!(a, Value::String(s) => Ok(Value::Bool(parse_ip(s).map_err(Error::Failed)?.to_string() == s.as_str())))
    });
    library.global(
        "string",
        "ip_to_string",
        &[ip()],
        String,
        |a| args!(a, x => Ok(Value::string(ip_of(x)?.to_string()))),
    );
    library.member(
        "family",
        "ip_family",
        &[ip()],
        Int,
        |a| args!(a, x => Ok(Value::Int(if ip_of(x)?.is_ipv4() { 4 } else { 6 }))),
    );
    let rows: [(&'static str, &'static str, super::Call); 5] = [
        ("isUnspecified", "ip_is_unspecified", |a| is(a, |ip| ip.is_unspecified())),
        ("isLoopback", "ip_is_loopback", |a| is(a, |ip| ip.is_loopback())),
        ("isLinkLocalMulticast", "ip_is_link_local_multicast", |a| is(a, link_local_multicast)),
        ("isLinkLocalUnicast", "ip_is_link_local_unicast", |a| is(a, link_local_unicast)),
        ("isGlobalUnicast", "ip_is_global_unicast", |a| is(a, global_unicast)),
    ];
    for (name, id, call) in rows {
        library.member(name, id, &[ip()], Bool, call);
    }
    cidrs(library);
}

fn cidrs(library: &mut Library) {
    use Type::{Bool, Int, String};
    let cidr = || Type::opaque(CIDR);
    library.global(
        "cidr",
        "string_to_cidr",
        &[String],
        cidr(),
        |a| args!(a, Value::String(s) => string_to_cidr(s).map(cidr_value)),
    );
    library.global(
        "isCIDR",
        "is_cidr",
        &[String],
        Bool,
        |a| args!(a, Value::String(s) => Ok(Value::Bool(parse_cidr(s).is_ok()))),
    );
    library.global(
        "string",
        "cidr_to_string",
        &[cidr()],
        String,
        |a| args!(a, x => cidr_of(x).map(|c| Value::string(format!("{}/{}", c.ip, c.bits)))),
    );
    // Upstream looks at what became of the text, and an error is no address.
    let contains = |a: &[Value]| {
        args!(a, x, y => {
            let ip = ip_of(y).map_err(|_| Error::no_overload())?;
            Ok(Value::Bool(covers(cidr_of(x)?, ip)))
        })
    };
    library.member("containsIP", "cidr_contains_ip_string", &[cidr(), String], Bool, contains);
    library.member("containsIP", "cidr_contains_ip_ip", &[cidr(), Type::opaque(IP)], Bool, contains);
    let within = |a: &[Value]| {
        args!(a, x, y => {
            let (x, y) = (cidr_of(x)?, cidr_of(y)?);
            Ok(Value::Bool(x.bits <= y.bits && covers(x, masked(y).ip)))
        })
    };
    library.member("containsCIDR", "cidr_contains_cidr_string", &[cidr(), String], Bool, within);
    library.member("containsCIDR", "cidr_contains_cidr", &[cidr(), cidr()], Bool, within);
    library.member("ip", "cidr_ip", &[cidr()], Type::opaque(IP), |a| args!(a, x => Ok(ip_value(cidr_of(x)?.ip))));
    library.member("masked", "cidr_masked", &[cidr()], cidr(), |a| args!(a, x => Ok(cidr_value(masked(cidr_of(x)?)))));
    library.member(
        "prefixLength",
        "cidr_prefix_length",
        &[cidr()],
        Int,
        |a| args!(a, x => Ok(Value::Int(cidr_of(x)?.bits.into()))),
    );
}

fn ip_value(ip: IpAddr) -> Value {
    Value::Opaque(Arc::new(Ip(ip)))
}

fn cidr_value(cidr: Cidr) -> Value {
    Value::Opaque(Arc::new(cidr))
}

/// The address that a value is or says.
fn ip_of(value: &Value) -> Result<IpAddr> {
    match value {
        Value::String(s) => parse_ip(s).map_err(Error::Failed),
        other => other.opaque::<Ip>().map(|ip| ip.0).ok_or_else(Error::no_overload),
    }
}

fn cidr_of(value: &Value) -> Result<Cidr> {
    match value {
        Value::String(s) => string_to_cidr(s),
        other => other.opaque::<Cidr>().copied().ok_or_else(Error::no_overload),
    }
}

/// `cidr()` of a text. Upstream says twice where it fails.
fn string_to_cidr(text: &str) -> Result<Cidr> {
    parse_cidr(text)
        .map_err(|why| Error::Failed(format!("network address parse error during conversion from string: {why}")))
}

fn parse_ip(text: &str) -> Result<IpAddr, String> {
    let quoted = quote(text);
    match netip::parse_addr(text) {
        Err(why) => Err(format!("IP Address {quoted} parse error during conversion from string: {why}")),
        Ok((_, zone)) if !zone.is_empty() => Err(format!("IP address {quoted} with zone value is not allowed")),
        Ok((ip, _)) if is_mapped(ip) => Err(format!("IPv4-mapped IPv6 address {quoted} is not allowed")),
        Ok((ip, _)) => Ok(ip),
    }
}

fn parse_cidr(text: &str) -> Result<Cidr, String> {
    match netip::parse_prefix(text) {
        Err(why) => Err(format!("network address parse error during conversion from string: {why}")),
        Ok((ip, _)) if is_mapped(ip) => Err(format!("IPv4-mapped IPv6 address {} is not allowed", quote(text))),
        Ok((ip, bits)) => Ok(Cidr { ip, bits }),
    }
}

fn is_mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some())
}

fn masked(cidr: Cidr) -> Cidr {
    let ip = match cidr.ip {
        IpAddr::V4(ip) => {
            IpAddr::V4(Ipv4Addr::from_bits(ip.to_bits() & u32::MAX.checked_shl(32 - u32::from(cidr.bits)).unwrap_or(0)))
        }
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(
            ip.to_bits() & u128::MAX.checked_shl(128 - u32::from(cidr.bits)).unwrap_or(0),
        )),
    };
    Cidr { ip, bits: cidr.bits }
}

fn covers(cidr: Cidr, ip: IpAddr) -> bool {
    cidr.ip.is_ipv4() == ip.is_ipv4() && masked(Cidr { ip, ..cidr }).ip == masked(cidr).ip
}

fn is(args: &[Value], holds: fn(&IpAddr) -> bool) -> Result {
    args!(args, x => Ok(Value::Bool(holds(&ip_of(x)?))))
}

fn link_local_multicast(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    }
}

fn link_local_unicast(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

fn global_unicast(ip: &IpAddr) -> bool {
    let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !broadcast && !ip.is_unspecified() && !ip.is_loopback() && !ip.is_multicast() && !link_local_unicast(ip)
}
