//! Persistent volumes and claims to them.

use generic_server::resource::WriteContext;
use machinery::{
    Value,
    meta::{TimeForm, Timestamp},
    object,
};

use super::{claims_validation, pods::volumes, volumes_validation};
use crate::{
    defaults::{part, pointer, round, text, within},
    strategy::{Rules, restore},
};

/// The rules of claims.
pub(super) const CLAIMS: Rules = Rules {
    defaults: claim,
    create: create_claim,
    update: update_claim,
    validate: claims_validation::create,
    validate_update: Some(claims_validation::update),
    validate_status: claims_validation::status,
    warn: claims_validation::warnings,
    ..Rules::STATUS.returns_deleted()
};

/// The rules of volumes.
pub(super) const VOLUMES: Rules = Rules {
    defaults: volume,
    create: create_volume,
    status_update: update_volume_status,
    validate: volumes_validation::create,
    revalidate: Some(|cx, new, _, errors| volumes_validation::create(cx, new, errors)),
    validate_update: Some(volumes_validation::update),
    warn: volumes_validation::warnings,
    ..Rules::STATUS.returns_deleted()
};

/// Defaults of a claim.
pub(crate) fn claim(claim: &mut Value) {
    within(claim, "spec", spec);
    let status = part(claim, "status");
    text(status, "phase", "Pending");
    round(status, "capacity");
    round(status, "allocatedResources");
}

/// Defaults of a claim's spec, also as an ephemeral volume has it.
pub(crate) fn spec(spec: &mut Value) {
    pointer(spec, "volumeMode", "Filesystem");
    within(spec, "resources", |resources| {
        round(resources, "limits");
        round(resources, "requests");
    });
}

/// Defaults of a persistent volume.
fn volume(volume: &mut Value) {
    text(part(volume, "status"), "phase", "Pending");
    let spec = part(volume, "spec");
    text(spec, "persistentVolumeReclaimPolicy", "Retain");
    pointer(spec, "volumeMode", "Filesystem");
    round(spec, "capacity");
    volumes::source(spec);
}

fn create_claim(cx: &WriteContext<'_>, claim: &mut Value) {
    claim.set(&["status"], object! { "phase" => "Pending" });
    drop_foreign_source(cx, claim, None);
    within(claim, "spec", |spec| {
        let is_alone = spec.get("dataSourceRef").is_none_or(Value::is_null);
        if is_alone && spec.get("dataSource").is_some_and(|source| !is_old_source(source)) {
            spec.make_object().remove("dataSource");
        }
        join_sources(spec);
    });
}

fn update_claim(cx: &WriteContext<'_>, claim: &mut Value, old: &Value) {
    drop_foreign_source(cx, claim, Some(old));
    within(claim, "spec", join_sources);
}

/// A source in another namespace needs a feature, unless the claim has a source already.
fn drop_foreign_source(cx: &WriteContext<'_>, claim: &mut Value, old: Option<&Value>) {
    const SOURCE: [&str; 2] = ["spec", "dataSourceRef"];
    let is_foreign =
        claim.str_at(&["spec", "dataSourceRef", "namespace"]).is_some_and(|namespace| !namespace.is_empty());
    let has_source = old.and_then(|old| old.at(&SOURCE)).is_some_and(|source| !source.is_null());
    if is_foreign && !has_source && !cx.features.is_on("CrossNamespaceVolumeDataSource") {
        claim.remove_at(&SOURCE);
    }
}

/// `dataSource` only ever knew claims and snapshots; anything else belongs into `dataSourceRef`.
fn is_old_source(source: &Value) -> bool {
    let group = source.str_at(&["apiGroup"]).unwrap_or_default();
    match source.str_at(&["kind"]).unwrap_or_default() {
        "PersistentVolumeClaim" => group.is_empty(),
        "VolumeSnapshot" => group == "snapshot.storage.k8s.io",
        _ => false,
    }
}

/// Two names of one member, as long as the newer one stays in the claim's namespace.
fn join_sources(spec: &mut Value) {
    let (old, new) = (spec.get("dataSource"), spec.get("dataSourceRef"));
    match (old.filter(|v| !v.is_null()), new.filter(|v| !v.is_null())) {
        (Some(old), None) => spec.set(&["dataSourceRef"], old.clone()),
        (None, Some(new)) if new.str_at(&["namespace"]).is_none_or(str::is_empty) => {
            spec.set(&["dataSource"], new.clone());
        }
        _ => {}
    }
}

fn now() -> String {
    Timestamp::now().text(TimeForm::Seconds)
}

fn create_volume(_cx: &WriteContext<'_>, volume: &mut Value) {
    volume.set(&["status"], object! { "phase" => "Pending", "lastPhaseTransitionTime" => now() });
}

/// The time of a phase is the server's, unless the client that changes the phase gives one.
fn update_volume_status(_cx: &WriteContext<'_>, new: &mut Value, old: &Value) {
    let time = ["status", "lastPhaseTransitionTime"];
    if new.at(&["status", "phase"]) == old.at(&["status", "phase"]) {
        if new.at(&time).is_none_or(Value::is_null) {
            restore(new, old, &time);
        }
    } else if new.at(&time).is_none_or(Value::is_null) || new.at(&time) == old.at(&time) {
        new.set(&time, now());
    }
}
