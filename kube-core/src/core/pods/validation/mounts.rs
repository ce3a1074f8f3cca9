//! Validates volume mounts and volume devices of containers.

use super::{
    paths,
    scope::{Scope, has, list, name, text},
};
use crate::validation::{Errors, Field, Seen};

/// A container's mounts and devices share their names and their paths.
pub(super) fn mounts(container: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    let list_field = container.at("volumeMounts");
    let devices = list(container.value(), "volumeDevices");
    let device_names: Seen<&str> = devices.iter().map(name).collect();
    let device_paths: Seen<&str> = devices.iter().map(|d| text(d, "devicePath")).collect();
    let context = container.at("securityContext");
    let privileged = context.at("privileged").is_true();
    let mut points = Seen::default();
    list_field.each_item(|mount, value| {
        let (name, path) = (mount.at("name"), mount.at("mountPath"));
        name.is_given(errors);
        if scope.volume(name.text()).is_none() {
            name.not_found_text(errors);
        }
        path.is_given(errors);
        if !points.insert(text(value, "mountPath")) {
            path.invalid_text("must be unique", errors);
        }
        if device_names.contains(name.text()) {
            name.invalid_text("must not already exist in volumeDevices", errors);
        }
        if device_paths.contains(path.text()) {
            path.invalid_text("must not already exist as a path in volumeDevices", errors);
        }
        sub_paths(&list_field, &mount, errors);
        propagation(&list_field, &mount, privileged, errors);
        read_only(&list_field, &mount, errors);
    });
}

/// Upstream names these on the list, not on the item.
fn sub_paths(list: &Field<'_>, mount: &Field<'_>, errors: &mut Errors) {
    let (plain, expanded) = (mount.at("subPath"), mount.at("subPathExpr"));
    if !plain.is_empty() {
        paths::descending(&list.at("subPath").with(plain.value()), errors);
    }
    if !expanded.is_empty() {
        if !plain.is_empty() {
            expanded.invalid("subPathExpr and subPath are mutually exclusive", errors);
        }
        paths::descending(&list.at("subPathExpr").with(expanded.value()), errors);
    }
}

fn propagation(list: &Field<'_>, mount: &Field<'_>, privileged: bool, errors: &mut Errors) {
    let at = list.at("mountPropagation");
    let mode = mount.at("mountPropagation");
    let mode = at.with(mode.value());
    if !mode.is_set() {
        return;
    }
    mode.one_of(&["Bidirectional", "HostToContainer", "None"], errors);
    if mode.text() == "Bidirectional" && !privileged {
        mode.forbidden("Bidirectional mount propagation is available only to privileged containers", errors);
    }
}

fn read_only(list: &Field<'_>, mount: &Field<'_>, errors: &mut Errors) {
    let at = list.at("recursiveReadOnly");
    let mode = mount.at("recursiveReadOnly");
    let mode = at.with(mode.value());
    match mode.text() {
        _ if !mode.is_set() => {}
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.at("readOnly").is_true() {
                mode.forbidden("may only be specified when readOnly is true", errors);
            }
            let propagation = mount.at("mountPropagation");
            if propagation.is_set() && propagation.text() != "None" {
                mode.forbidden("may only be specified when mountPropagation is None or not specified", errors);
            }
        }
        _ => mode.not_supported(&["Disabled", "Enabled", "IfPossible"], errors),
    }
}

/// Volumes as block devices.
pub(super) fn devices(container: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    let field = container.at("volumeDevices");
    if field.is_empty() {
        return;
    }
    let mounts = list(container.value(), "volumeMounts");
    let mount_names: Seen<&str> = mounts.iter().map(name).collect();
    let mount_paths: Seen<&str> = mounts.iter().map(|m| text(m, "mountPath")).collect();
    let (mut names, mut paths_seen) = (Seen::default(), Seen::default());
    field.each_item(|device, value| {
        let (name, path) = (device.at("name"), device.at("devicePath"));
        let (name_text, path_text) = (text(value, "name"), text(value, "devicePath"));
        name.is_given(errors);
        if names.contains(name_text) {
            name.invalid_text("must be unique", errors);
        }
        match scope.volume(name_text) {
            None => name.not_found_text(errors),
            Some(volume) if !has(volume, "persistentVolumeClaim") && !has(volume, "ephemeral") => {
                let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                name.invalid_text(detail, errors);
            }
            Some(_) => {}
        }
        path.is_given(errors);
        if paths_seen.contains(path_text) {
            path.invalid_text("must be unique", errors);
        }
        if paths::climbs(path_text) {
            path.invalid_text("can not contain backsteps ('..')", errors);
        } else {
            paths_seen.insert(path_text);
        }
        if mount_names.contains(name_text) {
            name.invalid_text("must not already exist in volumeMounts", errors);
        }
        if mount_paths.contains(path_text) {
            path.invalid_text("must not already exist as a path in volumeMounts", errors);
        }
        if !name_text.is_empty() {
            names.insert(name_text);
        }
    });
}
