//! A typed view of a definition.

use aws_lc_rs::digest;
use base64::{Engine, engine::general_purpose::STANDARD};
use machinery::{Str, Value};

/// The names of a resource, as spec.names and status.acceptedNames have them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Names {
    pub(crate) plural: Str,
    pub(crate) singular: Str,
    pub(crate) kind: Str,
    pub(crate) list_kind: Str,
    pub(crate) short_names: Vec<Str>,
    pub(crate) categories: Vec<Str>,
}

impl Names {
    /// Reads names; absent ones are empty.
    pub(crate) fn read(names: Option<&Value>) -> Self {
        let text = |key: &str| shared(names.and_then(|n| n.get(key)));
        let list = |key: &str| {
            let list = names.and_then(|n| n.get(key)).and_then(Value::as_array).unwrap_or_default();
            list.iter().map(|v| shared(Some(v))).collect()
        };
        Names {
            plural: text("plural"),
            singular: text("singular"),
            kind: text("kind"),
            list_kind: text("listKind"),
            short_names: list("shortNames"),
            categories: list("categories"),
        }
    }

    /// As the API has them.
    pub(crate) fn to_value(&self) -> Value {
        let mut value = Value::object();
        let map = value.make_object();
        map.insert("plural", &self.plural);
        map.insert("kind", &self.kind);
        for (key, text) in [("singular", &self.singular), ("listKind", &self.list_kind)] {
            if !text.is_empty() {
                map.insert(key, text);
            }
        }
        for (key, list) in [("shortNames", &self.short_names), ("categories", &self.categories)] {
            if !list.is_empty() {
                map.insert(key, list.iter().map(Value::from).collect::<Value>());
            }
        }
        value
    }
}

fn shared(value: Option<&Value>) -> Str {
    value.and_then(Value::as_shared_str).cloned().unwrap_or_default()
}

/// A definition, for reading.
#[derive(Clone, Copy)]
pub(crate) struct Definition<'a>(pub(crate) &'a Value);

/// One of its versions.
#[derive(Clone, Copy)]
pub(crate) struct Version<'a>(pub(crate) &'a Value);

impl<'a> Definition<'a> {
    pub(crate) fn group(self) -> Str {
        shared(self.0.at(&["spec", "group"]))
    }

    pub(crate) fn uid(self) -> Str {
        shared(self.0.at(&["metadata", "uid"]))
    }

    pub(crate) fn generation(self) -> i64 {
        self.0.at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0)
    }

    pub(crate) fn is_deleting(self) -> bool {
        self.0.at(&["metadata", "deletionTimestamp"]).is_some_and(|t| !t.is_null())
    }

    pub(crate) fn namespaced(self) -> bool {
        self.0.str_at(&["spec", "scope"]) == Some("Namespaced")
    }

    pub(crate) fn asked_names(self) -> Names {
        Names::read(self.0.at(&["spec", "names"]))
    }

    pub(crate) fn accepted_names(self) -> Names {
        Names::read(self.0.at(&["status", "acceptedNames"]))
    }

    pub(crate) fn versions(self) -> impl Iterator<Item = Version<'a>> + Clone {
        self.0.at(&["spec", "versions"]).and_then(Value::as_array).unwrap_or_default().iter().map(Version)
    }

    pub(crate) fn storage_version(self) -> Option<Version<'a>> {
        self.versions().find(|v| v.is_storage())
    }
}

impl<'a> Version<'a> {
    pub(crate) fn name(self) -> Str {
        shared(self.0.get("name"))
    }

    fn flag(self, key: &str) -> bool {
        self.0.get(key).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(crate) fn is_storage(self) -> bool {
        self.flag("storage")
    }

    pub(crate) fn is_served(self) -> bool {
        self.flag("served")
    }

    pub(crate) fn is_deprecated(self) -> bool {
        self.flag("deprecated")
    }

    pub(crate) fn deprecation_warning(self) -> Option<&'a str> {
        self.0.str_at(&["deprecationWarning"])
    }

    pub(crate) fn schema(self) -> Option<&'a Value> {
        self.0.at(&["schema", "openAPIV3Schema"]).filter(|s| s.as_object().is_some())
    }

    pub(crate) fn has_status(self) -> bool {
        self.0.at(&["subresources", "status"]).is_some_and(|s| !s.is_null())
    }

    pub(crate) fn scale(self) -> Option<&'a Value> {
        self.0.at(&["subresources", "scale"]).filter(|s| s.as_object().is_some())
    }

    pub(crate) fn list(self, key: &str) -> &'a [Value] {
        self.0.get(key).and_then(Value::as_array).unwrap_or_default()
    }
}

/// The hash by which discovery tells which version is stored.
pub(crate) fn storage_hash(group: &str, version: &str, kind: &str) -> Str {
    let digest = digest::digest(&digest::SHA256, format!("{group}/{version}/{kind}").as_bytes());
    STANDARD.encode(&digest.as_ref()[..8]).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_storage_hash_is_upstreams() {
        assert_eq!(storage_hash("crd-create.example.dev", "v1", "Gear"), "E+zMBSBIsDY=");
        assert_eq!(storage_hash("group-crd.test", "v1", "Gadget"), "bXdS8KWgAkU=");
    }
}
