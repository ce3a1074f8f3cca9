//! Warnings about pods and pod templates that are accepted.

use std::collections::{HashMap, HashSet};

use machinery::{
    Value,
    meta::{Quantity, go_text::quote, ip, names},
    value::Path,
};

use super::{
    overlaps,
    validation::scope::{each_container, has, list, name, text},
};
use crate::validation::{Field, Seen};

/// Warnings for whoever says which addresses a pod has.
pub(super) fn status_addresses(pod: &Value) -> Vec<String> {
    let mut out = Vec::new();
    for list in ["podIPs", "hostIPs"] {
        let all = pod.at(&["status", list]).and_then(Value::as_array).unwrap_or_default();
        for (i, text) in all.iter().enumerate().filter_map(|(i, address)| Some((i, address.str_at(&["ip"])?))) {
            out.extend(ip::ip_warning(format!("status.{list}[{i}].ip"), text));
        }
    }
    out
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const NULL_SELECTOR: &str = "a null labelSelector results in matching no pod";

/// How many warnings there are at most. No client is shown as many.
const MAX_WARNINGS: usize = 200;
/// With how many others of its kind a port is compared at most.
const MAX_COMPARED: usize = 200;

/// What was noticed so far, each thing once: a client hears of it once, too.
#[derive(Default)]
struct Notes {
    texts: Vec<String>,
    known: HashSet<String>,
}

impl Notes {
    fn add(&mut self, place: &Field<'_>, what: impl std::fmt::Display) {
        if !self.are_full() {
            self.plain(format!("{place}: {what}"));
        }
    }

    fn are_full(&self) -> bool {
        self.texts.len() >= MAX_WARNINGS
    }

    fn plain(&mut self, text: String) {
        if !self.are_full() && self.known.insert(text.clone()) {
            self.texts.push(text);
        }
    }
}

/// About a pod. Updates of pods bring none: they are no work of humans.
pub(super) fn pod(pod: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_some() {
        return Vec::new();
    }
    let mut out: Vec<String> = hostname(pod.str_at(&["metadata", "name"]).unwrap_or_default()).into_iter().collect();
    out.extend(about(&Field::root(pod), false));
    out
}

/// A name is a hostname, too.
fn hostname(name: &str) -> Option<String> {
    let problems = names::dns1123_label(name);
    (!problems.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is \
             recommended: [{}]",
            problems.join(" ")
        )
    })
}

/// About a template, at its place in the object that holds it.
fn template(template: &Field<'_>) -> Vec<String> {
    about(template, true)
}

/// About the template of a controller, at `spec.template`: of a new one, or of one that changed.
pub(crate) fn controller(controller: &Value, old: Option<&Value>) -> Vec<String> {
    within(controller, old, &["spec", "template"])
}

/// About the template at a path of its holder, unless this is an update that does not count as one.
pub(crate) fn within(holder: &Value, old: Option<&Value>, path: &[&str]) -> Vec<String> {
    fn walk(field: &Field<'_>, path: &[&str]) -> Vec<String> {
        match path {
            [] => template(field),
            [member, rest @ ..] => walk(&field.at(member), rest),
        }
    }
    let generation = |object: &Value| object.at(&["metadata", "generation"]).and_then(Value::as_i64);
    if old.is_some_and(|old| generation(old) == generation(holder)) {
        return Vec::new();
    }
    walk(&Field::root(holder), path)
}

fn about(object: &Field<'_>, is_template: bool) -> Vec<String> {
    let mut notes = Notes::default();
    let (metadata, spec) = (object.at("metadata"), object.at("spec"));
    let annotations = metadata.at("annotations");
    node_labels(&spec, &mut notes);
    old_annotations(&annotations, &mut notes);
    volumes(&spec.at("volumes"), &mut notes);
    twice(&spec, &mut notes);
    fractions(&spec.at("overhead"), &mut notes);
    profiles(&spec, &annotations, is_template, &mut notes);
    ports(&spec, &mut notes);
    // That of a pod has become 1 by now.
    if is_template && spec.at("terminationGracePeriodSeconds").int_or_zero() < 0 {
        let what = "must be >= 0; negative values are invalid and will be treated as 1";
        notes.add(&spec.at("terminationGracePeriodSeconds"), what);
    }
    pod_selectors(&spec.at("affinity"), &mut notes);
    addresses(&spec, &mut notes);
    notes.texts
}

