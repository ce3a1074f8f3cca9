//! The status of a definition, and the approval of protected groups.

use std::collections::HashSet;

use machinery::{Str, Value, meta::field_error::FieldError, value::Path};

use super::well_formed;
use crate::definition::view::Definition;

/// The annotation by which a CRD in a protected group says that its API was reviewed.
const APPROVAL: &str = "api-approved.kubernetes.io";
const POLICY: &str = "https://github.com/kubernetes/enhancements/pull/1111";

/// What is wrong with a status.
pub(crate) fn status(definition: &Value) -> Vec<FieldError> {
    let status = Path::ROOT.field("status");
    well_formed(&Definition(definition).accepted_names(), &status.field("acceptedNames"))
}

/// Versions that objects may be stored in must stay in the spec.
pub(super) fn stored_versions(definition: &Value) -> Vec<FieldError> {
    let status = Path::ROOT.field("status");
    let at = status.field("storedVersions");
    let listed = definition.at(&["status", "storedVersions"]).and_then(Value::as_array).unwrap_or_default();
    let stored: Vec<Str> = listed.iter().filter_map(|v| v.as_shared_str().cloned()).collect();
    if stored.is_empty() {
        return vec![FieldError::invalid(at, Value::Null, "must have at least one stored version")];
    }
    let shown: Value = stored.iter().map(Value::from).collect();
    let known: HashSet<&Str> = stored.iter().collect();
    let storage = Definition(definition).versions().filter(|v| v.is_storage()).map(|v| v.name());
    let mut errors: Vec<FieldError> = storage
        .filter(|version| !known.contains(version))
        .map(|version| FieldError::invalid(at, &shown, format!("must have the storage version {version}")))
        .collect();
    let names: HashSet<Str> = Definition(definition).versions().map(|v| v.name()).collect();
    let missing = stored.iter().enumerate().filter(|(_, v)| !names.contains(*v));
    let why = |v: &str| {
        format!(
            "missing from spec.versions; {v} was previously a storage version, and must remain in spec.versions until a \
             storage migration ensures no data remains persisted in {v} and removes {v} from status.storedVersions"
        )
    };
    errors.extend(missing.map(|(i, v)| FieldError::invalid(at.index(i), v, why(v))));
    errors
}

/// Whether a CRD of a protected group was approved.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Approval {
    /// Nobody says so.
    Missing,
    /// By the review of this address.
    Approved(String),
    /// It says that it was not, and why.
    Bypassed(String),
    /// The annotation says nothing that can be understood.
    Invalid,
}

/// The approval of a CRD; `None` if its group is not protected.
pub(crate) fn approval_of(definition: &Value) -> Option<Approval> {
    let group = Definition(definition).group();
    let protected = ["k8s.io", "kubernetes.io"];
    if !protected.iter().any(|p| group.strip_suffix(p).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))) {
        return None;
    }
    let annotation = definition.str_at(&["metadata", "annotations", APPROVAL]).unwrap_or_default();
    Some(match annotation {
        "" => Approval::Missing,
        text if text.starts_with("unapproved") => Approval::Bypassed(text.to_owned()),
        text if is_url(text) => Approval::Approved(text.to_owned()),
        _ => Approval::Invalid,
    })
}

/// Whether Go's url.Parse finds a scheme and a host.
fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let mut letters = scheme.bytes();
    let good_scheme = letters.next().is_some_and(|b| b.is_ascii_alphabetic())
        && letters.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let controls = text.bytes().any(|b| b < 0x20 || b == 0x7f);
    good_scheme && !host.is_empty() && !host.contains(' ') && !controls
}

/// What upstream says of an approval that is not one.
pub(crate) fn approval_problem(approval: &Approval) -> Option<String> {
    match approval {
        Approval::Approved(_) | Approval::Bypassed(_) => None,
        Approval::Missing => {
            Some(format!("protected groups must have approval annotation \"{APPROVAL}\", see {POLICY}"))
        }
        Approval::Invalid => Some(format!(
            "protected groups must have approval annotation \"{APPROVAL}\" with either a URL or a reason starting with \
             \"unapproved\", see {POLICY}"
        )),
    }
}

pub(super) fn approval(new: &Value, old: Option<&Value>) -> Option<FieldError> {
    let approval = approval_of(new)?;
    if old.and_then(approval_of).as_ref() == Some(&approval) {
        return None;
    }
    let why = approval_problem(&approval)?;
    let at = format!("metadata.annotations[{APPROVAL}]");
    Some(match approval {
        Approval::Missing => FieldError::required(at, why),
        _ => {
            let found = new.str_at(&["metadata", "annotations", APPROVAL]).unwrap_or_default();
            FieldError::invalid(at, found, why)
        }
    })
}

#[cfg(test)]
mod tests {
    use machinery::object;

    use super::*;

    #[test]
    fn approvals_are_read_from_the_annotation() {
        let check = |group: &str, text: &str, expect: Option<Approval>| {
            let definition = object! {
                "metadata" => object! { "annotations" => object! { APPROVAL => text } },
                "spec" => object! { "group" => group },
            };
            assert_eq!(approval_of(&definition), expect, "{group} {text}");
        };
        check("a.example.dev", "", None);
        check("ak8s.io", "", None);
        check("a.x-k8s.io", "", None);
        check("k8s.io", "", Some(Approval::Missing));
        check("a.kubernetes.io", "unapproved, x", Some(Approval::Bypassed("unapproved, x".into())));
        check("a.k8s.io", "https://x.dev/1", Some(Approval::Approved("https://x.dev/1".into())));
        check("a.k8s.io", "/relative", Some(Approval::Invalid));
        check("a.k8s.io", "yes, by me", Some(Approval::Invalid));
    }
}
