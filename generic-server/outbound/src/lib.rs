//! What this server asks of others: aggregated API servers, webhooks, kubelets, and what pods and services serve.
//!
//! `client` makes HTTPS clients, `egress` opens their connections through proxies where it is configured, `resolve` finds services, `webhook` sends a document and gets the answer, with a deadline and a limit, and
//! with upstream's words for what goes wrong (`failure`); `get` fetches one, `kubeconfig_webhook` is a webhook that a `kubeconfig` file names, `webhook_users` says as whom others are called, and `backoff` says when a call is made again. `redirect` follows answers to another place, `answer` reads what kind of document came.
//!
//! ```
//! use std::{cell::Cell, time::Duration};
//!
//! use outbound::Backoff;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let backoff = Backoff { initial: Duration::from_millis(1), factor: 2.0, jitter: 0.0, attempts: 3 };
//! let asked = Cell::new(0);
//! let answer = backoff.retry(
//!     || async { asked.set(asked.get() + 1); if asked.get() < 3 { Err("busy") } else { Ok("done") } },
//!     |why| *why == "busy",
//! );
//! assert_eq!(answer.await, Ok("done"));
//! # });
//! ```

mod answer;
mod backoff;
mod certificates;
mod client;
mod client_span;
mod connector;
pub mod egress;
mod failure;
mod get;
mod kubeconfig;
mod kubeconfig_webhook;
mod metrics;
mod redirect;
mod resolve;
mod tls;
mod webhook;
mod webhook_users;

pub use answer::{
    AnswerError, KnownKinds, MemberType, ReviewKind, check_members, check_response, read as read_review,
    read_by as read_review_by, stated_kind,
};
pub use backoff::Backoff;
pub use certificates::{Asker, ServerCertificates};
pub use client::{HttpsClient, OutboundBody, client, client_noting, client_through, full, plain_client};
pub use client_span::ClientSpan;
pub use failure::{CallError, root_cause, transport};
pub use get::{Fetched, GetError, GetFailure, get};
pub use kubeconfig::{ContentSource, Credentials, Kubeconfig, KubeconfigError, KubeconfigFault};
pub use kubeconfig_webhook::KubeconfigWebhook;
pub use metrics::register_requests;
pub use resolve::{ResolveError, Resolver, ServiceRef, Unavailable};
pub use tls::{ClientError, Identity, Trust};
pub use webhook::{Call, Webhook, WebhookTarget};
pub use webhook_users::WebhookUsers;
