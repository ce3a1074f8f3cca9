//! What holds of patches and of applied configurations for any document, patch and configuration.

use std::time::{Duration, Instant};

use machinery::codec::json;
use machinery::meta::GroupVersionKind;
use machinery::patch::apply::{self, FieldSet, OneVersion, ResetFields, Write};
use machinery::patch::{json_patch, merge, strategic};
use machinery::schema::{Schema, builtin};
use machinery::{Map, Str, Value, array, object};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

const NOW: &str = "2026-01-02T03:04:05Z";

fn schema() -> &'static Schema {
    builtin::schema_of("", "v1", "Pod").expect("a built-in type")
}

/// Runs as a manager that writes pods.
fn as_manager<T>(manager: &str, run: impl FnOnce(&Write<'_>) -> T) -> T {
    let kind = GroupVersionKind::new("", "v1", "Pod");
    let reset = ResetFields::exclude(&[&["status"]]);
    run(&Write { manager, subresource: "", kind: &kind, now: NOW, reset: &reset, versions: &OneVersion })
}

fn apply_pod(live: Option<&Value>, config: &Value, manager: &str, force: bool) -> Result<Value, apply::ApplyError> {
    as_manager(manager, |write| apply::apply(live, config, schema(), write, force))
}

fn without_managers(mut object: Value) -> Value {
    object.remove_at(&["metadata", "managedFields"]);
    object
}

fn object_of(members: Vec<(&str, Option<Value>)>) -> Value {
    Value::Object(members.into_iter().filter_map(|(k, v)| Some((Str::from(k), v?))).collect())
}

/// Nothing, or what the strategy makes.
fn maybe(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Option<Value>> {
    proptest::option::of(inner)
}

/// One of a few texts, so that two documents have some in common.
fn word() -> impl Strategy<Value = &'static str> {
    select(vec!["a", "b", "c", "d"])
}

fn words() -> impl Strategy<Value = Value> {
    subsequence(vec!["a", "b", "c", "d"], 0..4).prop_map(|all| all.into_iter().map(Value::from).collect())
}

fn texts() -> impl Strategy<Value = Value> {
    btree_map(word(), word(), 1..4)
        .prop_map(|m| Value::Object(m.into_iter().map(|(k, v)| (Str::from(k), Value::from(v))).collect()))
}

/// A list of objects that differ in the member `key`.
fn keyed(key: &'static str, item: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    btree_map(word(), item, 1..4).prop_map(move |items| {
        let with_key = |(name, mut item): (&str, Value)| {
            item.set(&[key], name);
            item
        };
        items.into_iter().map(with_key).collect()
    })
}

fn env() -> impl Strategy<Value = Value> {
    keyed("name", maybe(word().prop_map(Value::from)).prop_map(|value| object_of(vec![("value", value)])))
}

/// Ports of different numbers: strategic merge knows them by the number alone.
fn ports() -> impl Strategy<Value = Value> {
    let rest = (select(vec!["TCP", "UDP"]), maybe(word().prop_map(Value::from)));
    btree_map(1i64..4, rest, 1..4).prop_map(|ports| {
        let port = |(port, (protocol, name))| {
            object_of(vec![
                ("containerPort", Some(Value::Int(port))),
                ("protocol", Some(Value::from(protocol))),
                ("name", name),
            ])
        };
        ports.into_iter().map(port).collect()
    })
}

fn containers() -> impl Strategy<Value = Value> {
    let parts = (maybe(word().prop_map(Value::from)), maybe(words()), maybe(env()), maybe(ports()));
    keyed(
        "name",
        parts.prop_map(|(image, args, env, ports)| {
            object_of(vec![("image", image), ("args", args), ("env", env), ("ports", ports)])
        }),
    )
}

