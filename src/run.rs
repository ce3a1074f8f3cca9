//! From the command line to the shutdown, in one page.

use std::{ffi::OsString, io::Write as _, process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use generic_server::{
    features::Versions,
    pages::DebugSocket,
    serve::{ConnectionOptions, Lifecycle, Listener, Tls, serve},
    tasks::Tasks,
};

use crate::{VERSION, chain, config::Config, flags, pki::Pki, plain_io_error, version};

/// How often certificates of our own are looked at, to be renewed long before they expire.
const RENEW_EVERY: Duration = Duration::from_secs(12 * 3600);

/// Runs the server until a signal ends it.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let failed = |error: &dyn std::fmt::Display| {
        eprintln!("Error: {}", crate::logging::escaped(&error.to_string()));
        ExitCode::FAILURE
    };
    let flags = match flags::parse(arguments) {
        Ok(flags) => flags,
        Err(error) => return failed(&error),
    };
    if flags.bool("help") {
        print!("{}", flags::help());
        return ExitCode::SUCCESS;
    }
    match flags.text("version").as_str() {
        "raw" => {
            println!("{}", version::build(VERSION, Versions::default()).raw());
            return ExitCode::SUCCESS;
        }
        // None, or the version to report.
        text if text.is_empty() || text.starts_with('v') => {}
        _ => {
            println!("Kubernetes {VERSION}");
            return ExitCode::SUCCESS;
        }
    }
    let config = match Config::from_flags(&flags) {
        Ok(config) => config,
        Err(error) => return failed(&error),
    };
    crate::logging::start(&config.logging);
    for flag in &config.without_effect {
        tracing::warn!(flag, "this flag has no effect in this server");
    }
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let ended = runtime.block_on(run(config));
    crate::logging::finish();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        // One line: what was attempted, then why it failed.
        Err(error) => failed(&format!("{error:#}")),
    }
}

async fn run(config: Config) -> Result<()> {
    let pki = Pki::ensure(&config)?;
    let tls = Tls::load(pki.tls.clone()).context("TLS")?;
    let bind = &config.serving.bind;
    let listener = Listener::bind(bind).map_err(|error| {
        anyhow::anyhow!("cannot listen on {}:{}: {}", bind.address, bind.port, plain_io_error(&error))
    })?;
    let port = listener.local_addr().port();
    let socket = config.debug_socket.as_deref().map(|path| {
        DebugSocket::bind(path, crate::logging::set_verbosity)
            .map_err(|error| anyhow::anyhow!("--debug-socket-path: {}: {}", path.display(), plain_io_error(&error)))
    });
    let socket = socket.transpose()?;
    let lifecycle = Lifecycle::new(config.serving.shutdown.clone());
    lifecycle.listen_for_signals().context("cannot listen for signals")?;
    let chain = chain::build(&config, &pki, lifecycle.clone(), listener.local_addr()).await?;
    let pipeline = chain.pipeline.clone();
    let reported = config.version.clone();
    let service = move |request| pipeline.clone().handle(request);
    if let Some(path) = pki.write_kubeconfig(config.serving.bind.address, port)? {
        say(&format!("export KUBECONFIG={}", path.display()));
    }
    let request_timeout = chain.pipeline.request_timeout;
    let connection = ConnectionOptions { request_timeout, ..config.serving.connection.clone() };
    let serving = tokio::spawn(serve(listener, Arc::clone(&tls), connection, service, lifecycle.clone()));
    tokio::spawn(Arc::clone(&tls).watch_files(lifecycle.stopped_listening().clone()));
    if let Some(socket) = socket {
        tokio::spawn(socket.serve(lifecycle.stopped_listening().clone()));
    }
    tokio::spawn(renew_certificates(config, tls, lifecycle.clone()));
    tracing::info!(version = reported, port, "serving");
    // A signal must end a server that cannot become ready, too; and a store that cannot go on.
    let failed = tokio::select! {
        () = serve_until_requested(&lifecycle, &chain.tasks) => None,
        error = chain.store.failed() => Some(error),
    };
    lifecycle.shutdown().await;
    let served = serving.await.context("the listener");
    if let Some(auditor) = &chain.auditor {
        auditor.close().await;
    }
    if let Some(exporting) = chain.exporting {
        exporting.finish().await;
    }
    chain.tasks.stop().await;
    chain.store.close().await;
    for store in &chain.others {
        store.close().await;
    }
    match failed {
        Some(error) => Err(anyhow::Error::new(error).context("the store has ended")),
        None => served,
    }
}

async fn serve_until_requested(lifecycle: &Lifecycle, tasks: &Tasks) {
    if lifecycle.requested().run_until_cancelled(tasks.wait_ready()).await.is_some() {
        say("ready");
    }
    lifecycle.requested().cancelled().await;
}

/// A line for whoever started the server; that nobody reads it any more is no reason to stop.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Renews the certificates that this server made, and shows the new ones at once.
async fn renew_certificates(config: Config, tls: Arc<Tls>, lifecycle: Lifecycle) {
    let config = Arc::new(config);
    while lifecycle.requested().run_until_cancelled(tokio::time::sleep(RENEW_EVERY)).await.is_some() {
        let config = Arc::clone(&config);
        match tokio::task::spawn_blocking(move || Pki::ensure(&config)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "cannot renew certificates"),
            Err(error) => tracing::warn!(%error, "cannot renew certificates"),
        }
        if let Err(error) = tls.reload() {
            tracing::warn!(%error, "cannot use the renewed certificates");
        }
    }
}
