//! Table columns of ingresses, policies and address ranges.

use machinery::Value;

use crate::core::printers::balanced_at;
use generic_server::printer::{AGE, Doc, NAME, NONE, Table, age, items, name, selector, text, text_at, text_or};

/// Ingresses.
pub(super) const INGRESSES: Table = Table::new(
    &[
        NAME,
        text(
            "Class",
            Doc::Text("The name of the IngressClass resource that should be used for additional configuration"),
        ),
        text("Hosts", Doc::Text("Hosts that incoming requests are matched against before the ingress rule")),
        text("Address", Doc::Text("Address is a list containing ingress points for the load-balancer")),
        text("Ports", Doc::Text("Ports of TLS configurations that open")),
        AGE,
    ],
    |ingress, now| {
        let tls = !items(ingress, &["spec", "tls"]).is_empty();
        vec![
            name(ingress),
            text_or(ingress, &["spec", "ingressClassName"], NONE),
            hosts(items(ingress, &["spec", "rules"])).into(),
            balanced_at(ingress).join(",").into(),
            if tls { "80, 443" } else { "80" }.into(),
            age(ingress, now),
        ]
    },
);

/// The first three hosts; a rule without one is for all.
fn hosts(rules: &[Value]) -> String {
    const MOST: usize = 3;
    let hosts = rules.iter().map(|rule| rule.str_at(&["host"]).unwrap_or_default());
    let mut named = hosts.enumerate().filter(|(_, host)| !host.is_empty());
    let shown: Vec<(usize, &str)> = named.by_ref().take(MOST).collect();
    let Some((last, _)) = shown.last() else { return "*".to_owned() };
    // Rules count that come after the last host shown, with or without a host.
    let more = shown.len() == MOST && last + 1 < rules.len();
    let shown = shown.iter().map(|(_, host)| *host).collect::<Vec<_>>().join(",");
    if more { format!("{shown} + {} more...", rules.len() - MOST) } else { shown }
}

/// Ingress classes.
pub(super) const INGRESS_CLASSES: Table = Table::new(
    &[
        NAME,
        text("Controller", Doc::Text("Controller that is responsible for handling this class")),
        text("Parameters", Doc::Text("A reference to a resource with additional parameters")),
        AGE,
    ],
    |class, now| {
        let parameters = class.at(&["spec", "parameters"]).filter(|p| !p.is_null());
        let parameters = parameters.map_or_else(
            || NONE.to_owned(),
            |p| {
                let part = |name: &str| p.str_at(&[name]).unwrap_or_default();
                let group = p.str_at(&["apiGroup"]).map_or_else(String::new, |group| format!(".{group}"));
                format!("{}{group}/{}", part("kind"), part("name"))
            },
        );
        let annotation = ["metadata", "annotations", "ingressclass.kubernetes.io/is-default-class"];
        let is_default = class.str_at(&annotation) == Some("true");
        let shown = class.str_at(&["metadata", "name"]).unwrap_or_default();
        let shown = if is_default { format!("{shown} (default)") } else { shown.to_owned() };
        vec![shown.into(), text_at(class, &["spec", "controller"]), parameters.into(), age(class, now)]
    },
);

/// Network policies.
pub(super) const NETWORK_POLICIES: Table = Table::new(
    &[NAME, text("Pod-Selector", Doc::Of("networking.v1.NetworkPolicySpec", "podSelector")), AGE],
    |policy, now| vec![name(policy), selector(policy.at(&["spec", "podSelector"])), age(policy, now)],
);

/// Addresses of services.
pub(super) const IP_ADDRESSES: Table =
    Table::new(&[NAME, text("ParentRef", Doc::Of("networking.v1.IPAddressSpec", "parentRef"))], |address, now| {
        let parent = address.at(&["spec", "parentRef"]).filter(|p| !p.is_null()).map_or_else(
            || NONE.to_owned(),
            |parent| {
                let part = |name: &str| parent.str_at(&[name]).filter(|t| !t.is_empty());
                let group = part("group").map_or_else(String::new, |group| format!(".{group}"));
                let resource = format!("{}{group}", part("resource").unwrap_or_default()).to_lowercase();
                let place = [Some(resource.as_str()), part("namespace"), Some(part("name").unwrap_or_default())];
                place.into_iter().flatten().collect::<Vec<_>>().join("/")
            },
        );
        // The age has no column, upstream neither.
        vec![name(address), parent.into(), age(address, now)]
    });

/// Ranges of addresses of services.
pub(super) const SERVICE_CIDRS: Table =
    Table::new(&[NAME, text("CIDRs", Doc::Of("networking.v1.ServiceCIDRSpec", "cidrs")), AGE], |range, now| {
        let cidrs: Vec<&str> = items(range, &["spec", "cidrs"]).iter().filter_map(Value::as_str).collect();
        vec![name(range), cidrs.join(",").into(), age(range, now)]
    });

#[cfg(test)]
mod tests {
    use machinery::object;

    use super::*;

    #[test]
    fn three_hosts_are_shown() {
        let check = |given: &[&str], expect: &str| {
            let rules: Vec<Value> = given.iter().map(|host| object! { "host" => *host }).collect();
            assert_eq!(hosts(&rules), expect);
        };
        check(&[], "*");
        check(&[""], "*");
        check(&["a", "b"], "a,b");
        check(&["", "a", "b", "c"], "a,b,c");
        check(&["a", "b", "c", ""], "a,b,c + 1 more...");
        check(&["a", "", "b", "c", "d"], "a,b,c + 2 more...");
    }
}