/// Parts of a pod that fit its type.
fn pod() -> impl Strategy<Value = Value> {
    let metadata = (maybe(texts()), maybe(texts()), maybe(words()));
    let spec = (
        maybe(containers()),
        maybe(texts()),
        maybe((0i64..3).prop_map(Value::Int)),
        maybe(word().prop_map(Value::from)),
    );
    (metadata, spec).prop_map(|((labels, annotations, finalizers), (containers, selector, grace, node))| {
        let metadata = object_of(vec![
            ("name", Some(Value::from("p"))),
            ("labels", labels),
            ("annotations", annotations),
            ("finalizers", finalizers),
        ]);
        let spec = object_of(vec![
            ("containers", containers),
            ("nodeSelector", selector),
            ("terminationGracePeriodSeconds", grace),
            ("nodeName", node),
        ]);
        object! { "apiVersion" => "v1", "kind" => "Pod", "metadata" => metadata, "spec" => spec }
    })
}

/// Values of any shape, made of the names that pods and directives use.
fn wild() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<f64>().prop_filter("JSON has no others", |f| f.is_finite()).prop_map(Value::Float),
        select(vec!["", "a", "b", "delete", "replace", "merge", "TCP", "v1", "Pod", "1Gi", NOW]).prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 60, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(|items| items.into_iter().collect::<Value>()),
            vec((member(), inner), 0..5).prop_map(|members| {
                Value::Object(members.into_iter().map(|(k, v)| (Str::from(k), v)).collect::<Map>())
            }),
        ]
    })
}

fn member() -> impl Strategy<Value = &'static str> {
    select(vec![
        "metadata",
        "spec",
        "status",
        "labels",
        "finalizers",
        "ownerReferences",
        "uid",
        "containers",
        "name",
        "image",
        "args",
        "env",
        "value",
        "valueFrom",
        "ports",
        "containerPort",
        "protocol",
        "resources",
        "limits",
        "cpu",
        "volumes",
        "emptyDir",
        "tolerations",
        "topologySpreadConstraints",
        "managedFields",
        "creationTimestamp",
        "a",
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "$setElementOrder/ports",
        "$setElementOrder/finalizers",
        "$deleteFromPrimitiveList/finalizers",
        "$deleteFromPrimitiveList/args",
        "$setElementOrder/",
        "$x",
    ])
}

/// A wild value at a place where a pod has something else.
fn disturbed(base: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let place = select(vec![
        vec!["metadata"],
        vec!["metadata", "managedFields"],
        vec!["metadata", "finalizers"],
        vec!["metadata", "ownerReferences"],
        vec!["spec"],
        vec!["spec", "containers"],
        vec!["spec", "$setElementOrder/containers"],
        vec!["spec", "tolerations"],
        vec!["status"],
    ]);
    (base, place, wild()).prop_map(|(mut value, place, part)| {
        value.set(&place, part);
        value
    })
}

fn document() -> impl Strategy<Value = Value> {
    prop_oneof![pod(), disturbed(pod()), disturbed(disturbed(pod())), wild()]
}

/// Operations of JSON patch, most of them well formed.
fn operations() -> impl Strategy<Value = Value> {
    let step = prop_oneof![
        member().prop_map(str::to_owned),
        Just("-".to_owned()),
        (-2i64..4).prop_map(|i| i.to_string()),
        Just("a~1b~0~2".to_owned()),
    ];
    let pointer = vec(step, 0..5).prop_map(|steps| steps.iter().map(|s| format!("/{s}")).collect::<String>());
    let op = select(vec!["add", "remove", "replace", "move", "copy", "test", "none"]);
    let one = (op, pointer.clone(), pointer, maybe(wild())).prop_map(|(op, path, from, value)| {
        object_of(vec![
            ("op", Some(Value::from(op))),
            ("path", Some(Value::from(path))),
            ("from", Some(Value::from(from))),
            ("value", value),
        ])
    });
    vec(prop_oneof![9 => one, 1 => wild()], 0..8).prop_map(|all| all.into_iter().collect())
}