/// Labels of nodes that have newer names.
pub(crate) fn renamed(label: &str) -> Option<&'static str> {
    Some(match label {
        "beta.kubernetes.io/arch" => r#"deprecated since v1.14; use "kubernetes.io/arch" instead"#,
        "beta.kubernetes.io/os" => r#"deprecated since v1.14; use "kubernetes.io/os" instead"#,
        "failure-domain.beta.kubernetes.io/region" => {
            r#"deprecated since v1.17; use "topology.kubernetes.io/region" instead"#
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            r#"deprecated since v1.17; use "topology.kubernetes.io/zone" instead"#
        }
        "beta.kubernetes.io/instance-type" => {
            r#"deprecated since v1.17; use "node.kubernetes.io/instance-type" instead"#
        }
        _ => return None,
    })
}

fn node_labels(spec: &Field<'_>, notes: &mut Notes) {
    spec.at("nodeSelector").each_key(|key, label| {
        if let Some(what) = renamed(key) {
            notes.add(&label, what);
        }
    });
    let affinity = spec.at("affinity");
    let node = affinity.at("nodeAffinity");
    node.at(REQUIRED).at("nodeSelectorTerms").each(|term| node_term(&term, notes));
    node.at(PREFERRED).each(|term| node_term(&term.at("preference"), notes));
    spec.at("topologySpreadConstraints").each(|constraint| {
        let key = constraint.at("topologyKey");
        if let Some(what) = renamed(key.text()) {
            notes.add(&key, format_args!("{} is {what}", key.text()));
        }
        if !constraint.at("labelSelector").is_set() {
            notes.add(&constraint.at("labelSelector"), NULL_SELECTOR);
        }
    });
}

/// Warnings about a selector of nodes that stands elsewhere (a volume's).
pub(crate) fn of_node_selector(selector: &Field<'_>) -> Vec<String> {
    let mut notes = Notes::default();
    selector.at("nodeSelectorTerms").each(|term| node_term(&term, &mut notes));
    notes.texts
}

/// Of requirements of labels and of fields alike.
fn node_term(term: &Field<'_>, notes: &mut Notes) {
    term.at("matchExpressions").each(|requirement| {
        let key = requirement.at("key");
        if let Some(what) = renamed(key.text()) {
            notes.add(&key, format_args!("{} is {what}", key.text()));
        }
    });
}

fn old_annotations(annotations: &Field<'_>, notes: &mut Notes) {
    let sysctls = r#"non-functional in v1.11+; use the "sysctls" field instead"#;
    let old = [
        (
            "scheduler.alpha.kubernetes.io/critical-pod",
            r#"non-functional in v1.16+; use the "priorityClassName" field instead"#,
        ),
        ("security.alpha.kubernetes.io/sysctls", sysctls),
        ("security.alpha.kubernetes.io/unsafe-sysctls", sysctls),
    ];
    for (key, what) in old {
        if annotations.key(key).is_set() {
            notes.add(&annotations.key(key), what);
        }
    }
}

