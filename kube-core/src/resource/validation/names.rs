//! Names of devices, of where they are, and of what they have.

use machinery::meta::{field_error::FieldError, names};

use crate::{
    core::pods::validation::sources::csi_driver,
    validation::{Errors, Field},
};

/// How long a domain may be.
pub(super) const MAX_DOMAIN: usize = 63;
/// How long an identifier may be.
pub(super) const MAX_ID: usize = 32;
const MAX_POOL: usize = 253;

/// The name of a driver: one of storage would do.
pub(super) fn driver(driver: &Field<'_>, errors: &mut Errors) {
    csi_driver(driver, errors);
}

/// The name of a pool: subdomains between slashes.
pub(super) fn pool(pool: &Field<'_>, errors: &mut Errors) {
    if !pool.is_given(errors) {
        return;
    }
    if pool.text().len() > MAX_POOL {
        errors.push(FieldError::too_long(pool, MAX_POOL));
    }
    for part in pool.text().split('/') {
        for message in names::dns1123_subdomain(part) {
            pool.invalid_as(part, message, errors);
        }
    }
}

/// The name of a device, a request, or a set of counters.
pub(super) fn label(name: &Field<'_>, errors: &mut Errors) {
    name.check(names::dns1123_label, errors);
}

/// The name of an attribute or a capacity. Its faults are told at `place`.
pub(super) fn qualified(place: &Field<'_>, name: &str, errors: &mut Errors) {
    let parts: Vec<&str> = name.split('/').collect();
    match parts[..] {
        [id] => identifier(place, id, errors),
        [domain, id] => {
            if domain.is_empty() {
                place.invalid_as("", "the domain must not be empty", errors);
            } else {
                let domain = domain.into();
                csi_driver(&place.with(&domain), errors);
            }
            if id.is_empty() {
                place.invalid_as("", "the name must not be empty", errors);
            } else {
                identifier(place, id, errors);
            }
        }
        _ => {} // upstream looks at names of one slash at most, and takes all others
    }
}

/// The name of an attribute, with its domain.
pub(super) fn fully_qualified(name: &Field<'_>, errors: &mut Errors) {
    qualified(name, name.text(), errors);
    if !name.text().contains('/') {
        name.invalid_text("a fully qualified name must be a domain and a name separated by a slash", errors);
    }
}

fn identifier(place: &Field<'_>, id: &str, errors: &mut Errors) {
    if id.len() > MAX_ID {
        errors.push(FieldError::too_long(place, MAX_ID));
    }
    for message in names::c_identifier(id) {
        place.invalid_as(id, message, errors);
    }
}

/// A share of a device.
pub(super) fn share(id: &Field<'_>, errors: &mut Errors) {
    let text = id.text();
    if let Some(why) = not_a_uuid(text) {
        id.invalid(format!("error validating uid: {why}"), errors);
    } else if text.len() != 36 || text.bytes().any(|c| c.is_ascii_uppercase()) {
        let detail = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase \
                      hexadecimal characters";
        id.invalid(detail, errors);
    }
}

/// Why a text is not a UUID in one of the forms that are read: plain, without dashes, in braces, as a URN.
fn not_a_uuid(text: &str) -> Option<String> {
    const FORMAT: &str = "invalid UUID format";
    let bytes = text.as_bytes();
    let plain = match bytes.len() {
        36 => bytes,
        32 => {
            let fine = bytes.iter().all(u8::is_ascii_hexdigit);
            return (!fine).then(|| FORMAT.to_owned());
        }
        38 if bytes.starts_with(b"{") && bytes.ends_with(b"}") => &bytes[1..37],
        38 => return Some("invalid bracketed UUID format".to_owned()),
        45 if bytes[..9].eq_ignore_ascii_case(b"urn:uuid:") => &bytes[9..],
        45 => {
            let prefix = String::from_utf8_lossy(&bytes[..9]);
            return Some(format!("invalid urn prefix: {}", machinery::meta::go_text::quote(&prefix)));
        }
        length => return Some(format!("invalid UUID length: {length}")),
    };
    let fine = plain.iter().enumerate().all(|(i, c)| match i {
        8 | 13 | 18 | 23 => *c == b'-',
        _ => c.is_ascii_hexdigit(),
    });
    (!fine).then(|| FORMAT.to_owned())
}

#[cfg(test)]
mod tests {
    use machinery::Value;

    use super::*;

    fn check(rule: fn(&Field<'_>, &mut Errors), text: &str, expect: &[&str]) {
        let value = Value::from(text);
        let mut errors = Errors::default();
        rule(&Field::root(&value), &mut errors);
        let found: Vec<String> = errors.into_vec().iter().map(|e| e.body()).collect();
        assert_eq!(found.len(), expect.len(), "{text}: {found:?}");
        assert!(found.iter().zip(expect).all(|(found, begin)| found.starts_with(begin)), "{text}: {found:?}");
    }

    #[test]
    fn pools_are_subdomains_between_slashes() {
        check(pool, "node-1/a.b", &[]);
        check(pool, "", &["Required value"]);
        check(pool, "a//b", &["Invalid value: \"\": a lowercase RFC 1123 subdomain must consist of"]);
    }

    #[test]
    fn attributes_are_named_by_a_domain_and_an_identifier() {
        check(fully_qualified, "gpu.test/model", &[]);
        check(
            fully_qualified,
            "model",
            &["Invalid value: \"model\": a fully qualified name must be a domain and a name"],
        );
        check(fully_qualified, "/model", &["Invalid value: \"\": the domain must not be empty"]);
        check(fully_qualified, "gpu.test/", &["Invalid value: \"\": the name must not be empty"]);
        check(fully_qualified, "a/b/c", &[]);
        check(fully_qualified, &format!("a/{}", "x".repeat(33)), &["Too long: may not be more than 32 bytes"]);
    }

    #[test]
    fn shares_are_uuids_in_their_normal_form() {
        check(share, "0e4f1e1e-3b3c-4d5e-8f90-a1b2c3d4e5f6", &[]);
        let capitals = "0E4F1E1E-3B3C-4D5E-8F90-A1B2C3D4E5F6";
        check(share, capitals, &[&format!("Invalid value: {capitals:?}: uid must be in RFC 4122 normalized form")]);
        check(share, "x", &["Invalid value: \"x\": error validating uid: invalid UUID length: 1"]);
        assert_eq!(not_a_uuid(&"0".repeat(36)).as_deref(), Some("invalid UUID format"));
        assert_eq!(not_a_uuid(&"0".repeat(38)).as_deref(), Some("invalid bracketed UUID format"));
        assert_eq!(not_a_uuid(&"0".repeat(45)).as_deref(), Some("invalid urn prefix: \"000000000\""));
        assert_eq!(not_a_uuid(&"0".repeat(32)), None);
    }
}
