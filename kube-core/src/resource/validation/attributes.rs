//! Validates attributes of devices.

use machinery::{Value, meta::field_error::FieldError};

use super::names;
use crate::{
    core::pods::validation::internal::shown,
    validation::{Errors, Field},
};

/// How long the name of an attribute or a capacity is shown at most.
const MAX_SHOWN: usize = names::MAX_DOMAIN + 1 + names::MAX_ID;
const MAX_TEXT: usize = 64;
const FORMS: [&str; 8] = ["bool", "int", "string", "version", "bools", "ints", "strings", "versions"];

/// Every entry of a map by name: the name, told at the map, and the entry by a rule. Long names are shortened.
pub(super) fn entries(map: &Field<'_>, mut rule: impl FnMut(&Field<'_>, &mut Errors), errors: &mut Errors) {
    for (key, value) in map.value().as_object().into_iter().flatten() {
        names::qualified(map, key, errors);
        let shown = shortened(key);
        rule(&map.key(&shown).with(value), errors);
    }
}

fn shortened(key: &str) -> String {
    if key.len() <= MAX_SHOWN {
        return key.to_owned();
    }
    let left = MAX_SHOWN - 3;
    let bytes = key.as_bytes();
    let (head, tail) = (&bytes[..left.div_ceil(2)], &bytes[bytes.len() - left / 2..]);
    format!("{}...{}", String::from_utf8_lossy(head), String::from_utf8_lossy(tail))
}

/// How many values the attributes of a device have together.
pub(super) fn count(attributes: &Field<'_>) -> usize {
    let values = |attribute: &Value| {
        let items = |form: &&str| attribute.get(form).and_then(Value::as_array).map_or(0, <[Value]>::len);
        FORMS[4..].iter().map(items).sum::<usize>().max(1)
    };
    attributes.value().as_object().into_iter().flatten().map(|(_, attribute)| values(attribute)).sum()
}

/// An attribute: one value in one form.
pub(super) fn attribute(attribute: &Field<'_>, errors: &mut Errors) {
    text(&attribute.at("string"), errors);
    version(&attribute.at("version"), errors);
    for form in ["bools", "ints", "strings", "versions"] {
        let values = attribute.at(form);
        if values.is_set() && values.is_empty() {
            values.invalid("must not be empty if specified", errors);
        }
        match form {
            "strings" => values.each(|value| text(&value, errors)),
            "versions" => values.each(|value| version(&value, errors)),
            _ => {}
        }
    }
    let set = FORMS.iter().filter(|form| attribute.at(form).is_set()).count();
    let detail = "exactly one value must be specified";
    match set {
        0 => attribute.invalid_as("", detail, errors),
        1 => {}
        _ => attribute.invalid_as(shown("DeviceAttribute", attribute.value()), detail, errors),
    }
}

fn text(text: &Field<'_>, errors: &mut Errors) {
    if text.text().len() > MAX_TEXT {
        errors.push(FieldError::too_long(text, MAX_TEXT));
    }
}

fn version(version: &Field<'_>, errors: &mut Errors) {
    if !version.is_set() {
        return;
    }
    if !is_semantic_version(version.text()) {
        version.invalid("must be a string compatible with semver.org spec 2.0.0", errors);
    }
    text(version, errors);
}

fn is_semantic_version(text: &str) -> bool {
    let (rest, build) = text.split_once('+').map_or((text, None), |(rest, build)| (rest, Some(build)));
    let (core, pre) = rest.split_once('-').map_or((rest, None), |(core, pre)| (core, Some(pre)));
    let number = |part: &str| {
        !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit()) && (part == "0" || !part.starts_with('0'))
    };
    let word = |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-');
    let is_pre = |part: &str| word(part) && (number(part) || part.bytes().any(|c| !c.is_ascii_digit()));
    core.split('.').count() == 3
        && core.split('.').all(number)
        && pre.is_none_or(|pre| pre.split('.').all(is_pre))
        && build.is_none_or(|build| build.split('.').all(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_semantic() {
        for good in ["1.2.3", "0.0.0", "1.0.0-alpha.1", "1.0.0-0a+001", "1.0.0--x", "1.0.0+a-b.c"] {
            assert!(is_semantic_version(good), "{good}");
        }
        for bad in ["1.2", "01.2.3", "1.2.3-01", "1.2.3-", "1.2.3+", "v1.2.3", "1.2.3.4", "1.2.3-a..b", "1.2.3+a+b", ""]
        {
            assert!(!is_semantic_version(bad), "{bad}");
        }
    }

    #[test]
    fn long_names_are_shown_from_both_ends() {
        assert_eq!(shortened("a/b"), "a/b");
        let long = format!("{}/{}", "a".repeat(80), "b".repeat(80));
        assert_eq!(shortened(&long), format!("{}...{}", "a".repeat(47), "b".repeat(46)));
    }
}
