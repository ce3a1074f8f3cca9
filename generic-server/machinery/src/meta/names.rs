//! The grammars of names. Each check returns upstream's messages, none if the text is fine; a fine text costs no
//! allocation.

use std::fmt::Display;
use std::hash::{BuildHasher, Hasher};

/// A rule for an object's name. With `prefix`, the text is a generateName: it may end in a dash.
pub type NameRule = fn(name: &str, prefix: bool) -> Vec<String>;

const LABEL_1123: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const SUBDOMAIN_TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
                              '.', and must start and end with an alphanumeric character";
const LABEL_KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_KEY_TEXT: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                              alphanumeric character";

/// `must be no more than N characters`
pub fn max_len_message(max: usize) -> String {
    format!("must be no more than {max} characters")
}

fn max_bytes_message(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

/// `must be between A and B, inclusive`
pub fn range_message(low: impl Display, high: impl Display) -> String {
    format!("must be between {low} and {high}, inclusive")
}

/// `text (e.g. 'a',  or 'b', regex used for validation is '…')`
pub fn regex_message(text: &str, regex: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{text} (regex used for validation is '{regex}')");
    }
    let examples: Vec<String> = examples.iter().map(|e| format!("'{e}', ")).collect();
    format!("{text} (e.g. {}regex used for validation is '{regex}')", examples.join(" or "))
}

fn alnum_lower(c: u8) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

/// Whether `text` is not empty, its ends satisfy `end`, and what lies between satisfies `middle` or `end`.
fn framed(text: &[u8], end: fn(u8) -> bool, middle: fn(u8) -> bool) -> bool {
    match text {
        [] => false,
        [one] => end(*one),
        [first, between @ .., last] => end(*first) && end(*last) && between.iter().all(|c| end(*c) || middle(*c)),
    }
}

fn is_label_1123(text: &str) -> bool {
    framed(text.as_bytes(), alnum_lower, |c| c == b'-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label_1123)
}

/// A label of DNS by RFC 1123, of at most 63 bytes: what namespaces and containers are called.
pub fn dns1123_label(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if text.len() > 63 {
        out.push(max_len_message(63));
    }
    if !is_label_1123(text) {
        if is_subdomain(text) {
            out.push("must not contain dots".to_owned());
        } else {
            let message = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                           start and end with an alphanumeric character";
            out.push(regex_message(message, LABEL_1123, &["my-name", "123-abc"]));
        }
    }
    out
}

/// A subdomain of DNS by RFC 1123, of at most 253 bytes: what most objects are called.
pub fn dns1123_subdomain(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if text.len() > 253 {
        out.push(max_len_message(253));
    }
    if !is_subdomain(text) {
        out.push(regex_message(SUBDOMAIN_TEXT, SUBDOMAIN, &["example.com"]));
    }
    out
}

/// A subdomain of either case.
pub fn caseless_dns1123_subdomain(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if text.len() > 253 {
        out.push(max_len_message(253));
    }
    if !is_subdomain(&text.to_ascii_lowercase()) {
        let message = "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with \
                       an alphanumeric character";
        out.push(regex_message(message, SUBDOMAIN, &["Example.com"]));
    }
    out
}

/// A subdomain whose labels may hold and start with underscores: DNS search paths.
pub fn dns1123_subdomain_with_underscore(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if text.len() > 253 {
        out.push(max_len_message(253));
    }
    let fine = text.split('.').all(|label| {
        let label = label.strip_prefix('_').unwrap_or(label);
        framed(label.as_bytes(), alnum_lower, |c| c == b'-' || c == b'_')
    });
    if !fine {
        let message = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', \
                       and must start and end with an alphanumeric character";
        let regex = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
        out.push(regex_message(message, regex, &["example.com"]));
    }
    out
}

/// `*.` and a subdomain.
pub fn wildcard_dns1123_subdomain(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if text.len() > 253 {
        out.push(max_len_message(253));
    }
    if !text.strip_prefix("*.").is_some_and(is_subdomain) {
        let message = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must \
                       consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
        out.push(regex_message(message, &format!(r"\*\.{SUBDOMAIN}"), &["*.example.com"]));
    }
    out
}

/// A label of DNS by RFC 1035, of at most 63 bytes, that starts with a letter.
pub fn dns1035_label(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if text.len() > 63 {
        out.push(max_len_message(63));
    }
    if !(is_label_1123(text) && text.as_bytes()[0].is_ascii_lowercase()) {
        let message = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
                       character, and end with an alphanumeric character";
        out.push(regex_message(message, "[a-z]([-a-z0-9]*[a-z0-9])?", &["my-name", "abc-123"]));
    }
    out
}

fn is_label_key_name(text: &str) -> bool {
    framed(text.as_bytes(), |c| c.is_ascii_alphanumeric(), |c| matches!(c, b'-' | b'_' | b'.'))
}

/// A qualified name, which is what keys of labels and annotations, finalizers and many others are: a name of at most 63
/// bytes, and before a slash an optional subdomain.
pub fn qualified_name(text: &str) -> Vec<String> {
    let examples = &["MyName", "my.name", "123-abc"];
    let mut out = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((_, rest)) if rest.contains('/') => {
            let message = regex_message(LABEL_KEY_TEXT, LABEL_KEY, examples);
            out.push(format!(
                "a valid label key {message} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ));
            return out;
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                out.push("prefix part must be non-empty".to_owned());
            } else {
                if prefix.len() > 253 {
                    out.push(format!("prefix part {}", max_bytes_message(253)));
                }
                if !is_subdomain(prefix) {
                    let message = regex_message(SUBDOMAIN_TEXT, SUBDOMAIN, &["example.com"]);
                    out.push(format!("prefix part {message}"));
                }
            }
            name
        }
    };
    if name.is_empty() {
        out.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        out.push(format!("name part {}", max_bytes_message(63)));
    }
    if !is_label_key_name(name) {
        out.push(format!("name part {}", regex_message(LABEL_KEY_TEXT, LABEL_KEY, examples)));
    }
    out
}

/// A label's value: empty, or like a label's name, of at most 63 bytes.
pub fn label_value(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if text.len() > 63 {
        out.push(max_bytes_message(63));
    }
    if !text.is_empty() && !is_label_key_name(text) {
        let message = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
                       must start and end with an alphanumeric character";
        out.push(regex_message(message, &format!("({LABEL_KEY})?"), &["MyValue", "my_value", "12345"]));
    }
    out
}

/// A name that can be one segment of a URL's path.
pub fn path_segment_name(text: &str) -> Vec<String> {
    if matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    path_segment_prefix(text)
}

/// Why upstream's own client does not ask for an object of this name.
pub fn unaskable_name(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("resource name may not be empty".to_owned());
    }
    let problems = path_segment_name(name);
    (!problems.is_empty())
        .then(|| format!("invalid resource name {}: [{}]", super::go_text::quote(name), problems.join(" ")))
}

