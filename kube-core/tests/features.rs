//! What features change in what may be written: each is tried on and off.

use auth::User;
use generic_server::{
    features::{Features, gates::GATES},
    resource::{Resource, WriteContext},
};
use machinery::{Value, codec::json, schema::decode};

/// All features as they are by default, but for one.
fn features(gate: &str, on: bool) -> Features {
    let default = Features::default();
    let is_on = |name: &str| if name == gate { on } else { default.is_on(name) };
    GATES.iter().map(|gate| gate.name).filter(|name| is_on(name)).collect()
}

fn row(api_version: &str, plural: &str) -> Resource {
    let rows = kube_core::resources();
    let found = rows.into_iter().find(|row| row.api_version() == api_version && row.plural == plural);
    found.unwrap_or_else(|| panic!("{api_version} {plural}"))
}

fn read(text: &str) -> Value {
    json::decode(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// What becomes of an object that is created, and what is wrong with it.
fn create(features: &Features, row: &Resource, object: &str) -> (Value, Vec<String>) {
    let (mut object, _) = decode(&row.schema, read(object)).expect("the shape of the kind");
    let strategy = row.strategy.with_features(features).unwrap_or_else(|| row.strategy.clone());
    let user = User::default();
    let cx = WriteContext {
        group: &row.group,
        version: &row.version,
        namespace: "n",
        subresource: "",
        user: &user,
        features,
    };
    strategy.default(&mut object);
    strategy.prepare_create(&cx, &mut object);
    let errors = strategy.validate(&cx, &object).iter().map(ToString::to_string).collect();
    (object, errors)
}

/// A pod with one container, and more in its spec and in the container.
fn pod(spec: &str, container: &str) -> String {
    format!(r#"{{"metadata":{{"name":"p"}},"spec":{{"containers":[{{"name":"c","image":"i"{container}}}]{spec}}}}}"#)
}

#[test]
fn what_a_feature_allows_is_refused_without_it() {
    let check = |gate: &str, row: &Resource, object: &str, expect: &str| {
        let (_, errors) = create(&features(gate, true), row, object);
        assert_eq!(errors, [""; 0], "{gate} is on");
        let (_, errors) = create(&features(gate, false), row, object);
        assert_eq!(errors, [expect], "{gate} is off");
    };
    let pods = row("v1", "pods");
    let toleration = r#","tolerations":[{"key":"k","operator":"Gt","value":"7","effect":"NoSchedule"}]"#;
    check(
        "TaintTolerationComparisonOperators",
        &pods,
        &pod(toleration, ""),
        "spec.tolerations[0].operator: Unsupported value: \"Gt\": supported values: \"Equal\", \"Exists\", \"Lt\", \"Gt\"",
    );
    check(
        "SELinuxMount",
        &pods,
        &pod(r#","securityContext":{"seLinuxChangePolicy":"MountOption"}"#, ""),
        "spec.securityContext.seLinuxChangePolicy: Unsupported value: \"MountOption\": supported values: \"Recursive\"",
    );
    check(
        "UserNamespacesHostNetworkSupport",
        &pods,
        &pod(r#","hostUsers":false,"hostNetwork":true"#, ""),
        "spec.hostNetwork: Forbidden: when `hostUsers` is false",
    );
    let rule = r#","restartPolicy":"Never","restartPolicyRules":[{"action":"RestartAllContainers","exitCodes":{"operator":"In","values":[42]}}]"#;
    check(
        "RestartAllContainersOnContainerExits",
        &pods,
        &pod("", rule),
        "spec.containers[0].restartPolicyRules[0].action: Unsupported value: \"RestartAllContainers\": supported values: \
         \"Restart\"",
    );
    let autoscaler = r#"{"metadata":{"name":"a"},"spec":{"minReplicas":0,"maxReplicas":3,"scaleTargetRef":
        {"apiVersion":"apps/v1","kind":"Deployment","name":"d"},"metrics":[{"type":"External","external":
        {"metric":{"name":"m"},"target":{"type":"Value","value":"1"}}}]}}"#;
    check(
        "HPAScaleToZero",
        &row("autoscaling/v2", "horizontalpodautoscalers"),
        autoscaler,
        "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
    );
    let older_label = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
                       character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
                       validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
    check(
        "RelaxedServiceNameValidation",
        &row("networking.k8s.io/v1", "ingresses"),
        &ingress("1a"),
        &format!("spec.rules[0].http.paths[0].backend.service.name: Invalid value: \"1a\": {older_label}"),
    );
}

#[test]
fn what_a_feature_forbids_is_allowed_without_it() {
    let pods = row("v1", "pods");
    let text = pod("", "")
        .replace(r#""name":"p""#, r#""name":"p","annotations":{"controller.kubernetes.io/pod-deletion-cost":"x"}"#);
    let gate = "PodDeletionCost";
    let (_, errors) = create(&features(gate, true), &pods, &text);
    assert_eq!(
        errors,
        ["metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: \"x\": must be a 32bit \
          integer"]
    );
    assert_eq!(create(&features(gate, false), &pods, &text).1, [""; 0]);

    let services = row("v1", "services");
    let service = r#"{"metadata":{"name":"s"},"spec":{"ports":[{"port":80}],"externalIPs":["010.2.3.4"]}}"#;
    let gate = "StrictIPCIDRValidation";
    let (_, errors) = create(&features(gate, true), &services, service);
    assert_eq!(errors, ["spec.externalIPs[0]: Invalid value: \"010.2.3.4\": must not have leading 0s"]);
    assert_eq!(create(&features(gate, false), &services, service).1, [""; 0]);
}

/// An ingress with a backend of this name.
fn ingress(service: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"i"}},"spec":{{"rules":[{{"http":{{"paths":[{{"path":"/","pathType":"Exact","backend":
        {{"service":{{"name":"{service}","port":{{"number":80}}}}}}}}]}}}}]}}}}"#
    )
}

