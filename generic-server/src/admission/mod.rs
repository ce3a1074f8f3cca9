//! Admission: what may be changed about a write, and whether it may happen, beyond authorization and the kind's own rules.

mod always;
mod metrics;
mod reinvocation;

use std::{
    sync::{Arc, Weak},
    time::Instant,
};

use async_trait::async_trait;
use audit::Recorder;
use machinery::{
    Str, Value,
    meta::{GroupResource, Meta, names, status::Status},
    object,
};

pub use always::{AlwaysAdmit, AlwaysDeny};
pub use metrics::AdmissionMetrics;
pub use reinvocation::Reinvocation;

use metrics::{Step, Times};

use crate::{
    options::{DeleteOptions, WriteOptions},
    resource::Resource,
};
use auth::User;

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A new object.
    Create,
    /// A changed object.
    Update,
    /// A deletion.
    Delete,
    /// A request that is handed on (exec, proxy).
    Connect,
}

impl Operation {
    /// As webhooks and policies name it.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }
}

/// The options that a write was sent with.
#[derive(Clone, Copy, Default)]
pub enum OperationOptions<'a> {
    /// None: of requests that are handed on.
    #[default]
    None,
    /// Of a create or an update, whatever verb it is.
    Write(&'a WriteOptions),
    /// Of a deletion.
    Delete(&'a DeleteOptions),
}

/// A write that asks to be admitted.
pub struct Attributes<'a> {
    /// What it does.
    pub operation: Operation,
    /// The row that the request came through.
    pub row: &'a Resource,
    /// The namespace; empty for cluster-scoped resources.
    pub namespace: &'a str,
    /// The object's name; empty while a generated name is not made yet.
    pub name: &'a str,
    /// The subresource.
    pub subresource: &'a str,
    /// Who writes.
    pub user: &'a User,
    /// What is recorded of the request.
    pub audit: &'a Recorder,
    /// Whether nothing will be written.
    pub dry_run: bool,
    /// The options of the request.
    pub options: OperationOptions<'a>,
    /// The object before the write.
    pub old: Option<&'a Value>,
    /// What plugins remember from the first round to the second.
    pub rounds: Reinvocation,
}

impl Attributes<'_> {
    /// The options as webhooks and policies see them; null if there are none.
    pub fn options_document(&self) -> Value {
        let (kind, options) = match (self.options, self.operation) {
            (OperationOptions::None, _) | (_, Operation::Connect) => return Value::Null,
            (OperationOptions::Delete(options), _) => ("DeleteOptions", options.document()),
            (OperationOptions::Write(options), Operation::Create) => ("CreateOptions", options.document()),
            (OperationOptions::Write(options), _) => ("UpdateOptions", options.document()),
        };
        let mut document = object! { "kind" => kind, "apiVersion" => "meta.k8s.io/v1" };
        for (key, value) in options.as_object().into_iter().flatten() {
            document.set(&[key], value.clone());
        }
        document
    }

    /// A refusal of what is written (null for a deletion), which is called by what its name will be made from if it has none yet.
    pub fn forbidden(&self, object: &Value, why: impl std::fmt::Display) -> Status {
        let meta = Meta::of(object);
        let names = [self.name, meta.name(), meta.generate_name(), "Unknown"];
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
        Status::forbidden(&GroupResource::new(self.row.group.clone(), self.row.plural.clone()), name, why)
    }

    /// Notes for those who read the audit log, at levels from `level` on. Keys are names with a prefix; what is none is
    /// passed over.
    pub fn annotate(&self, level: audit::Level, key: impl Into<Str>, value: impl Into<Str>) {
        if self.audit.level() < level {
            return;
        }
        let key = key.into();
        if key.matches('/').count() != 1 || !names::qualified_name(&key).is_empty() {
            tracing::warn!(%key, "no key of an audit annotation");
            return;
        }
        self.audit.annotate(key.to_string(), value);
    }

    /// Whether the write is of this resource.
    pub fn is_of(&self, group: &str, plural: &str) -> bool {
        self.row.group == group && self.row.plural == plural
    }
}

/// Which steps of admission a plugin takes part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// Of none: it is there for its name.
    Neither,
    /// It changes objects, or refuses them before they are final.
    Mutate,
    /// It judges final objects.
    Validate,
    /// Of both.
    Both,
}

/// One admission plugin, or a chain of them.
#[async_trait]
pub trait Admission: Send + Sync {
    /// The steps that it takes part in: it is not asked, and not measured, in others.
    fn steps(&self) -> Steps;