/// The start of a name that can be one segment of a URL's path.
pub fn path_segment_prefix(text: &str) -> Vec<String> {
    let illegal = ['/', '%'].into_iter().filter(|c| text.contains(*c));
    illegal.map(|c| format!("may not contain '{c}'")).collect()
}

fn dot_messages(text: &str, out: &mut Vec<String>) {
    match text {
        "." | ".." => out.push(format!("must not be '{text}'")),
        _ if text.starts_with("..") => out.push("must not start with '..'".to_owned()),
        _ => {}
    }
}

/// A key of a ConfigMap or Secret, of at most 253 bytes.
pub fn config_map_key(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if text.len() > 253 {
        out.push(max_len_message(253));
    }
    if text.is_empty() || !text.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.' | b'_')) {
        let message = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        out.push(regex_message(message, "[-._a-zA-Z0-9]+", &["key.name", "KEY_NAME", "key-name"]));
    }
    dot_messages(text, &mut out);
    out
}

/// An environment variable's name by the strict, older rule.
pub fn env_var_name(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let letter = |c: u8| c.is_ascii_alphabetic() || matches!(c, b'-' | b'.' | b'_');
    let fine = text.bytes().all(|c| letter(c) || c.is_ascii_digit()) && text.bytes().next().is_some_and(letter);
    if !fine {
        let message = "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', \
                       and must not start with a digit";
        let examples = &["my.env-name", "MY_ENV.NAME", "MyEnvName1"];
        out.push(regex_message(message, "[-._a-zA-Z][-._a-zA-Z0-9]*", examples));
    }
    dot_messages(text, &mut out);
    out
}

/// An environment variable's name by the rule of today: printable ASCII without `=`.
pub fn relaxed_env_var_name(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if text.is_empty() {
        out.push("environment variable name must be non-empty".to_owned());
    }
    if !text.bytes().all(|c| (b' '..=b'~').contains(&c) && c != b'=') {
        let message =
            "a valid environment variable name must consist only of printable ASCII characters other than '='";
        out.push(message.to_owned());
    }
    out
}

/// A port's name, of at most 15 bytes.
pub fn port_name(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if text.len() > 15 {
        out.push(max_len_message(15));
    }
    if text.is_empty() || !text.bytes().all(|c| alnum_lower(c) || c == b'-') {
        out.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|c| c.is_ascii_lowercase()) {
        out.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        out.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        out.push("must not begin or end with a hyphen".to_owned());
    }
    out
}

/// A port's number: 1 to 65535.
pub fn port_number(port: i64) -> Vec<String> {
    in_range(port, 1, 65535)
}

