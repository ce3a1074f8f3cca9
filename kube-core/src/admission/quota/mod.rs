//! ResourceQuota: what is written in a namespace is charged to its quotas first, and refused where they do not suffice.
//!
//! Usage is written to the quotas' status by compare-and-swap before the object itself is written, so that servers that
//! write at the same time never promise more than there is. What a write that failed afterwards has taken, and what is freed
//! by deletions, is counted anew by the quota controller of kube-controller-manager.

mod charge;
mod evaluator;
mod pods;
mod queue;
mod recount;
mod scopes;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use generic_server::{
    admission::{Admission, Attributes, Operation, Steps},
    registry::Registry,
};
use machinery::{
    Str, Value,
    meta::{Meta, field_error::FieldError, status::Status},
};

use super::{PluginConfigError, expect_kind, parsed::Parsed};
use crate::core::pods::{Amounts, amounts_in};
use charge::Ask;
use evaluator::Evaluator;
use queue::Queue;
pub use recount::Recount;
use scopes::Scope;

/// How long a write waits for its turn (upstream: the same).
const TIMEOUT: Duration = Duration::from_secs(10);

/// A quota as it was last written.
#[derive(Clone)]
struct Quota {
    name: Str,
    resource_version: Str,
    scopes: Vec<Scope>,
    /// The bounds that the quota controller has taken up: what is not in the status binds nobody yet.
    hard: Amounts,
    used: Amounts,
}

impl Quota {
    fn read(quota: &Value) -> Quota {
        let meta = Meta::of(quota);
        Quota {
            name: meta.name().into(),
            resource_version: meta.resource_version().into(),
            scopes: Scope::all_of(quota.get("spec").unwrap_or(&Value::Null)),
            hard: amounts_in(quota.at(&["status", "hard"])),
            used: amounts_in(quota.at(&["status", "used"])),
        }
    }
}

/// Something that may be used only where a quota covers it.
#[derive(Clone, Debug, Default)]
pub struct LimitedResource {
    /// The API group of what uses it.
    pub group: Str,
    /// The resource that uses it.
    pub resource: Str,
    /// Parts of the names of what is limited.
    pub contains: Vec<Str>,
    /// Scopes in which it is limited, as quotas write them (`scopeName`, `operator`, `values`).
    pub scopes: Vec<Value>,
}

impl LimitedResource {
    /// Reads a `ResourceQuotaConfiguration`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn all_of(config: &Value) -> Result<Vec<Self>, PluginConfigError> {
        let known = [
            ("apiserver.config.k8s.io/v1", "ResourceQuotaConfiguration"),
            ("resourcequota.admission.k8s.io/v1beta1", "Configuration"),
            ("resourcequota.admission.k8s.io/v1alpha1", "Configuration"),
        ];
        expect_kind(config, &known, "ResourceQuotaConfiguration")?;
        let list = |value: &Value, name: &str| -> Vec<Value> {
            value.get(name).and_then(Value::as_array).unwrap_or_default().to_vec()
        };
        let read = |(i, limited): (usize, &Value)| {
            let resource = limited.str_at(&["resource"]).unwrap_or_default();
            if resource.is_empty() {
                let missing = FieldError::required(format!("limitedResources[{i}].resource"), "");
                return Err(PluginConfigError::Invalid(vec![missing]));
            }
            Ok(LimitedResource {
                group: limited.str_at(&["apiGroup"]).unwrap_or_default().into(),
                resource: resource.into(),
                contains: list(limited, "matchContains").iter().filter_map(|v| v.as_shared_str().cloned()).collect(),
                scopes: list(limited, "matchScopes"),
            })
        };
        list(config, "limitedResources").iter().enumerate().map(read).collect()
    }
}

/// The plugin.
pub(super) struct ResourceQuota {
    quotas: Arc<Parsed<Quota>>,
    limited: Arc<[charge::Limited]>,
    queue: Queue,
}

impl ResourceQuota {
    pub(super) fn new(quotas: Arc<Registry>, limited: &[LimitedResource]) -> Self {
        let writer = quotas;
        let quotas = Arc::new(Parsed::new(writer.lister().clone(), Quota::read));
        let limited: Arc<[_]> = limited.iter().map(charge::Limited::new).collect();
        ResourceQuota { queue: Queue::new(quotas.clone(), writer, limited.clone()), quotas, limited }
    }
}

#[async_trait]
impl Admission for ResourceQuota {
    fn steps(&self) -> Steps {
        Steps::Validate
    }

    async fn validate(&self, a: &Attributes<'_>, object: &Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        if a.namespace.is_empty() || !matches!(a.operation, Operation::Create | Operation::Update) {
            return Ok(());
        }
        if self.limited.is_empty() && self.quotas.in_namespace(a.namespace).await?.is_empty() {
            return Ok(());
        }
        let Some(evaluator) = Evaluator::of(a) else { return Ok(()) };
        let ask = Ask::new(a, evaluator, object);
        match tokio::time::timeout(TIMEOUT, self.queue.decide(a.namespace, ask)).await {
            Ok(decision) => decision,
            Err(_) => Err(Status::internal_error("resource quota evaluation timed out")),
        }
    }
}
