//! What Go calls fields: errors say it.

use super::{Fault, ProtoError};

/// Words with which members begin and that Go's names have in capitals.
const INITIALISMS: &[&str] = &[
    "api", "aws", "ca", "cidr", "csi", "dns", "fc", "fs", "gce", "gmsa", "grpc", "http", "id", "ip", "iqn", "iscsi",
    "json", "nfs", "os", "pd", "qos", "rbd", "se", "tcp", "tls", "ttl", "tty", "uid", "url",
];

/// Members whose names in Go no rule makes.
const IRREGULAR: &[(&str, &str)] = &[("cephfs", "CephFS"), ("storageos", "StorageOS"), ("wwids", "WWIDs")];

/// The error for a field of the wrong kind: it is called as in Go.
#[cold]
pub(super) fn wrong_wire(wire: u8, name: &str) -> Fault {
    Box::new(ProtoError::WireType { wire, field: of_member(name) })
}

/// A field's name in Go, by its name in JSON.
pub(super) fn of_member(name: &str) -> String {
    if let Some((_, irregular)) = IRREGULAR.iter().find(|(json, _)| *json == name) {
        return (*irregular).to_owned();
    }
    if let Some(words) = name.strip_prefix("x-kubernetes-") {
        return words.split('-').fold("X".to_owned(), |go, word| go + &capitalised(word));
    }
    capitalised(name.trim_start_matches('$'))
}

fn capitalised(name: &str) -> String {
    let word = name.find(|c: char| c.is_ascii_uppercase()).unwrap_or(name.len());
    let capitals = if INITIALISMS.contains(&&name[..word]) { word } else { name.len().min(1) };
    let mut go = name.to_owned();
    if let Some(first) = go.get_mut(..capitals) {
        first.make_ascii_uppercase();
    }
    go
}

#[cfg(test)]
mod tests {
    use super::of_member;

    #[test]
    fn members_are_called_as_in_go() {
        for (json, go) in [
            ("dnsPolicy", "DNSPolicy"),
            ("uid", "UID"),
            ("podIPs", "PodIPs"),
            ("seLinuxOptions", "SELinuxOptions"),
            ("ttlSecondsAfterFinished", "TTLSecondsAfterFinished"),
            ("cephfs", "CephFS"),
            ("$ref", "Ref"),
            ("x-kubernetes-int-or-string", "XIntOrString"),
            ("containers", "Containers"),
        ] {
            assert_eq!(of_member(json), go, "{json}");
        }
    }
}
