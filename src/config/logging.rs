//! Configuration of logging.

use std::{collections::BTreeMap, time::Duration};

use generic_server::features::GateState;
use machinery::meta::Quantity;

use super::Findings;
use crate::flags::Parsed;

/// How a log line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// A line of text with key=value fields.
    #[default]
    Text,
    /// A JSON object a line.
    Json,
}

/// What is logged, and how.
#[derive(Clone, Debug, Default)]
pub struct Logging {
    /// `--v`.
    pub verbosity: i64,
    /// `--vmodule`: levels of single modules.
    pub modules: BTreeMap<String, i64>,
    /// `--logging-format`.
    pub format: LogFormat,
    /// `--log-text-split-stream`, `--log-json-split-stream`: errors go to standard error, the rest to standard output.
    pub split: bool,
    /// `--log-text-info-buffer-size`, `--log-json-info-buffer-size`: bytes of the rest that are kept back.
    pub buffer: usize,
    /// `--log-flush-frequency`: how long they are kept back at most.
    pub flush_every: Duration,
}

impl Logging {
    pub(super) fn from_flags(flags: &Parsed, features: &GateState, findings: &mut Findings) -> Self {
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
        let flush_every = flags.duration("log-flush-frequency");
        if flush_every.0 <= 0 {
            let given = machinery::meta::duration::GoDuration { nanoseconds: flush_every.0 };
            findings.error(format!("flushFrequency: Invalid value: \"{given}\": Must be greater than zero"));
        }
        let streams = ["text", "json"].map(|name| streams(name, flags, features, findings));
        let (split, buffer) = streams[usize::from(format == LogFormat::Json)];
        Self {
            verbosity: flags.int("v"),
            modules: flags.map("vmodule").into_iter().filter_map(level).collect(),
            format,
            split,
            buffer,
            flush_every: flush_every.positive(),
        }
    }
}

/// Whether the lines of a format are split by how bad they are, and how much of what is not bad is kept back.
fn streams(format: &str, flags: &Parsed, features: &GateState, findings: &mut Findings) -> (bool, usize) {
    const GATE: &str = "LoggingAlphaOptions";
    let split = flags.bool(&format!("log-{format}-split-stream"));
    let size = flags.text(&format!("log-{format}-info-buffer-size"));
    // The parser has checked that it is a quantity, if it is there.
    let bytes = Quantity::parse(&size).ok().map_or(0, |size| size.value());
    for (is_set, option) in [(split, "splitStream"), (bytes != 0, "infoBufferSize")] {
        if is_set && !features.is_on(GATE) {
            findings.error(format!("options.{format}.{option}: Forbidden: Feature {GATE} is disabled"));
        }
    }
    (split, usize::try_from(bytes).unwrap_or(0))
}
