//! The parameters of operations.

use machinery::{Value, object};

use crate::docs;

/// A parameter: its name, the type of its value, and what it is for where the documentation of types does not say so.
type Row = (&'static str, &'static str, &'static str);

/// What lists and watches take.
pub(crate) const LIST: &[Row] = &[
    ("allowWatchBookmarks", "boolean", "Send BOOKMARK events in a watch, which tell how far it has come."),
    ("continue", "string", "The token with which the list before said how to go on."),
    ("fieldSelector", "string", "Restricts the list of returned objects to those whose fields match."),
    ("labelSelector", "string", "Restricts the list of returned objects to those whose labels match."),
    ("limit", "integer", "The most objects that one answer may hold."),
    ("resourceVersion", "string", "How old the answer may be."),
    ("resourceVersionMatch", "string", "How resourceVersion is meant: NotOlderThan or Exact."),
    ("sendInitialEvents", "boolean", "Begin a watch with the objects that are there."),
    ("shardSelector", "string", "Only objects of some shards."),
    ("timeoutSeconds", "integer", "When the answer must be done."),
    ("watch", "boolean", "Watch for changes to the described resources: they are sent as they come."),
];

/// What creations and updates take.
pub(crate) const WRITE: &[Row] = &[
    ("dryRun", "string", ""),
    ("fieldManager", "string", "On whose behalf fields are set."),
    ("fieldValidation", "string", "What becomes of unknown and duplicate fields: Ignore, Warn or Strict."),
];

/// What patches take.
pub(crate) const PATCH: &[Row] =
    &[WRITE[0], WRITE[1], WRITE[2], ("force", "boolean", "Take fields over from other managers that apply them.")];

/// What deletions take.
pub(crate) const DELETE: &[Row] = &[
    WRITE[0],
    ("gracePeriodSeconds", "integer", ""),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean", ""),
    ("orphanDependents", "boolean", ""),
    ("propagationPolicy", "string", ""),
];

/// What reads of custom resources take.
pub(crate) const READ: &[Row] = &[LIST[5]];

/// What reads of logs take.
pub(crate) const LOG: &[Row] = &[
    ("container", "string", "Whose log; the only container's by default."),
    ("follow", "boolean", "Go on as the log grows."),
    ("insecureSkipTLSVerifyBackend", "boolean", "Trust any certificate of the kubelet."),
    ("limitBytes", "integer", "The most bytes to send."),
    ("previous", "boolean", "The log of the container before the last restart."),
    ("sinceSeconds", "integer", "Only what is younger."),
    ("stream", "string", "Which stream: All, Stdout or Stderr."),
    ("tailLines", "integer", "Only the last lines."),
    ("timestamps", "boolean", "Begin each line with its time."),
];

/// The streams of a container, for attach and exec.
pub(crate) const STREAMS: &[Row] = &[
    ("command", "string", "What to run."),
    ("container", "string", "Where; the only container by default."),
    ("stderr", "boolean", "Send the standard error."),
    ("stdin", "boolean", "Take a standard input."),
    ("stdout", "boolean", "Send the standard output."),
    ("tty", "boolean", "Give the command a terminal."),
];

/// What port-forwards take.
pub(crate) const PORTS: &[Row] = &[("ports", "integer", "Which ports.")];

/// What proxies take.
pub(crate) const PROXY: &[Row] = &[("path", "string", "Which path of the target.")];

/// A list of query parameters.
pub(crate) fn query(rows: &[Row]) -> Vec<Value> {
    rows.iter().map(one).collect()
}

fn one((name, kind, text): &Row) -> Value {
    const OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
    let text = if text.is_empty() { docs::of_member(OPTIONS, name).unwrap_or_default() } else { text };
    object! {
        "name" => *name,
        "in" => "query",
        "description" => text,
        "schema" => object! { "type" => *kind, "uniqueItems" => true },
    }
}

/// How answers are indented.
pub(crate) fn pretty() -> Value {
    one(&("pretty", "string", "If 'true', the answer is indented."))
}

/// A part of the path.
pub(crate) fn path(name: &str, text: &str) -> Value {
    object! {
        "name" => name,
        "in" => "path",
        "required" => true,
        "description" => text,
        "schema" => object! { "type" => "string", "uniqueItems" => true },
    }
}
