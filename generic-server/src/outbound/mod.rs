//! What this server asks of others: aggregated API servers and webhooks.
//!
//! `client` makes HTTPS clients, `resolve` finds services, `webhook` sends a document and reads the answer, with a
//! deadline and a limit, and with upstream's words for what goes wrong (`failure`).

mod client;
mod failure;
mod resolve;
mod webhook;

pub use client::{HttpsClient, Identity, Trust, client};
pub use failure::root_cause;
pub use resolve::{Resolver, ServiceRef, Services, Unavailable};
pub use webhook::{Call, Target, Webhook};
