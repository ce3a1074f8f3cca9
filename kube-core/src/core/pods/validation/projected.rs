//! Files that several objects, and the pod itself, put into one volume.

use std::collections::HashSet;

use machinery::{
    Value,
    meta::selector::{LabelSelectorRules, validate_label_selector},
};

use super::{
    env, internal, paths,
    scope::{list, text},
    signers, sources,
};
use crate::validation::{Errors, Field};

/// Fields of the pod as files.
pub(super) fn downward(source: &Field<'_>, errors: &mut Errors) {
    sources::mode(&source.at("defaultMode"), errors);
    for file in list(source.value(), "items") {
        downward_file(&source.with(file), errors);
    }
}

/// Upstream names the faults of each file on the list's holder.
fn downward_file(file: &Field<'_>, errors: &mut Errors) {
    file.at("path").is_given(errors);
    paths::local(&file.at("path"), errors);
    let (field, resource) = (file.at("fieldRef"), file.at("resourceFieldRef"));
    if field.is_set() {
        env::object_field(&field, env::FILE_FIELDS, errors);
        if resource.is_set() {
            let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
            file.invalid_as("resource", detail, errors);
        }
    } else if resource.is_set() {
        env::resource_field(&resource, true, errors);
    } else {
        file.required("one of fieldRef and resourceFieldRef is required", errors);
    }
    sources::mode(&file.at("mode"), errors);
}

/// Several sources in one volume, whose files have different paths.
pub(super) fn projected(volume: &Field<'_>, errors: &mut Errors) {
    sources::mode(&volume.at("defaultMode"), errors);
    let mut taken = HashSet::new();
    volume.at("sources").each_item(|source, value| {
        let kinds =
            ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];
        let mut found = 0;
        for kind in kinds {
            let Some(held) = value.get(kind).filter(|v| !v.is_null()) else { continue };
            found += 1;
            let part = source.at(kind);
            match kind {
                "secret" | "configMap" => keys(volume, &part, held, &mut taken, errors),
                "downwardAPI" => {
                    for file in list(held, "items") {
                        downward_file(&part.with(file), errors);
                        let path = text(file, "path");
                        take(volume, path, path, &mut taken, errors);
                    }
                }
                "serviceAccountToken" => token(volume, &part, errors),
                "clusterTrustBundle" => {
                    trust_bundle(&part, errors);
                    let path = text(held, "path");
                    if !taken.insert(path) {
                        volume.invalid_as(path, CONFLICT, errors);
                    }
                }
                _ => {
                    certificate(&part, errors);
                    for member in CERTIFICATE_PATHS {
                        let path = part.at(member);
                        if !path.is_empty() {
                            paths::local(&path, errors);
                            take(volume, text(held, member), path.text(), &mut taken, errors);
                        }
                    }
                    if CERTIFICATE_PATHS.iter().all(|member| text(held, member).is_empty()) {
                        let detail = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
                        part.required(detail, errors);
                    }
                }
            }
        }
        if found > 1 {
            source.forbidden("may not specify more than 1 volume type per source", errors);
        }
    });
}

const CONFLICT: &str = "conflicting duplicate paths";
const CERTIFICATE_PATHS: [&str; 3] = ["credentialBundlePath", "keyPath", "certificateChainPath"];

/// Notes a path; `shown` is what the error shows if it is taken.
fn take<'a>(volume: &Field<'_>, path: &'a str, shown: &str, taken: &mut HashSet<&'a str>, errors: &mut Errors) {
    if !path.is_empty() && !taken.insert(path) {
        volume.invalid_as(shown, CONFLICT, errors);
    }
}

fn keys<'a>(
    volume: &Field<'_>,
    object: &Field<'_>,
    held: &'a Value,
    taken: &mut HashSet<&'a str>,
    errors: &mut Errors,
) {
    let name = object.at("name");
    name.is_given(errors);
    let items = object.at("items");
    for (i, item) in list(held, "items").iter().enumerate() {
        sources::key_to_path(&items.index(i), errors);
        take(volume, text(item, "path"), name.text(), taken, errors);
    }
}

