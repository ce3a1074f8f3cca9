//! Since when the cluster's API servers note the use of tokens kept in secrets: the config map
//! `kube-system/kube-apiserver-legacy-service-account-token-tracking` says it, and cleaners of unused tokens go by it
//! (KEP-2799).

use std::{sync::Arc, time::Duration};

use generic_server::{
    registry::Registry,
    tasks::{Task, TaskContext, TaskResult},
};
use machinery::{
    Str, Value,
    meta::{TimeForm, Timestamp},
    object,
};
use storage::cache::{Everything, Scope};
use tokio::time::Instant;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "kube-apiserver-legacy-service-account-token-tracking";
/// How often it is made at most: servers that do not note the use remove it.
const AGAIN: Duration = Duration::from_secs(1800);

/// Keeps the config map.
pub(crate) fn task(config_maps: &Arc<Registry>) -> Task {
    let config_maps = config_maps.clone();
    let run = move |cx| keep(config_maps.clone(), cx);
    Task::new("start-legacy-token-tracking-controller", run).after("start-system-namespaces-controller")
}

async fn keep(config_maps: Arc<Registry>, cx: TaskContext) -> TaskResult {
    let place = Scope::Object { namespace: Some(Str::new_static(NAMESPACE)), name: Str::new_static(NAME) };
    let mut changes = config_maps.cache().follow(place, Arc::new(Everything));
    let mut next_time = Instant::now();
    let mut missing = false;
    loop {
        tokio::select! {
            () = cx.cancelled() => return Ok(()),
            () = tokio::time::sleep_until(next_time), if missing => {}
            next = changes.next() => match next {
                Some(_) => {}
                None => return Ok(()),
            },
        }
        let snapshot = config_maps.cache().latest();
        let current = snapshot.get(&config_maps.key(NAMESPACE, NAME)).and_then(|entry| entry.object());
        missing = current.is_none();
        match current {
            Some(current) => mend(&config_maps, &config_maps.decode(current.bytes())?).await?,
            None if next_time <= Instant::now() => {
                make(&config_maps).await?;
                next_time = Instant::now() + AGAIN;
            }
            None => {}
        }
        cx.ready();
    }
}

fn today() -> String {
    let mut text = Timestamp::now().text(TimeForm::Seconds);
    text.truncate("2006-01-02".len());
    text
}

async fn make(config_maps: &Registry) -> TaskResult {
    let config_map = object! {
        "kind" => "ConfigMap", "apiVersion" => "v1",
        "metadata" => object! { "name" => NAME, "namespace" => NAMESPACE },
        "data" => object! { "since" => today() },
    };
    match config_maps.create_as_server(config_map).await {
        Ok(_) => Ok(()),
        Err(status) if status.is_already_exists() => Ok(()), // another server was faster
        Err(status) => Err(status.into()),
    }
}

/// Begins anew when the config map does not say a day.
async fn mend(config_maps: &Arc<Registry>, current: &Value) -> TaskResult {
    if is_day(current.str_at(&["data", "since"]).unwrap_or_default()) {
        return Ok(());
    }
    let edit = |config_map: &Value| {
        let mut config_map = config_map.clone();
        config_map.set(&["data", "since"], today());
        Ok(config_map)
    };
    match config_maps.edit(NAMESPACE, NAME, "", edit).await {
        Ok(_) => Ok(()),
        Err(status) if status.is_not_found() => Ok(()), // deleted meanwhile
        Err(status) => Err(status.into()),
    }
}

/// Whether a text is a day, such as 2026-11-28.
fn is_day(text: &str) -> bool {
    text.len() == "2006-01-02".len() && Timestamp::parse(&format!("{text}T00:00:00Z"), TimeForm::Seconds).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_told_from_other_texts() {
        let check = |text: &str, expect: bool| assert_eq!(is_day(text), expect, "{text}");
        check(&today(), true);
        check("2026-11-28", true);
        check("2026-02-29", false);
        check("2026-13-01", false);
        check("2026-1-01", false);
        check("", false);
        check("2026-11-28T00:00:00Z", false);
    }
}
