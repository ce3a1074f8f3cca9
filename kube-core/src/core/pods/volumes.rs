//! Defaults of volumes, in pods and as persistent volumes.

use machinery::{Value, object};

use super::image;
use crate::{
    core::claims,
    defaults::{each, is_empty, pointer, text, within},
};

/// The mode of files that are written into a volume: 0644.
const FILE_MODE: i64 = 0o644;

/// A volume of a pod. One that says nothing but its name is an empty folder.
pub(super) fn volume(volume: &mut Value) {
    if volume.as_object().is_some_and(|v| v.iter().all(|(k, v)| k == "name" || v.is_null())) {
        volume.make_object().insert("emptyDir", object! {});
        return;
    }
    for source in ["secret", "configMap"] {
        within(volume, source, |v| pointer(v, "defaultMode", FILE_MODE));
    }
    within(volume, "downwardAPI", |v| {
        pointer(v, "defaultMode", FILE_MODE);
        downward_items(v);
    });
    within(volume, "projected", |v| {
        pointer(v, "defaultMode", FILE_MODE);
        each(v, "sources", |source| {
            within(source, "serviceAccountToken", |token| pointer(token, "expirationSeconds", 60 * 60));
            within(source, "downwardAPI", downward_items);
        });
    });
    within(volume, "image", |v| {
        if is_empty(v.get("pullPolicy")) {
            let policy = image::pull_policy(v.str_at(&["reference"]).unwrap_or_default());
            text(v, "pullPolicy", policy);
        }
    });
    within(volume, "ephemeral", |v| within(v, "volumeClaimTemplate", |t| within(t, "spec", claims::spec)));
    source(volume);
}

fn downward_items(source: &mut Value) {
    each(source, "items", |item| within(item, "fieldRef", |field| text(field, "apiVersion", "v1")));
}

/// Sources that pods' volumes and persistent volumes share.
pub(crate) fn source(volume: &mut Value) {
    within(volume, "hostPath", |v| pointer(v, "type", ""));
    within(volume, "iscsi", |v| text(v, "iscsiInterface", "default"));
    within(volume, "rbd", |v| {
        text(v, "pool", "rbd");
        text(v, "user", "admin");
        text(v, "keyring", "/etc/ceph/keyring");
    });
    within(volume, "azureDisk", |v| {
        pointer(v, "cachingMode", "ReadWrite");
        pointer(v, "kind", "Shared");
        pointer(v, "fsType", "ext4");
        pointer(v, "readOnly", false);
    });
    within(volume, "scaleIO", |v| {
        text(v, "storageMode", "ThinProvisioned");
        text(v, "fsType", "xfs");
    });
}
