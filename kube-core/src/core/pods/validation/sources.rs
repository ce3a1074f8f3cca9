//! Validates volume sources. Persistent volumes share most of them.

use machinery::meta::{field_error::FieldError, names, names::range_message};

use super::{containers, paths};
use crate::validation::{Errors, Field};

/// The permissions of a file.
pub(super) fn mode(mode: &Field<'_>, errors: &mut Errors) {
    if mode.int().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        mode.invalid("must be a number between 0 and 0777 (octal), both inclusive", errors);
    }
}

/// A key of an object as a file.
pub(super) fn key_to_path(item: &Field<'_>, errors: &mut Errors) {
    item.at("key").is_given(errors);
    item.at("path").is_given(errors);
    paths::local(&item.at("path"), errors);
    mode(&item.at("mode"), errors);
}

fn given(source: &Field<'_>, members: &[&str], errors: &mut Errors) {
    for member in members {
        source.at(member).is_given(errors);
    }
}

/// A secret that is named is named.
fn secret_ref(source: &Field<'_>, errors: &mut Errors) {
    let reference = source.at("secretRef");
    if reference.is_set() {
        reference.at("name").is_given(errors);
    }
}

pub(crate) fn host_path(source: &Field<'_>, errors: &mut Errors) {
    let path = source.at("path");
    if !path.is_given(errors) {
        return;
    }
    paths::no_backsteps(&path, errors);
    let kinds = ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    source.at("type").some_one_of(&kinds, errors);
}

pub(super) fn git_repo(source: &Field<'_>, errors: &mut Errors) {
    source.at("repository").is_given(errors);
    paths::descending(&source.at("directory"), errors);
}

/// A partition of a disk.
fn partition(source: &Field<'_>, errors: &mut Errors) {
    let partition = source.at("partition");
    if !(0..=255).contains(&partition.int_or_zero()) {
        partition.invalid(range_message(1, 255), errors);
    }
}

pub(crate) fn gce_disk(source: &Field<'_>, errors: &mut Errors) {
    source.at("pdName").is_given(errors);
    partition(source, errors);
}

pub(crate) fn aws_disk(source: &Field<'_>, errors: &mut Errors) {
    source.at("volumeID").is_given(errors);
    partition(source, errors);
}

pub(super) fn secret(source: &Field<'_>, errors: &mut Errors) {
    source.at("secretName").is_given(errors);
    mode(&source.at("defaultMode"), errors);
    source.at("items").each(|item| key_to_path(&item, errors));
}

pub(super) fn config_map(source: &Field<'_>, errors: &mut Errors) {
    source.at("name").is_given(errors);
    mode(&source.at("defaultMode"), errors);
    source.at("items").each(|item| key_to_path(&item, errors));
}

pub(crate) fn nfs(source: &Field<'_>, errors: &mut Errors) {
    given(source, &["server", "path"], errors);
    let path = source.at("path");
    if !path.text().starts_with('/') {
        path.invalid_text("must be an absolute path", errors);
    }
}

pub(crate) fn iscsi(source: &Field<'_>, errors: &mut Errors) {
    iscsi_named(source, None, "must be valid format starting with iqn, eui, or naa", errors);
}

/// The same of a persistent volume, given its name: upstream has other words there, and another order.
pub(crate) fn iscsi_of_volume(source: &Field<'_>, volume: &str, errors: &mut Errors) {
    iscsi_named(source, Some(volume), "must be valid format", errors);
}

fn iscsi_named(source: &Field<'_>, volume: Option<&str>, other: &str, errors: &mut Errors) {
    let portal = source.at("targetPortal");
    portal.is_given(errors);
    if volume.is_some_and(|volume| source.at("initiatorName").is_set() && volume.len() + 1 + portal.text().len() > 64) {
        let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if \
                      iscsi.initiatorName is specified.";
        source.at("targetportal").invalid_as(portal.text(), detail, errors);
    }
    let name = source.at("iqn");
    if name.is_given(errors) {
        initiator_name(&name, other, errors);
    }
    lun(&source.at("lun"), errors);
    let chap = source.at("chapAuthDiscovery").is_true() || source.at("chapAuthSession").is_true();
    let secret = source.at("secretRef");
    if chap && !secret.is_set() {
        secret.required("", errors);
    }
    if volume.is_some() && secret.is_set() {
        secret.at("name").is_given(errors);
    }
    let own = source.at("initiatorName");
    if own.is_set() {
        // Upstream spells it without the capital.
        let place = source.at("initiatorname");
        initiator_name(&place.with(own.value()), other, errors);
    }
}

