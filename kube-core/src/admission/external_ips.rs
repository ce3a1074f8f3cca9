//! DenyServiceExternalIPs: services get no external addresses that they do not have already.

use async_trait::async_trait;
use generic_server::admission::{Admission, Attributes, Operation, Steps};
use machinery::{Value, meta::status::Status};

/// The plugin.
pub(super) struct DenyExternalIps;

#[async_trait]
impl Admission for DenyExternalIps {
    fn steps(&self) -> Steps {
        Steps::Validate
    }

    async fn validate(&self, a: &Attributes<'_>, service: &Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        let writes = matches!(a.operation, Operation::Create | Operation::Update) && a.subresource.is_empty();
        if !writes || !a.is_of("", "services") || adds_none(service, a.old) {
            return Ok(());
        }
        Err(a.forbidden(service, "Use of external IPs is denied by admission control"))
    }
}

fn adds_none(new: &Value, old: Option<&Value>) -> bool {
    let addresses = |service: &'_ Value| {
        service.at(&["spec", "externalIPs"]).and_then(Value::as_array).unwrap_or_default().to_vec()
    };
    let old: std::collections::HashSet<_> =
        old.map(addresses).unwrap_or_default().iter().filter_map(Value::as_shared_str).cloned().collect();
    addresses(new).iter().all(|address| address.as_str().is_some_and(|address| old.contains(address)))
}

#[cfg(test)]
mod tests {
    use machinery::{Str, object};

    use super::*;

    #[test]
    fn addresses_may_stay_and_go_but_not_come() {
        let service = |addresses: &[&str]| {
            object! { "spec" => object! { "externalIPs" => addresses.iter().copied().map(Str::from).collect::<Vec<_>>() } }
        };
        assert!(adds_none(&object! {}, None) && adds_none(&service(&[]), None));
        assert!(!adds_none(&service(&["1.2.3.4"]), None));
        assert!(adds_none(&service(&["1.2.3.4"]), Some(&service(&["5.6.7.8", "1.2.3.4"]))));
        assert!(!adds_none(&service(&["1.2.3.4", "9.9.9.9"]), Some(&service(&["1.2.3.4"]))));
    }
}
