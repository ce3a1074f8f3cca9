//! The run of the binary, from its flags to its end.

use std::process::ExitCode;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{Layer as _, filter::Targets, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use crate::{
    CLUSTER_VERSION, Server, VERSION,
    flags::{Asked, Flags, help},
};

/// Runs the binary with these arguments.
pub fn main(arguments: impl Iterator<Item = String>) -> ExitCode {
    let environment =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let flags = match Flags::parse(arguments, environment) {
        Ok(Asked::Run(flags)) => *flags,
        Ok(Asked::Version) => {
            println!(
                "etcd Version: {VERSION} (kube-apiserver's, over its embedded store)\nAPI Version: {CLUSTER_VERSION}"
            );
            return ExitCode::SUCCESS;
        }
        Ok(Asked::Help) => {
            println!("{}", help());
            return ExitCode::SUCCESS;
        }
        Err(why) => {
            eprintln!("etcd: {why}");
            return ExitCode::from(2);
        }
    };
    start_logging(flags.log_level);
    match serve(flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "etcd ends");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn serve(flags: Flags) -> anyhow::Result<()> {
    let stop = CancellationToken::new();
    let mut signals = [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?];
    let told = stop.clone();
    tokio::spawn(async move {
        let [terminate, interrupt] = &mut signals;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("a signal: the server stops");
        told.cancel();
    });
    let data_dir = flags.config.data_dir.clone();
    let server = Server::start(flags.config).await.with_context(|| format!("data in {}", data_dir.display()))?;
    for address in server.addresses() {
        tracing::info!(%address, "ready to serve client requests");
    }
    server.run(stop).await
}

/// Logs go to standard error, as lines of JSON.
fn start_logging(level: LevelFilter) {
    let own = ["etcd_server", "storage", "x509"].map(|name| (name, level));
    let filter = Targets::new().with_default(level.min(LevelFilter::WARN)).with_targets(own);
    let layer = fmt::layer().json().flatten_event(true).with_writer(std::io::stderr).log_internal_errors(false);
    // An error says that somebody else's subscriber is there already (a test's).
    let _ = tracing_subscriber::registry().with(layer.with_filter(filter)).try_init();
}
