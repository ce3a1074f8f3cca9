//! The controllers by name: kube-controller-manager's names, and the older ones that it takes as well.

use std::{future::Future, pin::Pin, sync::Arc};

use crate::{
    bootstrap_tokens, certificates, disruption, endpoints, garbage, legacy_tokens, migrations, namespace, ready::Ready,
    resource_quota, role_aggregation, root_ca, service_accounts, shared::Shared, storage_versions, ttl_after_finished,
    volume_protection,
};

/// The work of a controller, which goes on until it is dropped or its caches stop.
pub(crate) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A controller.
pub(crate) struct Name {
    /// Its name.
    pub(crate) name: &'static str,
    /// An older name; empty if there is none.
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
        !name.is_empty() && (self.name == name || self.alias == name)
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
        name: "endpoints-controller",
        alias: "endpoint",
        account: "endpoint-controller",
        in_all: true,
        work: |shared, ready| Box::pin(endpoints::run(shared, ready)),
    },
    Name {
        name: "endpointslice-controller",
        alias: "endpointslice",
        account: "endpointslice-controller",
        in_all: true,
        work: |shared, ready| Box::pin(endpoints::slices(shared, ready)),
    },
    Name {
        name: "endpointslice-mirroring-controller",
        alias: "endpointslicemirroring",
        account: "endpointslicemirroring-controller",
        in_all: true,
        work: |shared, ready| Box::pin(endpoints::mirror(shared, ready)),
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
        name: "certificatesigningrequest-approving-controller",
        alias: "csrapproving",
        account: "certificate-controller",
        in_all: true,
        work: |shared, ready| Box::pin(certificates::approve(shared, ready)),
    },
    Name {
        name: "certificatesigningrequest-signing-controller",
        alias: "csrsigning",
        account: "certificate-controller",
        in_all: true,
        work: |shared, ready| Box::pin(certificates::sign(shared, ready)),
    },
    Name {
        name: "kube-apiserver-serving-clustertrustbundle-publisher-controller",
        alias: "",
        account: "kube-apiserver-serving-clustertrustbundle-publisher",
        in_all: true,
        work: |shared, ready| Box::pin(certificates::publish(shared, ready)),
    },
    Name {
        name: "certificatesigningrequest-cleaner-controller",
        alias: "csrcleaner",
        account: "certificate-controller",
        in_all: true,
        work: |shared, ready| Box::pin(certificates::clean(shared, ready)),
    },
    Name {
        name: "podcertificaterequest-cleaner-controller",
        alias: "",
        account: "podcertificaterequestcleaner",
        in_all: true,
        work: |shared, ready| Box::pin(certificates::clean_pod_requests(shared, ready)),
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
        name: "storage-version-migrator-controller",
        alias: "svm",
        account: "storage-version-migrator-controller",
        in_all: true,
        work: |shared, ready| Box::pin(migrations::run(shared, ready)),
    },
    Name {
        name: "storageversion-garbage-collector-controller",
        alias: "storage-version-gc",
        account: "storage-version-garbage-collector",
        in_all: true,
        work: |shared, ready| Box::pin(storage_versions::run(shared, ready)),
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
