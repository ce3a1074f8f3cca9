//! Warnings about v1 ResourceQuotas.

use machinery::{Value, meta::Quantity};

/// Amounts of which there is a request and a limit.
const RESOURCES: [&str; 4] = ["cpu", "memory", "storage", "ephemeral-storage"];

/// A new quota that lets pods ask for more than they may use. Updates are not looked at.
pub(super) fn warnings(quota: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_some() {
        return Vec::new();
    }
    let amount = |name: &str| Quantity::from_value(quota.at(&["spec", "hard", name])?).ok();
    let mut warnings = Vec::new();
    for resource in RESOURCES {
        let limited = format!("limits.{resource}");
        let Some(limit) = amount(&limited) else { continue };
        // The bare name counts where nothing else is said of requests.
        let asked = [format!("requests.{resource}"), resource.to_owned()];
        let request = asked.iter().find_map(|name| Some((name, amount(name)?)));
        if let Some((asked, request)) = request.filter(|(_, request)| *request > limit) {
            warnings.push(format!("ResourceQuota {asked} ({request}) should be less than {limited} ({limit})"));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use machinery::object;

    use super::*;

    #[test]
    fn requests_above_their_limits_are_told_in_order() {
        let hard = object! {
            "requests.memory" => "3Gi", "limits.memory" => "2Gi", "cpu" => "2", "limits.cpu" => "1",
            "requests.ephemeral-storage" => "1", "limits.ephemeral-storage" => "1", "requests.storage" => "1",
        };
        let quota = object! { "spec" => object! { "hard" => hard } };
        let want = [
            "ResourceQuota cpu (2) should be less than limits.cpu (1)",
            "ResourceQuota requests.memory (3Gi) should be less than limits.memory (2Gi)",
        ];
        assert_eq!(warnings(&quota, None), want);
        assert!(warnings(&quota, Some(&quota)).is_empty());
    }
}
