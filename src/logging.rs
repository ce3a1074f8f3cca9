//! Logs are lines of text or JSON, from tracing's events and spans. They go to standard error, unless flags split them.

mod stream;
mod text;

use std::{backtrace::BacktraceStatus, io::IsTerminal as _, sync::OnceLock};

use generic_server::pages::VerbosityError;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Layer as _, Registry, filter::Targets, fmt, layer::SubscriberExt as _, reload, util::SubscriberInitExt as _,
};

use crate::config::{LogFormat, Logging};

use stream::Streams;
use text::TextFields;
pub(crate) use text::escaped;

/// Our crates: what `-v` speaks of. Libraries only say what went wrong, until everything is asked for.
const CRATES: [&str; 17] = [
    "kube_apiserver",
    "generic_server",
    "audit",
    "auth",
    "outbound",
    "x509",
    "flowcontrol",
    "machinery",
    "storage",
    "traces",
    "cel",
    "policies",
    "kube_core",
    "apiextensions",
    "aggregator",
    "controllers",
    "streaming",
];

/// Libraries that speak with strangers: what one does wrong is no warning, or anybody could fill the log.
const PROTOCOLS: [&str; 5] = ["h2", "hyper", "hyper_util", "rustls", "tokio_rustls"];

/// What is logged now, and the way to change it.
static CURRENT: OnceLock<(Logging, reload::Handle<Targets, Registry>)> = OnceLock::new();

/// Starts logging. A second call changes nothing.
pub(crate) fn start(logging: &Logging) {
    // A broken pipe on standard error must not panic in the middle of a request: log_internal_errors(false).
    let streams = Streams::new(logging.split, logging.buffer, logging.flush_every);
    let layer = match logging.format {
        LogFormat::Text => fmt::layer()
            .fmt_fields(TextFields)
            .with_writer(streams)
            .log_internal_errors(false)
            .with_ansi(std::io::stderr().is_terminal() && !logging.split)
            .with_target(false)
            .boxed(),
        LogFormat::Json => {
            fmt::layer().json().flatten_event(true).with_writer(streams).log_internal_errors(false).boxed()
        }
    };
    let (filter, handle) = reload::Layer::new(targets(logging));
    // An error says that somebody else's subscriber is there already (a test's).
    if tracing_subscriber::registry().with(layer.with_filter(filter)).try_init().is_ok() {
        let _ = CURRENT.set((logging.clone(), handle));
        std::panic::set_hook(Box::new(panicked));
    }
}

/// Writes what is kept back. Nothing is said after it.
pub(crate) fn finish() {
    stream::flush();
}

/// Logs a panic as everything else is logged: its text may hold what a client has sent.
fn panicked(info: &std::panic::PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let location = info.location().map(ToString::to_string).unwrap_or_default();
    let why = info.payload_as_str().unwrap_or("no text");
    let backtrace = std::backtrace::Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    tracing::error!(thread = thread.name().unwrap_or("?"), location, backtrace, "panicked: {why}");
}

/// Sets `--v` of the running server.
pub(crate) fn set_verbosity(text: &str) -> Result<(), VerbosityError> {
    let verbosity = text.trim().parse().map_err(|_| VerbosityError::Syntax(text.to_owned()))?;
    let (logging, handle) = CURRENT.get().ok_or(VerbosityError::NoLog)?;
    let logging = Logging { verbosity, ..logging.clone() };
    handle.reload(targets(&logging)).map_err(|error| VerbosityError::Log(error.to_string()))
}

fn targets(logging: &Logging) -> Targets {
    let libraries = if logging.verbosity >= 9 { LevelFilter::DEBUG } else { LevelFilter::WARN };
    let protocols = if logging.verbosity >= 9 { LevelFilter::DEBUG } else { LevelFilter::ERROR };
    let own = level(logging.verbosity);
    let targets = Targets::new()
        .with_default(libraries)
        .with_targets(PROTOCOLS.map(|name| (name, protocols)))
        .with_targets(CRATES.map(|name| (name, own)));
    targets
        .with_targets(logging.modules.iter().map(|(module, verbosity)| (module.replace('-', "_"), level(*verbosity))))
}

/// klog's numbers: 0 to 3 tell operators what happens, 4 and 5 how, 6 and more everything.
fn level(verbosity: i64) -> LevelFilter {
    match verbosity {
        ..=3 => LevelFilter::INFO,
        4 | 5 => LevelFilter::DEBUG,
        6.. => LevelFilter::TRACE,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tracing::Level;

    use super::*;

    #[test]
    fn verbosity_and_modules_choose_the_levels() {
        let check = |verbosity: i64, module: &str, target: &str, level: Level, expect: bool| {
            let modules: BTreeMap<_, _> =
                module.split_once('=').map(|(m, v)| (m.to_owned(), v.parse().expect("a level"))).into_iter().collect();
            let logging = Logging { verbosity, modules, ..Logging::default() };
            assert_eq!(targets(&logging).would_enable(target, &level), expect, "{verbosity} {module} {target} {level}");
        };
        check(0, "", "generic_server::serve", Level::INFO, true);
        check(0, "", "generic_server::serve", Level::DEBUG, false);
        check(4, "", "generic_server::serve", Level::DEBUG, true);
        check(6, "", "storage", Level::TRACE, true);
        check(0, "", "redb", Level::WARN, true);
        check(6, "", "h2::proto", Level::WARN, false);
        check(6, "", "h2::proto", Level::ERROR, true);
        check(9, "", "h2", Level::DEBUG, true);
        check(0, "storage=6", "storage::embedded", Level::TRACE, true);
        check(0, "storage=6", "generic_server", Level::DEBUG, false);
    }
}
