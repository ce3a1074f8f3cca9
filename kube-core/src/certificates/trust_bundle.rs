//! ClusterTrustBundles: certificates of authorities, for whoever trusts a signer.

use std::collections::HashMap;

use generic_server::printer::{Doc, NAME, NONE, Table, name, text, text_or};
use machinery::{
    codec::pem::{self, Block},
    meta::{field_error::FieldError, names},
};
use x509::Certificate;

use crate::{
    core::pods::validation::signers::signer_name,
    strategy::Rules,
    validation::{Errors, Field},
};

/// The rules.
pub(super) const RULES: Rules = Rules::PLAIN
    .conditional()
    .names(names::any_name)
    .validate(|_, bundle, errors| validate(bundle, true, errors))
    .validate_update(|_, new, old, errors| {
        let (spec, before) = (new.at("spec"), old.at("spec"));
        validate(new, !spec.at("trustBundle").same(&before.at("trustBundle")), errors);
        spec.at("signerName").immutable(&before.at("signerName"), errors);
    });

/// What is wrong with a bundle; certificates that are there already are let be.
fn validate(bundle: &Field<'_>, parse: bool, errors: &mut Errors) {
    let spec = bundle.at("spec");
    let signer = spec.at("signerName");
    let metadata = bundle.at("metadata");
    for message in named(signer.text(), metadata.at("name").text()) {
        metadata.at("name").invalid_text(message, errors);
    }
    if !signer.is_empty() {
        signer_name(&signer, errors);
    }
    if parse {
        certificates(&spec.at("trustBundle"), errors);
    }
}

/// A signer's bundles begin with its name.
fn named(signer: &str, name: &str) -> Vec<String> {
    if signer.is_empty() {
        if name.contains(':') {
            return vec!["ClusterTrustBundle without signer name must not have \":\" in its name".to_owned()];
        }
        return names::name_is_dns_subdomain(name, false);
    }
    let prefix = format!("{}:", signer.replace('/', ":"));
    match name.strip_prefix(&prefix) {
        Some(rest) => names::name_is_dns_subdomain(rest, false),
        None => vec![format!("ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}")],
    }
}

/// Certificates of authorities, each once, and nothing else; at least one.
fn certificates(bundle: &Field<'_>, errors: &mut Errors) {
    const MAX: usize = 1 << 20;
    if bundle.text().len() > MAX {
        errors.push(FieldError::too_long(bundle, MAX));
        return;
    }
    let mut entries: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
    let mut wrong = false;
    for (i, block) in pem::blocks(bundle.text().as_bytes()).enumerate() {
        match anchor(&block) {
            Ok(()) => entries.entry(block.der).or_default().push(i),
            Err(why) => {
                omitted(bundle, format!("entry {i} {why}"), errors);
                wrong = true;
            }
        }
    }
    if wrong {
        return;
    }
    if entries.is_empty() {
        omitted(bundle, "at least one trust anchor must be provided".to_owned(), errors);
    }
    let mut repeated: Vec<Vec<usize>> = entries.into_values().filter(|indices| indices.len() > 1).collect();
    repeated.sort_unstable();
    for indices in repeated {
        let shown: Vec<String> = indices.iter().map(usize::to_string).collect();
        omitted(bundle, format!("duplicate trust anchor (indices [{}])", shown.join(" ")), errors);
    }
}

/// Why a block is no certificate of an authority.
fn anchor(block: &Block<'_>) -> Result<(), String> {
    if block.label != b"CERTIFICATE" {
        return Err(format!("has bad block type: {}", String::from_utf8_lossy(block.label)));
    }
    if block.headers {
        return Err("has PEM block headers".to_owned());
    }
    let certificate = Certificate::parse(&block.der).map_err(|_| "does not parse as X.509".to_owned())?;
    if !certificate.is_authority() {
        return Err("does not have the CA bit set".to_owned());
    }
    Ok(())
}

fn omitted(bundle: &Field<'_>, detail: String, errors: &mut Errors) {
    bundle.invalid_as("<value omitted>", detail, errors);
}

/// Whose bundle each is.
pub(super) const TABLE: Table = Table::new(
    &[NAME, text("SignerName", Doc::Of("certificates.v1beta1.ClusterTrustBundleSpec", "signerName"))],
    |bundle, _| vec![name(bundle), text_or(bundle, &["spec", "signerName"], NONE)],
);

#[cfg(test)]
mod tests {
    use machinery::object;

    use super::*;

    fn check(name: &str, signer: &str, bundle: &str, expect: &[&str]) {
        let spec = object! { "signerName" => signer, "trustBundle" => bundle };
        let object = object! { "metadata" => object! { "name" => name }, "spec" => spec };
        let mut errors = Errors::default();
        validate(&Field::root(&object), true, &mut errors);
        let found: Vec<String> = errors.into_vec().iter().map(|e| format!("{}: {}", e.field, e.detail)).collect();
        assert_eq!(found, expect);
    }

    fn certificate(authority: bool) -> String {
        let mut params = rcgen::CertificateParams::default();
        if authority {
            params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        }
        params.self_signed(&rcgen::KeyPair::generate().expect("a key")).expect("a certificate").pem()
    }

    #[test]
    fn a_bundle_holds_certificates_of_authorities_each_once() {
        let (one, other, leaf) = (certificate(true), certificate(true), certificate(false));
        check("a", "", &one, &[]);
        check("a", "", &format!("{one}{other}"), &[]);
        check("a", "", "", &["spec.trustBundle: at least one trust anchor must be provided"]);
        check("a", "", &format!("{one}{other}{one}"), &["spec.trustBundle: duplicate trust anchor (indices [0 2])"]);
        check("a", "", &format!("{one}{leaf}"), &["spec.trustBundle: entry 1 does not have the CA bit set"]);
        let other_label = one.replace("CERTIFICATE", "THING");
        check("a", "", &other_label, &["spec.trustBundle: entry 0 has bad block type: THING"]);
    }

    #[test]
    fn bundles_of_a_signer_begin_with_its_name() {
        let one = certificate(true);
        check("example.com:s:a", "example.com/s", &one, &[]);
        check(
            "a:b",
            "",
            &one,
            &["metadata.name: ClusterTrustBundle without signer name must not have \":\" in its name"],
        );
        check(
            "a",
            "example.com/s",
            &one,
            &[
                "metadata.name: ClusterTrustBundle for signerName example.com/s must be named with prefix example.com:s:",
            ],
        );
    }
}
