//! Validates the status of claims: allocation, consumers, and what drivers report.

use std::collections::HashSet;

use generic_server::resource::WriteContext;
use machinery::Value;
use machinery::meta::{
    field_error::{BadValue, FieldError},
    ip,
    validation::validate_conditions,
};

use super::{config, list, names, requests::Requests, taints, texts};
use crate::{
    core::pods::validation::{internal::shown, node_selector},
    resource::identity::DeviceId,
    validation::{Content, Errors, Field, Seen},
};

const MOST_CONSUMERS: usize = 256;
const MOST_RESULTS: usize = 32;
const MOST_CONDITIONS: usize = 8;
const MOST_ADDRESSES: usize = 16;
const MAX_REPORT: usize = 10 * 1024;
/// Members of a report on a network device, and how long they may be.
const NETWORK_TEXTS: [(&str, usize); 2] = [("interfaceName", 256), ("hardwareAddress", 128)];

/// What is wrong with an update of a claim's status.
pub(in crate::resource) fn claim_status(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let (status, before) = (new.at("status"), old.at("status"));
    super::named(&status.at("reservedFor"), MOST_CONSUMERS, "uid", consumer, errors);
    reports(new, errors);
    reservations(new, &before.at("reservedFor"), errors);
    let (allocation, old_allocation) = (status.at("allocation"), before.at("allocation"));
    if allocation.is_set() && old_allocation.is_set() {
        if !allocation.same(&old_allocation) {
            allocation.invalid_as(shown("AllocationResult", allocation.value()), "field is immutable", errors);
        }
    } else if allocation.is_set() {
        let (spec, devices) = (new.at("spec"), allocation.at("devices"));
        results(&devices, &Requests::of(&spec.at("devices")), errors);
        let selector = allocation.at("nodeSelector");
        if selector.is_set() {
            node_selector(&selector, &|| false, errors);
        }
    }
}

fn consumer(consumer: Field<'_>, errors: &mut Errors) {
    for member in ["resource", "name", "uid"] {
        consumer.at(member).is_given(errors);
    }
}

/// Who uses a claim uses what is allocated, and nobody begins to once it goes.
fn reservations(claim: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let status = claim.at("status");
    let reserved = status.at("reservedFor");
    if reserved.is_empty() {
        return;
    }
    if !status.at("allocation").is_set() {
        reserved.forbidden("may not be specified when `allocated` is not set", errors);
    } else if claim.at("metadata").at("deletionTimestamp").is_set() && !within(reserved.items(), old.items()) {
        let detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
        reserved.forbidden(detail, errors);
    }
}

/// Whether all of these were there before.
fn within(new: &[Value], old: &[Value]) -> bool {
    let before: Seen<Content<'_>> = old.iter().map(Content).collect();
    new.iter().all(|item| before.contains(Content(item)))
}

fn results(devices: &Field<'_>, requests: &Requests<'_>, errors: &mut Errors) {
    let result = |result: Field<'_>, errors: &mut Errors| {
        requests.reference(&result.at("request"), errors);
        names::driver(&result.at("driver"), errors);
        names::pool(&result.at("pool"), errors);
        names::label(&result.at("device"), errors);
        taints::binding_conditions(&result, errors);
        result.at("tolerations").each(|toleration| taints::toleration(&toleration, errors));
        let share = result.at("shareID");
        if share.is_set() {
            names::share(&share, errors);
        }
    };
    list(&devices.at("results"), MOST_RESULTS, result, errors);
    let configuration = |item: Field<'_>, errors: &mut Errors| {
        item.at("source").required_one_of(&["FromClaim", "FromClass"], errors);
        requests.references(&item, errors);
        config::opaque(&item, false, errors);
    };
    list(&devices.at("config"), 2 * config::MOST, configuration, errors);
}

/// What drivers report of the devices that are allocated.
fn reports(claim: &Field<'_>, errors: &mut Errors) {
    let allocated: HashSet<DeviceId<'_>> = DeviceId::allocated(claim.value()).collect();
    let status = claim.at("status");
    let reports = status.at("devices");
    reports.each(|item| report(&item, &allocated, errors));
    let mut seen = HashSet::new();
    for (i, item) in reports.items().iter().enumerate() {
        let id = DeviceId::of(item);
        if !seen.insert(id) {
            errors.push(FieldError::duplicate(reports.index(i), BadValue::verbatim(id.to_string())));
        }
    }
}

fn report(report: &Field<'_>, allocated: &HashSet<DeviceId<'_>>, errors: &mut Errors) {
    names::driver(&report.at("driver"), errors);
    names::pool(&report.at("pool"), errors);
    names::label(&report.at("device"), errors);
    let share = report.at("shareID");
    if share.is_set() {
        names::share(&share, errors);
    }
    let id = DeviceId::of(report.value());
    if !allocated.contains(&id) {
        report.invalid_as(BadValue::verbatim(id.shown()), "must be an allocated device in the claim", errors);
    }
    let conditions = report.at("conditions");
    if conditions.len() > MOST_CONDITIONS {
        errors.push(FieldError::too_many(conditions, conditions.len(), MOST_CONDITIONS));
    }
    errors.extend(validate_conditions(conditions.items(), conditions.path()));
    let data = report.at("data");
    if data.is_set() {
        config::document(&data, false, MAX_REPORT, errors);
    }
    let network = report.at("networkData");
    for (member, most) in NETWORK_TEXTS {
        if network.at(member).text().len() > most {
            errors.push(FieldError::too_long(network.at(member), most));
        }
    }
    texts(&network.at("ips"), MOST_ADDRESSES, |address, errors| interface_address(&address, errors), errors);
}

/// An address of an interface, with the length of its network's prefix.
fn interface_address(address: &Field<'_>, errors: &mut Errors) {
    let text = address.text();
    let Some(cidr) = ip::Cidr::parse_sloppy(text) else {
        let detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
        return address.invalid(detail, errors);
    };
    let canonical = cidr.interface_text();
    if text != canonical {
        let detail = format!("must be in canonical form ({})", machinery::meta::go_text::quote(&canonical));
        address.invalid(detail, errors);
    }
}
