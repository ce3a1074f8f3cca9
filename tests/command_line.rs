//! The binary as an operator meets it: what it prints, when it exits, and with which code.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Output, Stdio},
};

fn server(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kube-apiserver"));
    command.current_dir(folder).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    server(folder, arguments).output().expect("runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

/// Starts a server and reads what it prints until it is ready.
fn start(folder: &Path, arguments: &[&str]) -> (Child, Vec<String>) {
    let mut child = server(folder, arguments).spawn().expect("starts");
    let mut lines = Vec::new();
    for line in BufReader::new(child.stdout.as_mut().expect("is piped")).lines() {
        let line = line.expect("text");
        let is_ready = line == "ready";
        lines.push(line);
        if is_ready {
            break;
        }
    }
    (child, lines)
}

fn terminate(child: &Child) {
    let status = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill runs");
    assert!(status.success());
}

#[test]
fn what_cannot_be_used_is_one_line_and_exit_code_1_before_anything_is_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |arguments: &[&str], expect: &str| {
        let output = run(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert_eq!(text(&output.stderr), format!("Error: {expect}\n"));
        assert!(output.stdout.is_empty());
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0, "{arguments:?}");
    };
    check(&["--foo"], "unknown flag: --foo");
    check(&["serve"], "\"kube-apiserver\" does not take any arguments, got [\"serve\"]");
    check(
        &["--profiling=maybe"],
        "invalid argument \"maybe\" for \"--profiling\" flag: strconv.ParseBool: parsing \"maybe\": invalid syntax",
    );
    check(&["--goaway-chance=1"], "--goaway-chance can not be less than 0 or greater than 0.02");
}

#[test]
fn help_and_version_are_answered() {
    let folder = tempfile::tempdir().expect("a folder");
    let version = run(folder.path(), &["--version"]);
    assert_eq!(text(&version.stdout), concat!("Kubernetes v", env!("CARGO_PKG_VERSION"), "\n"));
    let raw = run(folder.path(), &["--version=raw"]);
    let start = concat!(
        r#"version.Info{Major:"1", Minor:"36", EmulationMajor:"", EmulationMinor:"", MinCompatibilityMajor:"", "#,
        r#"MinCompatibilityMinor:"", GitVersion:"v"#,
        env!("CARGO_PKG_VERSION"),
        r#"", GitCommit:""#,
    );
    assert!(text(&raw.stdout).starts_with(start), "{}", text(&raw.stdout));
    let help = run(folder.path(), &["-h"]);
    assert!(help.status.success() && text(&help.stdout).contains("--secure-port int"));
}

#[test]
fn without_flags_but_a_port_it_makes_its_folder_and_says_how_to_use_it_and_ends_on_a_signal() {
    let folder = tempfile::tempdir().expect("a folder");
    for _ in 0..2 {
        let (mut child, lines) = start(folder.path(), &["--secure-port=0", "--contention-profiling"]);
        let kubeconfig = folder.path().canonicalize().expect("a folder").join("data/admin.kubeconfig");
        assert_eq!(lines, [format!("export KUBECONFIG={}", kubeconfig.display()), "ready".to_owned()]);
        assert!(kubeconfig.exists());
        terminate(&child);
        assert_eq!(child.wait().expect("ends").code(), Some(0));
        let mut log = String::new();
        child.stderr.take().expect("is piped").read_to_string(&mut log).expect("text");
        assert_eq!(log.matches("no effect").count(), 1, "{log}");
    }
}

#[test]
fn a_port_in_use_and_a_folder_that_cannot_be_used_are_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let taken = TcpListener::bind("127.0.0.1:0").expect("binds");
    let port = taken.local_addr().expect("an address").port();
    let output = run(folder.path(), &["--bind-address=127.0.0.1", &format!("--secure-port={port}")]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stderr), format!("Error: cannot listen on 127.0.0.1:{port}: Address already in use\n"));

    std::fs::write(folder.path().join("file"), "").expect("writes");
    let output = run(folder.path(), &["--secure-port=0", "--data-dir=file"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stderr), "Error: file/pki: Not a directory\n");
}

#[test]
fn a_second_server_on_the_same_folder_is_refused_in_one_line_and_harms_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut first, _) = start(folder.path(), &["--secure-port=0"]);
    let second = run(folder.path(), &["--secure-port=0"]);
    assert_eq!(second.status.code(), Some(1));
    let errors: Vec<_> = text(&second.stderr).lines().filter(|line| line.starts_with("Error: ")).collect();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].starts_with("Error: cannot open the store in data/store: "), "{errors:?}");
    terminate(&first);
    assert_eq!(first.wait().expect("ends").code(), Some(0));
    let (mut again, _) = start(folder.path(), &["--secure-port=0"]);
    terminate(&again);
    assert_eq!(again.wait().expect("ends").code(), Some(0));
}

#[test]
fn a_server_whose_output_nobody_reads_goes_on_and_ends_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = server(folder.path(), &["--secure-port=0"]).spawn().expect("starts");
    drop((child.stdout.take(), child.stderr.take()));
    // Written when the server listens for signals already.
    let kubeconfig = folder.path().join("data/admin.kubeconfig");
    while !kubeconfig.exists() {
        assert!(child.try_wait().expect("a state").is_none(), "the server is gone");
        std::thread::yield_now();
    }
    terminate(&child);
    assert_eq!(child.wait().expect("ends").code(), Some(0));
}