/// A number within inclusive bounds.
pub fn in_range(number: i64, low: i64, high: i64) -> Vec<String> {
    if (low..=high).contains(&number) { Vec::new() } else { vec![range_message(low, high)] }
}

/// A user or group id: 0 to 2147483647.
pub fn unix_id(id: i64) -> Vec<String> {
    in_range(id, 0, 2_147_483_647)
}

/// A whole number and `%`.
pub fn percent(text: &str) -> Vec<String> {
    let digits = text.strip_suffix('%').unwrap_or("");
    if !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit()) {
        return Vec::new();
    }
    let message = "a valid percent string must be a numeric string followed by an ending '%'";
    vec![regex_message(message, "[0-9]+%", &["1%", "93%"])]
}

/// A header's name.
pub fn http_header_name(text: &str) -> Vec<String> {
    if !text.is_empty() && text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-') {
        return Vec::new();
    }
    let message = "a valid HTTP header must consist of alphanumeric characters or '-'";
    vec![regex_message(message, "[-A-Za-z0-9]+", &["X-Header-Name"])]
}

/// An identifier of C.
pub fn c_identifier(text: &str) -> Vec<String> {
    let letter = |c: u8| c.is_ascii_alphabetic() || c == b'_';
    if text.bytes().next().is_some_and(letter) && text.bytes().all(|c| letter(c) || c.is_ascii_digit()) {
        return Vec::new();
    }
    let message = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric \
                   characters or '_'";
    vec![regex_message(message, "[A-Za-z_][A-Za-z0-9_]*", &["my_name", "MY_NAME", "MyName"])]
}

/// The reason of a condition.
pub fn condition_reason(text: &str) -> Vec<String> {
    let word = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
    let bytes = text.as_bytes();
    let fine = bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().copied().is_some_and(word)
        && bytes.iter().all(|c| word(*c) || matches!(c, b',' | b':'));
    if fine {
        return Vec::new();
    }
    let message = "a condition reason must start with alphabetic character, optionally followed by a string of \
                   alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'";
    let examples = &["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"];
    vec![regex_message(message, "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", examples)]
}

/// A generateName's dash at the end is followed by letters later on: it is checked as if they were there.
fn unmasked(name: &str, prefix: bool, rule: fn(&str) -> Vec<String>) -> Vec<String> {
    match name.strip_suffix('-') {
        Some(stem) if prefix && !stem.is_empty() => {
            let stem: String = stem.chars().take(stem.chars().count() - 1).chain(['a']).collect();
            rule(&stem)
        }
        _ => rule(name),
    }
}

/// The [`NameRule`] of most kinds.
pub fn name_is_dns_subdomain(name: &str, prefix: bool) -> Vec<String> {
    unmasked(name, prefix, dns1123_subdomain)
}

/// The [`NameRule`] of kinds whose schema says that they are named by a subdomain: what a name begins with is not looked at,
/// and the limit is one of bytes.
pub fn name_is_declared_subdomain(name: &str, prefix: bool) -> Vec<String> {
    match prefix {
        true => Vec::new(),
        false if name.len() > 253 => vec![max_bytes_message(253)],
        false => dns1123_subdomain(name),
    }
}

/// The [`NameRule`] of kinds that leave names to the rules of paths, which hold for all kinds.
pub fn any_name(_name: &str, _prefix: bool) -> Vec<String> {
    Vec::new()
}

/// The [`NameRule`] of namespaces, services and the like.
pub fn name_is_dns_label(name: &str, prefix: bool) -> Vec<String> {
    unmasked(name, prefix, dns1123_label)
}

/// The [`NameRule`] of names that must start with a letter.
pub fn name_is_dns1035_label(name: &str, prefix: bool) -> Vec<String> {
    unmasked(name, prefix, dns1035_label)
}

/// The [`NameRule`] of RBAC objects and others that take almost anything.
pub fn name_is_path_segment(name: &str, prefix: bool) -> Vec<String> {
    if prefix { path_segment_prefix(name) } else { path_segment_name(name) }
}

/// A name from a generateName: its first 58 bytes and five random characters, at most 63 together.
pub fn generate_name(base: &str) -> String {
    // Each RandomState has keys of its own, from the system's randomness: enough for names, and no dependency.
    let random = std::hash::RandomState::new().build_hasher().finish();
    name_with_suffix(base, random)
}

fn name_with_suffix(base: &str, mut random: u64) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789"; // no vowels, nothing that looks like something else
    const SUFFIX: usize = 5;
    let mut out = base[..base.floor_char_boundary(63 - SUFFIX)].to_owned();
    for _ in 0..SUFFIX {
        out.push(ALPHABET[(random % ALPHABET.len() as u64) as usize] as char);
        random /= ALPHABET.len() as u64;
    }
    out
}

#[cfg(test)]
mod tests;
