//! Validates v1 PersistentVolumes.

use generic_server::resource::WriteContext;
use machinery::{
    Value,
    meta::{FieldError, names},
};

use super::{
    claims_validation::{class_warning, fraction},
    pods::{
        validation::{difference, internal, node_selector, sources},
        warnings::{of_node_selector, old_source},
    },
};
use crate::validation::{Errors, Field};

type Rule = fn(&Field<'_>, &mut Errors);

/// The sources, in the order in which upstream looks for them.
const SOURCES: &[(&str, Rule)] = &[
    ("hostPath", sources::host_path),
    ("gcePersistentDisk", sources::gce_disk),
    ("awsElasticBlockStore", sources::aws_disk),
    ("glusterfs", glusterfs),
    ("flocker", sources::flocker),
    ("nfs", sources::nfs),
    ("rbd", sources::rbd),
    ("quobyte", sources::quobyte),
    ("cephfs", sources::cephfs),
    ("iscsi", sources::iscsi),
    ("cinder", cinder),
    ("fc", sources::fibre_channel),
    ("flexVolume", sources::flex),
    ("azureFile", azure_file),
    ("vsphereVolume", sources::vsphere),
    ("photonPersistentDisk", sources::photon),
    ("portworxVolume", sources::portworx),
    ("azureDisk", sources::azure_disk),
    ("scaleIO", sources::scale_io),
    ("local", local),
    ("storageos", storage_os),
    ("csi", csi),
];

const MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// What is wrong with a new volume.
pub(super) fn create(_cx: &WriteContext<'_>, volume: &Field<'_>, errors: &mut Errors) {
    spec(&volume.at("spec"), Some(volume.at("metadata").at("name").text()), errors);
}

/// What a volume is, of its own (given its name) or as part of an attachment.
pub(crate) fn spec(spec: &Field<'_>, name: Option<&str>, errors: &mut Errors) {
    let (is_inline, name) = (name.is_none(), name.unwrap_or_default());
    let not_inline = |member: &'static str, errors: &mut Errors| {
        let field = spec.at(member);
        if is_inline && field.is_set() && (member == "claimRef" || !field.is_empty()) {
            field.forbidden("may not be specified in the context of inline volumes", errors);
        }
    };
    not_inline("claimRef", errors);
    not_inline("capacity", errors);
    if is_inline && !spec.at("csi").is_set() {
        spec.at("csi").required("has to be specified in the context of inline volumes", errors);
    }
    access_modes(&spec.at("accessModes"), errors);
    let policy = spec.at("persistentVolumeReclaimPolicy");
    if !is_inline {
        capacity(&spec.at("capacity"), errors);
        if !policy.is_empty() {
            policy.one_of(&["Delete", "Recycle", "Retain"], errors);
        }
    } else if !policy.is_empty() && policy.text() != "Retain" {
        policy.forbidden("may only be Retain in the context of inline volumes", errors);
    }
    let affinity = spec.at("nodeAffinity");
    if affinity.is_set() && is_inline {
        affinity.forbidden("may not be specified in the context of inline volumes", errors);
    } else if affinity.is_set() {
        let required = affinity.at("required");
        if required.is_set() {
            node_selector(&required, &|| false, errors);
        } else {
            required.required("must specify required node constraints", errors);
        }
    }
    source(spec, name, errors);
    if spec.value().str_at(&["hostPath", "path"]).is_some_and(is_root) && policy.text() == "Recycle" {
        policy.forbidden("may not be 'recycle' for a hostPath mount of '/'", errors);
    }
    not_inline("storageClassName", errors);
    let mode = spec.at("volumeMode");
    if !is_inline {
        spec.at("storageClassName").check_some(names::dns1123_subdomain, errors);
        mode.some_one_of(&["Block", "Filesystem"], errors);
    } else if mode.is_set() && mode.text() != "Filesystem" {
        mode.forbidden("may not specify volumeMode other than Filesystem in the context of inline volumes", errors);
    }
    let class = spec.at("volumeAttributesClassName");
    if class.is_set() {
        if class.is_empty() {
            class.required("an empty string is disallowed", errors);
        } else {
            class.check(names::dns1123_subdomain, errors);
        }
        if !spec.at("csi").is_set() {
            spec.at("csi").required("has to be specified when using volumeAttributesClassName", errors);
        }
    }
}

/// Whether a path is that of the root, once it is cleaned as Go does.
fn is_root(path: &str) -> bool {
    let mut depth = 0_usize;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = depth.saturating_sub(1),
            _ => depth += 1,
        }
    }
    path.starts_with('/') && depth == 0
}

