//! Plays the repository's scenarios against a server: `scenarios HOST:PORT TOKEN [FILE...]`. Prints each that went another way, and the sums
//! of each file; ends with 1 if any did. Certificates are not checked.

use std::{path::PathBuf, process::ExitCode};

use integration_tests::scenario::{Server, parse};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(address), Some(token)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: scenarios HOST:PORT TOKEN [FILE...]");
        return ExitCode::FAILURE;
    };
    let server = Server { address, token };
    let mut files: Vec<PathBuf> = arguments.map(PathBuf::from).collect();
    if files.is_empty() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
        files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        files.sort();
    }
    let mut failed = 0;
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let read = std::fs::read_to_string(&file).map_err(|e| e.to_string());
        let scenarios = match read.and_then(|text| parse(&text)) {
            Ok(scenarios) => scenarios,
            Err(why) => {
                eprintln!("{}: {why}", file.display());
                return ExitCode::FAILURE;
            }
        };
        let mut passed = 0;
        for scenario in &scenarios {
            match scenario.play(&server, &format!("{name}-{}-{}", scenario.line, std::process::id())) {
                Ok(()) => passed += 1,
                Err(why) => println!("{}: {}: {why}", file.display(), scenario.title),
            }
        }
        println!("{name}: {passed} of {}", scenarios.len());
        failed += scenarios.len() - passed;
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
