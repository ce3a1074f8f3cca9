//! The rules of pods, by what a client is told: a fragment of a spec, and the findings about it.

use auth::User;
use generic_server::resource::{Resource, WriteContext};
use machinery::{Value, array, codec::json, object, schema::apply_defaults};

fn row() -> Resource {
    let rows = kube_core::resources();
    rows.into_iter().find(|row| row.group.is_empty() && row.plural == "pods").expect("pods have a row")
}

fn parse(text: &str) -> Value {
    json::decode(text.as_bytes()).expect("valid JSON")
}

/// A pod whose spec has these members beside a container.
fn pod(row: &Resource, spec: &str) -> Value {
    let mut pod = object! {
        "metadata" => object! { "name" => "p", "namespace" => "n" },
        "spec" => object! { "serviceAccountName" => "default" },
    };
    for (member, value) in parse(spec).as_object().expect("an object") {
        pod.set(&["spec", member], value.clone());
    }
    if pod.at(&["spec", "containers"]).is_none() {
        pod.set(&["spec", "containers"], array![object! { "name" => "c", "image" => "i" }]);
    }
    for (i, container) in pod.at_mut(&["spec", "containers"]).as_array_mut().into_iter().flatten().enumerate() {
        for (member, value) in [("name", format!("c{i}")), ("image", "i".to_owned())] {
            if container.get(member).is_none() {
                container.set(&[member], value);
            }
        }
    }
    apply_defaults(&row.schema, &mut pod);
    row.strategy.default(&mut pod);
    pod
}

fn texts(errors: Vec<machinery::meta::FieldError>) -> Vec<String> {
    errors.iter().map(|e| e.to_string().lines().next().unwrap_or_default().to_owned()).collect()
}

fn check(spec: &str, expect: &[&str]) {
    let (row, user) = (row(), User::default());
    let cx = WriteContext {
        group: "",
        version: "v1",
        namespace: "n",
        subresource: "",
        user: &user,
        features: &Default::default(),
    };
    assert_eq!(texts(row.strategy.validate(&cx, &pod(&row, spec))), expect, "{spec}");
}

fn check_update(old: &str, new: &str, expect: &[&str]) {
    let (row, user) = (row(), User::default());
    let cx = WriteContext {
        group: "",
        version: "v1",
        namespace: "n",
        subresource: "",
        user: &user,
        features: &Default::default(),
    };
    let found = row.strategy.validate_update(&cx, &pod(&row, new), &pod(&row, old));
    assert_eq!(texts(found), expect, "{old} -> {new}");
}

fn check_warnings(spec: &str, expect: &[&str]) {
    let row = row();
    assert_eq!(row.strategy.warnings_on_create(&pod(&row, spec)), expect, "{spec}");
}

#[test]
fn a_plain_pod_is_fine() {
    check("{}", &[]);
    check(r#"{"containers":[{"ports":[{"containerPort":80}],"env":[{"name":"A B","value":"x"}]}]}"#, &[]);
}

#[test]
fn containers_share_the_ports_of_the_node() {
    check(
        r#"{"containers":[{"ports":[{"containerPort":1,"hostPort":9}]},{"ports":[{"containerPort":2,"hostPort":9}]}]}"#,
        &[r#"spec.containers[1].ports[0].hostPort: Duplicate value: "TCP//9""#],
    );
    check(
        r#"{"initContainers":[{"name":"a","image":"i","ports":[{"containerPort":1,"hostPort":9}]},
            {"name":"b","image":"i","ports":[{"containerPort":1,"hostPort":9}]}]}"#,
        &[],
    );
}

#[test]
fn mounts_are_of_volumes_that_are_there_and_fine() {
    check(
        r#"{"volumes":[{"name":"v","hostPath":{"path":"/a/../b"}}],
            "containers":[{"volumeMounts":[{"name":"v","mountPath":"/x"},{"name":"w","mountPath":"/x"}]}]}"#,
        &[
            r#"spec.volumes[0].hostPath.path: Invalid value: "/a/../b": must not contain '..'"#,
            r#"spec.containers[0].volumeMounts[0].name: Not found: "v""#,
            r#"spec.containers[0].volumeMounts[1].name: Not found: "w""#,
            r#"spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/x": must be unique"#,
        ],
    );
    check(
        r#"{"volumes":[{"name":"v","emptyDir":{},"nfs":{"server":"s","path":"/"}}]}"#,
        &["spec.volumes[0].nfs: Forbidden: may not specify more than 1 volume type"],
    );
}

#[test]
fn restart_rules_need_a_policy_and_codes() {
    check(
        r#"{"containers":[{"restartPolicyRules":[{"action":"Restart"}]}]}"#,
        &[
            "spec.containers[0].restartPolicy: Required value: must specify restartPolicy when restart rules are used",
            "spec.containers[0].restartPolicyRules[0].exitCodes: Required value: must be specified",
        ],
    );
}

#[test]
fn files_of_variables_are_in_empty_folders() {
    let from = |volume: &str| {
        format!(
            r#"{{"volumes":[{{"name":"v","emptyDir":{{}}}},{{"name":"h","hostPath":{{"path":"/"}}}}],"containers":[{{"env":[
                {{"name":"A","valueFrom":{{"fileKeyRef":{{"volumeName":"{volume}","path":"p","key":"K"}}}}}}]}}]}}"#
        )
    };
    let place = "spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName";
    check(&from("v"), &[]);
    check(&from("x"), &[&format!(r#"{place}: Not found: "x""#)]);
    check(&from("h"), &[&format!(r#"{place}: Invalid value: "h": referenced volume must be of type emptyDir"#)]);
}

#[test]
fn projections_have_paths_of_their_own() {
    check(
        r#"{"volumes":[{"name":"v","projected":{"sources":[
            {"secret":{"name":"s","items":[{"key":"k","path":"a"}]}},
            {"configMap":{"name":"c","items":[{"key":"k","path":"a"}]},"downwardAPI":{}}]}}]}"#,
        &[
            r#"spec.volumes[0].projected: Invalid value: "c": conflicting duplicate paths"#,
            "spec.volumes[0].projected.sources[1]: Forbidden: may not specify more than 1 volume type per source",
        ],
    );
}

