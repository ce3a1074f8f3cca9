//! The `ServiceCIDR` called `kubernetes`: the range that services have addresses of from the start.

use std::{sync::Arc, time::Duration};

use generic_server::{
    registry::Registry,
    tasks::{Task, TaskResult},
};
use machinery::{
    Value, array,
    meta::{Status, TimeForm, Timestamp, ip::Cidr},
    object,
};

const NAME: &str = "kubernetes";
/// How soon a range that somebody has removed is there again.
const PAUSE: Duration = Duration::from_secs(10);

/// Makes the range, and says that it is ready.
pub(super) fn task(ranges: Arc<Registry>, cidrs: Vec<Cidr>) -> Task {
    Task::new("start-kubernetes-service-cidr-controller", move |cx| {
        let (ranges, cidrs) = (ranges.clone(), cidrs.clone());
        async move {
            ranges.cache().ready().await?;
            let texts: Vec<String> = cidrs.iter().map(|c| format!("{}/{}", c.network(), c.prefix)).collect();
            loop {
                keep(&ranges, &texts).await?;
                cx.ready();
                tokio::select! {
                    () = cx.cancelled() => return Ok(()),
                    () = tokio::time::sleep(PAUSE) => {}
                }
            }
        }
    })
}

fn cidrs_of(range: &Value) -> Vec<&str> {
    let cidrs = range.at(&["spec", "cidrs"]).and_then(Value::as_array).unwrap_or_default();
    cidrs.iter().filter_map(Value::as_str).collect()
}

async fn keep(ranges: &Arc<Registry>, wanted: &[String]) -> TaskResult {
    let range = match ranges.get_value("", NAME).await {
        Ok(range) => range,
        Err(status) if status.is_not_found() => {
            let cidrs = Value::from(wanted.iter().map(|c| Value::from(c.as_str())).collect::<Vec<_>>());
            let range = object! {
                "kind" => "ServiceCIDR", "apiVersion" => "networking.k8s.io/v1",
                "metadata" => object! { "name" => NAME }, "spec" => object! { "cidrs" => cidrs },
            };
            match ranges.create_as_server(range).await {
                Err(status) if !status.is_already_exists() => return Err(status.into()),
                _ => ranges.get_value("", NAME).await?,
            }
        }
        Err(status) => return Err(status.into()),
    };
    let have = cidrs_of(&range);
    // A cluster of one family becomes one of two: the only change that the range may see.
    if let ([first, _], [only]) = (wanted, have.as_slice())
        && first == only
    {
        add_family(ranges, wanted).await?;
        return note_ready(ranges, &range).await;
    }
    if !have.iter().all(|cidr| wanted.iter().any(|w| w == cidr)) || have.len() != wanted.len() {
        tracing::warn!(?have, ?wanted, "the ServiceCIDR {NAME} is not what this server is configured with");
        return Ok(());
    }
    note_ready(ranges, &range).await
}

async fn add_family(ranges: &Arc<Registry>, wanted: &[String]) -> Result<(), Status> {
    let cidrs: Vec<Value> = wanted.iter().map(|c| Value::from(c.as_str())).collect();
    let edit = |range: &Value| {
        let mut range = range.clone();
        range.set(&["spec", "cidrs"], cidrs.clone());
        Ok(range)
    };
    ranges.edit("", NAME, "", edit).await.map(|_| ())
}

/// Says that the range is ready, unless somebody has said something about that, or it is on its way out.
async fn note_ready(ranges: &Arc<Registry>, range: &Value) -> TaskResult {
    let conditions = range.at(&["status", "conditions"]).and_then(Value::as_array).unwrap_or_default();
    let is_said = conditions.iter().any(|c| c.str_at(&["type"]) == Some("Ready"));
    if is_said || range.at(&["metadata", "deletionTimestamp"]).is_some() {
        return Ok(());
    }
    let config = object! {
        "kind" => "ServiceCIDR", "apiVersion" => "networking.k8s.io/v1", "metadata" => object! { "name" => NAME },
        "status" => object! { "conditions" => array![object! {
            "type" => "Ready", "status" => "True", "message" => "Kubernetes default Service CIDR is ready",
            "lastTransitionTime" => Timestamp::now().text(TimeForm::Seconds),
        }] },
    };
    ranges.apply_as("kubernetes-service-cidr-controller", ("", NAME, "status"), &config).await?;
    Ok(())
}
