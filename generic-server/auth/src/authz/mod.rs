//! Authorizers, and how a server comes to its own: by flags or by a file.

mod abac;
mod answers;
mod chain;
mod conditions;
pub mod config;
mod metrics;
mod review;
mod webhook;

pub use abac::{Abac, PolicyFault, PolicyFileError};
pub use answers::ExpiringCache;
pub use chain::{Authorizers, AuthorizersError, ReloadableAuthorizer};
pub use conditions::Conditions;
pub use metrics::AuthorizerMetrics;
pub use review::ReviewVersion;
pub use webhook::{WebhookAuthorizer, WebhookSettings};