#[test]
fn a_spread_constraint_is_there_once() {
    check(
        r#"{"topologySpreadConstraints":[
            {"maxSkew":1,"topologyKey":"a","whenUnsatisfiable":"ScheduleAnyway"},
            {"maxSkew":1,"topologyKey":"a","whenUnsatisfiable":"ScheduleAnyway"}]}"#,
        &[
            r#"spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{a, ScheduleAnyway}""#,
        ],
    );
}

#[test]
fn user_namespaces_share_nothing_else() {
    check(
        r#"{"hostUsers":false,"hostPID":true,"hostIPC":true}"#,
        &["spec.HostPID: Forbidden: when `hostUsers` is false", "spec.HostIPC: Forbidden: when `hostUsers` is false"],
    );
}

#[test]
fn images_deadlines_and_tolerations_may_change() {
    check_update(
        r#"{"containers":[{"image":"a"}]}"#,
        r#"{"containers":[{"image":"b"}],"activeDeadlineSeconds":5,"tolerations":[{"key":"a","operator":"Exists"}]}"#,
        &[],
    );
    check_update(
        r#"{"tolerations":[{"key":"a","operator":"Exists"}]}"#,
        r#"{"tolerations":[{"key":"b","operator":"Exists"}]}"#,
        &["spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"],
    );
    check_update(
        "{}",
        r#"{"nodeName":"n"}"#,
        &["spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,\
           `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
           tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"],
    );
    check_update(r#"{"terminationGracePeriodSeconds":-1}"#, r#"{"terminationGracePeriodSeconds":1}"#, &[]);
}

#[test]
fn a_gated_pod_may_become_choosier() {
    let gated = |more: &str| format!(r#"{{"schedulingGates":[{{"name":"g"}}]{more}}}"#);
    let term = |key: &str| {
        format!(
            r#","affinity":{{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":[
                {{"matchExpressions":[{{"key":"{key}","operator":"Exists"}}]}}]}}}}}}"#
        )
    };
    check_update(&gated(""), &gated(r#","nodeSelector":{"a":"b"}"#), &[]);
    check_update(&gated(""), &gated(&term("a")), &[]);
    check_update(
        &gated(&term("a")),
        "{\"schedulingGates\":[]}".replace("[]}", &format!("[]{}}}", term("a"))).as_str(),
        &[],
    );
    let place = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]";
    check_update(
        &gated(&term("a")),
        &gated(&term("b")),
        &[&format!(
            r#"{place}: Invalid value: {{"MatchExpressions":[{{"Key":"b","Operator":"Exists","Values":null}}],"MatchFields":null}}: only additions are allowed (no mutations or deletions)"#
        )],
    );
}

#[test]
fn what_was_odd_before_a_rule_may_stay() {
    let pages = |more: &str| {
        format!(
            r#"{{"containers":[{{"image":"{more}","resources":{{"limits":{{"cpu":"1","hugepages-2Mi":"3Mi"}},
                "requests":{{"cpu":"1","hugepages-2Mi":"3Mi"}}}}}}]}}"#
        )
    };
    check_update(&pages("a"), &pages("b"), &[]);
}

#[test]
fn authors_are_warned_of_what_is_odd() {
    check_warnings(
        r#"{"containers":[{"env":[{"name":"A","value":"x"},{"name":"A","value":"$(A)y"},{"name":"A","value":"z"}],
            "ports":[{"containerPort":1},{"containerPort":1}]}],
            "hostAliases":[{"ip":"1.1.1.1"},{"ip":"1.1.1.1"}],"nodeSelector":{"beta.kubernetes.io/os":"linux"}}"#,
        &[
            r#"spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead"#,
            r#"spec.hostAliases[1].ip: duplicate ip "1.1.1.1""#,
            r#"spec.containers[0].env[2]: hides previous definition of "A", which may be dropped when using apply"#,
            "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
        ],
    );
}

#[test]
fn long_lists_take_no_longer_than_their_length() {
    let many = |n: usize, item: fn(usize) -> Value| (0..n).map(item).collect::<Value>();
    let row = row();
    let mut pod = pod(&row, "{}");
    pod.set(&["spec", "tolerations"], many(20_000, |i| object! { "key" => format!("k{i}"), "operator" => "Exists" }));
    pod.set(&["spec", "volumes"], many(20_000, |i| object! { "name" => format!("v{i}"), "emptyDir" => object! {} }));
    let ports =
        many(20_000, |i| object! { "containerPort" => 80, "hostPort" => 1 + (i % 60_000) as i64, "protocol" => "TCP" });
    pod.at_mut(&["spec", "containers"]).as_array_mut().expect("containers")[0].set(&["ports"], ports);
    let user = User::default();
    let cx = WriteContext {
        group: "",
        version: "v1",
        namespace: "n",
        subresource: "",
        user: &user,
        features: &Default::default(),
    };
    assert_eq!(texts(row.strategy.validate(&cx, &pod)), Vec::<String>::new());
    assert_eq!(texts(row.strategy.validate_update(&cx, &pod, &pod)), Vec::<String>::new());
    assert!(row.strategy.warnings_on_create(&pod).len() <= 200);
}
