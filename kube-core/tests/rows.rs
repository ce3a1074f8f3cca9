//! The rows say what the real server's discovery says. `discovery.tsv` holds the facts, one resource or subresource a line.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use generic_server::{
    discovery::{Documents, Resources, groups_of},
    features::{GateState, Versions},
    registry::RegistrySettings,
    resource::{Emulation, Enablement, Resource, SubresourceKind},
};
use machinery::{Value, codec::json, patch::apply::ResetFields};

/// Group version, name and the facts in discovery's words.
fn facts() -> BTreeMap<(String, String), Value> {
    let text = include_str!("discovery.tsv");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split('\t').collect();
            let [group_version, name, singular, kind, other, scope, verbs, short, categories, hash] = cells[..] else {
                panic!("ten cells a line: {line}");
            };
            let list = |text: &str| text.split(',').filter(|s| !s.is_empty()).map(Value::from).collect::<Value>();
            let mut fact = machinery::object! {
                "name" => name,
                "singularName" => singular,
                "kind" => kind,
                "namespaced" => scope == "Namespaced",
                "verbs" => list(verbs),
            };
            if let Some((group, version)) = other.split_once('/') {
                fact.set(&["group"], group);
                fact.set(&["version"], version);
            }
            for (key, value) in [("shortNames", list(short)), ("categories", list(categories))] {
                if value.as_array().is_some_and(|v| !v.is_empty()) {
                    fact.set(&[key], value);
                }
            }
            if !hash.is_empty() {
                fact.set(&["storageVersionHash"], hash);
            }
            ((group_version.to_owned(), name.to_owned()), fact)
        })
        .collect()
}

#[test]
fn discovery_made_from_the_rows_says_what_the_real_server_says() {
    let rows = kube_core::resources();
    let mut made = BTreeMap::new();
    for row in &rows {
        for entry in Resources::from_rows([row]).list.as_array().expect("a list") {
            let name = entry.str_at(&["name"]).expect("a name").to_owned();
            assert!(made.insert((row.api_version().to_string(), name), entry.clone()).is_none(), "{row:?} twice");
        }
    }
    let facts = facts();
    for (key, fact) in &facts {
        assert_eq!(made.get(key), Some(fact), "{key:?}");
    }
    assert_eq!(made.len(), facts.len());
}

#[test]
fn alpha_and_beta_versions_are_served_where_they_are_asked_for() {
    let served = |pairs: &[(&str, &str)], gates: &[&'static str]| -> Vec<String> {
        let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let apis = Enablement::parse(&pairs).expect("versions that there are");
        let settings =
            RegistrySettings { apis, features: gates.iter().copied().collect(), ..RegistrySettings::default() };
        let rows = kube_core::resources();
        let rows = rows.iter().filter(|row| settings.serves(row) && Enablement::is_off_by_default(&row.version));
        rows.map(|row| format!("{}/{}", row.api_version(), row.plural)).collect()
    };
    assert_eq!(served(&[], &["ClusterTrustBundle"]), [""; 0]);
    let all = &[("api/all", "true")];
    let of_certificates = |served: Vec<String>| served.into_iter().filter(|r| r.starts_with("certificates")).collect();
    let found: Vec<String> = of_certificates(served(all, &[]));
    assert_eq!(found, [""; 0]);
    let found: Vec<String> = of_certificates(served(all, &["ClusterTrustBundle"]));
    assert_eq!(
        found,
        ["certificates.k8s.io/v1beta1/clustertrustbundles", "certificates.k8s.io/v1alpha1/clustertrustbundles"]
    );
    let one = &[("resource.k8s.io/v1alpha3/devicetaintrules", "true")];
    assert_eq!(served(one, &[]), ["resource.k8s.io/v1alpha3/devicetaintrules"]);
}

#[test]
fn a_server_that_behaves_like_an_older_version_serves_what_the_real_one_does() {
    let facts = include_str!("emulated.tsv").lines().filter(|line| !line.starts_with('#'));
    let mut expected: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (flags, resource) in facts.map(|line| line.split_once('\t').expect("two cells a line")) {
        expected.entry(flags).or_default().insert(resource);
    }
    for (flags, expected) in expected {
        let mut words = flags.split(' ');
        let minor =
            words.next().and_then(|word| word.strip_prefix("1.")).and_then(|word| word.parse().ok()).expect("1.x");
        let words: Vec<&str> = words.collect();
        let pairs = words.iter().filter(|word| word.starts_with("api/"));
        let pairs = pairs.map(|word| ((*word).to_owned(), "true".to_owned())).collect();
        let features =
            GateState::new(Versions::emulating(minor), &BTreeMap::new()).expect("as it is by default").features();
        let is_on = |row: &Resource| row.availability.gate.is_none_or(|gate| features.is_on(gate));
        let rows: Vec<Resource> = kube_core::resources().into_iter().filter(is_on).collect();
        let emulation = Emulation { minor, forward: words.contains(&"forward"), named_forward: false };
        let apis = Enablement::parse(&pairs).expect("classes").emulating(emulation, &rows).expect("may be served");
        let served = rows.iter().filter(|row| !row.group.is_empty() && apis.serves(row));
        let served: BTreeSet<String> = served.map(|row| format!("{}/{}", row.api_version(), row.plural)).collect();
        assert_eq!(served.iter().map(String::as_str).collect::<BTreeSet<_>>(), expected, "{flags}");
    }
}

