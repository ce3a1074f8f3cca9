//! Conversion `Webhook`: somebody else converts, in reviews (`ConversionReview`) over HTTPS.
//!
//! A webhook may hang, fail or lie: a call has a deadline, few are under way at once, the answer has a limit, and what it
//! says is believed only where it may say something. Errors are of the one request that needed the conversion.

use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use generic_server::resource::RemoteConversion;
use machinery::{Str, Value, codec::json, meta::status::Status, object, schema};
use outbound::{Call, Resolver};
use tokio::sync::Semaphore;

use super::{
    converted,
    metrics::{ConversionMetrics, Failure},
    strategy::CustomStrategy,
};
use crate::definition::Definition;

/// Upstream's time for a call.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How many calls of one webhook are under way at once; the others wait.
const CALLS: usize = 8;
/// An answer may be so many times as large as its question, and so many bytes larger.
const GROWTH: usize = 4;
const ROOM: usize = 1 << 20;
const GROUP: &str = "apiextensions.k8s.io";

/// The webhook of one definition.
pub(super) struct Webhook {
    definition: Str,
    group: Str,
    /// The first version of the review that both sides know.
    review: Option<&'static str>,
    strategy: Arc<CustomStrategy>,
    hook: outbound::Webhook,
    calls: Semaphore,
    metrics: Arc<ConversionMetrics>,
}

/// Why a review came to nothing: which kind of failure, and upstream's text.
struct Refusal(Failure, String);

impl Webhook {
    /// The webhook of a definition, if it converts by one.
    pub(super) fn of(
        definition: Definition<'_>,
        strategy: &Arc<CustomStrategy>,
        services: &Arc<Resolver>,
        metrics: &Arc<ConversionMetrics>,
    ) -> Option<Arc<Self>> {
        let conversion = definition.0.at(&["spec", "conversion"])?;
        if conversion.str_at(&["strategy"]) != Some("Webhook") {
            return None;
        }
        let webhook = conversion.get("webhook")?;
        let config = webhook.get("clientConfig")?;
        let versions = webhook.get("conversionReviewVersions").and_then(Value::as_array).unwrap_or_default();
        let known = |version: &Value| ["v1", "v1beta1"].into_iter().find(|known| version.as_str() == Some(known));
        Some(Arc::new(Webhook {
            definition: definition.0.str_at(&["metadata", "name"]).unwrap_or("").into(),
            group: definition.group(),
            review: versions.iter().find_map(known),
            strategy: strategy.clone(),
            hook: outbound::Webhook::of_config(config, services.clone()),
            calls: Semaphore::new(CALLS),
            metrics: metrics.clone(),
        }))
    }

    async fn review(&self, objects: &[Value], to: &str, what: &str) -> Result<Vec<Value>, Refusal> {
        let Some(version) = self.review else {
            return Err(Refusal(Failure::Call, "no supported conversion review versions".to_owned()));
        };
        let uid = uuid::Uuid::new_v4().to_string();
        let request = object! { "uid" => uid.as_str(), "desiredAPIVersion" => to, "objects" => objects.to_vec() };
        // Upstream asks with its answer's type, which is written down empty.
        let answer = object! {
            "uid" => "", "convertedObjects" => Value::Null, "result" => object! { "metadata" => Value::object() },
        };
        let review = object! {
            "kind" => "ConversionReview", "apiVersion" => format!("{GROUP}/{version}"), "request" => request,
            "response" => answer,
        };
        let document = json::encode(&review);
        let limit = document.len().saturating_mul(GROWTH).saturating_add(ROOM);
        let failed = |failure, why: String| Refusal(failure, format!("conversion webhook for {what} failed: {why}"));
        let _turn = self.calls.acquire().await.map_err(|e| failed(Failure::Call, e.to_string()))?;
        let call = Call { timeout: TIMEOUT, limit };
        let span = traces::span("Call conversion webhook", |a| {
            a.text("custom-resource-definition", &self.definition);
            a.text("desired-api-version", to);
            a.int("object-count", objects.len());
            a.text("UID", &uid);
        });
        let called = span.within(pin!(self.hook.call(document, call))).await;
        let body = called.map_err(|why| failed(Failure::Call, why.to_string()))?;
        span.event("Request completed", |_| {});
        converted::of_review(&body, version, &uid).map_err(|why| failed(Failure::Malformed, why))
    }

    async fn converted(&self, objects: Vec<Value>, to: &str) -> Result<Vec<Value>, Refusal> {
        let what = shown(&objects);
        let converted = self.review(&objects, to, &what).await?;
        if converted.len() != objects.len() {
            let (got, expected) = (converted.len(), objects.len());
            let why = format!("conversion webhook for {what} returned {got} objects, expected {expected}");
            return Err(Refusal(Failure::Partial, why));
        }
        let version = to.rsplit('/').next().unwrap_or(to);
        let schema = self.strategy.schema(version).unwrap_or_default();
        let pairs = objects.iter().zip(converted);
        pairs
            .map(|(original, answer)| {
                let mut object = converted::checked(original, answer, to)
                    .map_err(|problem| Refusal(Failure::Invalid, problem.of(&what)))?;
                schema::prune(&schema, &mut object);
                Ok(object)
            })
            .collect()
    }
}

/// What is converted, as errors name it: objects are, also those of a list.
fn shown(objects: &[Value]) -> String {
    let text = |key: &str| objects.first().and_then(|o| o.str_at(&[key])).unwrap_or("");
    format!("{}, Kind={}", text("apiVersion"), text("kind"))
}

#[async_trait]
impl RemoteConversion for Webhook {
    async fn convert(&self, objects: Vec<Value>, api_version: &str) -> Result<Vec<Value>, Status> {
        let from = objects.first().and_then(|o| o.str_at(&["apiVersion"])).unwrap_or("");
        let from = Str::from(from.strip_prefix(self.group.as_str()).unwrap_or(from).trim_start_matches('/'));
        let begun = Instant::now();
        let result = self.converted(objects, api_version).await;
        let elapsed = begun.elapsed();
        let to = api_version.rsplit('/').next().unwrap_or(api_version);
        self.metrics.observe(&self.definition, &from, to, elapsed, result.as_ref().err().map(|r| r.0));
        result.map_err(|Refusal(_, why)| Status::unknown_error(why))
    }
}
