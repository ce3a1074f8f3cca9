//! The status of a PodCertificateRequest: it is issued, denied or failed, once and for all.

use machinery::{
    Value,
    codec::pem,
    meta::{
        TimeForm, Timestamp,
        field_error::{BadValue, FieldError},
        validation::validate_conditions,
    },
    object,
};

use x509::{Certificate, CertificateRequest, SubjectKey};

use super::pod_request::decoded;
use crate::validation::{Errors, Field};

/// What may become of a request.
pub(super) const STATES: [&str; 3] = ["Issued", "Denied", "Failed"];

const MAX_CHAIN: usize = 100 * 1024;
/// Seconds between a certificate's ends and the time to renew it, at least.
const MARGIN: i64 = 10 * 60;
/// Seconds between a certificate's beginning and now, at most.
const SKEW: i64 = 5 * 60;

/// What is wrong with an update of the status.
pub(super) fn validate(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let (status, before) = (new.at("status"), old.at("status"));
    let mut found = Errors::default();
    conditions(&status.at("conditions"), &mut found);
    let found = found.into_vec();
    if !found.is_empty() {
        errors.extend(found);
        return;
    }
    let is = |status: &Field<'_>, state: &str| {
        let holds = |c: &Value| c.str_at(&["type"]) == Some(state) && c.str_at(&["status"]) == Some("True");
        status.at("conditions").items().iter().any(holds)
    };
    if STATES.iter().any(|state| is(&before, state)) {
        if !status.same(&before) {
            omitted(&status, "immutable after PodCertificateRequest is issued, denied, or failed", errors);
        }
    } else if is(&status, "Denied") || is(&status, "Failed") {
        let alone = object! { "conditions" => status.at("conditions").value().clone() };
        if !status.value().semantic_eq(&alone) {
            let why = "non-condition status fields must be empty when denying or failing the PodCertificateRequest";
            omitted(&status, why, errors);
        }
    } else if is(&status, "Issued") {
        // What is found first is told alone.
        issued(&status, new, old, errors);
    } else if !status.same(&before) {
        omitted(&status, "status is immutable unless transitioning to \"Issued\", \"Denied\", or \"Failed\"", errors);
    }
}

fn omitted(field: &Field<'_>, why: &str, errors: &mut Errors) {
    field.invalid_as(BadValue::Omitted, why, errors);
}

/// At most one condition, which is one of three and holds. Upstream names their places with a dot.
fn conditions(conditions: &Field<'_>, errors: &mut Errors) {
    let mut known = 0;
    for (i, condition) in conditions.items().iter().enumerate() {
        let at = |member: &str| format!("status.conditions.[{i}].{member}");
        let (kind, status) = (condition.str_at(&["type"]).unwrap_or(""), condition.str_at(&["status"]).unwrap_or(""));
        if !STATES.contains(&kind) {
            errors.push(FieldError::not_supported(at("type"), kind, STATES));
            continue;
        }
        known += 1;
        if known > 1 {
            let why = "There may be at most one condition with type \"Issued\", \"Denied\", or \"Failed\"";
            errors.push(FieldError::invalid(at("type"), kind, why));
        }
        if status != "True" {
            errors.push(FieldError::not_supported(at("status"), status, ["True"]));
        }
    }
    errors.extend(validate_conditions(conditions.items(), conditions.path()));
}

/// The certificate is for the key that was asked for, and its times are what the status says.
fn issued(status: &Field<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let chain = status.at("certificateChain");
    if chain.text().len() > MAX_CHAIN {
        errors.push(FieldError::too_long(chain, MAX_CHAIN));
        return;
    }
    let mut blocks = pem::blocks(chain.text().as_bytes());
    let Some(leaf) = blocks.next() else {
        return chain.invalid_text("issued certificate chain must contain at least one certificate", errors);
    };
    if leaf.label != b"CERTIFICATE" {
        let why = "issued certificate chain must consist entirely of CERTIFICATE PEM blocks";
        return chain.invalid_text(why, errors);
    }
    let Ok(leaf) = Certificate::parse(&leaf.der) else {
        return chain.invalid_text("leaf certificate does not parse as valid X.509", errors);
    };
    let mut found = Errors::default();
    names(&chain, &leaf, &mut found);
    if !key(&chain, &leaf, &old.at("spec"), &mut found) {
        errors.extend(found.into_vec());
        return;
    }
    for (member, why) in [
        ("notBefore", "must be present and consistent with the issued certificate"),
        ("notAfter", "must be present and consistent with the issued certificate"),
        ("beginRefreshAt", "must be present and in the range [notbefore+10min, notafter-10min]"),
    ] {
        if !status.at(member).is_set() {
            status.at(member).required(why, &mut found);
        }
    }
    let found = found.into_vec();
    if !found.is_empty() {
        errors.extend(found);
        return;
    }
    if !times(status, &chain, &leaf, new.at("spec").at("maxExpirationSeconds").int_or_zero(), errors) {
        return;
    }
    for block in blocks {
        if block.label != b"CERTIFICATE" {
            let why = "issued certificate chain must consist entirely of CERTFICATE PEM blocks";
            return chain.invalid_text(why, errors);
        }
        if Certificate::parse(&block.der).is_err() {
            return chain.invalid_text("intermediate certificate does not parse as valid X.509", errors);
        }
    }
}

