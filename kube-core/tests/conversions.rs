//! Objects of any kind that is served in several versions come back from the other version as they went.

#[path = "../../generic-server/machinery/tests/typed/mod.rs"]
mod typed;

use generic_server::resource::{Conversion, Converter, Resource};
use machinery::Value;
use machinery::codec::json;
use machinery::schema::{self, Schema, builtin};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use typed::typed;

/// So many objects of each version.
const EACH: usize = 40;

/// The rows that are stored in another version, with the way between the two and the stored version's schema.
fn converted(rows: &[Resource]) -> impl Iterator<Item = (&Resource, &dyn Conversion, &'static Schema)> {
    rows.iter().filter_map(|row| {
        let Some(Converter::Rule(conversion)) = &row.conversion else { return None };
        let kind = machinery::meta::kind_of(&conversion.to_storage(Value::object()));
        // A version that is stored and never served has the members of the served one.
        let stored = builtin::schema_of(&kind.group, &kind.version, &row.kind);
        Some((row, &**conversion, stored.unwrap_or_else(|| served_schema(row))))
    })
}

fn served_schema(row: &Resource) -> &'static Schema {
    builtin::schema_of(&row.group, &row.version, &row.kind).expect("a served kind")
}

/// Objects of a type in the form in which they are stored, the same ones each time.
fn objects(schema: &'static Schema, api_version: &str, kind: &str) -> Vec<Value> {
    let mut runner = TestRunner::deterministic();
    let strategy = typed(schema, 6);
    let mut object = || {
        let value = strategy.new_tree(&mut runner).expect("a value").current();
        let (mut value, unknown) = schema::decode(schema, value).expect("of its type");
        assert!(unknown.is_empty(), "{unknown:?}");
        schema::settle(schema, &mut value);
        value.set(&["apiVersion"], api_version);
        value.set(&["kind"], kind);
        value
    };
    (0..EACH).map(|_| object()).collect()
}

/// What the type has no room for is not made.
fn is_of(schema: &Schema, value: &Value) {
    match schema::decode(schema, value.clone()) {
        Ok((_, unknown)) => assert!(unknown.is_empty(), "{unknown:?} in {}", show(value)),
        Err(error) => panic!("{error}: {}", show(value)),
    }
}

fn show(value: &Value) -> String {
    String::from_utf8(json::encode_pretty(value)).expect("UTF-8")
}

/// The kinds of which one version cannot say all that an object of the other may hold before it is validated: autoscaling/v1
/// tells the types of targets by what they have. In resource.k8s.io/v1beta1 a request is for one kind of device only if it says
/// something of it, and a device has a part that may be empty; admissionregistration.k8s.io/v1alpha1 has a default of its own.
/// What has gone that way once stays as it is.
const NARROW: [&str; 5] = [
    "HorizontalPodAutoscaler",
    "MutatingAdmissionPolicyBinding",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "ResourceSlice",
];

fn comes_back(row: &Resource, object: Value, way: impl Fn(Value) -> Value) {
    let object = if NARROW.contains(&&*row.kind) { way(object) } else { object };
    assert_eq!(show(&way(object.clone())), show(&object), "{} {}", row.api_version(), row.kind);
}

#[test]
fn what_is_served_comes_back_from_storage() {
    let rows = kube_core::resources();
    let mut kinds = 0;
    for (row, conversion, stored_schema) in converted(&rows) {
        let schema = served_schema(row);
        for served in objects(schema, row.api_version().as_ref(), &row.kind) {
            comes_back(row, served, |served| {
                let stored = conversion.to_storage(served);
                is_of(stored_schema, &stored);
                let again = conversion.from_storage(stored);
                is_of(schema, &again);
                again
            });
        }
        kinds += 1;
    }
    assert!(kinds > 1, "{kinds}");
}

#[test]
fn what_is_stored_comes_back_from_every_version() {
    let rows = kube_core::resources();
    for (row, conversion, stored_schema) in converted(&rows) {
        let schema = served_schema(row);
        let api_version = conversion.to_storage(Value::object());
        let api_version = api_version.str_at(&["apiVersion"]).expect("a version");
        for stored in objects(stored_schema, api_version, &row.kind) {
            comes_back(row, stored, |stored| {
                let served = conversion.from_storage(stored);
                is_of(schema, &served);
                let again = conversion.to_storage(served);
                is_of(stored_schema, &again);
                again
            });
        }
    }
}
