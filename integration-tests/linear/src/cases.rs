//! Everything that is filled.

use std::{collections::HashSet, ops::Range};

use generic_server::resource::Resource;
use machinery::{
    Map, Str, Value, array,
    codec::json,
    object,
    patch::{apply, json_patch, merge, strategic},
    schema::{Schema, Shape, structural},
};

use crate::{
    documents::{Items, LARGEST, document, fitting},
    places::{self, Place, Step},
    work,
};

/// Work with an input of a size.
pub struct Case {
    /// What is filled, and with what.
    pub name: String,
    /// The work with as much as so many bytes hold; making it is no part of it.
    pub make: Box<dyn Fn(usize) -> Work>,
}

/// The work with one input.
pub type Work = Box<dyn FnOnce()>;

impl Case {
    fn new(name: impl Into<String>, make: impl Fn(usize) -> Work + 'static) -> Self {
        Case { name: name.into(), make: Box::new(make) }
    }
}

/// The name of a case that is not linear: whoever does not find it would find no other one.
pub const SQUARE: &str = "all pairs of a list";

/// All cases: of these rows, of custom resources, of patches and of managed fields; and [`SQUARE`].
pub fn all(rows: Vec<Resource>) -> Vec<Case> {
    let mut rows: Vec<&'static Resource> = rows.into_iter().map(|row| &*Box::leak(Box::new(row))).collect();
    // What is in a template is tried in a pod.
    rows.sort_by_key(|row| row.kind != "Pod");
    let pod = rows[0];
    let mut seen = HashSet::new();
    let mut cases = Vec::new();
    for row in rows {
        let places = places::of(&row.schema, &mut seen);
        cases.extend(together(row, &places));
        for place in places {
            cases.extend(kinds_of(&place).map(|items| of_place(row, place.clone(), items)));
        }
    }
    cases.extend(of_custom_resources());
    cases.extend(of_patches());
    cases.extend(of_managers());
    cases.push(square(pod));
    cases
}

/// The cheapest of squares beside a write that does as much as any: each volume of a pod looks at the names of all before it.
fn square(pod: &'static Resource) -> Case {
    let list = places::of(&pod.schema, &mut HashSet::new()).into_iter().find(|p| p.to_string() == ".spec.volumes");
    let list = list.expect("pods have volumes");
    Case::new(SQUARE, move |room| {
        let numbers = 0..fitting(&list, Items::Distinct, room);
        let pod_with = document(&pod.schema, (&pod.api_version(), &pod.kind), &list, Items::Distinct, numbers);
        let text = json::encode(&pod_with);
        Box::new(move || {
            work::write(pod, &text, &text);
            let volumes = pod_with.at(&["spec", "volumes"]).and_then(Value::as_array).unwrap_or_default();
            let names = |count| volumes[..count].iter().filter(|volume| volume.str_at(&["name"]).is_none()).count();
            assert_eq!((0..volumes.len()).map(names).sum::<usize>(), 0);
        })
    })
}

/// Which items tell something of a place.
fn kinds_of(place: &Place<'_>) -> impl Iterator<Item = Items> {
    let inner = match &place.schema.shape {
        Shape::List(inner) | Shape::Map(inner) => inner.resolve(),
        _ => unreachable!("places are lists and maps"),
    };
    let members = inner.as_object().map(|object| &object.fields);
    let has_paths = members.is_none_or(|fields| fields.iter().any(|f| f.name.to_ascii_lowercase().ends_with("path")));
    let is_text = matches!(inner.shape, Shape::String(_));
    Items::ALL.into_iter().filter(move |items| match items {
        Items::Distinct | Items::Equal => true,
        Items::Full => members.is_some(),
        Items::Nested => has_paths && (members.is_some() || is_text),
    })
}

fn of_place(row: &'static Resource, place: Place<'static>, items: Items) -> Case {
    let name = format!("{} {}{place} {items:?}", row.api_version(), row.kind);
    Case::new(name, move |room| {
        let count = fitting(&place, items, room);
        let text = |numbers: Range<usize>| {
            json::encode(&document(&row.schema, (&row.api_version(), &row.kind), &place, items, numbers))
        };
        let (new, old) = (text(0..count), text(count / 2..count + count / 2));
        Box::new(move || work::write(row, &new, &old))
    })
}