/// A name of a target or an initiator: `iqn.…`, `eui.…` or `naa.…`.
pub(crate) fn initiator_name(name: &Field<'_>, other: &str, errors: &mut Errors) {
    let text = name.text();
    let fine = match text.get(..3) {
        Some("iqn") => is_qualified(text),
        Some("eui") => is_hex(text, 16),
        Some("naa") => is_hex(text, 32),
        _ => return name.invalid_text(other, errors),
    };
    if !fine {
        name.invalid("must be valid format", errors);
    }
}

/// Three letters, any byte, and so many letters or digits.
fn is_hex(text: &str, digits: usize) -> bool {
    let mut rest = text.chars().skip(4);
    text.chars().count() == digits + 4 && rest.all(|c| c.is_ascii_alphanumeric())
}

/// `iqn.YYYY-MM.domain:anything`.
fn is_qualified(text: &str) -> bool {
    let digits = |part: &str, n: usize| part.len() == n && part.bytes().all(|c| c.is_ascii_digit());
    let Some((year, rest)) = text.strip_prefix("iqn.").and_then(|rest| rest.split_once('-')) else { return false };
    let Some((month, rest)) = rest.split_once('.') else { return false };
    let Some((domain, own)) = rest.split_once(':') else { return false };
    digits(year, 4)
        && digits(month, 2)
        && !domain.is_empty()
        && domain.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.'))
        && !own.is_empty()
        && !own.contains([',', ';', '*', '&', '$', '|', ' ', '\t', '\n', '\r', '\x0c'])
}

fn lun(lun: &Field<'_>, errors: &mut Errors) {
    if lun.int().is_some_and(|n| !(0..=255).contains(&n)) {
        lun.invalid(range_message(0, 255), errors);
    }
}

pub(crate) fn glusterfs(source: &Field<'_>, errors: &mut Errors) {
    given(source, &["endpoints", "path"], errors);
}

pub(crate) fn flocker(source: &Field<'_>, errors: &mut Errors) {
    let (name, uuid) = (source.at("datasetName"), source.at("datasetUUID"));
    if name.is_empty() && uuid.is_empty() {
        source.required("one of datasetName and datasetUUID is required", errors);
    }
    if !name.is_empty() && !uuid.is_empty() {
        source.invalid_as("resource", "datasetName and datasetUUID can not be specified simultaneously", errors);
    }
    if name.text().contains('/') {
        name.invalid("must not contain '/'", errors);
    }
}

pub(super) fn claim(source: &Field<'_>, errors: &mut Errors) {
    source.at("claimName").is_given(errors);
}

pub(crate) fn rbd(source: &Field<'_>, errors: &mut Errors) {
    given(source, &["monitors", "image"], errors);
}

pub(super) fn cinder(source: &Field<'_>, errors: &mut Errors) {
    source.at("volumeID").is_given(errors);
    secret_ref(source, errors);
}

pub(crate) fn cephfs(source: &Field<'_>, errors: &mut Errors) {
    source.at("monitors").is_given(errors);
}

pub(crate) fn quobyte(source: &Field<'_>, errors: &mut Errors) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let (registry, tenant) = (source.at("registry"), source.at("tenant"));
    if registry.is_empty() {
        registry.required(PAIRS, errors);
    } else if tenant.text().len() > 64 {
        tenant.required("must be a UUID and may not exceed a length of 64 characters", errors);
    } else {
        for _ in registry.text().split(',').filter(|pair| !is_host_port(pair)) {
            registry.invalid(PAIRS, errors);
        }
    }
    source.at("volume").is_given(errors);
}

