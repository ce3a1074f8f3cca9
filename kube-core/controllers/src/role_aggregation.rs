//! Cluster roles whose rules are those of the roles that their selectors choose.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use http::Method;
use machinery::{
    Str, Value,
    codec::json,
    json::scan,
    meta::{Meta, selector::LabelSelector, status::Status},
    object,
    value::Content,
};
use storage::cache::{CacheEntry, Object};

use crate::{
    client::{Client, segment},
    follow::follow,
    ready::Ready,
    shared::Shared,
    workqueue::{Backoff, Outcome, Queue},
};

const RBAC: &str = "rbac.authorization.k8s.io";
const MANAGER: &str = "clusterrole-aggregation-controller";
const WORKERS: usize = 5;

/// Keeps their rules up to date.
pub(crate) async fn run(shared: Arc<Shared>, ready: Ready) {
    let queue: Queue<Str> = Queue::new("ClusterRoleAggregator", Backoff::default(), &shared.metrics);
    let roles = shared.lister(RBAC, "clusterroles").clone();
    // Any role may be one that is chosen: all that choose are looked at, each once.
    let choosing: Arc<Mutex<HashSet<Str>>> = Arc::default();
    let (added, known) = (queue.clone(), choosing.clone());
    let each = move |old: Option<&Arc<Object>>, new: Option<&Arc<Object>>| {
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let name = new.or(old).map(|role| Str::from(role.name())).unwrap_or_default();
        match new.is_some_and(|role| scan::field(role.bytes(), &["aggregationRule"]).is_some()) {
            true => known.insert(name),
            false => known.remove(&name),
        };
        known.iter().for_each(|name| added.add(name.clone()));
    };
    let client = shared.client();
    let sync = move |name: Str| {
        let (shared, client) = (shared.clone(), client.clone());
        async move { sync(&shared, &client, &name).await }
    };
    tokio::select! {
        () = follow(&roles, each, || ready.synced()) => {}
        () = queue.work(WORKERS, sync) => {}
    }
}

async fn sync(shared: &Shared, client: &Client, name: &str) -> Result<Outcome, Status> {
    let lister = shared.lister(RBAC, "clusterroles");
    let Some(role) = lister.find("", name).await? else { return Ok(Outcome::Done) };
    let role = lister.decode(role.bytes())?;
    let Some(selectors) = role.at(&["aggregationRule", "clusterRoleSelectors"]).and_then(Value::as_array) else {
        return Ok(Outcome::Done);
    };
    let snapshot = lister.cache().latest();
    let roles: Vec<&Arc<Object>> = snapshot.range("", None).filter_map(CacheEntry::object).collect();
    let mut rules = Rules::default();
    for selector in selectors {
        let selector = LabelSelector::from_value(selector).map_err(Status::internal_error)?;
        let chosen = roles.iter().filter(|role| selector.matches_with(|label| role.labels().get(label)));
        for chosen in chosen.filter(|chosen| chosen.name() != name) {
            rules.add(&lister.decode(chosen.bytes())?);
        }
    }
    if role.get("rules").and_then(Value::as_array).unwrap_or_default() == rules.all {
        return Ok(Outcome::Done);
    }
    let config = object! {
        "apiVersion" => format!("{RBAC}/v1"), "kind" => "ClusterRole",
        "metadata" => object! { "name" => Meta::of(&role).name() }, "rules" => rules.all,
    };
    let path = format!("/apis/{RBAC}/v1/clusterroles/{}?fieldManager={MANAGER}&force=true", segment(name));
    let body: Bytes = json::encode(&config).into();
    let types = ("application/json", "application/apply-patch+yaml");
    client.send(Method::PATCH, &path, types, body).await.map(|_| Outcome::Done)
}

/// Rules, each once.
#[derive(Default)]
struct Rules {
    all: Vec<Value>,
}

impl Rules {
    fn add(&mut self, role: &Value) {
        let rules = role.get("rules").and_then(Value::as_array).unwrap_or_default();
        let known: HashSet<Content<'_>> = self.all.iter().map(Content).collect();
        let mut seen = HashSet::new();
        let new: Vec<Value> = rules
            .iter()
            .filter(|rule| !known.contains(&Content(rule)) && seen.insert(Content(rule)))
            .cloned()
            .collect();
        drop(known);
        self.all.extend(new);
    }
}

#[cfg(test)]
mod tests {
    use machinery::array;

    use super::*;

    #[test]
    fn rules_stand_once_in_the_order_in_which_they_are_met() {
        let rule = |verb: &str| object! { "verbs" => array![verb] };
        let mut rules = Rules::default();
        rules.add(&object! { "rules" => array![rule("get"), rule("list"), rule("get")] });
        rules.add(&object! { "rules" => array![rule("list"), rule("watch")] });
        rules.add(&object! {});
        assert_eq!(rules.all, [rule("get"), rule("list"), rule("watch")]);
    }
}
