//! Which controllers `--controllers` starts: `cargo run -p controllers --example selection -- '*' -namespace-controller`.

use std::{env, process::ExitCode};

use controllers::{Selection, names};

fn main() -> ExitCode {
    let items: Vec<String> = env::args().skip(1).collect();
    let items = if items.is_empty() { vec!["*".to_owned()] } else { items };
    match Selection::parse(&items) {
        Ok(selection) => {
            names().filter(|name| selection.has(name)).for_each(|name| println!("{name}"));
            ExitCode::SUCCESS
        }
        Err(unknown) => {
            unknown.iter().for_each(|why| eprintln!("{why}"));
            ExitCode::FAILURE
        }
    }
}
