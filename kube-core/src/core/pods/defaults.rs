//! Defaults of pods and of pod templates.

use machinery::{Value, array, object};

use super::{image, volumes};
use crate::defaults::{each, fill, is_empty, number, part, pointer, round, text, within};

/// A pod: what its spec gets as a template gets it, and what only a pod itself gets.
pub(crate) fn pod(pod: &mut Value) {
    drop_forgotten_annotations(pod);
    let spec = part(pod, "spec");
    // Requests follow limits only here, so that a template's limits can change without its requests.
    for list in ["containers", "initContainers"] {
        each(spec, list, |container| within(container, "resources", |r| fill(r, "limits", "requests")));
    }
    super::resources::default_pod_requests(spec);
    pointer(spec, "enableServiceLinks", true);
    if spec.get("hostNetwork").and_then(Value::as_bool) == Some(true) {
        for list in ["containers", "initContainers"] {
            each(spec, list, |container| each(container, "ports", host_port));
        }
    }
    pod_spec(spec);
    // Not in a template, whose authors are warned.
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
        spec.set(&["terminationGracePeriodSeconds"], 1);
    }
    addresses(part(pod, "status"), "podIP", "podIPs");
}

/// A template's pod, in every kind that has one.
pub(crate) fn template(template: &mut Value) {
    drop_forgotten_annotations(template);
    within(template, "spec", pod_spec);
}

/// Annotations that once were init containers: kubelets of old would act on them.
const FORGOTTEN: [&str; 4] = [
    "pod.alpha.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.beta.kubernetes.io/init-containers",
];

fn drop_forgotten_annotations(object: &mut Value) {
    let path = ["metadata", "annotations"];
    let Some(annotations) = object.at(&path).and_then(Value::as_object) else { return };
    if !FORGOTTEN.iter().any(|name| annotations.contains_key(name)) {
        return;
    }
    for name in FORGOTTEN {
        object.remove_at(&["metadata", "annotations", name]);
    }
    if is_empty(object.at(&path)) {
        object.remove_at(&path);
    }
}

/// On the host's network, a port that a container opens is the host's.
fn host_port(port: &mut Value) {
    if let Some(number) = port.get("containerPort").and_then(Value::as_i64).filter(|p| *p != 0) {
        crate::defaults::number(port, "hostPort", number);
    }
}

fn pod_spec(spec: &mut Value) {
    text(spec, "dnsPolicy", "ClusterFirst");
    text(spec, "restartPolicy", "Always");
    pointer(spec, "securityContext", object! {});
    pointer(spec, "terminationGracePeriodSeconds", 30);
    text(spec, "schedulerName", "default-scheduler");
    service_account(spec);
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        each(spec, list, container);
    }
    each(spec, "volumes", volumes::volume);
    round(spec, "overhead");
    within(spec, "resources", amounts);
}

/// Two names of one member: the old one still counts where the new one is not set, and both are written.
pub(crate) fn service_account(spec: &mut Value) {
    let name = |spec: &Value, key: &str| spec.str_at(&[key]).filter(|s| !s.is_empty()).map(machinery::Str::from);
    let (new, old) = (name(spec, "serviceAccountName"), name(spec, "serviceAccount"));
    match (&new, &old) {
        (Some(name), _) if new != old => {
            spec.make_object().insert("serviceAccount", name);
        }
        (None, Some(name)) => {
            spec.make_object().insert("serviceAccountName", name);
        }
        _ => {}
    }
}

/// A single address and the list that begins with it. The single one wins, as older clients only set that.
fn addresses(status: &mut Value, single: &str, list: &str) {
    let one = status.str_at(&[single]).filter(|s| !s.is_empty()).map(machinery::Str::from);
    let first = status.get(list).and_then(Value::as_array).and_then(|l| l.first()).and_then(|v| v.str_at(&["ip"]));
    match (one, first) {
        (Some(one), first) if first != Some(one.as_str()) => {
            status.make_object().insert(list, array![object! { "ip" => one }]);
        }
        (None, Some(first)) => {
            let first = machinery::Str::from(first);
            status.make_object().insert(single, first);
        }
        _ => {}
    }
}

fn container(container: &mut Value) {
    if is_empty(container.get("imagePullPolicy")) {
        let policy = image::pull_policy(container.str_at(&["image"]).unwrap_or_default());
        text(container, "imagePullPolicy", policy);
    }
    within(container, "resources", amounts);
    text(container, "terminationMessagePath", "/dev/termination-log");
    text(container, "terminationMessagePolicy", "File");
    each(container, "ports", |port| text(port, "protocol", "TCP"));
    each(container, "env", |env| {
        within(env, "valueFrom", |from| {
            within(from, "fieldRef", |field| text(field, "apiVersion", "v1"));
            within(from, "fileKeyRef", |file| pointer(file, "optional", false));
        });
    });
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        within(container, probe, self::probe);
    }
    within(container, "lifecycle", |lifecycle| {
        for hook in ["postStart", "preStop"] {
            within(lifecycle, hook, |hook| within(hook, "httpGet", http_get));
        }
    });
}

fn probe(probe: &mut Value) {
    number(probe, "timeoutSeconds", 1);
    number(probe, "periodSeconds", 10);
    number(probe, "successThreshold", 1);
    number(probe, "failureThreshold", 3);
    within(probe, "httpGet", http_get);
    within(probe, "grpc", |grpc| pointer(grpc, "service", ""));
}

fn amounts(resources: &mut Value) {
    round(resources, "limits");
    round(resources, "requests");
}

fn http_get(action: &mut Value) {
    text(action, "path", "/");
    text(action, "scheme", "HTTP");
}
