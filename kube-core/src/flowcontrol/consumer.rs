//! Reads flow schemas and priority levels whenever one of them changes, tells flow control of them, and says of each schema
//! whether its level exists. Lets levels lend each other seats from time to time.

use std::{collections::HashMap, sync::Arc};

use ::flowcontrol::{EXEMPT, LevelConfig, Levels, LimitResponse, Queuing};
use generic_server::{
    flow_control::FlowControl,
    registry::Registry,
    tasks::{Task, TaskResult},
};
use machinery::{
    Value, array,
    meta::{TimeForm, Timestamp},
    object,
};
use storage::cache::{Everything, Scope};
use tokio::time::MissedTickBehavior;

use super::{bootstrap, producer::PRODUCER};

const MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";

/// The task. It begins when the objects of the start are there.
pub(crate) fn task(schemas: Arc<Registry>, levels: Arc<Registry>, control: Arc<FlowControl>) -> Task {
    let run = move |cx: generic_server::tasks::TaskContext| {
        let (schemas, levels, control) = (schemas.clone(), levels.clone(), control.clone());
        async move {
            let mut of_schemas = schemas.cache().follow(Scope::All, Arc::new(Everything));
            let mut of_levels = levels.cache().follow(Scope::All, Arc::new(Everything));
            let mut periods = tokio::time::interval(Levels::PERIOD);
            periods.set_missed_tick_behavior(MissedTickBehavior::Skip);
            periods.reset();
            loop {
                digest(&schemas, &levels, &control).await?;
                cx.ready();
                let changed = loop {
                    tokio::select! {
                        () = cx.cancelled() => return Ok(()),
                        next = of_schemas.next() => break next.is_some(),
                        next = of_levels.next() => break next.is_some(),
                        _ = periods.tick() => control.levels().rebalance(),
                    }
                };
                if !changed {
                    return Ok(());
                }
            }
        }
    };
    Task::new("priority-and-fairness-config-consumer", run).after(PRODUCER)
}

async fn digest(schemas: &Arc<Registry>, levels: &Arc<Registry>, control: &FlowControl) -> TaskResult {
    let all = |registry: &Arc<Registry>| -> Vec<Value> {
        let snapshot = registry.cache().latest();
        let objects = snapshot.range(registry.prefix(), None).filter_map(|entry| entry.object());
        objects.filter_map(|object| registry.decode(object.bytes()).ok()).collect()
    };
    let text = |object: &Value, key: &str| object.str_at(&["metadata", key]).unwrap_or("").to_owned();
    let found_levels = with_mandatory(all(levels), &text, bootstrap::levels());
    let uids: HashMap<String, String> =
        found_levels.iter().map(|level| (text(level, "name"), text(level, "uid"))).collect();
    let found = all(schemas);
    let level_of =
        |schema: &Value| schema.str_at(&["spec", "priorityLevelConfiguration", "name"]).unwrap_or("").to_owned();
    let effective = with_mandatory(found.clone(), &text, bootstrap::schemas());
    let complete = effective.into_iter().filter_map(|schema| {
        let uid = uids.get(&level_of(&schema))?.clone();
        Some((schema, uid))
    });
    control.configure(found_levels.iter().filter_map(level_config), complete);
    for schema in &found {
        let level = level_of(schema);
        note(schemas, schema, &level, uids.contains_key(&level)).await?;
    }
    Ok(())
}

/// The objects, and those that must be there but are not: somebody may have removed them a moment ago.
fn with_mandatory(
    mut found: Vec<Value>,
    text: &impl Fn(&Value, &str) -> String,
    bootstrap: impl Iterator<Item = (&'static str, Value)>,
) -> Vec<Value> {
    for (name, spec) in bootstrap.filter(|(name, _)| bootstrap::is_mandatory(name)) {
        if !found.iter().any(|object| text(object, "name") == name) {
            found.push(object! { "metadata" => object! { "name" => name }, "spec" => spec });
        }
    }
    found
}

/// What a level's spec asks for; `None` if it contradicts itself, which validation does not let through.
fn level_config(level: &Value) -> Option<LevelConfig> {
    let name = level.str_at(&["metadata", "name"])?.to_owned();
    let is_exempt = level.str_at(&["spec", "type"])? == "Exempt";
    if is_exempt != (name == EXEMPT) {
        return None;
    }
    let part = level.at(&["spec", if is_exempt { "exempt" } else { "limited" }]);
    let number = |path: &[&str]| part.and_then(|part| part.at(path)).and_then(Value::as_i64);
    let count = |path: &[&str], default: u32| {
        number(path).map_or(default, |number| u32::try_from(number.max(0)).unwrap_or(u32::MAX))
    };
    let size = |path: &[&str], default: u32| usize::try_from(count(path, default)).unwrap_or(usize::MAX);
    let queues = part.and_then(|part| part.str_at(&["limitResponse", "type"])) == Some("Queue");
    let response = match (is_exempt, queues) {
        (true, _) => LimitResponse::Exempt,
        (false, false) => LimitResponse::Reject,
        (false, true) => LimitResponse::Queue(Queuing {
            queues: size(&["limitResponse", "queuing", "queues"], 64),
            hand_size: size(&["limitResponse", "queuing", "handSize"], 8),
            length_limit: size(&["limitResponse", "queuing", "queueLengthLimit"], 50),
        }),
    };
    Some(LevelConfig {
        name,
        response,
        shares: count(&["nominalConcurrencyShares"], if is_exempt { 0 } else { 30 }),
        lendable_percent: count(&["lendablePercent"], 0).min(100),
        borrowing_percent: number(&["borrowingLimitPercent"]).map(|_| count(&["borrowingLimitPercent"], 0)),
    })
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