/// Sources that are on their way out, as upstream calls them.
const OLD_SOURCES: [(&str, &str, &str); 9] = [
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// What upstream calls a source that is on its way out, and what it says of it.
pub(crate) fn old_source(member: &str) -> Option<(&'static str, &'static str)> {
    OLD_SOURCES.into_iter().find(|(known, ..)| *known == member).map(|(_, shown, what)| (shown, what))
}

fn volumes(volumes: &Field<'_>, notes: &mut Notes) {
    volumes.each_item(|volume, value| {
        for (member, shown, what) in OLD_SOURCES {
            if has(value, member) {
                notes.add(&volume.at(shown), what);
            }
        }
        let claim = volume.at("ephemeral");
        fraction(&claim.at("volumeClaimTemplate").at("spec").at("resources").at("requests"), "storage", notes);
    });
    for volume in volumes.items() {
        overlaps::in_volume(volume, |text| notes.plain(text));
    }
}

fn twice(spec: &Field<'_>, notes: &mut Notes) {
    for (member, key, what) in [("hostAliases", "ip", "ip"), ("imagePullSecrets", "name", "name")] {
        let mut seen = Seen::default();
        spec.at(member).each_item(|item, value| {
            if !seen.insert(text(value, key)) {
                notes.add(&item.at(key), format_args!("duplicate {what} {}", quote(text(value, key))));
            }
        });
    }
    spec.at("imagePullSecrets").each(|secret| {
        if secret.at("name").is_empty() {
            notes.add(&secret.at("name"), "invalid empty name \"\"");
        }
    });
}

/// Memory comes in bytes.
fn fractions(amounts: &Field<'_>, notes: &mut Notes) {
    for resource in ["memory", "ephemeral-storage"] {
        fraction(amounts, resource, notes);
    }
}

fn fraction(amounts: &Field<'_>, resource: &str, notes: &mut Notes) {
    let amount = amounts.key(resource);
    // Only what is finer than one has one of these suffixes in its canonical form.
    if amount.text().ends_with(['m', 'u', 'n'])
        && let Ok(quantity) = Quantity::from_value(amount.value())
        && quantity.milli_value() % 1000 != 0
    {
        let shown = quote(&quantity.text());
        notes.add(&amount, format_args!("fractional byte value {shown} is invalid, must be an integer"));
    }
}

const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const USE_SECCOMP: &str = r#"non-functional in v1.27+; use the "seccompProfile" field instead"#;

/// What to write instead of an annotation.
pub(super) const USE_APP_ARMOR: &str = r#"deprecated since v1.30; use the "appArmorProfile" field instead"#;

/// Annotations that have no field beside them, and what is odd about each container.
fn profiles(spec: &Field<'_>, annotations: &Field<'_>, is_template: bool, notes: &mut Notes) {
    let has_own = |holder: &Value, profile| holder.at(&["securityContext", profile]).is_some_and(|v| !v.is_null());
    if annotations.key(SECCOMP_POD).is_set() && !has_own(spec.value(), "seccompProfile") {
        notes.add(&annotations.key(SECCOMP_POD), USE_SECCOMP);
    }
    let pod_has_armor = has_own(spec.value(), "appArmorProfile");
    let mentioned = |prefix| annotations.value().as_object().into_iter().flatten().any(|(k, _)| k.starts_with(prefix));
    let is_annotated = mentioned(SECCOMP_CONTAINER) || (is_template && mentioned(APP_ARMOR));
    each_container(spec, |container, value| {
        if is_annotated {
            let key = format!("{SECCOMP_CONTAINER}{}", name(value));
            if annotations.key(&key).is_set() && !has_own(value, "seccompProfile") {
                notes.add(&annotations.key(&key), USE_SECCOMP);
            }
            // A pod's author is told when the annotation is read.
            let key = format!("{APP_ARMOR}{}", name(value));
            let armored = pod_has_armor || has_own(value, "appArmorProfile");
            if is_template && !armored && annotations.key(&key).is_set() {
                notes.add(&annotations.key(&key), USE_APP_ARMOR);
            }
        }
        let resources = container.at("resources");
        for resource in ["memory", "ephemeral-storage"] {
            fraction(&resources.at("limits"), resource, notes);
            fraction(&resources.at("requests"), resource, notes);
        }
        variables(&container.at("env"), notes);
    });
}

fn variables(variables: &Field<'_>, notes: &mut Notes) {
    if variables.len() < 2 {
        return;
    }
    let mut seen = Seen::default();
    variables.each_item(|variable, value| {
        if seen.insert(name(value)) {
            return;
        }
        // To build upon the value before is fine.
        let reference = format!("$({})", name(value));
        let own = text(value, "value");
        if has(value, "valueFrom") || own == reference || !own.contains(&reference) {
            let shown = quote(name(value));
            let what = format_args!("hides previous definition of {shown}, which may be dropped when using apply");
            notes.add(&variable, what);
        }
    });
}

/// A port of a container, and where it stands.
struct Port<'a> {
    place: String,
    host: i64,
    address: &'a str,
}