fn access_modes(modes: &Field<'_>, errors: &mut Errors) {
    if modes.is_empty() {
        modes.required("", errors);
    }
    let (mut once_pod, mut others) = (false, false);
    modes.each(|mode| {
        modes.with(mode.value()).one_of(MODES, errors);
        once_pod |= mode.text() == "ReadWriteOncePod";
        others |= mode.text() != "ReadWriteOncePod" && MODES.contains(&mode.text());
    });
    if once_pod && others {
        modes.forbidden("may not use ReadWriteOncePod with other access modes", errors);
    }
}

fn capacity(capacity: &Field<'_>, errors: &mut Errors) {
    if capacity.is_empty() {
        capacity.required("", errors);
    }
    if capacity.len() != 1 || !capacity.at("storage").is_set() {
        errors.push(FieldError::not_supported(capacity, capacity.value(), ["storage"]));
    }
    capacity.each_key(|_, amount| {
        let quantity = amount.quantity();
        if quantity.value() < 0 {
            amount.invalid_as(quantity.value(), "must be a valid resource quantity", errors);
        }
        if quantity.sign() <= 0 {
            amount.invalid_as(quantity.text(), "must be greater than zero", errors);
        }
    });
}

fn source(spec: &Field<'_>, volume: &str, errors: &mut Errors) {
    let mut found = false;
    for (member, rule) in SOURCES {
        let source = spec.at(member);
        if !source.is_set() {
            continue;
        }
        // Upstream lets this one stand beside others.
        if std::mem::replace(&mut found, true) && *member != "flexVolume" {
            // Upstream's spelling of this one's path.
            let shown = if *member == "cephfs" { "cephFS" } else { *member };
            spec.at(shown).forbidden("may not specify more than 1 volume type", errors);
            continue;
        }
        match *member {
            // Upstream's spelling of this one's path, too.
            "gcePersistentDisk" => rule(&spec.at("persistentDisk").with(source.value()), errors),
            "iscsi" => sources::iscsi_of_volume(&source, volume, errors),
            _ => rule(&source, errors),
        }
        if *member == "local" && !spec.at("nodeAffinity").is_set() {
            spec.at("nodeAffinity").required("Local volume requires node affinity", errors);
        }
    }
    if !found {
        spec.required("must specify a volume type", errors);
    }
}

fn glusterfs(source: &Field<'_>, errors: &mut Errors) {
    sources::glusterfs(source, errors);
    let namespace = source.at("endpointsNamespace");
    if namespace.is_set() {
        if namespace.is_empty() {
            namespace.invalid("if the endpointnamespace is set, it must be a valid namespace name", errors);
        } else {
            namespace.check(names::dns1123_label, errors);
        }
    }
}

fn secret_reference(secret: &Field<'_>, errors: &mut Errors) {
    if secret.is_set() {
        secret.at("name").is_given(errors);
        secret.at("namespace").is_given(errors);
    }
}

fn cinder(source: &Field<'_>, errors: &mut Errors) {
    source.at("volumeID").is_given(errors);
    secret_reference(&source.at("secretRef"), errors);
}

fn azure_file(source: &Field<'_>, errors: &mut Errors) {
    source.at("secretName").is_given(errors);
    source.at("shareName").is_given(errors);
    let namespace = source.at("secretNamespace");
    if namespace.is_set() {
        namespace.is_given(errors);
    }
}

fn local(source: &Field<'_>, errors: &mut Errors) {
    let path = source.at("path");
    if path.is_given(errors) && path.text().split('/').any(|part| part == "..") {
        path.invalid("must not contain '..'", errors);
    }
}

fn storage_os(source: &Field<'_>, errors: &mut Errors) {
    source.at("volumeName").check_given(names::dns1123_label, errors);
    source.at("volumeNamespace").check_some(names::dns1123_label, errors);
    secret_reference(&source.at("secretRef"), errors);
}

fn csi(source: &Field<'_>, errors: &mut Errors) {
    sources::csi_driver(&source.at("driver"), errors);
    source.at("volumeHandle").is_given(errors);
    for secret in
        ["controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"]
    {
        let secret = source.at(secret);
        if secret.is_set() {
            secret.at("name").check_given(names::dns1123_subdomain, errors);
            secret.at("namespace").check_given(names::dns1123_label, errors);
        }
    }
}

