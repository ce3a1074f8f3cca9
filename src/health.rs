//! Checks of `/healthz`, `/livez` and `/readyz`.

use std::sync::Arc;

use generic_server::{
    health::{CachesFilled, Check, Health, KmsProvider, NotShuttingDown, Slis, StoreAnswers, TasksReady},
    serve::Lifecycle,
    tasks::Tasks,
};
use storage::{Store, cache::Cache, encrypt::Encryption};

use crate::config::Config;

/// The hooks that upstream has a check for, in its order, and the tasks that do their work here.
const HOOKS: [(&str, &[&str]); 32] = [
    ("start-apiserver-admission-initializer", &["storage-readiness"]),
    ("generic-apiserver-start-informers", &["storage-readiness"]),
    ("priority-and-fairness-config-consumer", &["priority-and-fairness-config-consumer"]),
    ("priority-and-fairness-filter", &["priority-and-fairness-config-consumer"]),
    ("storage-object-count-tracker-hook", &["storage-object-count-tracker-hook"]),
    ("start-apiextensions-informers", &["start-apiextensions-informers"]),
    ("start-apiextensions-controllers", &["start-apiextensions-controllers"]),
    ("crd-informer-synced", &["crd-informer-synced"]),
    ("start-system-namespaces-controller", &["start-system-namespaces-controller"]),
    (
        "start-kube-apiserver-coordinated-leader-election-controller",
        &["start-kube-apiserver-coordinated-leader-election-controller"],
    ),
    ("peer-endpoint-reconciler-controller", &["start-kube-apiserver-identity-lease-controller"]),
    ("start-cluster-authentication-info-controller", &["start-cluster-authentication-info-controller"]),
    ("start-kube-apiserver-identity-lease-controller", &["start-kube-apiserver-identity-lease-controller"]),
    (
        "start-kube-apiserver-identity-lease-garbage-collector",
        &["start-kube-apiserver-identity-lease-garbage-collector"],
    ),
    ("storage-readiness", &["storage-readiness"]),
    ("start-legacy-token-tracking-controller", &["start-legacy-token-tracking-controller"]),
    (
        "start-service-ip-repair-controllers",
        &["start-service-ip-repair-controllers", "start-service-node-port-repair-controllers"],
    ),
    ("rbac/bootstrap-roles", &["rbac/bootstrap-roles"]),
    ("scheduling/bootstrap-system-priority-classes", &["scheduling/bootstrap-system-priority-classes"]),
    ("priority-and-fairness-config-producer", &["priority-and-fairness-config-producer"]),
    ("bootstrap-controller", &["bootstrap-controller"]),
    ("start-kubernetes-service-cidr-controller", &["start-kubernetes-service-cidr-controller"]),
    ("aggregator-reload-proxy-client-cert", &["start-kube-aggregator-informers"]),
    ("start-kube-aggregator-informers", &["start-kube-aggregator-informers"]),
    ("apiservice-status-local-available-controller", &["kube-apiserver-autoregistration"]),
    ("apiservice-status-remote-available-controller", &["apiservice-status-remote-available-controller"]),
    ("apiservice-registration-controller", &["start-kube-aggregator-informers"]),
    ("apiservice-wait-for-first-sync", &["start-kube-aggregator-informers"]),
    ("apiservice-discovery-controller", &["start-kube-aggregator-informers"]),
    ("kube-apiserver-autoregistration", &["kube-apiserver-autoregistration"]),
    ("apiservice-openapi-controller", &["start-kube-aggregator-informers"]),
    ("apiservice-openapiv3-controller", &["start-kube-aggregator-informers"]),
];

/// Upstream's check that what is built in has been registered; it stands behind this hook.
const AUTOREGISTRATION: &str = "kube-apiserver-autoregistration";