/// Sets of fields, by their stored form.
fn field_set() -> impl Strategy<Value = FieldSet> {
    let key = select(vec![
        ".",
        "f:a",
        "f:b",
        "f:c",
        "k:{\"name\":\"a\"}",
        "k:{\"name\":\"b\"}",
        "v:\"a\"",
        "v:1",
        "i:0",
        "i:1",
    ]);
    let fields = Just(Value::object()).prop_recursive(4, 24, 4, move |inner| {
        vec((key.clone(), inner), 0..5).prop_map(|members| {
            let below = |(k, v)| (Str::from(k), if k == "." { Value::object() } else { v });
            Value::Object(members.into_iter().map(below).collect())
        })
    });
    fields.prop_map(|fields| FieldSet::from_value(&fields).expect("its elements are well formed"))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_patch_panics(doc in document(), patch in document(), operations in operations()) {
        let _ = json_patch::apply(&doc, &operations);
        let _ = json_patch::strict_errors(&operations);
        let _ = json_patch::apply(&doc, &patch);
        let _ = merge::apply(&doc, &patch);
        let _ = strategic::apply(&doc, &patch, schema());
    }

    #[test]
    fn no_configuration_panics(live in document(), config in document(), new in document(), force: bool) {
        let _ = apply_pod(Some(&live), &config, "a", force);
        let _ = apply_pod(None, &config, "a", force);
        let mut new = new;
        as_manager("a", |write| apply::track_update(Some(&live), &mut new, schema(), write));
        as_manager("b", |write| apply::track_update(None, &mut new, schema(), write));
        apply::keep_times(&live, &mut new);
    }

    #[test]
    fn merging_again_changes_nothing(doc in wild(), patch in wild()) {
        // A list that replaces an object keeps its nulls, and loses them when it replaces itself: twice, then.
        let twice = merge::apply(&doc, &patch).and_then(|once| merge::apply(&once, &patch));
        if let Ok(twice) = twice {
            prop_assert_eq!(merge::apply(&twice, &patch), Ok(twice));
        }
    }

    #[test]
    fn a_strategic_merge_of_parts_has_them_all(doc in pod(), patch in pod()) {
        let once = strategic::apply(&doc, &patch, schema()).expect("both fit the type");
        prop_assert_eq!(&strategic::apply(&once, &patch, schema()), &Ok(once.clone()));
        prop_assert_eq!(strategic::apply(&doc, &Value::object(), schema()), Ok(doc));
        let selector = ["spec", "nodeSelector"];
        for (key, value) in patch.at(&selector).and_then(Value::as_object).into_iter().flat_map(Map::iter) {
            prop_assert_eq!(once.at(&["spec", "nodeSelector", key]), Some(value));
        }
    }

    #[test]
    fn what_is_added_is_there_and_can_be_removed(doc in pod(), value in wild()) {
        let add = Value::from(vec![
            object! { "op" => "add", "path" => "/spec/new", "value" => value.clone() },
            object! { "op" => "test", "path" => "/spec/new", "value" => value },
        ]);
        let added = json_patch::apply(&doc, &add).expect("the specification is there");
        let remove = Value::from(vec![object! { "op" => "remove", "path" => "/spec/new" }]);
        prop_assert_eq!(json_patch::apply(&added, &remove), Ok(doc));
    }

    #[test]
    fn applying_twice_is_applying_once(live in pod(), config in pod()) {
        let once = apply_pod(Some(&live), &config, "a", true).expect("both fit the type, by force");
        prop_assert_eq!(apply_pod(Some(&once), &config, "a", false), Ok(once.clone()));
        // Whoever applies the same shares it.
        let shared = apply_pod(Some(&once), &config, "b", false).expect("nothing changes");
        prop_assert_eq!(without_managers(shared), without_managers(once));
    }

    #[test]
    fn what_is_applied_is_there(live in pod(), config in pod()) {
        let merged = without_managers(apply_pod(Some(&live), &config, "a", true).expect("both fit the type, by force"));
        let again = strategic::apply(&merged, &config, schema()).expect("both fit the type");
        for path in [&["metadata", "labels"], &["metadata", "annotations"], &["spec", "nodeSelector"]] {
            prop_assert_eq!(again.at(path), merged.at(path));
        }
        prop_assert!(config.at(&["spec", "nodeName"]).is_none_or(|node| merged.at(&["spec", "nodeName"]) == Some(node)));
    }

    #[test]
    fn what_nobody_applies_any_more_goes(config in pod(), other in pod()) {
        let bare = object! { "apiVersion" => "v1", "kind" => "Pod", "metadata" => object! { "name" => "p" } };
        let created = apply_pod(None, &config, "a", false).expect("it fits the type");
        let emptied = without_managers(apply_pod(Some(&created), &bare, "a", false).expect("it fits the type"));
        let left = |part: &str, key: &str| emptied.at(&[part, key]).is_none_or(|v| *v == Value::object() || *v == array![]);
        for (part, key) in [("metadata", "labels"), ("metadata", "finalizers"), ("spec", "containers"), ("spec", "nodeName")] {
            prop_assert!(left(part, key), "{part}.{key} is still there");
        }
        // What another manager applies as well stays.
        let both = apply_pod(Some(&created), &other, "b", true).expect("by force");
        let last = without_managers(apply_pod(Some(&both), &bare, "a", false).expect("it fits the type"));
        let alone = without_managers(apply_pod(None, &other, "b", false).expect("it fits the type"));
        for path in [&["metadata", "labels"], &["metadata", "annotations"], &["spec", "nodeSelector"], &["spec", "nodeName"]] {
            let (last, alone) = (last.at(path), alone.at(path));
            let empty = last.is_none_or(|v| *v == Value::object());
            prop_assert!(last == alone || (alone.is_none() && empty), "{path:?}: {last:?}, not {alone:?}");
        }
    }

    #[test]
    fn an_update_that_changes_nothing_moves_no_field(live in pod(), config in pod()) {
        let old = apply_pod(Some(&live), &config, "a", true).expect("both fit the type, by force");
        let mut new = old.clone();
        as_manager("b", |write| apply::track_update(Some(&old), &mut new, schema(), write));
        prop_assert_eq!(new, old);
    }

    #[test]
    fn an_update_owns_what_it_changes(old in pod(), new in pod()) {
        let mut old = old;
        as_manager("a", |write| apply::track_update(None, &mut old, schema(), write));
        let managers = old.at(&["metadata", "managedFields"]).cloned();
        let mut new = new;
        if let Some(managers) = managers {
            new.set(&["metadata", "managedFields"], managers);
        }
        as_manager("b", |write| apply::track_update(Some(&old), &mut new, schema(), write));
        prop_assert!(apply::is_valid(new.at(&["metadata", "managedFields"])));
        let node = ["spec", "nodeName"];
        // An object without any managers is not tracked.
        let tracked = old.at(&["metadata", "managedFields"]).is_some();
        if tracked && new.at(&node).is_some() && new.at(&node) != old.at(&node) {
            prop_assert_eq!(owners(&new, &["f:spec", "f:nodeName"]), vec!["b"], "{:?}", new.at(&["metadata", "managedFields"]));
        }
    }

    #[test]
    fn sets_of_fields_are_sets(a in field_set(), b in field_set(), c in field_set()) {
        prop_assert_eq!(FieldSet::from_value(&a.to_value()), Ok(a.clone()));
        prop_assert_eq!(a.union(&a), a.clone());
        prop_assert_eq!(a.intersection(&a), a.clone());
        prop_assert!(a.difference(&a).is_empty() && a.recursive_difference(&a).is_empty());
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.union(&b).union(&c), a.union(&b.union(&c)));
        prop_assert_eq!(a.intersection(&b).intersection(&c), a.intersection(&b.intersection(&c)));
        prop_assert_eq!(a.intersection(&b.union(&c)), a.intersection(&b).union(&a.intersection(&c)));
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert!(a.difference(&b).intersection(&b).is_empty());
        prop_assert_eq!(a.difference(&b).difference(&c), a.difference(&b.union(&c)));
        // What goes with its parents is more than what goes alone.
        prop_assert!(a.recursive_difference(&b).difference(&a.difference(&b)).is_empty());
    }
}

