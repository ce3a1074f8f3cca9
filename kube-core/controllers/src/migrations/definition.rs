//! What a migration tells the definition of the resource: that it runs, and, in the end, that one version alone is stored.

use bytes::Bytes;
use http::Method;
use machinery::{
    Value,
    codec::json,
    meta::{Meta, TimeForm, Timestamp, status::Status},
    object,
};

use super::Resource;
use crate::{client::segment, shared::Shared};

const MANAGER: &str = "migration-runner-controller";
const MIGRATING: &str = "StorageMigrating";

/// The definition of a resource; none of one that has none.
async fn find(shared: &Shared, resource: &Resource) -> Result<Option<Value>, Status> {
    let name = format!("{}.{}", resource.plural, resource.group);
    let Some(definition) = shared.definitions.find("", &name).await? else { return Ok(None) };
    shared.definitions.decode(definition.bytes()).map(Some)
}

/// Says that a migration runs.
pub(super) async fn begin(shared: &Shared, resource: &Resource, migration: &str) -> Result<(), Status> {
    let Some(definition) = find(shared, resource).await? else { return Ok(()) };
    let message = format!("Migration {migration} is running");
    let status = object! { "conditions" => vec![condition(&definition, "True", "MigrationRunning", &message)] };
    apply(shared, &definition, status).await
}

/// Says how it went. Versions are forgotten if the definition is as it was when it began.
pub(super) async fn end(shared: &Shared, resource: &Resource, succeeded: bool) -> Result<(), Status> {
    let Some(definition) = find(shared, resource).await? else { return Ok(()) };
    let status = ended(&definition, succeeded);
    apply(shared, &definition, status).await
}

fn ended(definition: &Value, succeeded: bool) -> Value {
    let conditions = definition.at(&["status", "conditions"]).and_then(Value::as_array).unwrap_or_default();
    let migrating = conditions.iter().find(|condition| condition.str_at(&["type"]) == Some(MIGRATING));
    let observed = migrating.map(|condition| condition.get("observedGeneration").and_then(Value::as_i64).unwrap_or(0));
    let is_same = observed == Some(Meta::of(definition).generation());
    let (reason, message) = match (succeeded, is_same) {
        (true, true) => ("MigrationSucceeded", "The migration has succeeded and the stored versions have been updated"),
        (true, false) => (
            "MigrationSucceeded",
            "The migration has succeeded but the stored versions have not been updated due to a generation mismatch",
        ),
        (false, _) => ("MigrationFailed", "The migration has failed"),
    };
    let mut status = object! { "conditions" => vec![condition(definition, "False", reason, message)] };
    let versions = definition.at(&["spec", "versions"]).and_then(Value::as_array).unwrap_or_default();
    let mut stored = versions.iter().filter(|v| v.get("storage").and_then(Value::as_bool) == Some(true));
    if let Some(name) = stored.next().filter(|_| is_same && succeeded).and_then(|version| version.str_at(&["name"])) {
        status.set(&["storedVersions"], vec![name]);
    }
    status
}

fn condition(definition: &Value, status: &str, reason: &str, message: &str) -> Value {
    object! {
        "type" => MIGRATING, "status" => status, "reason" => reason, "message" => message,
        "lastTransitionTime" => Timestamp::now().text(TimeForm::Seconds),
        "observedGeneration" => Meta::of(definition).generation(),
    }
}

/// Applies a status, if the definition has not changed.
async fn apply(shared: &Shared, definition: &Value, status: Value) -> Result<(), Status> {
    let meta = Meta::of(definition);
    let config = object! {
        "kind" => "CustomResourceDefinition", "apiVersion" => "apiextensions.k8s.io/v1",
        "metadata" => object! { "name" => meta.name(), "resourceVersion" => meta.resource_version() },
        "status" => status,
    };
    let path = format!(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}/status?fieldManager={MANAGER}&force=true",
        segment(meta.name())
    );
    let body: Bytes = json::encode(&config).into();
    let types = ("application/json", "application/apply-patch+yaml");
    shared.client().send(Method::PATCH, &path, types, body).await.map(drop)
}

#[cfg(test)]
mod tests {
    use machinery::array;

    use super::*;

    #[test]
    fn versions_are_forgotten_only_where_nothing_has_changed_meanwhile() {
        let definition = |observed: i64| {
            let migrating = object! { "type" => MIGRATING, "observedGeneration" => observed };
            object! {
                "metadata" => object! { "name" => "ws.example.com", "generation" => 2 },
                "spec" => object! { "versions" => array![
                    object! { "name" => "v1", "storage" => false }, object! { "name" => "v2", "storage" => true },
                ] },
                "status" => object! { "conditions" => array![migrating] },
            }
        };
        let check = |observed: i64, succeeded: bool, stored: Option<Value>, reason: &str| {
            let status = ended(&definition(observed), succeeded);
            assert_eq!(status.get("storedVersions").cloned(), stored);
            let conditions = status.get("conditions").and_then(Value::as_array).expect("conditions");
            assert_eq!(conditions[0].str_at(&["reason"]), Some(reason));
        };
        check(2, true, Some(array!["v2"]), "MigrationSucceeded");
        check(1, true, None, "MigrationSucceeded");
        check(2, false, None, "MigrationFailed");
    }
}
