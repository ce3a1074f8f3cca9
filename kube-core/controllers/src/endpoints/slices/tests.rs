//! What becomes of slices, as tables.

use machinery::{array, object};

use super::super::pod::Pod;
use super::{
    reconcile::{Zone, address_type, reconcile, recycle},
    *,
};

fn service(spec: Value) -> Service {
    Service(object! {
        "metadata" => object! { "name" => "s", "namespace" => "n", "uid" => "u", "labels" => object! { "app" => "web" } },
        "spec" => spec,
    })
}

fn web() -> Service {
    let ports = array![object! { "port" => 80, "targetPort" => "web", "protocol" => "TCP" }];
    service(object! { "clusterIP" => "10.0.0.1", "ipFamilies" => array!["IPv4"], "ports" => ports })
}

fn pod(number: usize, state: &str) -> Pod {
    pod_on(number, state, &format!("n{}", number % 2))
}

fn pod_on(number: usize, state: &str, node: &str) -> Pod {
    let ip = format!("10.1.{}.{}", number / 250, number % 250);
    let ready = object! { "type" => "Ready", "status" => if state == "pending" { "False" } else { "True" } };
    let ports = array![object! { "name" => "web", "containerPort" => 8080, "protocol" => "TCP" }];
    let name = format!("p{number:04}");
    let mut metadata = object! { "name" => name, "namespace" => "n", "uid" => format!("uid{number}") };
    if state == "terminating" {
        metadata.set(&["deletionTimestamp"], "2026-01-01T00:00:00Z");
    }
    Pod::of(&object! {
        "metadata" => metadata,
        "spec" => object! { "nodeName" => node, "containers" => array![object! { "ports" => ports }] },
        "status" => object! { "podIP" => ip.clone(), "podIPs" => array![object! { "ip" => ip }, object! { "ip" => format!("fd00::{number:x}") }], "conditions" => array![ready] },
    })
}

fn zone(node: &str) -> Option<Zone> {
    match node {
        "n0" => Some(Some("za".into())),
        "n1" => Some(Some("zb".into())),
        "bare" => Some(None),
        _ => None,
    }
}

/// What the plan makes of these slices: the writes are done, names are given.
fn done(plan: Plan, round: &str) -> Vec<Slice> {
    let mut all = plan.unchanged;
    all.extend(plan.update);
    for (i, mut slice) in plan.create.into_iter().enumerate() {
        slice.replace(&format!("s-{round}{i}"));
        all.push(slice);
    }
    all
}

fn plan(service: &Service, pods: &[Pod], slices: Vec<Slice>) -> Plan {
    let mut plan = reconcile(service, pods, &zone, slices, Family::V4);
    hints::apply(&mut plan, hints::wanted(service).map(|(distribution, _)| distribution));
    recycle(service, &mut plan);
    plan
}

fn sizes(slices: &[Slice]) -> Vec<usize> {
    let mut sizes: Vec<usize> = slices.iter().map(|slice| slice.endpoints.len()).collect();
    sizes.sort_unstable();
    sizes
}

fn writes(plan: &Plan) -> [usize; 3] {
    [plan.create.len(), plan.update.len(), plan.delete.len()]
}

#[test]
fn an_endpoint_tells_its_state_its_place_and_its_pod() {
    let service = web();
    let pods = [pod(0, "ready"), pod(1, "pending"), pod(2, "terminating")];
    let plan = plan(&service, &pods, Vec::new());
    let [slice] = plan.create.as_slice() else { panic!("one slice: {plan:?}") };
    let expect = object! {
        "generateName" => "s-", "namespace" => "n",
        "labels" => object! {
            "app" => "web", "kubernetes.io/service-name" => "s",
            "endpointslice.kubernetes.io/managed-by" => "endpointslice-controller.k8s.io",
        },
        "ownerReferences" => array![object! {
            "apiVersion" => "v1", "kind" => "Service", "name" => "s", "uid" => "u", "controller" => true,
            "blockOwnerDeletion" => true,
        }],
    };
    assert_eq!(slice.object.get("metadata"), Some(&expect));
    assert_eq!(slice.ports(), [object! { "name" => "", "port" => 8080, "protocol" => "TCP" }]);
    let endpoint = |number: usize, conditions: [bool; 3]| {
        object! {
            "addresses" => array![format!("10.1.0.{number}")],
            "conditions" => object! { "ready" => conditions[0], "serving" => conditions[1], "terminating" => conditions[2] },
            "nodeName" => format!("n{}", number % 2), "zone" => ["za", "zb"][number % 2],
            "targetRef" => object! { "kind" => "Pod", "namespace" => "n", "name" => format!("p{number:04}"), "uid" => format!("uid{number}") },
        }
    };
    let expect =
        [endpoint(0, [true, true, false]), endpoint(1, [false, false, false]), endpoint(2, [false, true, true])];
    assert_eq!(slice.endpoints, expect);
}