#[test]
fn a_server_that_behaves_like_an_older_version_serves_what_that_had() {
    let served = |minor: u32, pairs: &[(&str, &str)], forward: bool, named_forward: bool| {
        let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let rows = kube_core::resources();
        let emulation = Emulation { minor, forward, named_forward };
        let apis = Enablement::parse(&pairs).expect("versions that there are").emulating(emulation, &rows);
        let apis = apis.map_err(|why| why.to_string())?;
        let served = rows.iter().filter(|row| apis.serves(row));
        Ok::<_, String>(served.map(|row| format!("{}/{}", row.api_version(), row.plural)).collect::<Vec<_>>())
    };
    let has = |served: &[String], row: &str| served.iter().any(|known| known == row);
    let check = |minor: u32, pairs: &[(&str, &str)], forward: bool, row: &str, expect: bool| {
        let served = served(minor, pairs, forward, false).expect("may be served");
        assert_eq!(has(&served, row), expect, "1.{minor} {pairs:?} {row}");
    };
    let (claims, beta2) = ("resource.k8s.io/v1/resourceclaims", "resource.k8s.io/v1beta2/resourceclaims");
    check(33, &[], false, "v1/pods", true);
    check(33, &[], false, claims, false);
    check(34, &[], false, claims, true);
    check(33, &[("api/beta", "true")], false, beta2, true);
    check(33, &[("api/beta", "true")], false, claims, false);
    check(33, &[("api/beta", "true")], true, claims, true);
    check(33, &[], true, claims, false);
    // Of an older version that is served, newer ones are; but nothing that is said to be off.
    check(33, &[("resource.k8s.io/v1beta1", "true")], false, beta2, false);
    check(33, &[("resource.k8s.io/v1beta1", "true")], true, beta2, true);
    let without = [("resource.k8s.io/v1beta1", "true"), ("resource.k8s.io/v1beta2", "false")];
    check(33, &without, true, beta2, false);
    let policies = "admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
    check(35, &[("api/alpha", "true")], true, policies, false);
    check(35, &[("api/beta", "true")], true, policies, true);

    let named = [("resource.k8s.io/v1/resourceclaims", "true")];
    assert_eq!(
        served(33, &named, false, false),
        Err("cannot enable resource resource.k8s.io/v1, Resource=resourceclaims in runtime-config because it is introduced \
             at 1.34 after the current version 1.33. Consider setting \
             --runtime-config-emulation-forward-compatible=true"
            .to_owned())
    );
    assert!(has(&served(33, &named, false, true).expect("may be served"), claims));
    let version = [("storagemigration.k8s.io/v1beta1", "true")];
    assert_eq!(
        served(34, &version, false, false),
        Err("cannot enable version storagemigration.k8s.io/v1beta1 in runtime-config because all the resources have been \
             introduced after the current version 1.34. Consider setting \
             --runtime-config-emulation-forward-compatible=true"
            .to_owned())
    );
    assert_eq!(
        served(34, &version, false, true).expect("may be served").len(),
        served(34, &[], false, true).expect("may be served").len() + 1
    );
}

