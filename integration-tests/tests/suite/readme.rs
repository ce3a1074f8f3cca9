//! The README's tour, command by command, as it is written there.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use integration_tests::{Server, free_port, kubectl_path};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The commands of the tour: the indented lines of its section.
fn commands() -> Vec<String> {
    let readme = std::fs::read_to_string(format!("{ROOT}/README.md")).expect("is there");
    let tour = readme.split("\n## ").find(|section| section.starts_with("A tour")).expect("the README has a tour");
    let lines = tour.lines().filter_map(|line| line.strip_prefix("    ")).map(str::to_owned);
    lines.filter(|line| line.starts_with("kubectl ") || line.starts_with("cargo ")).collect()
}

/// Runs a line as a shell does, kubectl being the one that the tests use.
fn shell(server: &Server, line: &str) -> String {
    let kubectl = kubectl_path();
    let path = format!(
        "{}:{}",
        kubectl.parent().expect("has a folder").display(),
        std::env::var("PATH").expect("there is a PATH")
    );
    let output = Command::new("sh")
        .args(["-ec", line])
        .current_dir(ROOT)
        .env("PATH", path)
        .env("HOME", server.dir())
        .env("KUBECONFIG", server.data().join("admin.kubeconfig"))
        .output()
        .expect("sh runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{line}\n{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn the_tour_works_as_it_is_written() {
    let mut server = Server::prepare();
    server.set_arguments(&["--controllers=*"]);
    server.run();
    let port = free_port().to_string();
    let examples = server.dir().join("examples");
    std::fs::create_dir(&examples).expect("made");
    for file in std::fs::read_dir(Path::new(ROOT).join("deploy/examples")).expect("is there").flatten() {
        let text = std::fs::read_to_string(file.path()).expect("is text").replace("7443", &port);
        std::fs::write(examples.join(file.file_name()), text).expect("written");
    }
    let mut samples = Vec::new();
    let mut said = String::new();
    for command in commands() {
        if command.starts_with("cargo run -p") {
            let certificate = |file: &str| server.data().join("pki").join(file);
            let sample = Command::new(env!("CARGO_BIN_EXE_sample-apiserver"))
                .args([certificate("apiserver.crt"), certificate("apiserver.key"), port.clone().into()])
                .stdout(Stdio::null())
                .spawn();
            samples.push(sample.expect("the sample starts"));
        } else if command.starts_with("kubectl ") {
            said += &shell(&server, &command.replace("deploy/examples", &examples.display().to_string()));
        }
    }
    for mut sample in samples {
        let _ = sample.kill(); // perhaps it is gone already
        let _ = sample.wait();
    }
    for part in
        ["colour: blue", "web    0/3", "FIELD: strategy", "readyz check passed", "apiserver_request_total", "one    3"]
    {
        assert!(said.contains(part), "no {part:?} in\n{said}");
    }
    for part in ["v1.sample.test", "WidgetList"] {
        assert!(said.contains(part), "no {part:?} in\n{said}");
    }
}