#[test]
fn slices_are_filled_before_new_ones_are_made_and_left_alone_if_they_are_right() {
    let service = web();
    let pods: Vec<Pod> = (0..250).map(|number| pod(number, "ready")).collect();
    let first = plan(&service, &pods, Vec::new());
    assert_eq!((writes(&first), first.added, &first.groups), ([3, 0, 0], 250, &vec![(250, 3)]));
    let slices = done(first, "a");
    assert_eq!(sizes(&slices), [50, 100, 100]);
    assert_eq!(writes(&plan(&service, &pods, slices.clone())), [0, 0, 0], "nothing is to be done twice");

    let more: Vec<Pod> = (0..260).map(|number| pod(number, "ready")).collect();
    let second = plan(&service, &more, slices);
    assert_eq!((writes(&second), second.added), ([0, 1, 0], 10), "there is room in one");
    let slices = done(second, "b");
    assert_eq!(sizes(&slices), [60, 100, 100]);

    // Ten go and thirty come: slices that change anyway take what they have room for.
    let other: Vec<Pod> = (10..290).map(|number| pod(number, "ready")).collect();
    let third = plan(&service, &other, slices);
    assert_eq!((writes(&third), third.added, third.removed), ([0, 2, 0], 30, 10));
    assert_eq!(sizes(&done(third, "c")), [80, 100, 100]);
}

#[test]
fn a_service_without_pods_keeps_one_empty_slice() {
    let service = web();
    let slices = done(plan(&service, &[pod(0, "ready")], Vec::new()), "a");
    let emptied = plan(&service, &[], slices);
    assert_eq!(writes(&emptied), [0, 1, 0], "the slice that would go becomes the empty one");
    let slices = done(emptied, "b");
    assert_eq!((sizes(&slices), slices[0].ports().len(), slices[0].name()), (vec![0], 0, "s-a0"));
    assert_eq!(writes(&plan(&service, &[], slices.clone())), [0, 0, 0]);
    let filled = plan(&service, &[pod(0, "ready")], slices);
    assert_eq!(writes(&filled), [0, 1, 0]);
}

#[test]
fn slices_of_an_earlier_service_of_that_name_are_not_taken_over() {
    let mut old = web();
    old.0.set(&["metadata", "uid"], "before");
    let slices = done(plan(&old, &[pod(0, "ready")], Vec::new()), "a");
    assert_eq!(writes(&plan(&web(), &[pod(0, "ready")], slices)), [1, 0, 1]);
}

#[test]
fn labels_follow_the_service() {
    let slices = done(plan(&web(), &[pod(0, "ready")], Vec::new()), "a");
    let mut service = web();
    service.0.set(&["metadata", "labels"], object! { "app" => "other", MANAGED_BY => "somebody" });
    let changed = plan(&service, &[pod(0, "ready")], slices);
    assert_eq!(writes(&changed), [0, 1, 0]);
    assert_eq!(changed.update[0].meta().label("app"), Some("other"));
    assert_eq!(changed.update[0].meta().label(MANAGED_BY), Some(CONTROLLER));
}

#[test]
fn pods_of_unknown_nodes_wait_unless_unready_ones_are_wanted_too() {
    let stray = || pod_on(1, "pending", "nowhere");
    let found = plan(&web(), &[pod(0, "ready"), stray()], Vec::new());
    assert_eq!(found.errors, ["skipping Pod p0001 for Service n/s: Node nowhere Not Found"]);
    assert_eq!(sizes(&found.create), [1]);
    let mut all = web();
    all.0.set(&["spec", "publishNotReadyAddresses"], true);
    let found = plan(&all, &[stray()], Vec::new());
    assert!(found.errors.is_empty());
    assert_eq!(found.create[0].endpoints[0].at(&["conditions", "ready"]), Some(&Value::Bool(true)));
    assert_eq!(found.create[0].endpoints[0].at(&["conditions", "serving"]), Some(&Value::Bool(false)));
}