#[test]
fn documents_list_groups_and_versions_in_upstreams_order() {
    let rows: Vec<Resource> = on_by_default();
    let documents = Documents::new(&groups_of(&rows));
    let names = |list: &Value, name: &[&str]| -> Vec<String> {
        list.as_array().unwrap_or_default().iter().map(|g| g.str_at(name).unwrap_or_default().to_owned()).collect()
    };
    let group_list = documents.group_list().value();
    let groups = group_list.get("groups").expect("groups");
    assert_eq!(
        names(groups, &["name"]),
        [
            "apps",
            "events.k8s.io",
            "authentication.k8s.io",
            "authorization.k8s.io",
            "autoscaling",
            "batch",
            "certificates.k8s.io",
            "networking.k8s.io",
            "policy",
            "rbac.authorization.k8s.io",
            "storage.k8s.io",
            "admissionregistration.k8s.io",
            "scheduling.k8s.io",
            "coordination.k8s.io",
            "node.k8s.io",
            "discovery.k8s.io",
            "resource.k8s.io",
            "flowcontrol.apiserver.k8s.io",
        ]
    );
    let autoscaling = documents.group("autoscaling").expect("served").value();
    assert_eq!(names(autoscaling.get("versions").expect("versions"), &["version"]), ["v2", "v1"]);
    assert_eq!(autoscaling.str_at(&["preferredVersion", "groupVersion"]), Some("autoscaling/v2"));
    let aggregated = documents.aggregated_groups();
    assert_eq!(names(aggregated.value().get("items").expect("items"), &["metadata", "name"]), names(groups, &["name"]));
    let core = documents.aggregated_core().value();
    let core = core.at(&["items"]).and_then(Value::as_array).expect("items");
    assert_eq!(core.len(), 1);
    assert_eq!(core[0].get("metadata"), Some(&Value::object()));
    let text: Vec<u8> = aggregated.json().iter().flat_map(|piece| piece.text()).collect();
    assert_eq!(json::decode(&text).expect("valid JSON"), aggregated.value());
    assert_eq!(aggregated.etag().len(), 130);
    assert_eq!(documents.resources("", "v1").expect("served").value().get("apiVersion"), None);
    assert_eq!(documents.resources("apps", "v1").expect("served").value().str_at(&["apiVersion"]), Some("v1"));
    assert!(documents.group("").is_none() && documents.resources("apps", "v2").is_none());
}

#[test]
fn the_aggregated_form_leaves_out_the_group_and_version_of_a_built_in_kind() {
    let rows = kube_core::resources();
    let pods = rows.iter().find(|r| r.plural == "pods").expect("pods are served");
    let aggregated = Resources::from_rows([pods]).aggregated;
    let pods = &aggregated.as_array().expect("a list")[0];
    let expect = machinery::object! { "group" => "", "version" => "", "kind" => "Pod" };
    assert_eq!(pods.get("responseKind"), Some(&expect));
    let eviction = pods.get("subresources").and_then(Value::as_array).expect("subresources").iter();
    let eviction = eviction.filter(|s| s.str_at(&["subresource"]) == Some("eviction")).collect::<Vec<_>>();
    let expect = machinery::object! { "group" => "policy", "version" => "v1", "kind" => "Eviction" };
    assert_eq!(eviction[0].get("responseKind"), Some(&expect));
}

/// The rows that are served when nothing is said.
fn on_by_default() -> Vec<Resource> {
    let settings = RegistrySettings::default();
    kube_core::resources().into_iter().filter(|row| settings.serves(row)).collect()
}

fn row<'a>(rows: &'a [Resource], plural: &str, group: &str) -> &'a Resource {
    rows.iter().find(|r| r.plural == plural && r.group == group).expect("served")
}

#[test]
fn objects_are_stored_where_an_existing_etcd_has_them() {
    let rows = kube_core::resources();
    let check = |group: &str, plural: &str, path: &str, version: (&str, &str)| {
        let row = row(&rows, plural, group);
        assert_eq!(row.storage_path, path, "{row:?}");
        assert_eq!((row.storage_version.group.as_str(), row.storage_version.version.as_str()), version, "{row:?}");
    };
    check("", "pods", "pods", ("", "v1"));
    check("", "nodes", "minions", ("", "v1"));
    check("", "replicationcontrollers", "controllers", ("", "v1"));
    check("", "services", "services/specs", ("", "v1"));
    check("", "endpoints", "services/endpoints", ("", "v1"));
    check("events.k8s.io", "events", "events", ("", "v1"));
    check("networking.k8s.io", "ingresses", "ingress", ("networking.k8s.io", "v1"));
    check("autoscaling", "horizontalpodautoscalers", "horizontalpodautoscalers", ("autoscaling", "v2"));
    let policies = "mutatingadmissionpolicies";
    check("admissionregistration.k8s.io", policies, policies, ("admissionregistration.k8s.io", "v1beta1"));
}

#[test]
fn only_a_row_of_another_version_than_the_stored_one_converts() {
    for row in kube_core::resources() {
        let stored = row.is_storage_version();
        assert_eq!(row.conversion.is_none(), stored, "{row:?}");
    }
}

