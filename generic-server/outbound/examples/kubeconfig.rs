//! Reads a kubeconfig file and says where its current context leads: `cargo run --example kubeconfig -- FILE`.

use std::{env, path::Path, process::ExitCode};

use outbound::{Credentials, Kubeconfig};

fn main() -> ExitCode {
    let Some(file) = env::args().nth(1) else {
        eprintln!("which file?");
        return ExitCode::FAILURE;
    };
    match Kubeconfig::load(Path::new(&file)) {
        Ok(config) => {
            let how = match config.credentials {
                Credentials::None => "a certificate or nothing",
                Credentials::Token(_) | Credentials::TokenFile(_) => "a token",
                Credentials::Basic(..) => "a password",
            };
            println!("{} with {how}", config.server);
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
