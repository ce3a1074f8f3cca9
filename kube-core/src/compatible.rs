//! Rows as flags have them: with the defaults of features that are on, and stored in versions that older servers can read
//! (`--min-compatibility-version`).

use std::sync::Arc;

use aws_lc_rs::digest;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use generic_server::{
    features::Features,
    registry::RegistrySettings,
    resource::{Conversion, Converter, Resource, compare_versions},
};
use machinery::{Str, Value, meta::GroupVersion};

use crate::conversion::renamed;

/// The rows of a server with these settings.
pub fn resources_as(settings: &RegistrySettings) -> Vec<Resource> {
    let mut rows = stored_for(with_features(crate::resources(), &settings.features), settings.versions.compatible);
    rows.iter_mut().for_each(|row| row.show_hash(&settings.features));
    rows
}

/// The rows of a server with these features: what they bring in defaults.
fn with_features(mut rows: Vec<Resource>, features: &Features) -> Vec<Resource> {
    for row in &mut rows {
        if let Some(strategy) = row.strategy.with_features(features) {
            row.strategy = strategy;
        }
    }
    rows
}

/// The rows, stored in versions that Kubernetes 1.`compatible` knows. What such a server knows no version of stays as it is;
/// so does what is stored in another version than its best one, for that was decided for the sake of older servers.
fn stored_for(mut rows: Vec<Resource>, compatible: u32) -> Vec<Resource> {
    let is_too_new = |row: &&Resource| {
        row.is_stored() && row.is_storage_version() && row.availability.introduced > compatible && is_best(row, &rows)
    };
    let moves: Vec<(Resource, Resource)> = rows
        .iter()
        .filter(is_too_new)
        .filter_map(|row| Some((row.clone(), known_to(compatible, row, &rows)?)))
        .collect();
    for (from, to) in moves {
        let siblings = rows.iter_mut().filter(|row| row.storage_path == from.storage_path && row.group == from.group);
        siblings.for_each(|row| store_in(row, &from, &to));
    }
    rows
}

fn siblings<'a>(row: &'a Resource, rows: &'a [Resource]) -> impl Iterator<Item = &'a Resource> {
    rows.iter().filter(|other| other.storage_path == row.storage_path && other.group == row.group)
}

/// Whether no other version of the resource comes before this one.
fn is_best(row: &Resource, rows: &[Resource]) -> bool {
    siblings(row, rows).all(|other| compare_versions(&row.version, &other.version).is_le())
}

/// The best version that is the same under another name, and that an older server knows.
fn known_to(compatible: u32, stored: &Resource, rows: &[Resource]) -> Option<Resource> {
    let same = |row: &&Resource| matches!(&row.conversion, Some(Converter::Rule(rule)) if rule.renames());
    let known = siblings(stored, rows).filter(same).filter(|row| row.availability.introduced <= compatible);
    known.min_by(|a, b| compare_versions(&a.version, &b.version)).cloned()
}

/// Has a row's objects stored in the version `to`, which is `from` under another name.
fn store_in(row: &mut Resource, from: &Resource, to: &Resource) {
    row.storage_version = GroupVersion::new(to.group.clone(), to.version.clone());
    row.storage_version_hash = Some(storage_version_hash(to));
    if row.version == to.version {
        row.conversion = None;
        return;
    }
    let further = match row.conversion.take() {
        Some(Converter::Rule(rule)) => Some(rule),
        _ => None,
    };
    let through = Through { further, own: from.api_version(), stored: to.api_version() };
    row.conversion = Some(Converter::Rule(Arc::new(through)));
}

/// From a version to another one, which is stored under a third name.
struct Through {
    /// How a row's objects become those of `own`, where that is not the row's version.
    further: Option<Arc<dyn Conversion>>,
    own: Str,
    stored: Str,
}

impl Conversion for Through {
    fn from_storage(&self, object: Value) -> Value {
        let object = renamed(object, self.own.clone());
        match &self.further {
            Some(rule) => rule.from_storage(object),
            None => object,
        }
    }

