//! Tokens of service accounts that were kept in secrets of their own accord, as servers once made them: those that nobody has
//! used for a year are marked as invalid, and deleted after another.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use machinery::{
    Str, Value,
    meta::{GvrRef, Meta, TimeForm, Timestamp, status::Status},
    object,
};
use storage::cache::{CacheEntry, ReadAt};

use crate::{client::Deletion, objects::Key, ready::Ready, shared::Shared};

/// How long a token may not be used (`--legacy-service-account-token-clean-up-period`).
const PERIOD: i64 = 365 * DAY;
const DAY: i64 = 24 * 3600;
/// How often they are looked at.
const INTERVAL: Duration = Duration::from_secs(24 * 3600);
const RETRY: Duration = Duration::from_secs(60);

const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";
const TOKEN: &str = "kubernetes.io/service-account-token";
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
const ACCOUNT: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// Looks at them once a day.
pub(crate) async fn run(shared: Arc<Shared>, ready: Ready) {
    ready.synced();
    loop {
        let pause = match pass(&shared, Timestamp::now().seconds()).await {
            Ok(()) => INTERVAL,
            Err(status) => {
                tracing::warn!(error = status.message, "cannot look for tokens that nobody uses");
                RETRY
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// A day as labels have it.
fn day(seconds: i64) -> String {
    let mut text = Timestamp::new(seconds, 0).text(TimeForm::Seconds);
    text.truncate(10);
    text
}

/// Whether a text is a day.
fn is_day(text: &str) -> bool {
    text.len() == 10 && Timestamp::parse(&format!("{text}T00:00:00Z"), TimeForm::Seconds).is_ok()
}

/// What becomes of a token.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Keep,
    /// It is marked as invalid from today on.
    Mark,
    Delete,
}

/// Judges a secret by itself: whether it is a token that nobody has used for so long.
fn judge(secret: &Value, now: i64) -> Verdict {
    let meta = Meta::of(secret);
    let created = meta.creation_timestamp().and_then(|text| Timestamp::parse(text, TimeForm::Seconds).ok());
    let is_old = created.is_some_and(|created| created.seconds() < now - PERIOD);
    if secret.str_at(&["type"]) != Some(TOKEN) || !is_old || meta.is_terminating() {
        return Verdict::Keep;
    }
    let from = day(now - PERIOD);
    match meta.label(LAST_USED) {
        Some(used) if !is_day(used) || used >= from.as_str() => return Verdict::Keep,
        _ => {}
    }
    match meta.label(INVALID_SINCE).filter(|since| is_day(since)) {
        None => Verdict::Mark,
        Some(since) if since >= from.as_str() => Verdict::Keep,
        Some(_) => Verdict::Delete,
    }
}

async fn pass(shared: &Shared, now: i64) -> Result<(), Status> {
    let tracking = shared.lister("", "configmaps").get_value("kube-system", TRACKING).await?;
    let since = tracking.str_at(&["data", "since"]).filter(|since| is_day(since));
    let since = since.and_then(|day| Timestamp::parse(&format!("{day}T00:00:00Z"), TimeForm::Seconds).ok());
    // Uses are noted from the day after on.
    if since.is_none_or(|since| now < since.seconds() + DAY + PERIOD) {
        return Ok(());
    }
    let secrets = shared.lister("", "secrets");
    let snapshot = secrets.cache().read(ReadAt::Latest).await;
    let snapshot = snapshot.map_err(|error| Status::internal_error(error.to_string()))?;
    let mut mounted: HashMap<Str, HashSet<Str>> = HashMap::new();
    for object in snapshot.range("", None).filter_map(CacheEntry::object) {
        let secret = secrets.decode(object.bytes())?;
        let verdict = judge(&secret, now);
        let key = Key::of(object);
        if verdict == Verdict::Keep || !is_generated(shared, &key, &secret).await? {
            continue;
        }
        if !mounted.contains_key(&key.namespace) {
            mounted.insert(key.namespace.clone(), secrets_of_pods(shared, &key.namespace).await?);
        }
        if mounted[&key.namespace].contains(&key.name) {
            continue;
        }
        let (client, path) = (shared.client(), key.path(GvrRef::new("", "v1", "secrets")));
        let result = if verdict == Verdict::Mark {
            let metadata =
                object! { "uid" => Meta::of(&secret).uid(), "labels" => object! { INVALID_SINCE => day(now) } };
            client.merge(&path, &object! { "metadata" => metadata }).await.map(|_| ())
        } else {
            tracing::info!(
                namespace = key.namespace.as_str(),
                secret = key.name.as_str(),
                "a token that nobody uses goes"
            );
            let version = object.revision().to_string();
            client.delete(&path, Deletion { version: &version, ..Deletion::default() }).await
        };
        if let Err(status) = result {
            tracing::warn!(secret = key.name.as_str(), error = status.message, "cannot clean up a token");
        }
    }
    Ok(())
}

/// Whether the account names the secret as its own: then it was made by itself.
async fn is_generated(shared: &Shared, key: &Key, secret: &Value) -> Result<bool, Status> {
    let meta = Meta::of(secret);
    let Some(name) = meta.annotation(ACCOUNT).filter(|name| !name.is_empty()) else { return Ok(false) };
    let lister = shared.lister("", "serviceaccounts");
    let Some(account) = lister.find(&key.namespace, name).await? else { return Ok(false) };
    let account = lister.decode(account.bytes())?;
    let uid = meta.annotation(ACCOUNT_UID).unwrap_or_default();
    let secrets = account.get("secrets").and_then(Value::as_array).unwrap_or_default();
    let is_named = secrets.iter().any(|secret| secret.str_at(&["name"]) == Some(&key.name));
    Ok(is_named && (uid.is_empty() || uid == Meta::of(&account).uid()))
}

/// All secrets that pods of a namespace name, wherever they do: every `secretName`, and the names in references.
async fn secrets_of_pods(shared: &Shared, namespace: &str) -> Result<HashSet<Str>, Status> {
    let lister = shared.lister("", "pods");
    let snapshot = lister.cache().read(ReadAt::Latest).await;
    let snapshot = snapshot.map_err(|error| Status::internal_error(error.to_string()))?;
    let mut names = HashSet::new();
    for pod in snapshot.range(&lister.namespace_prefix(namespace), None).filter_map(CacheEntry::object) {
        collect(lister.decode(pod.bytes())?.get("spec").unwrap_or(&Value::Null), &mut names);
    }
    Ok(names)
}

fn collect(value: &Value, names: &mut HashSet<Str>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let found = match name.as_str() {
                    "secretName" => value.as_shared_str(),
                    "secret" | "secretRef" | "secretKeyRef" => value.get("name").and_then(Value::as_shared_str),
                    _ if name.ends_with("SecretRef") => value.get("name").and_then(Value::as_shared_str),
                    "imagePullSecrets" => {
                        let references = value.as_array().unwrap_or_default();
                        names.extend(references.iter().filter_map(|r| r.get("name")?.as_shared_str().cloned()));
                        None
                    }
                    _ => None,
                };
                names.extend(found.cloned());
                collect(value, names);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, names)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use machinery::array;

    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn secret(created: i64, labels: &[(&'static str, String)]) -> Value {
        let mut secret = object! {
            "metadata" => object! { "creationTimestamp" => Timestamp::new(created, 0).text(TimeForm::Seconds) },
            "type" => TOKEN,
        };
        labels.iter().for_each(|(name, value)| secret.set(&["metadata", "labels", *name], value.as_str()));
        secret
    }

    #[test]
    fn tokens_that_nobody_uses_are_marked_and_then_go() {
        let old = NOW - 3 * PERIOD;
        let check = |created: i64, labels: &[(&'static str, String)], expect: Verdict| {
            assert_eq!(judge(&secret(created, labels), NOW), expect, "{labels:?}");
        };
        check(NOW - DAY, &[], Verdict::Keep);
        check(old, &[], Verdict::Mark);
        check(old, &[(LAST_USED, day(NOW - DAY))], Verdict::Keep);
        check(old, &[(LAST_USED, "yesterday".to_owned())], Verdict::Keep);
        check(old, &[(LAST_USED, day(NOW - 2 * PERIOD))], Verdict::Mark);
        check(old, &[(INVALID_SINCE, "bad".to_owned())], Verdict::Mark);
        check(old, &[(INVALID_SINCE, day(NOW - DAY))], Verdict::Keep);
        check(old, &[(INVALID_SINCE, day(NOW - PERIOD - DAY))], Verdict::Delete);
        let mut other = secret(old, &[]);
        other.set(&["type"], "Opaque");
        assert_eq!(judge(&other, NOW), Verdict::Keep);
    }

    #[test]
    fn secrets_that_pods_name_are_found_wherever_they_stand() {
        let reference = |name: &str| object! { "name" => name };
        let spec = object! {
            "imagePullSecrets" => array![reference("pull")],
            "volumes" => array![
                object! { "secret" => object! { "secretName" => "volume" } },
                object! { "projected" => object! { "sources" => array![object! { "secret" => reference("projected") }] } },
                object! { "csi" => object! { "nodePublishSecretRef" => reference("csi") } },
            ],
            "containers" => array![object! {
                "name" => "c",
                "envFrom" => array![object! { "secretRef" => reference("all") }],
                "env" => array![object! { "valueFrom" => object! { "secretKeyRef" => reference("one") } }],
            }],
        };
        let mut names = HashSet::new();
        collect(&spec, &mut names);
        let mut names: Vec<_> = names.into_iter().collect();
        names.sort_unstable();
        assert_eq!(names, ["all", "csi", "one", "projected", "pull", "volume"]);
    }
}