#[test]
fn each_family_has_slices_of_its_own() {
    let mut service = web();
    service.0.set(&["spec", "ipFamilies"], array!["IPv6", "IPv4"]);
    let families = reconcile::families(&service);
    assert_eq!(families.iter().map(|family| address_type(*family)).collect::<Vec<_>>(), ["IPv6", "IPv4"]);
    let six = reconcile(&service, &[pod(7, "ready")], &zone, Vec::new(), Family::V6);
    assert_eq!(six.create[0].address_type(), "IPv6");
    assert_eq!(six.create[0].endpoints[0].get("addresses"), Some(&array!["fd00::7"]));
    let slices = done(six, "a");
    let (mine, others) = reconcile::by_family(slices, &[Family::V4]);
    assert_eq!((mine[0].len(), others.len()), (0, 1), "what no family has is deleted");
}

#[test]
fn hints_are_the_nearest_places_of_ready_endpoints() {
    let with = |distribution: &str| {
        let mut service = web();
        service.0.set(&["spec", "trafficDistribution"], distribution);
        service
    };
    let name = |name: &str| array![object! { "name" => name }];
    let pods = [pod(0, "ready"), pod(1, "pending")];
    let check = |slices: Vec<Slice>, distribution: &str, expect: Option<Value>| {
        let planned = plan(&with(distribution), &pods, slices);
        let slices = done(planned, "a");
        assert_eq!(slices[0].endpoints[0].get("hints").cloned(), expect, "{distribution}");
        assert_eq!(writes(&plan(&with(distribution), &pods, slices.clone())), [0, 0, 0], "{distribution}");
        slices
    };
    let slices = check(Vec::new(), "PreferClose", Some(object! { "forZones" => name("za") }));
    assert!(slices[0].endpoints[1].get("hints").is_none());
    let slices = check(slices, "PreferSameNode", Some(object! { "forZones" => name("za"), "forNodes" => name("n0") }));
    let slices = check(slices, "PreferSameZone", Some(object! { "forZones" => name("za") }));
    check(slices, "", None);
}

#[test]
fn zones_get_their_share_by_their_processors() {
    let node = |zone: &str, cpu: &str| {
        let ready = array![object! { "type" => "Ready", "status" => "True" }];
        object! {
            "metadata" => object! { "labels" => object! { topology::ZONE => zone } },
            "status" => object! { "allocatable" => object! { "cpu" => cpu }, "conditions" => ready },
        }
    };
    let key = Key { namespace: "n".into(), name: "s".into() };
    let mut topology = Topology::default();
    let pods: Vec<Pod> = (0..8).map(|number| pod(number, "ready")).collect();
    let fresh = || reconcile(&web(), &pods, &zone, Vec::new(), Family::V4);
    let zones = |plan: &Plan| {
        let endpoints = plan.create.iter().flat_map(|slice| &slice.endpoints);
        endpoints.filter(|e| e.at(&["hints", "forZones"]) == Some(&array![object! { "name" => "za" }])).count()
    };
    let mut unknown = fresh();
    let event = topology.apply(&key, &mut unknown, Family::V4).expect("an event");
    let why =
        "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes, addressType: IPv4";
    assert_eq!(event, ("Warning", "TopologyAwareHintsDisabled", why.to_owned()));

    topology.set_nodes(&[node("za", "2"), node("zb", "2")]);
    let mut even = fresh();
    let event = topology.apply(&key, &mut even, Family::V4).expect("an event");
    assert_eq!((event.1, zones(&even)), ("TopologyAwareHintsEnabled", 4));
    assert!(topology.apply(&key, &mut fresh(), Family::V4).is_none(), "it is said once");
    assert!(topology.overloaded().is_empty());

    topology.set_nodes(&[node("za", "6"), node("zb", "2")]);
    assert_eq!(topology.overloaded(), std::slice::from_ref(&key));
    let mut uneven = fresh();
    topology.apply(&key, &mut uneven, Family::V4);
    assert_eq!(zones(&uneven), 6);
    assert!(topology.turn_off(&key, Family::V4).is_some() && topology.turn_off(&key, Family::V4).is_none());
}