/// Who owns a field.
fn owners(object: &Value, path: &[&str]) -> Vec<String> {
    let path: Vec<Str> = path.iter().map(|p| Str::from(*p)).collect();
    let entries = object.at(&["metadata", "managedFields"]).and_then(Value::as_array).unwrap_or_default();
    let owns = |entry: &&Value| {
        let fields = entry.at(&["fieldsV1"]).cloned().unwrap_or_default();
        FieldSet::from_value(&fields).is_ok_and(|set| set.has(&path))
    };
    entries.iter().filter(owns).filter_map(|e| e.str_at(&["manager"])).map(str::to_owned).collect()
}

/// Runs what a client could send to keep the server busy; it must end soon, well or not.
#[track_caller]
fn soon<T>(run: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let out = run();
    assert!(start.elapsed() < Duration::from_secs(60), "took {:?}", start.elapsed());
    out
}

fn numbered(count: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..count).map(item).collect()
}

fn pod_with(path: &[&str], value: Value) -> Value {
    let mut pod = object! { "apiVersion" => "v1", "kind" => "Pod", "metadata" => object! { "name" => "p" } };
    pod.set(path, value);
    pod
}

#[test]
fn copies_that_double_end() {
    let double = |_| object! { "op" => "copy", "from" => "/a", "path" => "/a/-" };
    let doc = object! { "a" => numbered(100, |_| Value::from("0123456789")) };
    soon(|| json_patch::apply(&doc, &numbered(9000, double))).expect_err("the copies are too large");
}

