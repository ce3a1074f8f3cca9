//! Validates `spec.conversion` of definitions.

use std::collections::HashSet;

use machinery::{
    Str, Value,
    meta::{field_error::FieldError, names, webhook::validate_client_config},
    value::Path,
};

use super::{Rules, one_of, preserves_all};

/// The versions of ConversionReview that this server sends.
const KNOWN: [&str; 2] = ["v1", "v1beta1"];

fn webhook(definition: &Value) -> Option<&Value> {
    definition.at(&["spec", "conversion", "webhook"]).filter(|w| w.as_object().is_some())
}

fn review_versions(definition: &Value) -> Vec<Str> {
    let list = webhook(definition).and_then(|w| w.get("conversionReviewVersions")).and_then(Value::as_array);
    list.unwrap_or_default().iter().filter_map(|v| v.as_shared_str().cloned()).collect()
}

/// Whether a definition names a review version that is known (or none at all).
pub(super) fn knows_a_review_version(definition: &Value) -> bool {
    let versions = review_versions(definition);
    versions.is_empty() || versions.iter().any(|v| KNOWN.contains(&v.as_str()))
}

/// Whether the caBundle holds no certificate that can be read.
pub(super) fn has_bad_ca_bundle(definition: &Value) -> bool {
    ca_bundle(definition).is_some_and(|bundle| !is_pem(bundle))
}

fn ca_bundle(definition: &Value) -> Option<&str> {
    webhook(definition)?.str_at(&["clientConfig", "caBundle"]).filter(|b| !b.is_empty())
}

fn is_pem(bundle: &str) -> bool {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let Ok(text) = STANDARD.decode(bundle) else { return false };
    text.windows(27).any(|w| w == b"-----BEGIN CERTIFICATE-----")
}

/// What is wrong with the conversion. Upstream's internal form has other names for the parts than the API.
pub(super) fn errors(definition: &Value, rules: &Rules<'_>, at: &Path<'_>) -> Vec<FieldError> {
    let Some(conversion) = definition.at(&["spec", "conversion"]).filter(|c| c.as_object().is_some()) else {
        return Vec::new();
    };
    let strategy = conversion.str_at(&["strategy"]);
    let mut errors = Vec::new();
    if preserves_all(definition) && strategy != Some("None") {
        let why = "must be None if spec.preserveUnknownFields is true";
        errors.push(FieldError::invalid(at.field("strategy"), strategy.unwrap_or_default(), why));
    }
    errors.extend(one_of(strategy, &["None", "Webhook"], &at.field("strategy")));
    let config_at = at.field("webhookClientConfig");
    let versions_at = at.field("conversionReviewVersions");
    let config = webhook(definition).and_then(|w| w.get("clientConfig")).filter(|c| c.as_object().is_some());
    let versions = review_versions(definition);
    if strategy == Some("Webhook") {
        match config {
            None => errors.push(FieldError::required(config_at, "required when strategy is set to Webhook")),
            Some(config) => errors.extend(validate_client_config(config, &config_at)),
        }
        if has_bad_ca_bundle(definition) && !rules.any_ca_bundle {
            let why = "unable to load root certificates: unable to parse bytes as PEM block";
            errors.push(FieldError::invalid(config_at.field("caBundle"), ca_bundle(definition).unwrap_or(""), why));
        }
        errors.extend(review_version_errors(&versions, rules, &versions_at));
        return errors;
    }
    let idle = "should not be set when strategy is not set to Webhook";
    if config.is_some() {
        errors.push(FieldError::forbidden(config_at, idle));
    }
    if !versions.is_empty() {
        errors.push(FieldError::forbidden(versions_at, idle));
    }
    errors
}

fn review_version_errors(versions: &[Str], rules: &Rules<'_>, at: &Path<'_>) -> Vec<FieldError> {
    if versions.is_empty() {
        return vec![FieldError::required(at, "")];
    }
    let mut errors = Vec::new();
    let mut seen = HashSet::new();
    for (i, version) in versions.iter().enumerate() {
        if !seen.insert(version) {
            errors.push(FieldError::invalid(at.index(i), version, "duplicate version"));
            continue;
        }
        let problems = names::dns1035_label(version);
        errors.extend(problems.into_iter().map(|why| FieldError::invalid(at.index(i), version, why)));
    }
    if rules.known_review_version && !versions.iter().any(|v| KNOWN.contains(&v.as_str())) {
        let why = format!("must include at least one of {}", KNOWN.join(", "));
        let shown: Value = versions.iter().map(Value::from).collect();
        errors.push(FieldError::invalid(at, shown, why));
    }
    errors
}