    /// May change the object, or refuse. For a delete `object` is null. Warnings go to the client.
    async fn mutate(
        &self,
        _a: &Attributes<'_>,
        _object: &mut Value,
        _warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        Ok(())
    }

    /// May refuse, when the object is final.
    async fn validate(&self, _a: &Attributes<'_>, _object: &Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        Ok(())
    }
}

/// Plugins in order: all mutate, once more if one asks for that, then all validate. The default has none.
#[derive(Default)]
pub struct Chain {
    mutating: Vec<Measured>,
    validating: Vec<Measured>,
    together: Option<Times>,
}

/// A plugin, and the times that it takes in one step.
struct Measured {
    plugin: Arc<dyn Admission>,
    times: Option<Times>,
}

impl Chain {
    /// Of plugins with their names, whose times are measured if there are metrics.
    pub fn new(plugins: Vec<(&'static str, Arc<dyn Admission>)>, metrics: Option<&AdmissionMetrics>) -> Self {
        let times = |plugin| metrics.map(|metrics| metrics.times_of(plugin));
        let of = |step: Steps| {
            let takes_part = |plugin: &dyn Admission| plugin.steps() == step || plugin.steps() == Steps::Both;
            let plugins = plugins.iter().filter(|(_, plugin)| takes_part(&**plugin));
            plugins.map(|(name, plugin)| Measured { plugin: plugin.clone(), times: times(Some(*name)) }).collect()
        };
        Chain { mutating: of(Steps::Mutate), validating: of(Steps::Validate), together: times(None) }
    }

    async fn mutate_once(
        &self,
        a: &Attributes<'_>,
        object: &mut Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let mut clock = Clock::start();
        for Measured { plugin, times } in &self.mutating {
            let answer = plugin.mutate(a, object, warnings).await;
            clock.lap(times.as_ref(), Step::Mutate, a.operation, answer)?;
        }
        Ok(())
    }

    async fn validate_once(
        &self,
        a: &Attributes<'_>,
        object: &Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let mut clock = Clock::start();
        for Measured { plugin, times } in &self.validating {
            let answer = plugin.validate(a, object, warnings).await;
            clock.lap(times.as_ref(), Step::Validate, a.operation, answer)?;
        }
        Ok(())
    }
}

/// Measures one thing after the other: the end of one is the beginning of the next.
struct Clock(Instant);

impl Clock {
    fn start() -> Self {
        Clock(Instant::now())
    }

    /// Notes how long it took to come to an answer.
    fn lap(
        &mut self,
        times: Option<&Times>,
        step: Step,
        operation: Operation,
        answer: Result<(), Status>,
    ) -> Result<(), Status> {
        if let Some(times) = times {
            let now = Instant::now();
            times.note(step, operation, answer.is_err(), now - self.0);
            self.0 = now;
        }
        answer
    }
}

/// The chain that a plugin belongs to, for what the plugin writes itself.
#[derive(Clone)]
pub struct OwnChain(pub Weak<Chain>);

#[async_trait]
impl Admission for OwnChain {
    fn steps(&self) -> Steps {
        Steps::Both
    }

    async fn mutate(&self, a: &Attributes<'_>, object: &mut Value, warnings: &mut Vec<String>) -> Result<(), Status> {
        let Some(chain) = self.0.upgrade() else { return Err(gone()) };
        chain.mutate(a, object, warnings).await
    }

    async fn validate(&self, a: &Attributes<'_>, object: &Value, warnings: &mut Vec<String>) -> Result<(), Status> {
        let Some(chain) = self.0.upgrade() else { return Err(gone()) };
        chain.validate(a, object, warnings).await
    }
}

fn gone() -> Status {
    Status::service_unavailable("the server is going")
}

#[async_trait]
impl Admission for Chain {
    fn steps(&self) -> Steps {
        Steps::Both
    }

    async fn mutate(&self, a: &Attributes<'_>, object: &mut Value, warnings: &mut Vec<String>) -> Result<(), Status> {
        let mut clock = Clock::start();
        let mut answer = self.mutate_once(a, object, warnings).await;
        if answer.is_ok() && a.rounds.begin_second() {
            answer = self.mutate_once(a, object, warnings).await;
        }
        clock.lap(self.together.as_ref(), Step::Mutate, a.operation, answer)
    }

    async fn validate(&self, a: &Attributes<'_>, object: &Value, warnings: &mut Vec<String>) -> Result<(), Status> {
        let mut clock = Clock::start();
        let answer = self.validate_once(a, object, warnings).await;
        clock.lap(self.together.as_ref(), Step::Validate, a.operation, answer)
    }
}