/// All lists and maps of a kind that are in no others, each with its share: what is looked up in one for each item of another.
fn together(row: &'static Resource, places: &[Place<'static>]) -> Option<Case> {
    let is_plain = |place: &&Place<'_>| place.steps.iter().all(|step| matches!(step, Step::Field(_)));
    let places: Vec<Place<'static>> = places.iter().filter(is_plain).cloned().collect();
    (places.len() > 1).then(|| {
        Case::new(format!("{} {} all", row.api_version(), row.kind), move |room| {
            let text = |shift: usize| {
                let mut whole = Value::object();
                for place in &places {
                    let count = fitting(place, Items::Distinct, room / places.len());
                    let numbers = shift..count + shift;
                    let kind = (&*row.api_version(), &*row.kind);
                    let one = document(&row.schema, kind, place, Items::Distinct, numbers);
                    whole = merge::apply(&whole, &one).expect("both are objects");
                }
                json::encode(&whole)
            };
            let (new, old) = (text(0), text(7));
            Box::new(move || work::write(row, &new, &old))
        })
    })
}

/// A schema with everything that makes a list or map another one.
const SCHEMA: &str = r#"{"type":"object","properties":{
    "kind":{"type":"string"},"apiVersion":{"type":"string"},"metadata":{"type":"object"},
    "spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{
        "atomic":{"type":"array","items":{"type":"string","maxLength":3}},
        "set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
        "unique":{"type":"array","uniqueItems":true,"items":{"type":"integer","maximum":5}},
        "map":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{
            "type":"object","required":["name","other"],"properties":{
                "name":{"type":"string","pattern":"^b"},"other":{"type":"string"},
                "inner":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"integer"}},
                "filled":{"type":"string","default":"x"}}}},
        "members":{"type":"object","additionalProperties":{"type":"string","enum":["x","y"]}},
        "objects":{"type":"object","additionalProperties":{"type":"object","properties":{
            "a":{"type":"string","anyOf":[{"maxLength":1},{"pattern":"^b"}]}}}},
        "either":{"type":"array","items":{"x-kubernetes-int-or-string":true}}}}}}"#;

fn of_custom_resources() -> Vec<Case> {
    let schema: &'static Schema = {
        let props = json::decode(SCHEMA.as_bytes()).expect("JSON");
        Box::leak(Box::new(structural::parse(&props)))
    };
    let mut cases = Vec::new();
    for place in places::of(schema, &mut HashSet::new()) {
        for items in kinds_of(&place) {
            let place = place.clone();
            cases.push(Case::new(format!("custom{place} {items:?}"), move |room| {
                let count = fitting(&place, items, room);
                let text = |numbers| json::encode(&document(schema, ("example.com/v1", "One"), &place, items, numbers));
                let (new, old) = (text(0..count), text(count / 2..count + count / 2));
                Box::new(move || work::custom(schema, &new, &old))
            }));
        }
    }
    cases.push(Case::new("custom unknown members", move |room| {
        let members = members(room, 28, |i| (format!("a{i}"), Value::from(i as i64)));
        let mut object = object! { "apiVersion" => "example.com/v1", "kind" => "One" };
        object.set(&["metadata", "name"], "one");
        object.set(&["spec", "map"], array![object! { "name" => "b", "unknown" => members.clone() }]);
        object.make_object().extend(members.as_object().cloned().unwrap_or_default().into_entries());
        let text = json::encode(&object);
        Box::new(move || work::custom(schema, &text, &text))
    }));
    cases
}

/// Members of so many bytes each, as many as there is room for.
fn members(room: usize, each: usize, member: impl Fn(usize) -> (String, Value)) -> Value {
    let entries = (0..room / each).map(member).map(|(name, value)| (Str::from(name), value));
    Value::Object(Map::from_entries(entries.collect()))
}

fn schema_of(kind: &str) -> &'static Schema {
    machinery::schema::builtin::schema_of("", "v1", kind).expect("the facts table has it")
}

fn config_map(data: Value) -> Value {
    object! { "apiVersion" => "v1", "kind" => "ConfigMap", "metadata" => object! { "name" => "one" }, "data" => data }
}

/// A strategic merge patch: what `make` gives of so many bytes, the object and the patch.
fn strategic(name: &str, make: impl Fn(usize) -> (Value, Value) + 'static) -> Case {
    Case::new(format!("strategic {name}"), move |room| {
        let (object, patch) = make(room);
        let kind = object.str_at(&["kind"]).unwrap_or_default().to_owned();
        Box::new(move || drop(strategic::apply(&object, &patch, schema_of(&kind))))
    })
}

