//! What this server asks of others: aggregated API servers, webhooks, kubelets, and what pods and services serve.
//!
//! `client` makes HTTPS clients, `resolve` finds services, `forward` hands a request on, `webhook` sends a document and gets the answer, with a
//! deadline and a limit, and with upstream's words for what goes wrong (`failure`). `redirect` follows answers to another place, `answer` reads
//! what kind of document came.

mod answer;
mod client;
mod failure;
mod forward;
mod redirect;
mod resolve;
mod webhook;

pub use answer::{MemberType, ReviewKind, check_response, read as read_review, stated_kind};
pub use client::{HttpsClient, Identity, Trust, client, plain_client};
pub use failure::root_cause;
pub use forward::{ForwardError, forward, headers_of, wants_upgrade};
pub use resolve::{Resolver, ServiceRef, Services, Unavailable};
pub use webhook::{Call, Target, Webhook};
