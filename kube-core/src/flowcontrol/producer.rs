//! Keeps the flow schemas and priority levels of the start: makes what is missing, and mends what nobody has made their own.

use std::{sync::Arc, time::Duration};

use generic_server::{
    registry::Registry,
    tasks::{Task, TaskResult},
};
use machinery::{Value, object};

use super::bootstrap;

/// The task's name.
pub(crate) const PRODUCER: &str = "priority-and-fairness-config-producer";
const MANAGER: &str = "api-priority-and-fairness-config-producer-v1";
/// `true`: the server may set the spec; `false`: an operator has made the object their own.
const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";
/// How often the objects are looked at.
const PERIOD: Duration = Duration::from_secs(60);

/// The task. Levels come first, so that no schema names a missing one.
pub(crate) fn task(schemas: Arc<Registry>, levels: Arc<Registry>) -> Task {
    Task::new(PRODUCER, move |cx| {
        let (schemas, levels) = (schemas.clone(), levels.clone());
        async move {
            schemas.cache().ready().await?;
            levels.cache().ready().await?;
            loop {
                ensure_all(&levels, bootstrap::levels().collect()).await?;
                ensure_all(&schemas, bootstrap::schemas().collect()).await?;
                cx.ready();
                tokio::select! {
                    () = cx.cancelled() => return Ok(()),
                    () = tokio::time::sleep(PERIOD) => {}
                }
            }
        }
    })
}

async fn ensure_all(registry: &Arc<Registry>, wanted: Vec<(&'static str, Value)>) -> TaskResult {
    for (name, spec) in &wanted {
        ensure(registry, name, spec).await?;
    }
    let snapshot = registry.cache().latest();
    for object in snapshot.range(registry.prefix(), None).filter_map(|entry| entry.object()) {
        let object = registry.decode(object.bytes())?;
        let name = object.str_at(&["metadata", "name"]).unwrap_or("");
        // What an older version made and this one does not know.
        if auto_update(&object) == Some(true) && !wanted.iter().any(|(known, _)| *known == name) {
            match registry.delete_as_server("", name).await {
                Ok(_) => {}
                Err(status) if status.is_not_found() => {}
                Err(status) => return Err(status.into()),
            }
        }
    }
    Ok(())
}

async fn ensure(registry: &Arc<Registry>, name: &'static str, spec: &Value) -> TaskResult {
    let current = registry.cache().latest().get(&registry.key("", name)).and_then(|entry| entry.object().cloned());
    let Some(current) = current else {
        let row = &registry.row;
        let object = object! {
            "kind" => &row.kind, "apiVersion" => row.api_version(),
            "metadata" => object! { "name" => name, "annotations" => object! { AUTO_UPDATE => "true" } },
            "spec" => spec.clone(),
        };
        return match registry.create_as(MANAGER, object).await {
            Ok(_) => Ok(()),
            Err(status) if status.is_already_exists() => Ok(()), // another server was faster
            Err(status) => Err(status.into()),
        };
    };
    let current = registry.decode(current.bytes())?;
    if mended(name, &current, spec) == current {
        return Ok(());
    }
    match registry.edit_as(MANAGER, ("", name, ""), |current| Ok(mended(name, current, spec))).await {
        Ok(_) => Ok(()),
        Err(status) if status.is_not_found() => Ok(()), // made anew the next time
        Err(status) => Err(status.into()),
    }
}

/// The object as it should be.
fn mended(name: &str, current: &Value, spec: &Value) -> Value {
    let ours = bootstrap::is_mandatory(name)
        || auto_update(current).unwrap_or_else(|| current.at(&["metadata", "generation"]) == Some(&Value::Int(1)));
    let mut new = current.clone();
    if ours && !(name == "exempt" && has_own_exempt(current)) {
        new.set(&["spec"], spec.clone());
    }
    new.set(&["metadata", "annotations", AUTO_UPDATE], if ours { "true" } else { "false" });
    new
}

/// The exempt level's `exempt` is the operator's to set.
fn has_own_exempt(level: &Value) -> bool {
    level.at(&["spec", "exempt"]).is_some()
}

fn auto_update(object: &Value) -> Option<bool> {
    match object.str_at(&["metadata", "annotations", AUTO_UPDATE]) {
        Some("true") => Some(true),
        Some("false") => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operators_own_objects_are_left_alone() {
        let check = |name: &str, annotation: Option<&str>, generation: i64, expect: (i64, &str)| {
            let mut current = object! {
                "metadata" => object! { "generation" => generation },
                "spec" => object! { "matchingPrecedence" => 7 },
            };
            if let Some(value) = annotation {
                current.set(&["metadata", "annotations", AUTO_UPDATE], value);
            }
            let new = mended(name, &current, &object! { "matchingPrecedence" => 1 });
            let found = new.at(&["spec", "matchingPrecedence"]).and_then(Value::as_i64);
            let annotation = new.str_at(&["metadata", "annotations", AUTO_UPDATE]);
            assert_eq!((found, annotation), (Some(expect.0), Some(expect.1)), "{name} {annotation:?} {generation}");
        };
        check("probes", Some("true"), 3, (1, "true"));
        check("probes", Some("false"), 1, (7, "false"));
        check("probes", None, 1, (1, "true"));
        check("probes", None, 2, (7, "false"));
        check("catch-all", Some("false"), 2, (1, "true"));
    }
}
