//! A real Helm with a chart of a definition, hooks and lookups.

use integration_tests::Server;

/// The chart beside this file.
const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/chart");

fn helm(server: &Server, arguments: &[&str]) -> String {
    let output = server.client_command("helm", arguments).output().expect("helm starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "helm {}\n{out}{err}", arguments.join(" "));
    out
}

#[test]
fn helm_installs_upgrades_rolls_back_and_uninstalls() {
    let server = Server::start();
    let data = |name: &str| server.kubectl(&["get", "configmap", name, "-o", "jsonpath={.data}"]);
    let gone = |what: &str| !server.try_kubectl(&["get", what], "").status.success();

    assert!(helm(&server, &["install", "r", CHART]).contains("STATUS: deployed"));
    assert_eq!(data("r-settings"), r#"{"before":"none","colour":"blue"}"#);
    assert_eq!(data("r-first"), r#"{"namespace":"default"}"#);
    assert!(gone("configmap/r-fleeting"), "a hook that has succeeded is deleted");
    assert_eq!(server.kubectl(&["get", "lamp", "r", "-o", "jsonpath={.spec.colour}"]), "blue");
    assert_eq!(server.kubectl(&["get", "service", "r", "-o", "jsonpath={.spec.ports[0].targetPort}"]), "80");

    helm(&server, &["upgrade", "r", CHART, "--set", "colour=red,replicas=2"]);
    assert_eq!(data("r-settings"), r#"{"before":"blue","colour":"red"}"#);
    assert_eq!(data("r-upgrading"), r#"{"revision":"2"}"#);
    assert_eq!(server.kubectl(&["get", "deployment", "r", "-o", "jsonpath={.spec.replicas}"]), "2");

    helm(&server, &["rollback", "r", "1"]);
    assert_eq!(data("r-settings"), r#"{"before":"none","colour":"blue"}"#);
    assert_eq!(server.kubectl(&["get", "deployment", "r", "-o", "jsonpath={.spec.replicas}"]), "1");
    assert_eq!(server.kubectl(&["get", "lamp", "r", "-o", "jsonpath={.spec.colour}"]), "blue");
    assert!(helm(&server, &["history", "r"]).contains("Rollback to 1"));

    helm(&server, &["uninstall", "r"]);
    for what in ["deployment/r", "service/r", "lamp/r", "configmap/r-settings"] {
        assert!(gone(what), "{what} is still there");
    }
    assert_eq!(helm(&server, &["list", "--short"]), "");
    assert!(!server.log().contains("panicked"), "{}", server.log());
}
