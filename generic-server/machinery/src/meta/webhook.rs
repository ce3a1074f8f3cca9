//! How webhooks are reached: a URL, or a service of the cluster.

use super::{field_error::FieldError, go_text::quote, go_url::GoUrl, names};
use crate::{Value, value::Path};

/// A clientConfig: exactly one of `url` and `service`.
pub fn validate_client_config(config: &Value, at: &Path<'_>) -> Vec<FieldError> {
    let url = config.get("url").and_then(Value::as_str);
    let service = config.get("service").filter(|s| s.as_object().is_some());
    match (url, service) {
        (Some(url), None) => validate_url(url, &at.field("url")),
        (None, Some(service)) => validate_service(service, &at.field("service")),
        _ => vec![FieldError::required(at, "exactly one of url or service is required")],
    }
}

/// A URL that a webhook can have: `https://host[/path]`, and nothing more.
fn validate_url(text: &str, at: &Path<'_>) -> Vec<FieldError> {
    const FORM: &str = "; desired format: https://host[/path]";
    let url = match GoUrl::parse(text) {
        Ok(url) => url,
        Err(why) => {
            let why = format!("url must be a valid URL: parse {}: {why}{FORM}", quote(text));
            return vec![FieldError::required(at, why)];
        }
    };
    let mut errors = Vec::new();
    if url.scheme != "https" {
        errors.push(FieldError::invalid(
            at,
            url.scheme.as_str(),
            format!("'https' is the only allowed URL scheme{FORM}"),
        ));
    }
    if url.host.is_empty() {
        errors.push(FieldError::invalid(at, "", format!("host must be specified{FORM}")));
    }
    if let Some(user) = url.user {
        errors.push(FieldError::invalid(at, user, "user information is not permitted in the URL"));
    }
    if !url.fragment.is_empty() {
        errors.push(FieldError::invalid(at, url.fragment, "fragments are not permitted in the URL"));
    }
    if !url.query.is_empty() {
        errors.push(FieldError::invalid(at, url.query, "query parameters are not permitted in the URL"));
    }
    errors
}

/// A service of the cluster, with a path below it. Upstream takes the name for the namespace and the other way round.
fn validate_service(service: &Value, at: &Path<'_>) -> Vec<FieldError> {
    let text = |key: &str| service.str_at(&[key]).unwrap_or_default();
    let mut errors = Vec::new();
    for (missing, shown) in [("namespace", "name"), ("name", "namespace")] {
        if text(missing).is_empty() {
            errors.push(FieldError::required(at.field(shown), ""));
        }
    }
    let port = service.get("port").and_then(Value::as_i64).unwrap_or(443);
    let problems = names::port_number(port);
    if !problems.is_empty() {
        errors.push(FieldError::invalid(at.field("port"), port, format!("port is not valid: {}", problems.join(","))));
    }
    errors.extend(validate_service_path(text("path"), &at.field("path")));
    errors
}

fn validate_service_path(path: &str, at: &Path<'_>) -> Vec<FieldError> {
    let invalid = |why: String| FieldError::invalid(at, path, why);
    match path {
        "" | "/" => return Vec::new(),
        "//" => return vec![invalid("segment[0] may not be empty".to_owned())],
        _ => {}
    }
    let mut errors = Vec::new();
    if !path.starts_with('/') {
        errors.push(invalid("must start with a '/'".to_owned()));
    }
    // Upstream drops the first byte, whatever it is: of a letter of several bytes something is left, which is no name.
    let mut letters = path.chars();
    let left = letters.next().filter(|first| !first.is_ascii()).map_or("", |_| "\u{fffd}");
    let steps = format!("{left}{}", letters.as_str());
    for (i, step) in steps.strip_suffix('/').unwrap_or(&steps).split('/').enumerate() {
        if step.is_empty() {
            errors.push(invalid(format!("segment[{i}] may not be empty")));
        } else {
            let problems = names::dns1123_subdomain(step);
            errors.extend(problems.iter().map(|why| invalid(format!("segment[{i}]: {why}"))));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object;

    fn check(config: Value, expect: &[&str]) {
        let errors = validate_client_config(&config, &Path::ROOT.field("c"));
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts, expect);
    }

    #[test]
    fn a_url_has_a_host_and_a_path_alone() {
        let url = |text: &str, expect: &[&str]| check(object! { "url" => text }, expect);
        url("https://hook.test:8443/x", &[]);
        url("https://[::1]:443/", &[]);
        url(
            "http://x/y?z=1#f",
            &[
                r#"c.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]"#,
                r#"c.url: Invalid value: "f": fragments are not permitted in the URL"#,
                r#"c.url: Invalid value: "z=1": query parameters are not permitted in the URL"#,
            ],
        );
        url(
            "https://user@",
            &[
                r#"c.url: Invalid value: "": host must be specified; desired format: https://host[/path]"#,
                r#"c.url: Invalid value: "user": user information is not permitted in the URL"#,
            ],
        );
        let form = "; desired format: https://host[/path]";
        for (text, why) in [
            (":x", "missing protocol scheme"),
            ("1a:b", "first path segment in URL cannot contain colon"),
            ("https://h:x", r#"invalid port ":x" after host"#),
            ("https://h/%zz", r#"invalid URL escape "%zz""#),
        ] {
            url(
                text,
                &[&format!("c.url: Required value: url must be a valid URL: parse {}: {why}{form}", quote(text))],
            );
        }
    }

    #[test]
    fn a_service_has_a_name_and_perhaps_a_path() {
        check(object! {}, &["c: Required value: exactly one of url or service is required"]);
        check(
            object! { "service" => object! { "port" => 70000, "path" => "a//b" } },
            &[
                "c.service.name: Required value",
                "c.service.namespace: Required value",
                "c.service.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive",
                r#"c.service.path: Invalid value: "a//b": must start with a '/'"#,
                r#"c.service.path: Invalid value: "a//b": segment[0] may not be empty"#,
                r#"c.service.path: Invalid value: "a//b": segment[1] may not be empty"#,
            ],
        );
        let service =
            |path: &str| object! { "service" => object! { "name" => "s", "namespace" => "n", "path" => path } };
        check(service("/a/b/"), &[]);
        let rest = FieldError::invalid(
            "c.service.path",
            "é",
            format!("segment[0]: {}", names::dns1123_subdomain("é").join("")),
        );
        check(service("é"), &[r#"c.service.path: Invalid value: "é": must start with a '/'"#, &rest.to_string()]);
    }
}