#[test]
fn inserting_at_the_front_of_a_long_list_ends() {
    let doc = object! { "a" => numbered(300_000, |_| Value::Int(1)) };
    let front = |_| object! { "op" => "add", "path" => "/a/0", "value" => 1 };
    let _ = soon(|| json_patch::apply(&doc, &numbered(10_000, front)));
}

#[test]
fn deep_patches_end() {
    let text = format!("{}{}", "{\"a\":".repeat(500), "1".to_owned() + &"}".repeat(500));
    let deep = json::decode(text.as_bytes()).expect("not too deep to read");
    let _ = soon(|| merge::apply(&Value::object(), &deep));
    let _ = soon(|| strategic::apply(&pod_with(&["spec"], deep.clone()), &pod_with(&["spec"], deep.clone()), schema()));
    let _ = soon(|| apply_pod(None, &pod_with(&["spec"], deep.clone()), "a", true));
    let nest = |_| object! { "op" => "move", "from" => "/a", "path" => "/a/a" };
    let _ = soon(|| json_patch::apply(&deep, &numbered(10_000, nest)));
}

#[test]
fn long_lists_merge_soon() {
    let name = |i: usize| Value::from(format!("example.com/{i}"));
    let path = ["metadata", "finalizers"];
    let many = pod_with(&path, numbered(20_000, name));
    let mut patch = many.clone();
    patch.set(&["metadata", "$deleteFromPrimitiveList/finalizers"], numbered(20_000, |i| name(i * 2)));
    patch.set(&["metadata", "$setElementOrder/finalizers"], numbered(20_000, |i| name(19_999 - i)));
    let _ = soon(|| strategic::apply(&many, &patch, schema()));
    let container = |i: usize| object! { "name" => format!("c{i}"), "image" => "i" };
    let many = pod_with(&["spec", "containers"], numbered(20_000, container));
    let mut patch = pod_with(&["spec", "containers"], numbered(20_000, |i| container(i + 10_000)));
    patch.set(&["spec", "$setElementOrder/containers"], numbered(30_000, |i| container(29_999 - i)));
    let _ = soon(|| strategic::apply(&many, &patch, schema()));
    let applied =
        soon(|| apply_pod(Some(&many), &pod_with(&["spec", "containers"], numbered(20_000, container)), "a", true));
    let applied = applied.expect("it fits the type");
    let other = pod_with(&["spec", "containers"], numbered(20_000, |i| container(20_000 - i)));
    soon(|| apply_pod(Some(&applied), &other, "b", false)).expect("the same values");
    let mut updated = pod_with(&["spec", "containers"], numbered(20_000, |i| container(i + 5)));
    soon(|| as_manager("c", |write| apply::track_update(Some(&applied), &mut updated, schema(), write)));
}
