//! What users define to decide about writes: admission policies with their expressions, and admission webhooks.
//!
//! [`Compiler`] turns an expression into a program, or says what is wrong with it in upstream's words; validation of the kinds
//! and evaluation use the same one.
//!
//! The plugins ValidatingAdmissionPolicy and MutatingAdmissionPolicy ([`Policies`]) share an engine. A `source` holds the
//! policies that have bindings, compiled. For a write, the `engine` finds those that are about it (`matching`), their
//! parameters (`params`) and the objects in the version that has matched; then `conditions` are judged and expressions
//! evaluated (`activation`). What an expression asks the authorizer goes through `questions`. The plugins that call
//! webhooks (`webhooks`) match writes with the same engine. Both may stand in files, too (`manifest`).
//!
//! ```
//! use policies::{Compiler, ExpectedType};
//!
//! let mut compiler = Compiler::new(false, true);
//! compiler.variable("replicas", "object.spec.replicas").unwrap();
//! compiler.compile("variables.replicas <= 5", ExpectedType::Condition).unwrap();
//! let wrong = compiler.compile("variables.replicas", ExpectedType::Message).unwrap_err();
//! assert_eq!(wrong.to_string(), "must evaluate to string but got dyn");
//! ```

mod activation;
mod compile;
mod conditions;
mod declarations;
mod engine;
mod manifest;
mod matching;
mod metrics;
mod mutating;
mod params;
mod patch;
mod questions;
mod source;
mod tables;
mod validating;
mod webhooks;
mod write;

use std::{collections::HashMap, sync::Arc};

use auth::Authorizer;
use generic_server::{
    admission::Admission,
    registry::{Lister, Listers},
};
use outbound::Resolver;

pub use compile::{CompileError, Compiler, ExpectedType};
pub use manifest::{
    ClientFault, ManifestError, ManifestFault, Manifests, ObjectFault, PluginConfig, SUFFIX as STATIC_SUFFIX,
};
pub use tables::Tables;

use engine::Engine;
use metrics::Metrics;
use source::{Hook, PolicySource};

/// What the plugins are built of.
pub struct Policies {
    engine: Arc<Engine>,
    listers: HashMap<&'static str, Arc<Lister>>,
    services: Arc<Resolver>,
    validating: Metrics,
    mutating: Metrics,
    webhooks: webhooks::Metrics,
}

/// The plurals of the kinds that policies and webhooks are made of.
const KINDS: [&str; 6] = [
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
    "mutatingwebhookconfigurations",
];

impl Policies {
    /// With the listers of the built-in groups, the tables of all servers, who is asked what users
    /// may do, and who knows where services are.
    pub fn new(listers: &Listers, tables: Tables, authorizer: Arc<dyn Authorizer>, services: Arc<Resolver>) -> Self {
        let own = KINDS.map(|plural| (plural, listers.of("admissionregistration.k8s.io", plural).clone()));
        Policies {
            engine: Arc::new(Engine { tables, namespaces: listers.of("", "namespaces").clone(), authorizer }),
            listers: HashMap::from(own),
            services,
            webhooks: webhooks::Metrics::new(),
            validating: Metrics::new("validating"),
            mutating: Metrics::new("mutating"),
        }
    }

    /// Adds what is counted to what the server shows.
    pub fn register(&self, registry: &prometheus::Registry) {
        self.validating.register(registry);
        self.mutating.register(registry);
        self.webhooks.register(registry);
    }

    /// The plugin called `name`, with what it reads of `manifests`; `None` if it is none of these.
    ///
    /// # Errors
    /// What is wrong with a manifest.
    pub fn plugin(&self, name: &str, manifests: &Manifests) -> Result<Option<Arc<dyn Admission>>, ManifestError> {
        let lister = |plural: &str| self.listers[plural].clone();
        Ok(Some(match name {
            "ValidatingAdmissionPolicy" => Arc::new(validating::Validating {
                source: PolicySource::new(
                    lister("validatingadmissionpolicies"),
                    lister("validatingadmissionpolicybindings"),
                    manifests.of("ValidatingAdmissionPolicy", Hook::all_of)?,
                ),
                engine: self.engine.clone(),
                metrics: self.validating.clone(),
            }),
            "MutatingAdmissionPolicy" => Arc::new(mutating::Mutating {
                source: PolicySource::new(
                    lister("mutatingadmissionpolicies"),
                    lister("mutatingadmissionpolicybindings"),
                    manifests.of("MutatingAdmissionPolicy", Hook::all_of)?,
                ),
                engine: self.engine.clone(),
                metrics: self.mutating.clone(),
            }),
            name => {
                let parts = (&self.engine, &self.services, &self.webhooks);
                return webhooks::plugin(name, parts, lister, manifests);
            }
        }))
    }
}