fn ports(spec: &Field<'_>, notes: &mut Notes) {
    let all: usize = super::validation::scope::containers(spec.value()).map(|c| list(c, "ports").len()).sum();
    let mut known: HashMap<(i64, &str), Vec<Port<'_>>> = HashMap::with_capacity(all);
    for member in super::validation::scope::CONTAINERS {
        let containers = spec.at(member);
        for (i, container) in list(spec.value(), member).iter().enumerate() {
            let field = containers.index(i);
            let ports = field.at("ports");
            for (j, port) in list(container, "ports").iter().enumerate() {
                let place = ports.index(j);
                let number = |member| port.get(member).and_then(Value::as_i64).unwrap_or_default();
                let (host, address) = (number("hostPort"), text(port, "hostIP"));
                if !address.is_empty() && host == 0 {
                    notes.add(&place, format_args!("hostIP set without hostPort: {}", shown(port)));
                }
                if all < 2 {
                    continue;
                }
                let others = known.entry((number("containerPort"), text(port, "protocol"))).or_default();
                for other in others.iter() {
                    if notes.are_full() {
                        break;
                    }
                    if let Some(what) = conflict(host, address, other) {
                        notes.add(&place, format_args!("{what} port definition with {}", other.place));
                    }
                }
                if others.len() < MAX_COMPARED {
                    others.push(Port { place: place.to_string(), host, address });
                }
            }
        }
    }
}

fn conflict(host: i64, address: &str, other: &Port<'_>) -> Option<&'static str> {
    if address == other.address && host == other.host {
        Some("duplicate")
    } else if host == 0 || other.host == 0 {
        Some("overlapping")
    } else if host == other.host && (address.is_empty() != other.address.is_empty()) {
        Some("dangerously ambiguous")
    } else {
        None
    }
}

/// A port as Go prints a struct.
fn shown(port: &Value) -> String {
    let number = |member| port.get(member).and_then(Value::as_i64).unwrap_or_default();
    format!(
        "{{Name:{} HostPort:{} ContainerPort:{} Protocol:{} HostIP:{}}}",
        name(port),
        number("hostPort"),
        number("containerPort"),
        text(port, "protocol"),
        text(port, "hostIP")
    )
}

fn pod_selectors(affinity: &Field<'_>, notes: &mut Notes) {
    for side in ["podAffinity", "podAntiAffinity"] {
        let side = affinity.at(side);
        let mut check = |term: &Field<'_>| {
            if !term.at("labelSelector").is_set() {
                notes.add(&term.at("labelSelector"), NULL_SELECTOR);
            }
        };
        side.at(REQUIRED).each(|term| check(&term));
        side.at(PREFERRED).each(|term| check(&term.at("podAffinityTerm")));
    }
}

fn addresses(spec: &Field<'_>, notes: &mut Notes) {
    let mut check = |address: &Field<'_>| {
        if let Some(text) = ip::ip_warning(address, address.text()) {
            notes.plain(text);
        }
    };
    spec.at("dnsConfig").at("nameservers").each(|server| check(&server));
    spec.at("hostAliases").each(|alias| check(&alias.at("ip")));
}

/// Warnings about annotations, given to authors of pods whether or not these are accepted: those for which fields are filled
/// in, or which cannot be read.
pub(super) fn annotated_armor(pod: &Value) -> Vec<String> {
    let Some(annotations) = pod.at(&["metadata", "annotations"]).and_then(Value::as_object) else { return Vec::new() };
    let armored = annotations.iter().any(|(key, _)| key.starts_with(APP_ARMOR));
    if !armored || pod.str_at(&["spec", "os", "name"]) == Some("windows") {
        return Vec::new();
    }
    let Some(spec) = pod.get("spec") else { return Vec::new() };
    let of_pod = spec.at(&["securityContext", "appArmorProfile"]);
    let mut notes = Notes::default();
    let place = Path::ROOT.field("metadata");
    let place = place.field("annotations");
    for container in super::validation::scope::containers(spec) {
        let key = format!("{APP_ARMOR}{}", name(container));
        let Some(annotation) = annotations.get(&key).and_then(Value::as_str) else { continue };
        let has_own = container.at(&["securityContext", "appArmorProfile"]).is_some();
        let says_more = super::apparmor::profile(annotation).is_none_or(|profile| of_pod != Some(&profile));
        if !has_own && says_more {
            notes.add(&Field::new(None, place.key(&key)), USE_APP_ARMOR);
        }
    }
    notes.texts
}
