//! What the server promises, as text that outsiders can read and play: `scenarios/*.http`.

use std::{fs, path::Path};

use integration_tests::{
    Server,
    scenario::{self, parse},
};

#[test]
fn every_scenario_goes_as_it_is_written() {
    let server = Server::start();
    let at = scenario::Server { address: format!("127.0.0.1:{}", server.port()), token: "admintoken".to_owned() };
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios"));
    let (mut played, mut failures) = (0, Vec::new());
    for file in fs::read_dir(folder).expect("the scenarios").map(|entry| entry.expect("a file").path()) {
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(&file).expect("text");
        for one in parse(&text).unwrap_or_else(|why| panic!("{}: {why}", file.display())) {
            played += 1;
            if let Err(why) = one.play(&at, &format!("{name}-{}", one.line)) {
                failures.push(format!("{}: {}: {why}", file.display(), one.title));
            }
        }
    }
    assert!(failures.is_empty() && played > 0, "{}", failures.join("\n"));
}
