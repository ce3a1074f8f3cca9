//! Reads an audit policy from a file, or one that is written here, and says what is wrong with it.

use std::{env, fs, process::ExitCode};

use audit::Policy;

const USUAL: &str =
    "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n  verbs: [get, list]\n- level: Request\n";

fn main() -> ExitCode {
    let text = env::args().nth(1).map_or(Ok(USUAL.to_owned()), fs::read_to_string);
    let read = text
        .map_err(|error| error.to_string())
        .and_then(|text| Policy::read(text.as_bytes()).map_err(|error| error.to_string()));
    match read {
        Ok(read) => {
            println!("a policy; warning: {}", read.warning.as_deref().unwrap_or("none"));
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
