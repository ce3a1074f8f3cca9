//! How versions are converted.

use machinery::{
    Str, Value,
    meta::{field_error::FieldError, names},
    value::Path,
};

use super::{Rules, one_of};

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
pub(super) fn errors(definition: &Value, rules: &Rules, at: &Path<'_>) -> Vec<FieldError> {
    let Some(conversion) = definition.at(&["spec", "conversion"]).filter(|c| c.as_object().is_some()) else {
        return Vec::new();
    };
    let strategy = conversion.str_at(&["strategy"]);
    let mut errors: Vec<FieldError> =
        one_of(strategy, &["None", "Webhook"], &at.field("strategy")).into_iter().collect();
    let config_at = at.field("webhookClientConfig");
    let versions_at = at.field("conversionReviewVersions");
    let config = webhook(definition).and_then(|w| w.get("clientConfig")).filter(|c| c.as_object().is_some());
    let versions = review_versions(definition);
    if strategy == Some("Webhook") {
        match config {
            None => errors.push(FieldError::required(config_at, "required when strategy is set to Webhook")),
            Some(config) => errors.extend(client_config(config, &config_at)),
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

fn client_config(config: &Value, at: &Path<'_>) -> Vec<FieldError> {
    let url = config.get("url").and_then(Value::as_str);
    let service = config.get("service").filter(|s| s.as_object().is_some());
    match (url, service) {
        (Some(url), None) => url_errors(url, &at.field("url")),
        (None, Some(service)) => service_errors(service, &at.field("service")),
        _ => vec![FieldError::required(at, "exactly one of url or service is required")],
    }
}

fn url_errors(url: &str, at: &Path<'_>) -> Vec<FieldError> {
    const FORM: &str = "; desired format: https://host[/path]";
    let Some((scheme, rest)) = url.split_once("://") else {
        return vec![
            FieldError::invalid(at, "", format!("'https' is the only allowed URL scheme{FORM}")),
            FieldError::invalid(at, "", format!("host must be specified{FORM}")),
        ];
    };
    let mut errors = Vec::new();
    if scheme != "https" {
        errors.push(FieldError::invalid(at, scheme, format!("'https' is the only allowed URL scheme{FORM}")));
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    if host.is_empty() {
        errors.push(FieldError::invalid(at, "", format!("host must be specified{FORM}")));
    }
    if let Some(user) = user {
        errors.push(FieldError::invalid(at, user, "user information is not permitted in the URL"));
    }
    let (before, fragment) = rest.split_once('#').map_or((rest, ""), |(before, fragment)| (before, fragment));
    if !fragment.is_empty() {
        errors.push(FieldError::invalid(at, fragment, "fragments are not permitted in the URL"));
    }
    if let Some((_, query)) = before.split_once('?')
        && !query.is_empty()
    {
        errors.push(FieldError::invalid(at, query, "query parameters are not permitted in the URL"));
    }
    errors
}

fn service_errors(service: &Value, at: &Path<'_>) -> Vec<FieldError> {
    let text = |key: &str| service.str_at(&[key]).unwrap_or_default();
    let mut errors = Vec::new();
    if text("name").is_empty() {
        errors.push(FieldError::required(at.field("name"), ""));
    }
    if text("namespace").is_empty() {
        errors.push(FieldError::required(at.field("namespace"), ""));
    }
    let port = service.get("port").and_then(Value::as_i64).unwrap_or(443);
    let problems = names::port_number(port);
    if !problems.is_empty() {
        errors.push(FieldError::invalid(at.field("port"), port, format!("port is not valid: {}", problems.join(","))));
    }
    let path = text("path");
    if path.is_empty() || path == "/" {
        return errors;
    }
    let at = at.field("path");
    if !path.starts_with('/') {
        errors.push(FieldError::invalid(at, path, "must start with a '/'"));
    }
    let inner = path.trim_start_matches('/');
    for (i, segment) in inner.trim_end_matches('/').split('/').enumerate() {
        if segment.is_empty() {
            errors.push(FieldError::invalid(at, path, format!("segment[{i}] may not be empty")));
            continue;
        }
        let problems = names::dns1123_subdomain(segment);
        errors.extend(problems.iter().map(|why| FieldError::invalid(at, path, format!("segment[{i}]: {why}"))));
    }
    errors
}

fn review_version_errors(versions: &[Str], rules: &Rules, at: &Path<'_>) -> Vec<FieldError> {
    if versions.is_empty() {
        return vec![FieldError::required(at, "")];
    }
    let mut errors = Vec::new();
    for (i, version) in versions.iter().enumerate() {
        if versions[..i].contains(version) {
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