/// What is wrong with an update: what a volume is does not change.
pub(super) fn update(cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    create(cx, new, errors);
    let secret = ["csi", "controllerExpandSecretRef"];
    let only_sources = |volume: &Value| {
        let mut spec = Value::object();
        for (member, _) in SOURCES {
            if let Some(source) = volume.at(&["spec", member]).filter(|source| !source.is_null()) {
                spec.set(&[member], source.clone());
            }
        }
        spec
    };
    let (mut now, before) = (only_sources(new.value()), only_sources(old.value()));
    if before.get("csi").is_some() && before.at(&secret).is_none() {
        now.remove_at(&secret); // it may be said later
    }
    if !now.semantic_eq(&before) {
        let pretty = |sources: &Value| internal::pretty("PersistentVolumeSource", sources);
        let difference = difference::between(&pretty(&before), &pretty(&now));
        let why = "spec.persistentvolumesource is immutable after creation";
        errors.push(FieldError::forbidden("spec.persistentvolumesource", format!("{why}\n{difference}")));
    }
    let (spec, old_spec) = (new.at("spec"), old.at("spec"));
    let mode = spec.at("volumeMode");
    if !mode.same(&old_spec.at("volumeMode")) {
        errors.push(FieldError::invalid("volumeMode", mode.value(), "field is immutable"));
    }
    let affinity = spec.at("nodeAffinity");
    let may_move = errors.has("MutablePVNodeAffinity");
    if !may_move && old_spec.at("nodeAffinity").is_set() && !affinity.same(&old_spec.at("nodeAffinity")) {
        let shown = internal::shown("*VolumeNodeAffinity", affinity.value());
        let why = "field is immutable, except for updating from beta label to GA";
        errors.push(FieldError::invalid("nodeAffinity", shown, why));
    }
    let class = spec.at("volumeAttributesClassName");
    if old_spec.at("volumeAttributesClassName").is_set() && !class.is_set() {
        class.forbidden("update from non-nil value to nil is forbidden", errors);
    }
}

/// The sources whose users are warned, in upstream's order.
const OLD_SOURCES: [&str; 6] = ["cephfs", "photonPersistentDisk", "scaleIO", "storageos", "glusterfs", "rbd"];

/// Warnings for the author of a volume.
pub(super) fn warnings(volume: &Value, _old: Option<&Value>) -> Vec<String> {
    let mut out = class_warning(volume);
    if volume.str_at(&["spec", "persistentVolumeReclaimPolicy"]) == Some("Recycle") {
        out.push(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach \
             is to use dynamic provisioning."
                .to_owned(),
        );
    }
    let root = Field::root(volume);
    let spec = root.at("spec");
    let affinity = spec.at("nodeAffinity");
    out.extend(of_node_selector(&affinity.at("required")));
    for member in OLD_SOURCES.into_iter().filter(|member| spec.at(member).is_set()) {
        out.extend(old_source(member).map(|(shown, what)| format!("{}: {what}", spec.at(shown))));
    }
    out.extend(fraction(volume.at(&["spec", "capacity", "storage"]), "spec.capacity[storage]"));
    out
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    fn volume(source: &str) -> Value {
        let text = format!(r#"{{"spec":{{"accessModes":["ReadWriteOnce"],"capacity":{{"storage":"1"}},{source}}}}}"#);
        json::decode(text.as_bytes()).expect("valid JSON")
    }

    fn check(source: &str, expect: &[&str]) {
        let volume = volume(source);
        let mut errors = Errors::default();
        spec(&Field::root(&volume).at("spec"), Some(""), &mut errors);
        let texts: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
        assert_eq!(texts, expect, "{source}");
    }

    #[test]
    fn secrets_of_drivers_are_named_as_secrets_are() {
        let driver = r#""driver":"d.test","volumeHandle":"h""#;
        check(&format!(r#""csi":{{{driver},"nodePublishSecretRef":{{"name":"a.b","namespace":"n"}}}}"#), &[]);
        check(
            &format!(r#""csi":{{{driver},"nodeExpandSecretRef":{{"namespace":"n"}}}}"#),
            &["spec.csi.nodeExpandSecretRef.name: Required value"],
        );
        check(
            r#""hostPath":{"path":"/a"},"cephfs":{"monitors":["m"]}"#,
            &["spec.cephFS: Forbidden: may not specify more than 1 volume type"],
        );
    }

    #[test]
    fn sources_that_are_on_their_way_out_bring_warnings() {
        let said = |source: &str| warnings(&volume(source), None);
        assert_eq!(said(r#""rbd":{}"#), ["spec.rbd: deprecated in v1.28, non-functional in v1.31+"]);
        assert_eq!(said(r#""storageos":{}"#), ["spec.storageOS: deprecated in v1.22, non-functional in v1.25+"]);
        assert!(said(r#""flocker":{}"#).is_empty() && said(r#""csi":{}"#).is_empty());
    }
}
