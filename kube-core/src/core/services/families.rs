//! IP families of services: what it does not say is filled in, and what the cluster cannot do is refused.

use machinery::{
    Value,
    meta::{FieldError, ip::Family},
};

use super::validation;
use crate::service_network::service::{Service, family_called, family_name, family_of};
use crate::validation::{Errors, Field};

const SINGLE: &str = "SingleStack";
const REQUIRE: &str = "RequireDualStack";
const PREFER: &str = "PreferDualStack";

/// A list of texts as a value.
pub(super) fn list<'a>(texts: impl IntoIterator<Item = &'a str>) -> Value {
    Value::from(texts.into_iter().map(Value::from).collect::<Vec<_>>())
}

/// Fills in policy and families of a new state. `configured` are the families of the cluster, the preferred one first.
pub(super) fn init(new: &mut Value, old: Option<&Value>, configured: &[Family]) -> Result<(), Vec<FieldError>> {
    let service = Service(new);
    if service.is_external_name() || old.is_some_and(|old| keeps_preferred(service, Service(old))) {
        return Ok(());
    }
    init_policy(new, old.map(Service));
    let mut errors = Errors::default();
    let field = Field::root(new);
    validation::cluster_ips(&field, old.map(Field::root).as_ref(), &mut errors);
    fail_on(errors)?;
    let mut errors = Errors::default();
    if let Some(old) = old.map(Service) {
        shrink(new, old, &mut errors);
    }
    check_policy(Service(new), &mut errors);
    infer_from_addresses(new, configured, &mut errors);
    fail_on(errors)?;
    if Service(new).cluster_ip() == crate::service_network::service::NONE && !Service(new).has_selector() {
        complete(new, configured, true);
        return Ok(());
    }
    fail_on(check_configured(Service(new), configured))?;
    complete(new, configured, configured.len() == 2);
    Ok(())
}

