//! The programs as `KUBEBUILDER_ASSETS`: started, checked and stopped as controller-runtime's envtest does it.
//!
//! With `SOAK` in the environment (`make soak`) a hundred environments are started in a row and twenty at once. What they took
//! to be ready is printed (`--nocapture`): it is measured, not judged, for machines differ.

use std::{path::Path, process::Command, time::Duration};

use integration_tests::{Assets, Environment, client_path};

fn soaked(short: usize, long: usize) -> usize {
    if std::env::var_os("SOAK").is_some() { long } else { short }
}

fn kubectl(environment: &Environment, home: &Path, arguments: &[&str]) -> String {
    let config = home.join("kubeconfig");
    std::fs::write(&config, environment.kubeconfig()).expect("written");
    let mut command = Command::new(client_path("kubectl"));
    let output = command.args(arguments).env("KUBECONFIG", &config).env("HOME", home).output().expect("kubectl runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "kubectl {arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn told(what: &str, mut took: Vec<Duration>) {
    took.sort();
    let (median, last) = (took[took.len() / 2], took[took.len() - 1]);
    println!("{what}: {} environments ready, median {median:?}, slowest {last:?}", took.len());
}

#[test]
fn an_environment_serves_its_administrator_and_ends_when_told() {
    let (temp, home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let environment = Environment::start(&Assets::built(), temp.path(), 0);
    let run = |arguments: &[&str]| kubectl(&environment, home.path(), arguments);
    run(&["create", "namespace", "demo"]);
    run(&["-n", "demo", "create", "configmap", "settings", "--from-literal=colour=green"]);
    assert_eq!(run(&["-n", "demo", "get", "configmap", "settings", "-o", "jsonpath={.data.colour}"]), "green");
    assert_eq!(
        run(&["auth", "whoami", "-o", "jsonpath={.status.userInfo.groups}"]),
        r#"["system:masters","system:authenticated"]"#
    );
    // Without the plugin, pods need no service account, as tests expect.
    run(&["-n", "demo", "run", "web", "--image=web"]);
    assert_eq!(run(&["-n", "demo", "get", "pod", "web", "-o", "jsonpath={.spec.containers[*].image}"]), "web");
    environment.stop();
    assert_eq!(std::fs::read_dir(temp.path()).expect("it is there").count(), 0, "nothing is left");
}

#[test]
fn environments_in_a_row_leave_nothing_behind() {
    let temp = tempfile::tempdir().expect("a folder");
    let mut took = Vec::new();
    for number in 0..soaked(3, 100) {
        let environment = Environment::start(&Assets::built(), temp.path(), number);
        took.push(environment.took);
        let started: Vec<_> = std::fs::read_dir(temp.path()).expect("it is there").collect();
        assert_eq!(started.len(), 2, "each has its own folders and no others");
        environment.stop();
        assert_eq!(std::fs::read_dir(temp.path()).expect("it is there").count(), 0, "nothing is left");
    }
    told("in a row", took);
}

#[test]
fn environments_at_once_do_not_meet() {
    let (temp, home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let assets = Assets::built();
    let environments: Vec<Environment> = std::thread::scope(|scope| {
        let start = |number| {
            let (assets, temp) = (&assets, temp.path());
            scope.spawn(move || Environment::start(assets, temp, number))
        };
        let started: Vec<_> = (0..soaked(4, 20)).map(start).collect();
        started.into_iter().map(|thread| thread.join().expect("it starts")).collect()
    });
    told("at once", environments.iter().map(|environment| environment.took).collect());
    for (number, environment) in environments.iter().enumerate() {
        kubectl(environment, home.path(), &["create", "namespace", &format!("of-{number}")]);
    }
    for (number, environment) in environments.into_iter().enumerate() {
        let names = kubectl(&environment, home.path(), &["get", "namespaces", "-o", "name"]);
        let own: Vec<&str> = names.lines().filter(|name| name.starts_with("namespace/of-")).collect();
        assert_eq!(own, [format!("namespace/of-{number}")]);
        environment.stop();
    }
    assert_eq!(std::fs::read_dir(temp.path()).expect("it is there").count(), 0, "nothing is left");
}