/// Seconds that a token is good for.
const MIN_TOKEN: i64 = 10 * 60;
const MAX_TOKEN: i64 = 1 << 32;

fn token(volume: &Field<'_>, token: &Field<'_>, errors: &mut Errors) {
    let seconds = token.at("expirationSeconds");
    if seconds.int_or_zero() < MIN_TOKEN {
        seconds.invalid_as(seconds.int_or_zero(), "may not specify a duration less than 10 minutes", errors);
    }
    if seconds.int_or_zero() > MAX_TOKEN {
        seconds.invalid("may not specify a duration larger than 2^32 seconds", errors);
    }
    // Upstream names the path on the volume.
    let path = token.at("path");
    let place = volume.at("path");
    let path = place.with(path.value());
    if path.is_given(errors) {
        paths::local(&path, errors);
    }
}

/// Whether a token goes to a path that older versions let pass.
pub(super) fn has_odd_token_path(spec: &Value) -> bool {
    let sources = list(spec, "volumes").iter().filter_map(|v| v.get("projected")).flat_map(|p| list(p, "sources"));
    let mut paths = sources.filter_map(|source| source.get("serviceAccountToken")).map(|token| text(token, "path"));
    paths.any(|path| !paths::is_local(path))
}

fn trust_bundle(bundle: &Field<'_>, errors: &mut Errors) {
    let (name, signer, selector) = (bundle.at("name"), bundle.at("signerName"), bundle.at("labelSelector"));
    match (name.is_set(), signer.is_set()) {
        (true, true) => {
            let shown = internal::shown("ClusterTrustBundleProjection", bundle.value());
            bundle.invalid_as(shown, "only one of name and signerName may be used", errors);
        }
        (true, false) => {
            if name.is_empty() {
                name.required("must be a valid object name", errors);
            }
            for message in signers::bundle_name(name.text()) {
                name.invalid_text(format!("not a valid clustertrustbundlename: {message}"), errors);
            }
            if selector.is_set() {
                selector.invalid("labelSelector must be unset if name is specified", errors);
            }
        }
        (false, true) => {
            if signer.is_empty() {
                signer.required("must be a valid signer name", errors);
            }
            signers::signer_name(&signer, errors);
            errors.extend(validate_label_selector(selector.value(), LabelSelectorRules::default(), selector.path()));
        }
        (false, false) => bundle.required("either name or signerName must be specified", errors),
    }
    bundle.at("path").is_given(errors);
    paths::local(&bundle.at("path"), errors);
}

/// Seconds that a certificate may be good for: others' signers, and Kubernetes' own.
const MIN_CERTIFICATE: i64 = 3600;
const MAX_CERTIFICATE: i64 = 91 * 24 * 60 * 60;
const MAX_KUBERNETES_CERTIFICATE: i64 = 24 * 60 * 60;

fn certificate(certificate: &Field<'_>, errors: &mut Errors) {
    let signer = certificate.at("signerName");
    signers::signer_name(&signer, errors);
    signers::user_annotations(&certificate.at("userAnnotations"), errors);
    let kinds = ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
    certificate.at("keyType").one_of(&kinds, errors);
    let seconds = certificate.at("maxExpirationSeconds");
    let Some(given) = seconds.int() else { return };
    if given < MIN_CERTIFICATE {
        let detail = format!("if provided, maxExpirationSeconds must be >= {MIN_CERTIFICATE}");
        seconds.invalid(detail, errors);
    }
    let own = signers::is_kubernetes(signer.text());
    let most = if own { MAX_KUBERNETES_CERTIFICATE } else { MAX_CERTIFICATE };
    if given > most {
        seconds.invalid(format!("if provided, maxExpirationSeconds must be <= {most}"), errors);
    }
}
