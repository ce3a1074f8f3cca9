//! What was: reads at a time, and what differs between two states.

use integration_tests::Server;
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DIFF: &str = "/debug/storage/diff";

/// Writes a config map; returns its resourceVersion.
fn write(server: &Server, method: &str, name: &str, value: &str) -> String {
    let path = if method == "POST" { MAPS.to_owned() } else { format!("{MAPS}/{name}") };
    let object = json!({"metadata": {"name": name}, "data": {"k": value}});
    let reply = server.request(method, &format!("{path}?fieldManager=test-{value}"), Some(&object));
    assert!(reply.status < 300, "{}", reply.text());
    reply.json()["metadata"]["resourceVersion"].as_str().expect("a version").to_owned()
}

fn lines(server: &Server, query: &str) -> Vec<Value> {
    all_lines(server, &format!("resource=configmaps&namespace=default&{query}"))
}

fn all_lines(server: &Server, query: &str) -> Vec<Value> {
    let reply = server.request("GET", &format!("{DIFF}?{query}"), None);
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.text().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// When the write of a resourceVersion was.
fn time(server: &Server, version: &str) -> String {
    let from = version.parse::<u64>().expect("a number") - 1;
    let found = all_lines(server, &format!("from={from}&to={version}"));
    found[0]["time"].as_str().expect("a time").to_owned()
}

/// The values of the config maps of a list, by name.
fn values(server: &Server, query: &str) -> Vec<String> {
    let reply = server.request("GET", &format!("{MAPS}?{query}&fieldSelector=metadata.name!=kube-root-ca.crt"), None);
    assert_eq!(reply.status, 200, "{}", reply.text());
    let list = reply.json();
    let items = list["items"].as_array().expect("items");
    let told = |item: &Value| {
        format!("{}={}", item["metadata"]["name"].as_str().unwrap_or(""), item["data"]["k"].as_str().unwrap_or(""))
    };
    items.iter().map(told).collect()
}

#[test]
fn what_was_at_a_time_is_read_by_get_and_list() {
    let mut server = Server::prepare();
    server.set_arguments(&["--history=1h", "--etcd-compaction-interval=1ms"]);
    server.run();
    write(&server, "POST", "a", "1");
    let first = write(&server, "POST", "b", "1");
    let at = time(&server, &first);
    // The clock has gone on: the next write is of another millisecond.
    loop {
        let other = json!({"metadata": {"generateName": "other-"}});
        let other = server.request("POST", "/api/v1/namespaces", Some(&other)).json();
        if time(&server, other["metadata"]["resourceVersion"].as_str().expect("a version")) != at {
            break;
        }
    }
    write(&server, "PUT", "b", "2");
    assert_eq!(server.request("DELETE", &format!("{MAPS}/a"), None).status, 200);
    write(&server, "POST", "c", "1");
    assert_eq!(values(&server, &format!("at={at}")), ["a=1", "b=1"]);
    assert_eq!(values(&server, "limit=9"), ["b=2", "c=1"]);
    let list = server.request("GET", &format!("{MAPS}?at={at}&limit=1"), None).json();
    assert_eq!(list["metadata"]["resourceVersion"], json!(first));
    let token = list["metadata"]["continue"].as_str().expect("a token");
    assert!(values(&server, &format!("at={at}&limit=9&continue={token}")).contains(&"b=1".to_owned()));
    let get = |name: &str, query: &str| server.request("GET", &format!("{MAPS}/{name}?{query}"), None);
    assert_eq!(get("a", &format!("at={at}")).json()["data"]["k"], "1");
    assert_eq!(get("b", &format!("at={at}")).json()["data"]["k"], "1");
    assert_eq!(get("c", &format!("at={at}")).status, 404);
    assert_eq!(get("a", "").status, 404);
    // The same after a start, and in other forms.
    server.kill();
    server.run();
    assert_eq!(values(&server, &format!("at={at}")), ["a=1", "b=1"]);
    let shown = server.kubectl(&["get", "--raw", &format!("{MAPS}/b?at={at}")]);
    assert!(shown.contains(r#""k":"1""#), "{shown}");
}

#[test]
fn times_that_are_none_or_not_kept_are_refused() {
    let server = Server::start();
    write(&server, "POST", "a", "1");
    let refused = |method: &str, query: &str, status: u16, expect: &str| {
        for path in [MAPS.to_owned(), format!("{MAPS}/a")] {
            let reply = server.request(method, &format!("{path}?{query}"), None);
            assert_eq!(reply.status, status, "{method} {path}?{query}: {}", reply.text());
            assert!(reply.text().contains(expect), "{}", reply.text());
        }
    };
    refused("GET", "at=yesterday", 400, "invalid at: parsing time");
    refused("GET", "at=2026-02-30T00:00:00Z", 400, "day out of range");
    refused("GET", "at=2999-01-01T00:00:00Z", 400, "is in the future");
    refused("GET", "at=2020-01-01T00:00:00Z&resourceVersion=5", 400, "only one of them is allowed");
    refused("GET", "at=2020-01-01T00:00:00Z", 410, r#""reason":"Expired""#);
    refused("GET", "at=2020-01-01T00:00:00Z", 410, "The resourceVersion for the provided list is too old.");
    refused("DELETE", "at=2020-01-01T00:00:00Z", 400, "at is for get and list alone");
    let watch = server.request("GET", &format!("{MAPS}?watch=true&at=2020-01-01T00:00:00Z"), None);
    assert_eq!(watch.status, 400, "{}", watch.text());
    assert_eq!(server.request("GET", &format!("{MAPS}/a"), None).status, 200, "nothing was deleted");
}

#[test]
fn what_differs_is_told_with_who_did_it_and_when() {
    let server = Server::start();
    write(&server, "POST", "changed", "1");
    write(&server, "POST", "deleted", "1");
    let from = write(&server, "POST", "same", "1");
    write(&server, "PUT", "changed", "2");
    assert_eq!(server.request("DELETE", &format!("{MAPS}/deleted"), None).status, 200);
    write(&server, "POST", "gone", "1");
    assert_eq!(server.request("DELETE", &format!("{MAPS}/gone"), None).status, 200);
    let to = write(&server, "POST", "new", "3");
    write(&server, "PUT", "same", "later");
    let found = lines(&server, &format!("from={from}&to={to}"));
    let told: Vec<_> = found.iter().map(|line| (line["verb"].as_str(), line["name"].as_str())).collect();
    let expect = [("update", "changed"), ("delete", "deleted"), ("create", "new")];
    assert_eq!(told, expect.map(|(verb, name)| (Some(verb), Some(name))));
    assert_eq!(found[0]["managers"][0]["manager"], "test-2");
    assert_eq!(found[2]["managers"][0]["manager"], "test-3");
    assert!(found[1].get("managers").is_none());
    for line in &found {
        assert_eq!(
            (&line["group"], &line["resource"], &line["namespace"]),
            (&json!(""), &json!("configmaps"), &json!("default"))
        );
        assert!(line["uid"].as_str().is_some_and(|uid| uid.len() == 36), "{line}");
        assert!(line["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{line}");
    }
    // From a time, to now.
    let since = found[2]["time"].as_str().expect("a time");
    let later = lines(&server, &format!("from={since}"));
    assert_eq!(later.iter().map(|line| line["name"].as_str()).collect::<Vec<_>>(), [Some("same")]);
    let refused = |query: &str, status: u16, expect: &str| {
        let reply = server.request("GET", &format!("{DIFF}?{query}"), None);
        assert!(reply.status == status && reply.text().contains(expect), "{query}: {} {}", reply.status, reply.text());
    };
    refused("", 400, "from is missing");
    refused("from=x", 400, "it is no resourceVersion, and as a time");
    refused(&format!("from={to}&to={from}"), 400, "is later than");
    refused("from=0", 410, "too old");
    refused("from=2020-01-01T00:00:00Z", 410, "too old");
    refused(&format!("from={from}&to=99999999"), 504, "Too large resource version");
    let bob = server.try_kubectl(&["get", "--raw", &format!("{DIFF}?from={from}"), "--as=bob"], "");
    let message = String::from_utf8_lossy(&bob.stderr).into_owned();
    assert!(message.contains("cannot get path"), "{message}");
}
