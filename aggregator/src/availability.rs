//! Checks the availability of remote servers: the condition `Available`, checked when something changes and every so often.

use std::{sync::Arc, time::Duration};

use generic_server::{registry::Registry, tasks::Task};
use machinery::{
    Value,
    meta::{TimeForm, Timestamp},
    object,
};
use outbound::Unavailable;

use crate::{
    backends::{Backend, Backends},
    metrics, remote_discovery,
};

/// How often caches are looked at.
const TICK: Duration = Duration::from_millis(200);
/// After so many ticks everything is checked again.
const PERIOD: u64 = 50;
/// How long a server may take to answer a check.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Keeps the conditions.
pub(crate) fn control(registry: Arc<Registry>, backends: Arc<Backends>) -> Task {
    Task::new("apiservice-status-remote-available-controller", move |cx| {
        let (registry, backends) = (registry.clone(), backends.clone());
        async move {
            registry.cache().ready().await?;
            cx.ready();
            let mut seen = 0;
            for tick in 0_u64.. {
                let all = backends.all();
                let now = all.first().map_or(0, |b| {
                    let resolver = &b.resolver;
                    resolver.services.metrics().changes + resolver.slices.metrics().changes
                });
                let now = now + backends.generation();
                if now != seen || tick % PERIOD == 0 {
                    seen = now;
                    for backend in all {
                        let (registry, backends) = (registry.clone(), backends.clone());
                        // A server that hangs must not keep the others from being checked.
                        tokio::spawn(async move { check(&registry, &backends, &backend).await });
                    }
                }
                tokio::select! {
                    () = cx.cancelled() => break,
                    () = tokio::time::sleep(TICK) => {}
                }
            }
            Ok(())
        }
    })
}

async fn check(registry: &Arc<Registry>, backends: &Backends, backend: &Backend) {
    let Ok(_alone) = backend.checking.try_lock() else { return };
    let found = probe(backend).await;
    if let (Err(why), Ok(())) = (&found, &**backend.state.load()) {
        metrics::lost(&backend.name(), why.reason);
    }
    if found.is_ok() {
        if backend.state.load().is_err() || backend.resources.load().is_none() {
            if let Some(resources) = remote_discovery::fetch(backend).await {
                backend.resources.store(Some(Arc::new(resources)));
            }
            backends.changed();
        }
    } else if backend.state.load().is_ok() {
        backends.changed();
    }
    let condition = condition(&found);
    backend.state.store(Arc::new(found));
    write(registry, &backend.name(), condition).await;
}

/// Asks the server for its group version.
async fn probe(backend: &Backend) -> Result<(), Unavailable> {
    backend.resolver.check(&backend.service)?;
    let failed = |message| Unavailable { reason: "FailedDiscoveryCheck", message };
    let (host, port) = backend.resolver.resolve(&backend.service).map_err(|why| failed(why.to_string()))?;
    let path = format!("/apis/{}/{}", backend.group, backend.version);
    let shown = format!("https://{host}:{port}{path}");
    let missing = |why: String| failed(format!("failing or missing response from {shown}: {why}"));
    let response = remote_discovery::get(backend, &path, "application/json", TIMEOUT).await;
    match response {
        Err(error) => Err(missing(error)),
        Ok(response) if response.status().is_success() => Ok(()),
        Ok(response) => Err(missing(format!("bad status from {shown}: {}", response.status().as_u16()))),
    }
}

fn condition(found: &Result<(), Unavailable>) -> Value {
    let (status, reason, message) = match found {
        Ok(()) => ("True", "Passed", "all checks passed"),
        Err(why) => ("False", why.reason, why.message.as_str()),
    };
    object! { "type" => "Available", "status" => status, "reason" => reason, "message" => message }
}

/// Writes the condition if it says something new.
async fn write(registry: &Arc<Registry>, name: &str, condition: Value) {
    let edit = |current: &Value| {
        let mut new = current.clone();
        let mut conditions: Vec<Value> =
            current.at(&["status", "conditions"]).and_then(Value::as_array).unwrap_or_default().to_vec();
        let old = conditions.iter().position(|c| c.str_at(&["type"]) == Some("Available"));
        let mut condition = condition.clone();
        let before = old.map(|i| conditions[i].clone());
        let same_status = before.as_ref().is_some_and(|b| b.get("status") == condition.get("status"));
        let time = before.as_ref().filter(|_| same_status).and_then(|b| b.get("lastTransitionTime").cloned());
        let time = time.unwrap_or_else(|| Timestamp::now().text(TimeForm::Seconds).into());
        condition.make_object().insert("lastTransitionTime", time);
        match old {
            Some(i) => conditions[i] = condition,
            None => conditions.push(condition),
        }
        new.set(&["status", "conditions"], conditions);
        Ok(new)
    };
    match registry.edit("", name, "status", edit).await {
        Ok(_) => {}
        Err(status) if status.is_not_found() => {} // deleted meanwhile
        Err(status) => tracing::warn!(apiservice = name, error = %status, "cannot write the condition"),
    }
}