/// A host, in brackets if it has colons, and a port.
fn is_host_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let host = match host.strip_prefix('[') {
        Some(rest) => match rest.strip_suffix(']') {
            Some(inside) => inside,
            None => return false,
        },
        None if host.contains(':') => return false,
        None => host,
    };
    !host.contains(['[', ']']) && !port.contains(['[', ']'])
}

pub(crate) fn fibre_channel(source: &Field<'_>, errors: &mut Errors) {
    let (targets, names, number) = (source.at("targetWWNs"), source.at("wwids"), source.at("lun"));
    if targets.is_empty() && names.is_empty() {
        targets.required("must specify either targetWWNs or wwids, but not both", errors);
    }
    if !targets.is_empty() && !names.is_empty() {
        targets.invalid("targetWWNs and wwids can not be specified simultaneously", errors);
    }
    if !targets.is_empty() {
        if number.is_set() {
            lun(&number, errors);
        } else {
            number.required("lun is required if targetWWNs is specified", errors);
        }
    }
}

pub(crate) fn flex(source: &Field<'_>, errors: &mut Errors) {
    source.at("driver").is_given(errors);
    source.at("options").each_key(|key, option| {
        let domain = format!(".{}", key.split_once('/').map_or(key, |(domain, _)| domain).to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            option.invalid_as(key, "kubernetes.io and k8s.io namespaces are reserved", errors);
        }
    });
}

pub(super) fn azure_file(source: &Field<'_>, errors: &mut Errors) {
    given(source, &["secretName", "shareName"], errors);
}

pub(crate) fn vsphere(source: &Field<'_>, errors: &mut Errors) {
    source.at("volumePath").is_given(errors);
}

pub(crate) fn photon(source: &Field<'_>, errors: &mut Errors) {
    source.at("pdID").is_given(errors);
}

pub(crate) fn portworx(source: &Field<'_>, errors: &mut Errors) {
    source.at("volumeID").is_given(errors);
}

pub(crate) fn azure_disk(source: &Field<'_>, errors: &mut Errors) {
    given(source, &["diskName", "diskURI"], errors);
    let (kind, uri) = (source.at("kind"), source.at("diskURI"));
    source.at("cachingMode").some_one_of(&["None", "ReadOnly", "ReadWrite"], errors);
    kind.some_one_of(&["Dedicated", "Managed", "Shared"], errors);
    if !kind.is_set() {
        return;
    }
    let (start, form) = match kind.text() {
        "Managed" => (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        ),
        _ => ("https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"),
    };
    if !uri.text().starts_with(start) {
        uri.not_supported(&[form], errors);
    }
}

pub(super) fn storage_os(source: &Field<'_>, errors: &mut Errors) {
    source.at("volumeName").check_given(names::dns1123_label, errors);
    source.at("volumeNamespace").check_some(names::dns1123_label, errors);
    secret_ref(source, errors);
}

pub(crate) fn scale_io(source: &Field<'_>, errors: &mut Errors) {
    given(source, &["gateway", "system", "volumeName"], errors);
}

/// A driver's name.
pub(crate) fn csi_driver(driver: &Field<'_>, errors: &mut Errors) {
    const MAX: usize = 63;
    if !driver.is_given(errors) {
        return;
    }
    if driver.text().len() > MAX {
        errors.push(FieldError::too_long(driver, MAX));
    }
    driver.check(|name| names::dns1123_subdomain(&name.to_lowercase()), errors);
}

pub(super) fn csi(source: &Field<'_>, errors: &mut Errors) {
    csi_driver(&source.at("driver"), errors);
    let reference = source.at("nodePublishSecretRef");
    let name = reference.at("name");
    if reference.is_set() && name.is_given(errors) {
        // Upstream names the source's own name here.
        source.at("name").with(name.value()).check(names::dns1123_subdomain, errors);
    }
}

pub(super) fn ephemeral(source: &Field<'_>, errors: &mut Errors) {
    let template = source.at("volumeClaimTemplate");
    if !template.is_set() {
        return template.required("", errors);
    }
    super::claim_template::template(&template, errors);
}

pub(super) fn image(source: &Field<'_>, errors: &mut Errors) {
    source.at("reference").is_given(errors);
    containers::pull_policy(&source.at("pullPolicy"), errors);
}
