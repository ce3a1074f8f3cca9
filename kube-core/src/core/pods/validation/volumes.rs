//! Volumes: each has one source.

use machinery::{
    Value,
    meta::{go_text::quote, names},
};

use super::{
    projected,
    scope::{Scope, has, list, name, text},
    sources,
};
use crate::validation::{Errors, Field, Seen};

type Rule = fn(&Field<'_>, &mut Errors);

/// A source: its member, and the names by which upstream calls it when it is one too many and when it has faults.
struct Source(&'static str, &'static str, &'static str, Rule);

/// In upstream's order, with its spelling. An empty folder goes before all of them.
const SOURCES: &[Source] = &[
    Source("hostPath", "hostPath", "hostPath", sources::host_path),
    Source("gitRepo", "gitRepo", "gitRepo", sources::git_repo),
    Source("gcePersistentDisk", "gcePersistentDisk", "persistentDisk", sources::gce_disk),
    Source("awsElasticBlockStore", "awsElasticBlockStore", "awsElasticBlockStore", sources::aws_disk),
    Source("secret", "secret", "secret", sources::secret),
    Source("nfs", "nfs", "nfs", sources::nfs),
    Source("iscsi", "iscsi", "iscsi", sources::iscsi),
    Source("glusterfs", "glusterfs", "glusterfs", sources::glusterfs),
    Source("flocker", "flocker", "flocker", sources::flocker),
    Source("persistentVolumeClaim", "persistentVolumeClaim", "persistentVolumeClaim", sources::claim),
    Source("rbd", "rbd", "rbd", sources::rbd),
    Source("cinder", "cinder", "cinder", sources::cinder),
    Source("cephfs", "cephFS", "cephfs", sources::cephfs),
    Source("quobyte", "quobyte", "quobyte", sources::quobyte),
    Source("downwardAPI", "downwarAPI", "downwardAPI", projected::downward),
    Source("fc", "fc", "fc", sources::fibre_channel),
    Source("flexVolume", "flexVolume", "flexVolume", sources::flex),
    Source("configMap", "configMap", "configMap", sources::config_map),
    Source("azureFile", "azureFile", "azureFile", sources::azure_file),
    Source("vsphereVolume", "vsphereVolume", "vsphereVolume", sources::vsphere),
    Source("photonPersistentDisk", "photonPersistentDisk", "photonPersistentDisk", sources::photon),
    Source("portworxVolume", "portworxVolume", "portworxVolume", sources::portworx),
    Source("azureDisk", "azureDisk", "azureDisk", sources::azure_disk),
    Source("storageos", "storageos", "storageos", sources::storage_os),
    Source("projected", "projected", "projected", projected::projected),
    Source("scaleIO", "scaleIO", "scaleIO", sources::scale_io),
    Source("csi", "csi", "csi", sources::csi),
    Source("ephemeral", "ephemeral", "ephemeral", sources::ephemeral),
    Source("image", "image", "image", sources::image),
];

const TOO_MANY: &str = "may not specify more than 1 volume type";

/// A spec's volumes; those without faults, for the containers to refer to.
pub(super) fn volumes<'a>(volumes: &Field<'_>, scope: &Scope<'a>, errors: &mut Errors) -> Vec<(&'a str, &'a Value)> {
    let made = claims_made(volumes, scope);
    let (mut seen, mut fine) = (Seen::default(), Vec::with_capacity(volumes.len()));
    for (i, value) in list(scope.spec, "volumes").iter().enumerate() {
        let volume = volumes.index(i);
        let before = errors.len();
        source(&volume, value, scope, errors);
        let field = volume.at("name");
        field.check_given(names::dns1123_label, errors);
        if seen.contains(name(value)) {
            field.duplicate_text(errors);
        }
        if errors.len() == before {
            seen.insert(name(value));
            fine.push((name(value), value));
        }
        let claim = volume.at("persistentVolumeClaim");
        let claim_name = claim.at("claimName");
        if claim.is_set() && made.contains(claim_name.text()) {
            claim_name.invalid_text("must not reference a PVC that gets created for an ephemeral volume", errors);
        }
    }
    fine
}

/// The names of the claims that the pod's ephemeral volumes bring about.
fn claims_made(volumes: &Field<'_>, scope: &Scope<'_>) -> std::collections::HashSet<String> {
    let pod = scope.pod_name();
    let ephemeral = volumes.items().iter().filter(|volume| !pod.is_empty() && has(volume, "ephemeral"));
    ephemeral.map(|volume| format!("{pod}-{}", name(volume))).collect()
}

fn source(volume: &Field<'_>, value: &Value, scope: &Scope<'_>, errors: &mut Errors) {
    let mut found = has(value, "emptyDir");
    if found {
        let folder = volume.at("emptyDir");
        let limit = folder.at("sizeLimit");
        if limit.text().starts_with('-') {
            limit.forbidden("SizeLimit field must be a valid resource quantity", errors);
        }
    }
    for Source(member, one_too_many, place, rule) in SOURCES {
        let Some(held) = value.get(member).filter(|v| !v.is_null()) else { continue };
        if found {
            volume.at(one_too_many).forbidden(TOO_MANY, errors);
        } else {
            let before = errors.len();
            rule(&volume.at(place).with(held), errors);
            tolerated(member, before, scope, errors);
            if *member == "ephemeral" {
                claim_name(volume, scope, errors);
            }
        }
        if *member == "iscsi" {
            initiator(volume, held, errors);
        }
        found = true;
    }
    if !found {
        volume.required("must specify a volume type", errors);
    }
}

/// Faults that older versions let pass, and that an update may leave.
fn tolerated(member: &str, before: usize, scope: &Scope<'_>, errors: &mut Errors) {
    if errors.len() == before {
        return;
    }
    match member {
        "projected" if scope.tolerates(projected::has_odd_token_path) => errors.retain(before, |e| {
            !(e.field.ends_with(".projected.path") && e.kind == machinery::meta::FieldErrorKind::Invalid)
        }),
        "image" if scope.tolerates(has_unnamed_image) => {
            errors.retain(before, |e| !e.field.ends_with(".image.reference"));
        }
        _ => {}
    }
}

fn has_unnamed_image(spec: &Value) -> bool {
    list(spec, "volumes").iter().any(|v| v.get("image").is_some_and(|image| text(image, "reference").is_empty()))
}

/// The claim that the volume brings about has a name that claims may have.
fn claim_name(volume: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    let (pod, field) = (scope.pod_name(), volume.at("name"));
    if pod.is_empty() || field.text().is_empty() {
        return;
    }
    let claim = format!("{pod}-{}", field.text());
    for message in names::dns1123_subdomain(&claim) {
        field.invalid(format!("PVC name {}: {message}", quote(&claim)), errors);
    }
}

fn initiator(volume: &Field<'_>, iscsi: &Value, errors: &mut Errors) {
    let field = volume.at("name");
    if has(iscsi, "initiatorName") && field.text().len() + 1 + text(iscsi, "targetPortal").len() > 64 {
        let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if \
                      iscsi.initiatorName is specified.";
        field.invalid_text(detail, errors);
    }
}
