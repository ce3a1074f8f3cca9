//! What patches and field management cost: a strategic merge of a deployment (goal: 40 us), and the managers of a pod
//! update beside the reading and writing of its JSON (goal: 40 % of the update).

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use machinery::Value;
use machinery::codec::json;
use machinery::meta::GroupVersionKind;
use machinery::patch::apply::{OneVersion, ResetFields, Write, apply, track_update};
use machinery::patch::{json_patch, merge, strategic};
use machinery::schema::builtin;

/// A container as the server keeps it, defaults included.
fn container(name: &str) -> String {
    format!(
        r#"{{"name":"{name}","image":"registry.example/team/{name}:1.2.3","args":["--listen=:8080","--verbose"],
        "env":[{{"name":"A","value":"a"}},{{"name":"B","value":"b"}},{{"name":"C","valueFrom":{{"fieldRef":{{"apiVersion":"v1","fieldPath":"metadata.name"}}}}}}],
        "ports":[{{"name":"http","containerPort":8080,"protocol":"TCP"}},{{"name":"metrics","containerPort":9090,"protocol":"TCP"}}],
        "resources":{{"limits":{{"cpu":"1","memory":"512Mi"}},"requests":{{"cpu":"100m","memory":"128Mi"}}}},
        "volumeMounts":[{{"name":"config","mountPath":"/etc/config","readOnly":true}},{{"name":"tmp","mountPath":"/tmp"}}],
        "readinessProbe":{{"httpGet":{{"path":"/ready","port":"http","scheme":"HTTP"}},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3}},
        "terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}}"#
    )
}

fn pod_spec() -> String {
    format!(
        r#"{{"containers":[{},{}],"volumes":[{{"name":"config","configMap":{{"name":"web","defaultMode":420}}}},{{"name":"tmp","emptyDir":{{}}}}],
        "restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","securityContext":{{}},"schedulerName":"default-scheduler"}}"#,
        container("main"),
        container("side")
    )
}

fn decode(text: &str) -> Value {
    json::decode(text.as_bytes()).expect("the benchmarks' own JSON")
}

fn deployment() -> Value {
    decode(&format!(
        r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"web","namespace":"default","labels":{{"app":"web","tier":"front"}}}},
        "spec":{{"replicas":2,"selector":{{"matchLabels":{{"app":"web"}}}},"strategy":{{"type":"RollingUpdate","rollingUpdate":{{"maxSurge":"25%","maxUnavailable":"25%"}}}},
        "revisionHistoryLimit":10,"progressDeadlineSeconds":600,"template":{{"metadata":{{"labels":{{"app":"web"}}}},"spec":{}}}}},"status":{{}}}}"#,
        pod_spec()
    ))
}

fn pod() -> Value {
    decode(&format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"web","namespace":"default","uid":"11111111-2222-4333-8444-555555555555","labels":{{"app":"web","tier":"front"}}}},"spec":{},"status":{{"phase":"Running"}}}}"#,
        pod_spec()
    ))
}

