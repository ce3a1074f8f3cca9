//! Names with a domain in them: `webhook.example.com`, `example.com/controller`.
//!
//! Other than the grammars of [`names`] these make field errors themselves, as upstream's do: what they
//! show is not always the whole value.

use std::fmt::Display;

use super::field_error::{FieldError, invalid_each};
use super::names;

/// A domain of at least three segments: what webhooks are called.
pub fn fully_qualified_name(name: &str, path: impl Display + Copy) -> Vec<FieldError> {
    domain(name, 3, "three", path)
}

/// A domain of at least two segments, each a label; a dot may stand at its end.
pub fn fully_qualified_domain_name(name: &str, path: impl Display + Copy) -> Vec<FieldError> {
    let trimmed = name.strip_suffix('.').unwrap_or(name);
    if trimmed.is_empty() && !name.is_empty() {
        return joined(trimmed, names::dns1123_subdomain(trimmed), path);
    }
    let errors = domain(trimmed, 2, "two", path);
    if !errors.is_empty() {
        return errors;
    }
    let labels = trimmed.split('.').map(|label| joined(label, names::dns1123_label(label), path));
    labels.into_iter().find(|errors| !errors.is_empty()).unwrap_or_default()
}

fn domain(name: &str, least: usize, word: &str, path: impl Display + Copy) -> Vec<FieldError> {
    if name.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    let errors = joined(name, names::dns1123_subdomain(name), path);
    if !errors.is_empty() || name.split('.').count() >= least {
        return errors;
    }
    let detail = format!("should be a domain with at least {word} segments separated by dots");
    vec![FieldError::invalid(path, name, detail)]
}

/// All messages in one error.
fn joined(value: &str, messages: Vec<String>, path: impl Display) -> Vec<FieldError> {
    if messages.is_empty() { Vec::new() } else { vec![FieldError::invalid(path, value, messages.join(","))] }
}

/// A domain, a slash and a path: what controllers are called.
pub fn domain_prefixed_path(text: &str, path: impl Display + Copy) -> Vec<FieldError> {
    if text.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    let (host, rest) = match text.split_once('/') {
        Some((host, rest)) if !host.is_empty() && !rest.is_empty() => (host, rest),
        _ => {
            let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            return vec![FieldError::invalid(path, text, detail)];
        }
    };
    let mut errors = invalid_each(path, host, names::dns1123_subdomain(host));
    if !rest.bytes().all(|c| c.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&c)) {
        let message = names::regex_message("Invalid path", r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", &[]);
        errors.push(FieldError::invalid(path, rest, message));
    }
    errors
}

/// A qualified name that must have its domain.
pub fn domain_prefixed_key(key: &str, path: impl Display + Copy) -> Vec<FieldError> {
    if key.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    let errors = invalid_each(path, key, names::qualified_name(key));
    if !errors.is_empty() || key.contains('/') {
        return errors;
    }
    vec![FieldError::invalid(path, key, "must be a domain-prefixed key (such as \"acme.io/foo\")")]
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rule = fn(&str, &'static str) -> Vec<FieldError>;

    fn check(rule: Rule, text: &str, want: &[&str]) {
        let got: Vec<String> = rule(text, "f").iter().map(ToString::to_string).collect();
        assert_eq!(got, want, "{text}");
    }

    #[test]
    fn domains_have_enough_segments() {
        check(fully_qualified_name, "a.example.com", &[]);
        check(fully_qualified_name, "", &["f: Required value"]);
        let three =
            r#"f: Invalid value: "two.parts": should be a domain with at least three segments separated by dots"#;
        check(fully_qualified_name, "two.parts", &[three]);
        check(fully_qualified_domain_name, "example.com.", &[]);
        let two = r#"f: Invalid value: "one": should be a domain with at least two segments separated by dots"#;
        check(fully_qualified_domain_name, "one", &[two]);
        let long = "a".repeat(64);
        let label = format!(r#"f: Invalid value: "{long}": must be no more than 63 characters"#);
        check(fully_qualified_domain_name, &format!("{long}.b"), &[&label]);
        assert_eq!(fully_qualified_domain_name(".", "f").len(), 1);
    }

    #[test]
    fn paths_and_keys_have_a_domain() {
        check(domain_prefixed_path, "acme.io/foo/bar", &[]);
        let no_slash = r#"f: Invalid value: "noslash": must be a domain-prefixed path (such as "acme.io/foo")"#;
        check(domain_prefixed_path, "noslash", &[no_slash]);
        let bad_path =
            r#"f: Invalid value: "b ": Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')"#;
        check(domain_prefixed_path, "a/b ", &[bad_path]);
        check(domain_prefixed_key, "acme.io/foo", &[]);
        let no_domain = r#"f: Invalid value: "foo": must be a domain-prefixed key (such as "acme.io/foo")"#;
        check(domain_prefixed_key, "foo", &[no_domain]);
    }
}