fn fail_on(errors: Errors) -> Result<(), Vec<FieldError>> {
    let errors = errors.into_vec();
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Whether a service that prefers two families stays as it is: a cluster that gains or loses a family does not change it.
pub(super) fn keeps_preferred(new: Service<'_>, old: Service<'_>) -> bool {
    let gets_address = matches!(new.kind(), "ClusterIP" | "NodePort" | "LoadBalancer");
    new.policy() == Some(PREFER)
        && old.kind() == new.kind()
        && gets_address
        && old.policy().is_none_or(|policy| policy == PREFER)
        && new.cluster_ips() == old.cluster_ips()
        && new.families() == old.families()
}

/// A policy is inherited; a new service is of one family, unless it has neither address nor pods of its own.
fn init_policy(new: &mut Value, old: Option<Service<'_>>) {
    let service = Service(new);
    if service.policy().is_some() {
        return;
    }
    let is_bare = service.cluster_ip() == crate::service_network::service::NONE && !service.has_selector();
    let policy = old.and_then(Service::policy).unwrap_or(if is_bare { REQUIRE } else { SINGLE }).to_owned();
    new.set(&["spec", "ipFamilyPolicy"], policy);
}

/// The policy, and where it stands in errors.
fn invalid_policy(service: Service<'_>, why: &str, errors: &mut Errors) {
    let policy = service.spec("ipFamilyPolicy").cloned().unwrap_or_default();
    errors.push(FieldError::invalid("spec.ipFamilyPolicy", policy, why));
}

/// One family from now on: the second one goes, if only the policy says so. Otherwise the policy must say so.
fn shrink(new: &mut Value, old: Service<'_>, errors: &mut Errors) {
    let service = Service(new);
    if service.policy() == Some(SINGLE) {
        let first = |texts: Vec<&str>| list(texts.into_iter().take(1));
        let (ips, families) = (service.cluster_ips(), service.families());
        let ips = (ips.len() > 1 && ips == old.cluster_ips()).then(|| first(ips));
        let families = (families.len() > 1 && families == old.families()).then(|| first(families));
        if let Some(ips) = ips {
            new.set(&["spec", "clusterIPs"], ips);
        }
        if let Some(families) = families {
            new.set(&["spec", "ipFamilies"], families);
        }
        return;
    }
    let fewer = |new: Vec<&str>, old: Vec<&str>| !new.is_empty() && new.len() < old.len();
    if fewer(service.cluster_ips(), old.cluster_ips()) {
        invalid_policy(service, "must be 'SingleStack' to release the secondary cluster IP", errors);
    }
    if fewer(service.families(), old.families()) {
        invalid_policy(service, "must be 'SingleStack' to release the secondary IP family", errors);
    }
}

fn check_policy(service: Service<'_>, errors: &mut Errors) {
    if service.policy() != Some(SINGLE) {
        return;
    }
    if service.cluster_ips().len() == 2 {
        let why = "must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified";
        invalid_policy(service, why, errors);
    }
    if service.families().len() == 2 {
        let why = "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified";
        invalid_policy(service, why, errors);
    }
}

/// Addresses that were asked for say their families.
fn infer_from_addresses(new: &mut Value, configured: &[Family], errors: &mut Errors) {
    let service = Service(new);
    let mut families = service.families();
    let known = families.len();
    for (i, ip) in service.cluster_ips().into_iter().enumerate() {
        if ip == crate::service_network::service::NONE {
            break;
        }
        if i < families.len() {
            continue;
        }
        let Some(family) = family_of(ip) else { continue };
        if configured.contains(&family) {
            families.push(family_name(family));
        } else {
            let ips = service.spec("clusterIPs").cloned().unwrap_or_default();
            let why = format!("{} is not configured on this cluster", family_name(family));
            errors.push(FieldError::invalid(format!("spec.clusterIPs[{i}]"), ips, why));
        }
    }
    if families.len() > known {
        let families = list(families);
        new.set(&["spec", "ipFamilies"], families);
    }
}

fn check_configured(service: Service<'_>, configured: &[Family]) -> Errors {
    let mut errors = Errors::default();
    if service.policy() == Some(REQUIRE) && configured.len() < 2 {
        invalid_policy(service, "this cluster is not configured for dual-stack services", &mut errors);
    }
    for (i, family) in service.families().into_iter().enumerate() {
        if family_called(family).is_none_or(|f| !configured.contains(&f)) {
            let field = format!("spec.ipFamilies[{i}]");
            errors.push(FieldError::invalid(field, family, "not configured on this cluster"));
        }
    }
    errors
}

/// The cluster's preferred family if none is named, and the other one where the policy wants two and they can be had.
fn complete(new: &mut Value, configured: &[Family], can_have_two: bool) {
    let service = Service(new);
    let mut families = service.families();
    let known = families.len();
    if families.is_empty() {
        families.extend(configured.first().map(|f| family_name(*f)));
    }
    if service.policy() != Some(SINGLE) && families.len() == 1 && can_have_two {
        families.push(if families[0] == "IPv4" { "IPv6" } else { "IPv4" });
    }
    if families.len() > known {
        let families = list(families);
        new.set(&["spec", "ipFamilies"], families);
    }
}

#[cfg(test)]
mod tests {
    use machinery::{array, object};

    use super::*;

    const ONE: &[Family] = &[Family::V4];
    const BOTH: &[Family] = &[Family::V4, Family::V6];

    fn service(spec: Value) -> Value {
        let mut service = object! { "spec" => spec };
        if service.at(&["spec", "type"]).is_none() {
            service.set(&["spec", "type"], "ClusterIP");
        }
        service
    }

    fn check(spec: Value, old: Option<Value>, configured: &[Family], expect: Result<(&str, &[&str]), &str>) {
        let mut new = service(spec);
        let old = old.map(service);
        let done = init(&mut new, old.as_ref(), configured);
        match (done, expect) {
            (Ok(()), Ok((policy, families))) => {
                assert_eq!(
                    (Service(&new).policy().unwrap_or_default(), &*Service(&new).families()),
                    (policy, families)
                );
            }
            (Err(errors), Err(text)) => {
                let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
                assert_eq!(texts.join(", "), text);
            }
            (done, _) => panic!("{done:?} for {new:?}"),
        }
    }

    #[test]
    fn new_services_are_of_one_family_unless_told_otherwise() {
        check(object! {}, None, BOTH, Ok((SINGLE, &["IPv4"])));
        check(object! {}, None, &[Family::V6, Family::V4], Ok((SINGLE, &["IPv6"])));
        check(object! { "ipFamilyPolicy" => PREFER }, None, ONE, Ok((PREFER, &["IPv4"])));
        check(object! { "ipFamilyPolicy" => PREFER }, None, BOTH, Ok((PREFER, &["IPv4", "IPv6"])));
        check(
            object! { "ipFamilyPolicy" => REQUIRE, "ipFamilies" => array!["IPv6"] },
            None,
            BOTH,
            Ok((REQUIRE, &["IPv6", "IPv4"])),
        );
        check(
            object! { "clusterIP" => "fd00::1", "clusterIPs" => array!["fd00::1"] },
            None,
            BOTH,
            Ok((SINGLE, &["IPv6"])),
        );
        let headless = object! { "clusterIP" => "None", "clusterIPs" => array!["None"] };
        check(headless, None, ONE, Ok((REQUIRE, &["IPv4", "IPv6"])));
        check(object! { "type" => "ExternalName" }, None, BOTH, Ok(("", &[])));
    }

    #[test]
    fn what_the_cluster_has_not_is_refused() {
        check(
            object! { "ipFamilyPolicy" => REQUIRE },
            None,
            ONE,
            Err(
                r#"spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services"#,
            ),
        );
        check(
            object! { "ipFamilies" => array!["IPv6"] },
            None,
            ONE,
            Err(r#"spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster"#),
        );
        check(
            object! { "clusterIP" => "fd00::1", "clusterIPs" => array!["fd00::1"] },
            None,
            ONE,
            Err(r#"spec.clusterIPs[0]: Invalid value: ["fd00::1"]: IPv6 is not configured on this cluster"#),
        );
        check(
            object! { "ipFamilies" => array!["IPv4", "IPv6"] },
            None,
            BOTH,
            Err(
                r#"spec.ipFamilyPolicy: Invalid value: "SingleStack": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"#,
            ),
        );
    }

    #[test]
    fn the_second_family_goes_only_when_the_policy_says_so() {
        let dual = |policy: &str| {
            object! {
                "ipFamilyPolicy" => policy, "ipFamilies" => array!["IPv4", "IPv6"], "clusterIP" => "10.0.0.1",
                "clusterIPs" => array!["10.0.0.1", "fd00::1"],
            }
        };
        check(dual(SINGLE), Some(dual(REQUIRE)), BOTH, Ok((SINGLE, &["IPv4"])));
        let mut one = dual(REQUIRE);
        one.set(&["clusterIPs"], array!["10.0.0.1"]);
        check(
            one,
            Some(dual(REQUIRE)),
            BOTH,
            Err(
                r#"spec.ipFamilyPolicy: Invalid value: "RequireDualStack": must be 'SingleStack' to release the secondary cluster IP"#,
            ),
        );
        let single = object! {
            "ipFamilyPolicy" => PREFER, "ipFamilies" => array!["IPv4"], "clusterIP" => "10.0.0.1",
            "clusterIPs" => array!["10.0.0.1"],
        };
        check(single.clone(), Some(single), BOTH, Ok((PREFER, &["IPv4"])));
    }
}
