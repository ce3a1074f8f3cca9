//! The parts of the kube-apiserver binary: flags, the configuration made from them, certificates, logging, and the run
//! from start to shutdown.

pub mod chain;
pub mod config;
mod flags;
mod identity;
mod logging;
pub mod pki;
mod run;

pub use run::main;

/// The version that clients and operators see.
pub const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// What the system said, without the number.
fn plain_io_error(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.clone(), |(plain, _)| plain.to_owned())
}
