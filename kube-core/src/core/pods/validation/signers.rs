//! Names of signers of certificates: `domain.example/path`.

use machinery::meta::{domains, field_error::FieldError, go_text::quote, names};

use crate::validation::{Errors, Field};

/// The longest that the parts of a name may be.
const MAX_DOMAIN: usize = 253;
const MAX_PATH: usize = 253 + 1 + 63;

/// A signer's name.
pub(crate) fn signer_name(field: &Field<'_>, errors: &mut Errors) {
    let text = field.text();
    if text.is_empty() {
        return field.required("", errors);
    }
    let Some((domain, path)) = text.split_once('/').filter(|(_, path)| !path.contains('/')) else {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return field.invalid(detail, errors);
    };
    if domain.len() > MAX_DOMAIN {
        errors.push(FieldError::too_long(field, MAX_DOMAIN));
    }
    labels(field, domain, names::dns1123_label, errors);
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        field.invalid_as(domain, detail, errors);
    }
    labels(field, path, names::dns1123_subdomain, errors);
    let most = MAX_DOMAIN + 1 + MAX_PATH;
    if text.len() > most {
        errors.push(FieldError::too_long(field, most));
    }
}

/// Only the first label with faults is named.
fn labels(field: &Field<'_>, part: &str, rule: fn(&str) -> Vec<String>, errors: &mut Errors) {
    let faults = part.split('.').map(|label| (label, rule(label))).find(|(_, faults)| !faults.is_empty());
    if let Some((label, faults)) = faults {
        for fault in faults {
            field.invalid_as(part, format!("validating label {}: {fault}", quote(label)), errors);
        }
    }
}

/// Whether the signer is one of Kubernetes' own.
pub(crate) fn is_kubernetes(signer: &str) -> bool {
    let domain = signer.split_once('/').map_or(signer, |(domain, _)| domain);
    domain == "kubernetes.io" || domain.ends_with(".kubernetes.io")
}

/// What is wrong with the name of a bundle of trusted certificates, which begins with its signer's name if it has one.
pub(crate) fn bundle_name(name: &str) -> Vec<String> {
    // All colons of what stands before the last one are slashes of the signer's name.
    let own = name.rsplit_once(':').map_or(name, |(_, own)| own);
    names::dns1123_subdomain(own)
}

/// What the pod's author says to the signer: keys with a domain, and not too much.
pub(crate) fn user_annotations(annotations: &Field<'_>, errors: &mut Errors) {
    const MAX: usize = 256 << 10;
    let mut size = 0;
    for (key, value) in annotations.value().as_object().into_iter().flatten() {
        errors.extend(domains::domain_prefixed_key(&key.to_lowercase(), annotations));
        size += key.len() + value.as_str().unwrap_or_default().len();
    }
    if size > MAX {
        errors.push(FieldError::too_long(annotations, MAX));
    }
}