fn of_patches() -> Vec<Case> {
    let text = |i: usize| (format!("a{i}"), Value::from("x"));
    vec![
        strategic("new members", move |n| {
            let more = members(n, 24, |i| (format!("b{}a", (i * 7919) % 1_000_003), "x".into()));
            (config_map(members(n, 24, text)), object! { "data" => more })
        }),
        strategic("members removed", move |n| {
            let none = members(n, 24, |i| (format!("a{i}"), Value::Null));
            (config_map(members(n, 24, text)), object! { "data" => none })
        }),
        strategic("members removed by directives", move |n| {
            let none = members(n, 48, |i| (format!("$deleteFromPrimitiveList/a{i}"), Value::Null));
            (config_map(members(n, 48, text)), object! { "data" => none })
        }),
        strategic("members retained", move |n| {
            let names: Value = (0..n / 24).map(|i| Value::from(format!("a{i}"))).collect();
            (config_map(members(n, 24, text)), object! { "data" => object! { "$retainKeys" => names } })
        }),
        strategic("a list and its order", move |n| {
            let count = n / 64;
            let item = |i: usize| object! { "name" => format!("v{i}"), "emptyDir" => object! {} };
            let pod = object! { "apiVersion" => "v1", "kind" => "Pod" };
            let volumes = |numbers: Range<usize>| numbers.map(item).collect::<Value>();
            let mut whole = pod.clone();
            whole.set(&["spec", "volumes"], volumes(0..count));
            let order: Value = (0..count * 3 / 2).rev().map(|i| object! { "name" => format!("v{i}") }).collect();
            let mut patch = Value::object();
            patch.set(&["spec", "$setElementOrder/volumes"], order);
            patch.set(&["spec", "volumes"], (count / 2..count * 3 / 2).rev().map(item).collect::<Value>());
            (whole, patch)
        }),
        Case::new("JSON patch of the head of a list", |room| {
            let items: Value = (0..room / 4).map(|i| Value::from((i % 10) as i64)).collect();
            let object = object! { "list" => items };
            // Their number is limited, and so is what they may move together.
            let patch: Value = (0..json_patch::MAX_OPERATIONS * room / LARGEST)
                .map(|_| object! { "op" => "add", "path" => "/list/0", "value" => 1 })
                .collect();
            Box::new(move || drop(json_patch::apply(&object, &patch)))
        }),
    ]
}

fn of_managers() -> Vec<Case> {
    let entry = |i: usize, operation: &str, version: &str, fields: Value| {
        object! {
            "manager" => format!("m{i}"), "operation" => operation, "apiVersion" => version,
            "fieldsType" => "FieldsV1", "fieldsV1" => object! { "f:data" => fields },
        }
    };
    let managed = move |name: &str, entries: fn(usize) -> (&'static str, String)| {
        let row: &'static Resource = {
            let rows = kube_core::resources();
            Box::leak(Box::new(rows.into_iter().find(|row| row.kind == "ConfigMap").expect("there is one")))
        };
        Case::new(format!("managed fields: {name}"), move |room| {
            let count = room / 192;
            let mut object =
                config_map((0..count).map(|i| (Str::from(format!("k{i}")), "x".into())).collect::<Map>().into());
            let all: Value = (0..count)
                .map(|i| {
                    let (operation, version) = entries(i);
                    entry(i, operation, &version, object! { format!("f:k{i}") => object! {} })
                })
                .collect();
            object.set(&["metadata", "managedFields"], all);
            let text = json::encode(&object);
            object.set(&["data"], object! { "other" => "y" });
            let other = json::encode(&object);
            Box::new(move || {
                work::write(row, &text, &other);
                work::write(row, &other, &text);
            })
        })
    };
    vec![
        managed("appliers", |_| ("Apply", "v1".into())),
        managed("updaters", |_| ("Update", "v1".into())),
        managed("versions that are gone", |i| ("Update", format!("v{}", i + 2))),
        Case::new("managed fields: a set in another form", move |room| {
            let keys = members(room, 48, |i| (format!("k:{{\"b\":{i}, \"a\":1}}"), Value::object()));
            Box::new(move || drop(apply::FieldSet::from_value(&object! { "f:list" => keys })))
        }),
        Case::new("managed fields: of a scale", move |room| {
            let fields = |i| {
                let mut entry = entry(i, "Apply", "autoscaling/v1", Value::object());
                entry.set(&["fieldsV1"], object! { "f:spec" => object! { "f:replicas" => object! {} } });
                entry
            };
            let count = room / 192;
            let scaled: Value = (0..count).map(fields).collect();
            let parent: Value = (count / 2..count + count / 2)
                .map(|i| {
                    let mut entry = fields(i);
                    entry.set(&["apiVersion"], "apps/v1");
                    entry
                })
                .collect();
            Box::new(move || {
                let path: &[&str] = &["spec", "replicas"];
                let scale = apply::Scale { paths: &[("apps/v1", Some(path))] };
                drop(scale.of_parent(Some(&parent)));
                drop(scale.to_parent(Some(&parent), Some(&scaled), "apps/v1"));
            })
        }),
    ]
}
