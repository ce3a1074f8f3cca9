//! The parts of the kube-apiserver binary: flags, the configuration made from them, certificates, logging, and the run
//! from start to shutdown.

mod auditing;
mod authorization;
pub mod chain;
pub mod config;
mod controllers;
mod flags;
mod health;
mod identity;
mod logging;
mod pages;
pub mod pki;
mod run;
mod stores;
mod tracer;
mod version;

pub use run::main;
pub use version::VERSION;

/// What the system said, without the number.
fn plain_io_error(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.clone(), |(plain, _)| plain.to_owned())
}
