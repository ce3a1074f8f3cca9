//! What is logged, and how.

use std::collections::BTreeMap;

use super::Findings;
use crate::flags::Parsed;

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// A line of text with key=value fields.
    Text,
    /// A JSON object a line.
    Json,
}

/// What is logged, and how.
#[derive(Clone, Debug)]
pub struct Logging {
    /// `--v`.
    pub verbosity: i64,
    /// `--vmodule`: levels of single modules.
    pub modules: BTreeMap<String, i64>,
    /// `--logging-format`.
    pub format: LogFormat,
}

impl Logging {
    pub(super) fn from_flags(flags: &Parsed, findings: &mut Findings) -> Self {
        let format = match flags.text("logging-format").as_str() {
            "text" => LogFormat::Text,
            "json" => LogFormat::Json,
            other => {
                findings.error(format!("format: Invalid value: {other:?}: Unsupported log format"));
                LogFormat::Text
            }
        };
        // The parser has checked that the levels are numbers.
        let level = |(module, level): (String, String)| Some((module, level.parse().ok()?));
        Self {
            verbosity: flags.int("v"),
            modules: flags.map("vmodule").into_iter().filter_map(level).collect(),
            format,
        }
    }
}
