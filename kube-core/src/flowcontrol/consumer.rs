//! Reads the flow schemas whenever they or the priority levels change, and says of each whether its level exists.

use std::{collections::HashMap, sync::Arc};

use generic_server::{
    fairness::Flows,
    registry::Registry,
    tasks::{Task, TaskResult},
};
use machinery::{
    Value, array,
    meta::{TimeForm, Timestamp},
    object,
};
use storage::cache::{Everything, Scope};

use super::producer::PRODUCER;

const MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";

/// The task. It begins when the objects of the start are there.
pub(crate) fn task(schemas: Arc<Registry>, levels: Arc<Registry>, flows: Arc<Flows>) -> Task {
    let run = move |cx: generic_server::tasks::TaskContext| {
        let (schemas, levels, flows) = (schemas.clone(), levels.clone(), flows.clone());
        async move {
            let mut of_schemas = schemas.cache().follow(Scope::All, Arc::new(Everything));
            let mut of_levels = levels.cache().follow(Scope::All, Arc::new(Everything));
            loop {
                digest(&schemas, &levels, &flows).await?;
                cx.ready();
                let next = tokio::select! {
                    () = cx.cancelled() => return Ok(()),
                    next = of_schemas.next() => next.is_some(),
                    next = of_levels.next() => next.is_some(),
                };
                if !next {
                    return Ok(());
                }
            }
        }
    };
    Task::new("priority-and-fairness-config-consumer", run).after(PRODUCER)
}

async fn digest(schemas: &Arc<Registry>, levels: &Arc<Registry>, flows: &Flows) -> TaskResult {
    let all = |registry: &Arc<Registry>| -> Vec<Value> {
        let snapshot = registry.cache().latest();
        let objects = snapshot.range(registry.prefix(), None).filter_map(|entry| entry.object());
        objects.filter_map(|object| registry.decode(object.bytes()).ok()).collect()
    };
    let text = |object: &Value, key: &str| object.str_at(&["metadata", key]).unwrap_or("").to_owned();
    let uids: HashMap<String, String> =
        all(levels).iter().map(|level| (text(level, "name"), text(level, "uid"))).collect();
    let found = all(schemas);
    let level_of =
        |schema: &Value| schema.str_at(&["spec", "priorityLevelConfiguration", "name"]).unwrap_or("").to_owned();
    let complete = found.iter().filter_map(|schema| Some((schema.clone(), uids.get(&level_of(schema))?.clone())));
    flows.set(complete);
    for schema in &found {
        let level = level_of(schema);
        note(schemas, schema, &level, uids.contains_key(&level)).await?;
    }
    Ok(())
}

/// Writes the condition, if it says something new.
async fn note(schemas: &Arc<Registry>, schema: &Value, level: &str, exists: bool) -> TaskResult {
    let (status, reason, end) = match exists {
        true => ("False", "Found", "and it exists"),
        false => ("True", "NotFound", "but there is no such object"),
    };
    let message = format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?} {end}");
    let conditions = schema.at(&["status", "conditions"]).and_then(Value::as_array).unwrap_or_default();
    let before = conditions.iter().find(|c| c.str_at(&["type"]) == Some("Dangling"));
    let same = |key: &str, want: &str| before.is_some_and(|c| c.str_at(&[key]) == Some(want));
    if same("status", status) && same("reason", reason) && same("message", &message) {
        return Ok(());
    }
    let since = before.filter(|_| same("status", status)).and_then(|c| c.str_at(&["lastTransitionTime"]));
    let since = since.map_or_else(|| Timestamp::now().text(TimeForm::Seconds), str::to_owned);
    let name = schema.str_at(&["metadata", "name"]).unwrap_or("");
    let config = object! {
        "kind" => "FlowSchema", "apiVersion" => schemas.row.api_version(),
        "metadata" => object! { "name" => name },
        "status" => object! {
            "conditions" => array![object! {
                "type" => "Dangling", "status" => status, "reason" => reason, "message" => message,
                "lastTransitionTime" => since,
            }],
        },
    };
    match schemas.apply_as(MANAGER, ("", name, "status"), &config).await {
        Ok(_) => Ok(()),
        Err(status) if status.is_not_found() => Ok(()), // deleted meanwhile
        Err(status) => Err(status.into()),
    }
}