#[test]
fn services_and_their_ingresses_are_called_by_older_labels_without_the_feature() {
    let gate = "RelaxedServiceNameValidation";
    let services = row("v1", "services");
    let older = services.strategy.with_features(&features(gate, false)).expect("other rules");
    assert!(!(older.traits().names)("1a", false).is_empty() && (older.traits().names)("a1", false).is_empty());
    assert!(services.strategy.with_features(&features(gate, true)).is_none());
    assert!((services.strategy.traits().names)("1a", false).is_empty());

    let ingresses = row("networking.k8s.io/v1", "ingresses");
    let features = features(gate, false);
    let user = User::default();
    let cx = WriteContext {
        group: &ingresses.group,
        version: &ingresses.version,
        namespace: "n",
        subresource: "",
        user: &user,
        features: &features,
    };
    let errors = |new: &str, old: &str| {
        ingresses.strategy.validate_update(&cx, &read(&ingress(new)), &read(&ingress(old))).len()
    };
    assert_eq!(errors("1a", "a"), 1);
    assert_eq!(errors("2a", "1a"), 0, "it had such a name before");
}

#[test]
fn a_status_that_comes_with_a_range_stays_without_the_feature() {
    let ranges = row("networking.k8s.io/v1", "servicecidrs");
    let text = r#"{"metadata":{"name":"r"},"spec":{"cidrs":["10.0.0.0/24"]},"status":{"conditions":
        [{"type":"Ready","status":"True","reason":"r","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}"#;
    let conditions = |on: bool| {
        let (object, _) = create(&features("ServiceCIDRStatusFieldWiping", on), &ranges, text);
        object.at(&["status", "conditions"]).and_then(Value::as_array).map_or(0, <[_]>::len)
    };
    assert_eq!((conditions(true), conditions(false)), (0, 1));
}

#[test]
fn discovery_does_not_say_what_is_stored_without_the_feature() {
    let mut pods = row("v1", "pods");
    pods.show_hash(&features("StorageVersionHash", true));
    assert_eq!(pods.storage_version_hash.as_deref(), Some("xPOwRZ+Yhw8="));
    pods.show_hash(&features("StorageVersionHash", false));
    assert!(pods.is_stored() && pods.storage_version_hash.as_deref() == Some(""));
}

#[test]
fn members_of_a_feature_are_dropped_without_it() {
    let check = |gate: &str, row: &Resource, object: &str, path: &[&str]| {
        let member = |on: bool| {
            let (object, errors) = create(&features(gate, on), row, object);
            assert_eq!(errors, [""; 0], "{gate} {on}");
            let first = |value: &Value| value.as_array().map_or_else(|| value.clone(), |items| items[0].clone());
            path.iter().try_fold(object, |value, step| value.get(step).map(first))
        };
        assert!(member(true).is_some(), "{gate} is on");
        assert_eq!(member(false), None, "{gate} is off");
    };
    let pods = row("v1", "pods");
    let signal = pod(r#","os":{"name":"linux"}"#, r#","lifecycle":{"stopSignal":"SIGUSR1"}"#);
    check("ContainerStopSignals", &pods, &signal, &["spec", "containers", "lifecycle"]);
    let restart = pod("", r#","restartPolicy":"OnFailure""#);
    check("ContainerRestartRules", &pods, &restart, &["spec", "containers", "restartPolicy"]);
    check(
        "CrossNamespaceVolumeDataSource",
        &row("v1", "persistentvolumeclaims"),
        r#"{"metadata":{"name":"c"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},
            "dataSourceRef":{"apiGroup":"snapshot.storage.k8s.io","kind":"VolumeSnapshot","name":"s","namespace":"o"}}}"#,
        &["spec", "dataSourceRef"],
    );
    // What the feature brings by default is not there without it.
    check(
        "MaxUnavailableStatefulSet",
        &row("apps/v1", "statefulsets"),
        r#"{"metadata":{"name":"s"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
            "spec":{"containers":[{"name":"c","image":"i"}]}}}}"#,
        &["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"],
    );
    check(
        "VolumeLimitScaling",
        &row("storage.k8s.io/v1", "csidrivers"),
        r#"{"metadata":{"name":"d"},"spec":{}}"#,
        &["spec", "preventPodSchedulingIfMissing"],
    );
}

#[test]
fn numbers_that_tolerations_compare_are_written_as_people_write_them() {
    let pods = row("v1", "pods");
    let check = |value: &str, expect: &[&str]| {
        let toleration = format!(r#","tolerations":[{{"key":"k","operator":"Lt","value":"{value}"}}]"#);
        let (_, errors) = create(&features("TaintTolerationComparisonOperators", true), &pods, &pod(&toleration, ""));
        let expect: Vec<String> =
            expect.iter().map(|why| format!("spec.tolerations[0].value: Invalid value: \"{value}\": {why}")).collect();
        assert_eq!(errors, expect);
    };
    let odd = "must be a valid decimal integer in canonical form";
    for value in ["0", "-5", "1000"] {
        check(value, &[]);
    }
    check("007", &[odd]);
    check("-0", &[odd]);
    check("x", &[odd, "strconv.ParseInt: parsing \"x\": invalid syntax"]);
    check("", &["must be non-empty", "strconv.ParseInt: parsing \"\": invalid syntax"]);
    check("9223372036854775808", &["strconv.ParseInt: parsing \"9223372036854775808\": value out of range"]);
}