#[test]
fn storage_paths_are_shared_by_versions_of_one_resource_alone() {
    let mut paths: BTreeMap<String, HashSet<(String, String)>> = BTreeMap::new();
    for row in kube_core::resources().iter().filter(|r| r.is_stored()) {
        let stored = (row.storage_version.group.to_string(), row.kind.to_string());
        paths.entry(row.storage_path.to_string()).or_default().insert(stored);
    }
    for (path, kinds) in paths {
        assert_eq!(kinds.len(), 1, "{path}: {kinds:?}");
    }
}

#[test]
fn kinds_know_their_fields_and_refuse_others_in_upstreams_words() {
    let rows = kube_core::resources();
    let check = |group: &str, plural: &str, field: &str, refusal: Option<&str>| {
        assert_eq!(row(&rows, plural, group).refuse_field(field).as_deref(), refusal, "{plural} {field}");
    };
    let only = "\"data.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"";
    check("", "configmaps", "data.x", Some(only));
    check("", "configmaps", "metadata.namespace", None);
    check("", "persistentvolumes", "metadata.namespace", None);
    check("", "namespaces", "metadata.namespace", Some("field label not supported: metadata.namespace"));
    check("", "nodes", "spec.podCIDR", Some("field label not supported: spec.podCIDR"));
    check("", "pods", "spec.nodeName", None);
    check("batch", "jobs", "status.failed", Some("field label \"status.failed\" not supported for Job"));
    check("events.k8s.io", "events", "involvedObject.name", Some("field label not supported: involvedObject.name"));
    check("events.k8s.io", "events", "regarding.name", None);
    let slices = "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: spec.pool.name";
    check("resource.k8s.io", "resourceslices", "spec.pool.name", Some(slices));
}

#[test]
fn a_field_that_an_object_lacks_has_its_default() {
    let rows = kube_core::resources();
    let check = |group: &str, plural: &str, field: &str, object: &str, value: &str| {
        let object = json::decode(object.as_bytes()).expect("valid JSON");
        let row = row(&rows, plural, group);
        let field = row.selectable_fields.iter().find(|f| f.name == field).expect("known");
        assert_eq!(field.value(&object), value);
    };
    check("", "nodes", "spec.unschedulable", "{}", "false");
    check("", "nodes", "spec.unschedulable", r#"{"spec":{"unschedulable":true}}"#, "true");
    check("batch", "jobs", "status.successful", r#"{"status":{"succeeded":3}}"#, "3");
    check("batch", "jobs", "status.successful", "{}", "0");
    check("", "pods", "spec.nodeName", "{}", "");
    check("", "events", "source", r#"{"source":{},"reportingComponent":"ctl"}"#, "ctl");
    check("", "events", "source", r#"{"source":{"component":"kubelet"},"reportingComponent":"ctl"}"#, "kubelet");
}

#[test]
fn nobody_comes_to_own_what_an_update_of_a_status_leaves_alone() {
    let alone: &[&[&str]] = &[&["metadata"], &["spec"]];
    let others: [(&str, &str, &[&[&str]]); 14] = [
        ("", "pods", &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]]),
        ("apps", "deployments", &[&["spec"], &["metadata", "labels"]]),
        ("certificates.k8s.io", "certificatesigningrequests", &[&["spec"], &["status", "conditions"]]),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies", alone),
        ("flowcontrol.apiserver.k8s.io", "flowschemas", alone),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations", alone),
        ("networking.k8s.io", "servicecidrs", alone),
        ("resource.k8s.io", "resourceclaims", alone),
        ("storage.k8s.io", "volumeattachments", alone),
        ("resource.k8s.io", "devicetaintrules", alone),
        ("resource.k8s.io", "resourcepoolstatusrequests", alone),
        ("internal.apiserver.k8s.io", "storageversions", alone),
        ("scheduling.k8s.io", "podgroups", alone),
        ("storagemigration.k8s.io", "storageversionmigrations", alone),
    ];
    for row in kube_core::resources().iter().filter(|row| row.subresource("status").is_some()) {
        let other = others.iter().find(|(group, plural, _)| row.group == *group && row.plural == *plural);
        let left: &[&[&str]] = other.map_or(&[&["spec"]], |(.., left)| left);
        let found = row.strategy.reset_fields(&row.version, "status");
        assert_eq!(found, ResetFields::exclude(left), "{row:?}");
    }
}

#[test]
fn scale_subresources_say_where_their_numbers_are() {
    let rows = kube_core::resources();
    let scaled: Vec<String> = rows
        .iter()
        .filter(|r| r.subresources.iter().any(|s| matches!(s.kind, SubresourceKind::Scale { .. })))
        .map(|r| r.qualified().to_string())
        .collect();
    assert_eq!(scaled, ["replicationcontrollers", "deployments.apps", "replicasets.apps", "statefulsets.apps"]);
}
