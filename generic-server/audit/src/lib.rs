//! Audit: which requests are recorded and how much of them (`policy`), what an event holds (`event`), what a request
//! gathers on its way (`recorder`), and where events go (`backend`).
//!
//! An event is encoded once, when its stage is reached; backends share the text. Whatever waits for a backend is bounded,
//! by events and by bytes, and what is not delivered is counted.
//!
//! ```
//! use audit::Policy;
//!
//! let read = Policy::read(br#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata", "verb": []}]}"#).unwrap();
//! assert_eq!(read.warning.as_deref(), Some("strict decoding error: unknown field \"rules[0].verb\""));
//!
//! let wrong = Policy::read(br#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": []}"#).unwrap_err();
//! assert_eq!(wrong.to_string(), "loaded illegal policy with 0 rules");
//! ```

mod ack;
mod auditor;
pub mod backend;
mod event;
mod latency;
mod level;
mod metrics;
pub mod policy;
mod recorder;

pub use ack::Ack;
pub use auditor::Auditor;
pub use event::{Document, Event, Failure, ObjectReference, Stage, User};
pub use latency::Layer;
pub use level::Level;
pub use metrics::Metrics;
pub use policy::{Attributes, Policy};
pub use recorder::{OFF, Recorder, Request};
