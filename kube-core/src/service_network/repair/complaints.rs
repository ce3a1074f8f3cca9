//! Events about services whose addresses or ports are not as they should be.

use std::{collections::HashSet, sync::Arc};

use generic_server::registry::Registry;
use machinery::{
    Value,
    meta::{TimeForm, Timestamp},
    object,
};

/// So many complaints are remembered, so that none is made twice.
const MOST: usize = 10_000;

/// Who complains, and what was complained about already.
pub(super) struct Complaints {
    events: Arc<Registry>,
    reporter: &'static str,
    made: HashSet<(String, String)>,
}

impl Complaints {
    pub(super) fn new(events: Arc<Registry>, reporter: &'static str) -> Self {
        Complaints { events, reporter, made: HashSet::new() }
    }

    /// Makes a warning event about the object, and logs it. What was said before is not said again.
    pub(super) async fn make(&mut self, about: &Value, (reason, action): (&str, &str), note: String) {
        let text = |key| about.str_at(&["metadata", key]).unwrap_or_default();
        if !self.made.insert((text("uid").to_owned(), note.clone())) {
            return;
        }
        if self.made.len() > MOST {
            self.made.clear();
        }
        tracing::warn!(namespace = text("namespace"), name = text("name"), reason, "{note}");
        let namespace = if text("namespace").is_empty() { "default" } else { text("namespace") };
        let now = Timestamp::now();
        let id = format!("{:x}", u128::from(super::super::addresses::random()));
        let event = object! {
            "kind" => "Event", "apiVersion" => "v1",
            "metadata" => object! { "namespace" => namespace, "name" => format!("{}.{id}", text("name")) },
            "involvedObject" => object! {
                "kind" => about.str_at(&["kind"]).unwrap_or_default(),
                "apiVersion" => about.str_at(&["apiVersion"]).unwrap_or_default(),
                "namespace" => text("namespace"), "name" => text("name"), "uid" => text("uid"),
                "resourceVersion" => text("resourceVersion"),
            },
            "reason" => reason, "message" => note, "type" => "Warning", "action" => action,
            "eventTime" => now.text(TimeForm::Micros),
            "reportingComponent" => self.reporter, "reportingInstance" => self.reporter,
            "source" => object! {},
        };
        if let Err(status) = self.events.create_as_server(event).await {
            tracing::debug!(error = status.message, "an event could not be written"); // it is in the log
        }
    }
}