fn names(chain: &Field<'_>, leaf: &Certificate, errors: &mut Errors) {
    for name in leaf.dns_names() {
        let rules = [
            (name.is_empty(), "leaf certificate should not contain empty DNSName"),
            (name.contains(".."), "leaf certificate's DNSName should not contain '..'"),
            (
                name.starts_with('.') || name.ends_with('.'),
                "leaf certificate's DNSName should not start or end with '.'",
            ),
        ];
        for (_, why) in rules.iter().filter(|(breaks, _)| *breaks) {
            chain.invalid_as(name.as_str(), *why, errors);
        }
    }
    for address in leaf.email_addresses() {
        if !is_address(address) {
            chain.invalid_as(address.as_str(), "leaf certificate should not contain invalid EmailAddress", errors);
        }
    }
}

/// Whether mail can be sent there: something before and behind the last `@`, of what stands unquoted in addresses.
fn is_address(address: &str) -> bool {
    let atom = |text: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c);
        !text.is_empty() && text.split('.').all(|part| !part.is_empty() && part.chars().all(plain))
    };
    address.rsplit_once('@').is_some_and(|(local, domain)| atom(local) && atom(domain))
}

/// Whether the certificate is for the key in the request.
fn key(chain: &Field<'_>, leaf: &Certificate, spec: &Field<'_>, errors: &mut Errors) -> bool {
    let (stub, plain) = (spec.at("stubPKCS10Request"), spec.at("pkixPublicKey"));
    let wanted = if stub.is_empty() {
        SubjectKey::parse(&decoded(&plain))
    } else {
        CertificateRequest::parse(&decoded(&stub)).ok().as_ref().and_then(SubjectKey::of_request)
    };
    match wanted {
        None if stub.is_empty() => omitted(&plain, "must be a valid PKIX-serialized public key", errors),
        None => omitted(&stub, "must be a valid PKCS#10 CSR", errors),
        Some(key) if !key.is_of(leaf) => {
            chain.invalid_text("leaf certificate was not issued to the requested public key", errors);
        }
        Some(_) => return true,
    }
    false
}

/// Whether all times fit; the first that does not is told.
fn times(status: &Field<'_>, chain: &Field<'_>, leaf: &Certificate, most: i64, errors: &mut Errors) -> bool {
    let [begins, ends, renewed] = ["notBefore", "notAfter", "beginRefreshAt"].map(|member| status.at(member));
    let seconds =
        |time: &Field<'_>| Timestamp::parse(time.text(), TimeForm::Seconds).map_or(i64::MIN / 4, |time| time.seconds());
    let (begin, end, renewal) = (seconds(&begins), seconds(&ends), seconds(&renewed));
    let (not_before, not_after) = leaf.validity();
    let lifetime = not_after - not_before;
    let shown = || BadValue::from(lifetime.saturating_mul(1_000_000_000));
    let rules: [(bool, &Field<'_>, Option<BadValue>, String); 7] = [
        (
            begin != not_before,
            &begins,
            None,
            "must be set to the NotBefore time encoded in the leaf certificate".to_owned(),
        ),
        (
            (begin - Timestamp::now().seconds()).abs() >= SKEW,
            &begins,
            None,
            "must be set to within 5 minutes of kube-apiserver's current time".to_owned(),
        ),
        (end != not_after, &ends, None, "must be set to the NotAfter time encoded in the leaf certificate".to_owned()),
        (lifetime < 3600, chain, Some(shown()), "leaf certificate lifetime must be >= 1 hour".to_owned()),
        (
            lifetime > most,
            chain,
            Some(shown()),
            format!("leaf certificate lifetime must be <= spec.maxExpirationSeconds ({most})"),
        ),
        (renewal < begin + MARGIN, &renewed, None, "must be at least 10 minutes after status.notBefore".to_owned()),
        (renewal > end - MARGIN, &renewed, None, "must be at least 10 minutes before status.notAfter".to_owned()),
    ];
    for (breaks, field, shown, why) in rules {
        if breaks {
            field.invalid_as(shown.unwrap_or_else(|| BadValue::from(field.value())), why, errors);
            return false;
        }
    }
    true
}