fn patches(c: &mut Criterion) {
    let deployment = deployment();
    let schema = builtin::schema_of("apps", "v1", "Deployment").expect("a built-in");
    let set_image = decode(
        r#"{"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"main"},{"name":"side"}],"containers":[{"name":"main","image":"registry.example/team/main:1.2.4","env":[{"name":"A","value":"new"}]}]}}}}"#,
    );
    c.bench_function("strategic merge, image and variable of a deployment", |b| {
        b.iter(|| strategic::apply(black_box(&deployment), &set_image, schema));
    });
    let replicas = decode(r#"{"spec":{"replicas":3},"metadata":{"labels":{"release":"blue"}}}"#);
    c.bench_function("merge patch, replicas and label of a deployment", |b| {
        b.iter(|| merge::apply(black_box(&deployment), &replicas));
    });
    let operations = decode(
        r#"[{"op":"test","path":"/spec/replicas","value":2},{"op":"replace","path":"/spec/replicas","value":3},{"op":"add","path":"/spec/template/spec/containers/-","value":{"name":"x"}}]"#,
    );
    c.bench_function("JSON patch, three operations on a deployment", |b| {
        b.iter(|| json_patch::apply(black_box(&deployment), &operations));
    });
}

fn managers(c: &mut Criterion) {
    let schema = builtin::schema_of("", "v1", "Pod").expect("a built-in");
    let kind = GroupVersionKind::new("", "v1", "Pod");
    let reset = ResetFields::exclude(&[&["status"]]);
    let write = |manager| Write {
        manager,
        subresource: "",
        kind: &kind,
        now: "2026-01-01T00:00:00Z",
        reset: &reset,
        versions: &OneVersion,
    };
    let mut old = pod();
    track_update(None, &mut old, schema, &write("maker"));
    let text = json::encode(&old);
    let mut bytes = text.clone();
    let same = json::decode(&text).expect("just written");
    let mut changed = same.clone();
    changed.set(&["metadata", "labels", "tier"], "back");
    println!("the pod with its managers: {} bytes, without: {}", text.len(), json::encode(&pod()).len());

    c.bench_function("pod, decode and encode its JSON", |b| {
        b.iter(|| {
            let value = json::decode(black_box(&text)).expect("JSON");
            bytes.clear();
            json::encode_into(&mut bytes, &value);
        });
    });
    c.bench_function("pod, managers of a creation", |b| {
        b.iter(|| {
            let mut new = pod_of(&same);
            track_update(None, &mut new, schema, &write("maker"));
            new
        });
    });
    c.bench_function("pod, managers of an update that changes nothing", |b| {
        b.iter(|| {
            let mut new = same.clone();
            track_update(Some(black_box(&old)), &mut new, schema, &write("updater"));
            new
        });
    });
    c.bench_function("pod, managers of an update of a label", |b| {
        b.iter(|| {
            let mut new = changed.clone();
            track_update(Some(black_box(&old)), &mut new, schema, &write("updater"));
            new
        });
    });
    let config = decode(
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"default","labels":{"app":"web","own":"x"}},"spec":{"containers":[{"name":"main","image":"registry.example/team/main:1.2.3"}]}}"#,
    );
    c.bench_function("pod, apply a small configuration", |b| {
        b.iter(|| apply(Some(black_box(&old)), &config, schema, &write("anna"), false));
    });
}

/// What an applier that owns a whole deployment does most: the same again, and another image.
fn applies(c: &mut Criterion) {
    let schema = builtin::schema_of("apps", "v1", "Deployment").expect("a built-in");
    let kind = GroupVersionKind::new("apps", "v1", "Deployment");
    let reset = ResetFields::exclude(&[&["status"]]);
    let write = Write {
        manager: "pipeline",
        subresource: "",
        kind: &kind,
        now: "2026-01-01T00:00:00Z",
        reset: &reset,
        versions: &OneVersion,
    };
    let mut config = deployment();
    config.remove_at(&["status"]);
    config.remove_at(&["metadata", "managedFields"]);
    let live = apply(None, &config, schema, &write, false).expect("a sound deployment");
    let live = decode(&String::from_utf8(json::encode(&live)).expect("JSON is UTF-8"));
    let mut changed = config.clone();
    let containers = changed.at_mut(&["spec", "template", "spec", "containers"]).as_array_mut().expect("containers");
    containers[0].set(&["image"], "registry.example/team/main:1.2.4");
    for (name, config) in [("that changes nothing", &config), ("that changes an image", &changed)] {
        c.bench_function(&format!("deployment, an apply {name}"), |b| {
            b.iter(|| apply(Some(black_box(&live)), config, schema, &write, false).expect("no conflict"));
        });
    }
}

/// A copy that shares nothing below its top and has no managers.
fn pod_of(pod: &Value) -> Value {
    let mut pod = pod.clone();
    pod.remove_at(&["metadata", "managedFields"]);
    pod
}

criterion_group!(benches, patches, managers, applies);
criterion_main!(benches);
