//! What `--runtime-config` says: `cargo run --example runtime_config -- api/beta=true batch/v1/cronjobs=false`.

use std::{collections::BTreeMap, env, process::ExitCode};

use generic_server::resource::Enablement;

fn main() -> ExitCode {
    let pair = |text: String| match text.split_once('=') {
        Some((key, value)) => (key.to_owned(), value.to_owned()),
        None => (text, "true".to_owned()),
    };
    let pairs: BTreeMap<String, String> = env::args().skip(1).map(pair).collect();
    match Enablement::parse(&pairs) {
        Ok(enablement) => {
            println!("{enablement:#?}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
