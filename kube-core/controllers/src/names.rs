//! The controllers by name: kube-controller-manager's names, and the older ones that it takes as well.

use std::{future::Future, pin::Pin, sync::Arc};

use crate::{
    bootstrap_tokens, csr_cleaner, disruption, garbage, legacy_tokens, namespace, ready::Ready, resource_quota,
    role_aggregation, root_ca, service_accounts, shared::Shared, ttl_after_finished, volume_protection,
};

/// The work of a controller, which goes on until it is dropped or its caches stop.
pub(crate) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A controller.
pub(crate) struct Name {
    /// Its name.
    pub(crate) name: &'static str,
    /// An older name.
    alias: &'static str,
    /// Its service account in kube-system.
    pub(crate) account: &'static str,
    /// Whether `*` means it, too; others are named.
    pub(crate) in_all: bool,
    /// What it does. Called anew whenever it takes over.
    pub(crate) work: fn(Arc<Shared>, Ready) -> Work,
}

impl Name {
    pub(crate) fn is(&self, name: &str) -> bool {
        self.name == name || self.alias == name
    }
}

/// All of them. What is not here is kube-controller-manager's alone: what makes pods or needs nodes.
pub(crate) const NAMES: &[Name] = &[
    Name {
        name: "namespace-controller",
        alias: "namespace",
        account: "namespace-controller",
        in_all: true,
        work: |shared, ready| Box::pin(namespace::run(shared, ready)),
    },
    Name {
        name: "serviceaccount-controller",
        alias: "serviceaccount",
        account: "service-account-controller",
        in_all: true,
        work: |shared, ready| Box::pin(service_accounts::run(shared, ready)),
    },
    Name {
        name: "root-ca-certificate-publisher-controller",
        alias: "root-ca-cert-publisher",
        account: "root-ca-cert-publisher",
        in_all: true,
        work: |shared, ready| Box::pin(root_ca::run(shared, ready)),
    },
    Name {
        name: "garbage-collector-controller",
        alias: "garbagecollector",
        account: "generic-garbage-collector",
        in_all: true,
        work: |shared, ready| Box::pin(garbage::run(shared, ready)),
    },
    Name {
        name: "resourcequota-controller",
        alias: "resourcequota",
        account: "resourcequota-controller",
        in_all: true,
        work: |shared, ready| Box::pin(resource_quota::run(shared, ready)),
    },
    Name {
        name: "disruption-controller",
        alias: "disruption",
        account: "disruption-controller",
        in_all: true,
        work: |shared, ready| Box::pin(disruption::run(shared, ready)),
    },
    Name {
        name: "legacy-serviceaccount-token-cleaner-controller",
        alias: "legacy-service-account-token-cleaner",
        account: "legacy-service-account-token-cleaner",
        in_all: true,
        work: |shared, ready| Box::pin(legacy_tokens::run(shared, ready)),
    },
    Name {
        name: "certificatesigningrequest-cleaner-controller",
        alias: "csrcleaner",
        account: "certificate-controller",
        in_all: true,
        work: |shared, ready| Box::pin(csr_cleaner::run(shared, ready)),
    },
    Name {
        name: "token-cleaner-controller",
        alias: "tokencleaner",
        account: "token-cleaner",
        in_all: false,
        work: |shared, ready| Box::pin(bootstrap_tokens::run(shared, ready)),
    },
    Name {
        name: "clusterrole-aggregation-controller",
        alias: "clusterrole-aggregation",
        account: "clusterrole-aggregation-controller",
        in_all: true,
        work: |shared, ready| Box::pin(role_aggregation::run(shared, ready)),
    },
    Name {
        name: "persistentvolumeclaim-protection-controller",
        alias: "pvc-protection",
        account: "pvc-protection-controller",
        in_all: true,
        work: |shared, ready| Box::pin(volume_protection::claims(shared, ready)),
    },
    Name {
        name: "persistentvolume-protection-controller",
        alias: "pv-protection",
        account: "pv-protection-controller",
        in_all: true,
        work: |shared, ready| Box::pin(volume_protection::volumes(shared, ready)),
    },
    Name {
        name: "ttl-after-finished-controller",
        alias: "ttl-after-finished",
        account: "ttl-after-finished-controller",
        in_all: true,
        work: |shared, ready| Box::pin(ttl_after_finished::run(shared, ready)),
    },
];

/// The names, for help and errors.
pub fn names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().map(|known| known.name)
}