/// What the health paths are made of.
pub(crate) struct Healths<'a> {
    pub(crate) config: &'a Config,
    pub(crate) lifecycle: &'a Lifecycle,
    pub(crate) store: &'a Arc<dyn Store>,
    pub(crate) encryption: Option<&'a Arc<Encryption>>,
    pub(crate) tasks: &'a Tasks,
}

/// The health paths.
pub(crate) struct Checks {
    pub(crate) healthz: Arc<Health>,
    pub(crate) livez: Arc<Health>,
    pub(crate) readyz: Arc<Health>,
    /// How the checks went, as metrics.
    pub(crate) slis: Arc<Slis>,
}

impl Healths<'_> {
    /// All of them; `caches` must be filled before the server is ready.
    pub(crate) fn checks(&self, caches: Vec<Arc<Cache>>) -> Checks {
        let slis = Arc::new(Slis::new());
        Checks { healthz: self.healthz(&slis), livez: self.livez(&slis), readyz: self.readyz(&slis, caches), slis }
    }

    fn healthz(&self, slis: &Arc<Slis>) -> Arc<Health> {
        let health = self.store_answers(self.providers(Health::new("healthz").alive()));
        Arc::new(self.hooks(health).counted(slis.clone()))
    }

    fn livez(&self, slis: &Arc<Slis>) -> Arc<Health> {
        let health = self.hooks(self.store_answers(Health::new("livez").alive()));
        Arc::new(health.lenient_for(self.config.requests.livez_grace_period).counted(slis.clone()))
    }

    fn readyz(&self, slis: &Arc<Slis>, caches: Vec<Arc<Cache>>) -> Arc<Health> {
        let ready = StoreAnswers(self.store.clone(), self.config.storage.ready_timeout);
        let health = self
            .store_answers(self.providers(Health::new("readyz")))
            .with("etcd-readiness", Arc::new(ready))
            .with("informer-sync", Arc::new(CachesFilled(caches)));
        let not_ending = Arc::new(NotShuttingDown(self.lifecycle.clone()));
        Arc::new(self.hooks(health).last("shutdown", not_ending).counted(slis.clone()))
    }

    fn providers(&self, health: Health) -> Health {
        kms_checks(self.config, self.encryption)
            .into_iter()
            .fold(health, |health, (name, check)| health.with(name, check))
    }

    fn store_answers(&self, health: Health) -> Health {
        health.with("etcd", Arc::new(StoreAnswers(self.store.clone(), self.config.storage.health_timeout)))
    }

    /// A check for each of upstream's hooks, and for each task that is none of them.
    fn hooks(&self, mut health: Health) -> Health {
        for (name, tasks) in HOOKS {
            let running: Vec<_> = tasks.iter().copied().filter(|task| self.tasks.state(task).is_some()).collect();
            if running.is_empty() {
                continue; // flags have switched it off
            }
            let check = Arc::new(TasksReady(self.tasks.clone(), running));
            health = health.with(format!("poststarthook/{name}"), check.clone());
            if name == AUTOREGISTRATION {
                health = health.with("autoregister-completion", check);
            }
        }
        let known: Vec<&str> = HOOKS.iter().flat_map(|(_, tasks)| tasks.iter().copied()).collect();
        health.tasks(self.tasks.clone(), known)
    }
}

/// One check for all KMS providers if they may change or all speak the second protocol, else one for each.
fn kms_checks(config: &Config, encryption: Option<&Arc<Encryption>>) -> Vec<(String, Arc<dyn Check>)> {
    let Some(encryption) = encryption else { return Vec::new() };
    let check = |at| Arc::new(KmsProvider(encryption.clone(), at)) as Arc<dyn Check>;
    let plugins = encryption.kms_health().len();
    let follows = config.storage.encryption.as_ref().is_some_and(|options| options.reload);
    if follows || (plugins > 0 && !encryption.has_first_kms()) {
        return vec![("kms-providers".to_owned(), check(None))];
    }
    (0..plugins).map(|at| (format!("kms-provider-{at}"), check(Some(at)))).collect()
}
