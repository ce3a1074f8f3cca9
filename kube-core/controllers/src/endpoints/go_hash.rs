//! The order in which upstream writes ports and subsets: that of the FNV-1a hashes (128 bits) of what Go's spew prints of them.
//! Lists in the same order make both controllers leave what the other has written.

use std::fmt::Write as _;

use machinery::Value;

use super::{items, text};

const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// The hash of a text.
pub(super) fn hash(text: &str) -> u128 {
    text.bytes().fold(OFFSET, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

fn pointer(value: Option<&Value>, kind: &str) -> String {
    match value {
        Some(Value::String(text)) => format!("(*{kind}){text}"),
        Some(Value::Int(number)) => format!("(*{kind}){number}"),
        _ => format!("(*{kind})<nil>"),
    }
}

/// A port of an EndpointSlice.
pub(super) fn slice_port(port: &Value) -> String {
    format!(
        "(v1.EndpointPort){{Name:{} Protocol:{} Port:{} AppProtocol:{}}}",
        pointer(port.get("name"), "string"),
        pointer(port.get("protocol"), "v1.Protocol"),
        pointer(port.get("port"), "int32"),
        pointer(port.get("appProtocol"), "string"),
    )
}

fn port_members(port: &Value) -> String {
    let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
    let (name, protocol) = (text(port, &["name"]), text(port, &["protocol"]));
    let app = pointer(port.get("appProtocol"), "string");
    format!("{{Name:(string){name} Port:(int32){number} Protocol:(v1.Protocol){protocol} AppProtocol:{app}}}")
}

/// A port of Endpoints.
pub(super) fn port(port: &Value) -> String {
    format!("(v1.EndpointPort){}", port_members(port))
}

fn address_members(address: &Value) -> String {
    let reference = match address.get("targetRef").filter(|reference| !reference.is_null()) {
        None => "(*v1.ObjectReference)<nil>".to_owned(),
        Some(reference) => {
            let of = |member: &str| text(reference, &[member]);
            format!(
                "(*v1.ObjectReference){{Kind:(string){} Namespace:(string){} Name:(string){} UID:(types.UID){} \
                 APIVersion:(string){} ResourceVersion:(string){} FieldPath:(string){}}}",
                of("kind"),
                of("namespace"),
                of("name"),
                of("uid"),
                of("apiVersion"),
                of("resourceVersion"),
                of("fieldPath"),
            )
        }
    };
    let (ip, hostname) = (text(address, &["ip"]), text(address, &["hostname"]));
    let node = pointer(address.get("nodeName"), "string");
    format!("{{IP:(string){ip} Hostname:(string){hostname} NodeName:{node} TargetRef:{reference}}}")
}

fn list(out: &mut String, values: &[Value], members: fn(&Value) -> String) {
    if values.is_empty() {
        out.push_str("<nil>");
        return;
    }
    out.push('[');
    for (i, value) in values.iter().enumerate() {
        let space = if i > 0 { " " } else { "" };
        write!(out, "{space}{}", members(value)).expect("text takes text");
    }
    out.push(']');
}

/// A subset of Endpoints.
pub(super) fn subset(subset: &Value) -> String {
    let mut out = "(v1.EndpointSubset){Addresses:([]v1.EndpointAddress)".to_owned();
    list(&mut out, items(subset, &["addresses"]), address_members);
    out.push_str(" NotReadyAddresses:([]v1.EndpointAddress)");
    list(&mut out, items(subset, &["notReadyAddresses"]), address_members);
    out.push_str(" Ports:([]v1.EndpointPort)");
    list(&mut out, items(subset, &["ports"]), port_members);
    out.push('}');
    out
}