    fn to_storage(&self, object: Value) -> Value {
        let object = match &self.further {
            Some(rule) => rule.to_storage(object),
            None => object,
        };
        renamed(object, self.stored.clone())
    }
}

/// What discovery tells of the version that a resource is stored in: equal for servers that store the same.
fn storage_version_hash(row: &Resource) -> Str {
    let text = format!("{}/{}/{}", row.group, row.version, row.kind);
    let digest = digest::digest(&digest::SHA256, text.as_bytes());
    Str::from(BASE64_STANDARD.encode(&digest.as_ref()[..8]))
}

#[cfg(test)]
mod tests {
    use machinery::object;

    use super::*;

    fn row(rows: &[Resource], api_version: &str, plural: &str) -> Resource {
        let found = rows.iter().find(|row| row.api_version() == api_version && row.plural == plural);
        found.expect("it is in the table").clone()
    }

    #[test]
    fn hashes_are_of_the_group_version_and_kind_that_are_stored() {
        let rows = crate::resources();
        for row in rows.iter().filter(|row| row.is_stored()) {
            let GroupVersion { group, version } = row.storage_version.clone();
            // Events are stored as those of their own group.
            let stored = Resource { group, version, ..row.clone() };
            assert_eq!(row.storage_version_hash, Some(storage_version_hash(&stored)), "{row:?}");
        }
    }

    #[test]
    fn objects_are_stored_in_a_version_that_the_oldest_server_knows() {
        let check = |compatible: u32, api_version: &str, plural: &str, expect: &str| {
            let rows = stored_for(crate::resources(), compatible);
            let GroupVersion { group, version } = row(&rows, api_version, plural).storage_version;
            assert_eq!(format!("{group}/{version}"), expect, "{plural} for 1.{compatible}");
        };
        for compatible in [34, 35, 36] {
            check(compatible, "storage.k8s.io/v1", "volumeattributesclasses", "storage.k8s.io/v1");
            check(compatible, "resource.k8s.io/v1beta1", "resourceclaims", "resource.k8s.io/v1");
        }
        check(33, "storage.k8s.io/v1", "volumeattributesclasses", "storage.k8s.io/v1beta1");
        check(33, "resource.k8s.io/v1", "resourceclaims", "resource.k8s.io/v1beta2");
        check(33, "resource.k8s.io/v1beta1", "resourceclaims", "resource.k8s.io/v1beta2");
        // What was decided, and what older servers know nothing of.
        let policies = "admissionregistration.k8s.io/v1beta1";
        check(33, "admissionregistration.k8s.io/v1", "mutatingadmissionpolicies", policies);
        check(33, "storagemigration.k8s.io/v1beta1", "storageversionmigrations", "storagemigration.k8s.io/v1beta1");
    }

    #[test]
    fn every_version_is_converted_to_the_stored_one_and_back() {
        let rows = stored_for(crate::resources(), 33);
        for api_version in ["resource.k8s.io/v1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1"] {
            let row = row(&rows, api_version, "resourceclaims");
            let request = if api_version.ends_with("v1beta1") {
                object! { "name" => "r", "deviceClassName" => "c" }
            } else {
                object! { "name" => "r", "exactly" => object! { "deviceClassName" => "c" } }
            };
            let object = object! {
                "apiVersion" => api_version,
                "kind" => "ResourceClaim",
                "spec" => object! { "devices" => object! { "requests" => machinery::array![request] } },
            };
            let Some(Converter::Rule(rule)) = &row.conversion else {
                assert_eq!(api_version, "resource.k8s.io/v1beta2");
                continue;
            };
            let stored = rule.to_storage(object.clone());
            assert_eq!(stored.str_at(&["apiVersion"]), Some("resource.k8s.io/v1beta2"));
            let request = stored.at(&["spec", "devices", "requests"]).and_then(Value::as_array).expect("requests");
            assert_eq!(request[0].str_at(&["exactly", "deviceClassName"]), Some("c"));
            assert_eq!(rule.from_storage(stored), object);
        }
    }
}
