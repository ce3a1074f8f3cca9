//! Stored objects that cannot be decrypted or decoded: what is said of them, and how they are deleted all the same.

use std::{fs, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use integration_tests::{Etcd, Reply, Server, Watch, raw};
use serde_json::{Value, json};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const GATE: &str = "--feature-gates=AllowUnsafeMalformedObjectDeletion=true";
const ALONE: &str = "is exclusively used to delete corrupt object(s), try again by removing this option";

/// Secrets are encrypted with a key that is this letter over and over.
fn configure(file: &Path, letter: char) {
    let secret = STANDARD.encode(letter.to_string().repeat(32));
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  \
         providers: [{{aesgcm: {{keys: [{{name: {letter}, secret: {secret}}}]}}}}]\n"
    );
    fs::write(file, text).expect("written");
}

/// A server that has lost the key of so many secrets, `lost0` and so on; `well` can be read.
fn with_lost(count: usize, gate: bool) -> Server {
    let mut server = Server::prepare();
    let file = server.dir().join("encryption.yaml");
    let flag = format!("--encryption-provider-config={}", file.display());
    configure(&file, 'a');
    server.set_arguments(&if gate { vec![&*flag, GATE] } else { vec![&*flag] });
    server.run();
    for n in 0..count {
        let finalizers = ["example.com/never-done"];
        let secret = json!({"metadata": {"name": format!("lost{n}"), "finalizers": finalizers}});
        assert_eq!(server.request("POST", SECRETS, Some(&secret)).status, 201);
    }
    server.kill();
    configure(&file, 'b');
    server.run();
    assert_eq!(server.request("POST", SECRETS, Some(&json!({"metadata": {"name": "well"}}))).status, 201);
    server
}

/// A deletion by bob.
fn delete_as_bob(server: &Server, path: &str, options: &Value) -> Reply {
    let body = options.to_string();
    let request = format!(
        "DELETE {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer bobtoken\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    raw(server.port(), request.as_bytes()).expect("an answer")
}

fn permit_bob(server: &Server, name: &str, verbs: &[&str]) {
    server.kubectl(&["create", "role", name, &format!("--verb={}", verbs.join(",")), "--resource=secrets"]);
    server.kubectl(&["create", "rolebinding", name, &format!("--role={name}"), "--user=bob"]);
}

fn message(reply: &Reply) -> (u16, String) {
    (reply.status, reply.json()["message"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn without_the_feature_gate_the_option_counts_for_nothing() {
    let server = with_lost(2, false);
    let unsafely = json!({"ignoreStoreReadErrorWithClusterBreakingPotential": true, "gracePeriodSeconds": 0});
    let why = "Internal error occurred: no matching prefix found".to_owned();
    for options in [unsafely, json!({})] {
        let reply = server.request("DELETE", &format!("{SECRETS}/lost0"), Some(&options));
        assert_eq!(message(&reply), (500, why.clone()));
    }
    assert_eq!(message(&server.request("GET", &format!("{SECRETS}/lost0"), None)), (500, why));
    let text = "Internal error occurred: unable to transform key \"/registry/secrets/default/lost0\": no matching prefix found";
    assert_eq!(message(&server.request("GET", SECRETS, None)), (500, text.to_owned()));
    assert_eq!(server.request("GET", &format!("{SECRETS}/well"), None).status, 200);
    assert_eq!(server.request("DELETE", &format!("{SECRETS}/well"), None).status, 200);
    assert_eq!(server.request("GET", "/readyz", None).status, 200);
}

#[test]
fn with_it_lists_name_what_they_cannot_read_and_who_may_deletes_it() {
    let server = with_lost(2, true);
    let path = format!("{SECRETS}/lost0");
    let corrupt = |key: &str| {
        format!(
            "StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: data from the \
             storage is not transformable revision=0: no matching prefix found"
        )
    };
    let got = server.request("GET", &path, None);
    let expect = (500, format!("Internal error occurred: {}", corrupt("/secrets/default/lost0")));
    assert_eq!((message(&got), &got.json()["reason"]), (expect.clone(), &json!("InternalError")));
    let list = server.request("GET", SECRETS, None).json();
    let cause = |name: &str| {
        let key = format!("/registry/secrets/default/{name}");
        json!({"reason": "UnexpectedServerResponse", "message": corrupt(&key), "field": key})
    };
    assert_eq!(
        list,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 500,
            "message": "failed to read one or more secrets from the storage", "reason": "StorageReadError",
            "details": {"name": "list", "kind": "secrets", "causes": [cause("lost0"), cause("lost1")]},
        })
    );
    let unsafely = json!({"ignoreStoreReadErrorWithClusterBreakingPotential": true});
    let check = |path: &str, options: &Value, code: u16, expect: &str| {
        let (status, text) = message(&server.request("DELETE", path, Some(options)));
        assert!(status == code && text.contains(expect), "{path} {options}: {status} {text}");
    };
    check(&path, &json!({}), 500, &expect.1);
    check(&format!("{SECRETS}/well"), &unsafely, 422, ALONE);
    check(&format!("{SECRETS}/none"), &unsafely, 422, ALONE);
    for (name, value) in [
        ("gracePeriodSeconds", json!(0)),
        ("dryRun", json!(["All"])),
        ("propagationPolicy", json!("Background")),
        ("orphanDependents", json!(false)),
        ("preconditions", json!({"uid": "u"})),
    ] {
        let mut beside = unsafely.clone();
        beside[name] = value;
        check(&path, &beside, 422, &format!("cannot be set together with .{name}"));
    }
    check(SECRETS, &unsafely, 422, "is not allowed with DELETECOLLECTION, try again after removing the option");
    // Whoever may delete may not do this for that reason alone.
    permit_bob(&server, "some", &["get", "list", "delete"]);
    let refused = message(&delete_as_bob(&server, &path, &unsafely));
    let text = "secrets \"lost0\" is forbidden: not permitted to do \"unsafe-delete-ignore-read-errors\", reason: ";
    assert!(refused.0 == 403 && refused.1.starts_with(text), "{refused:?}");
    permit_bob(&server, "unsafe", &["unsafe-delete-ignore-read-errors"]);
    let known = server.request("GET", &format!("{SECRETS}/well"), None).json()["metadata"]["resourceVersion"].clone();
    let since = format!("{SECRETS}?watch=1&resourceVersion={}", known.as_str().expect("a version"));
    let mut watch = Watch::open(server.port(), &since).expect("a watch");
    let deleted = delete_as_bob(&server, &path, &unsafely);
    let done = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 200,
        "details": {"name": "lost0", "kind": "Secret"}});
    assert_eq!((deleted.status, deleted.json()), (200, done));
    assert_eq!(watch.next_event(), None, "whoever knew it from before lists anew");
    assert_eq!(server.request("GET", &since, None).json()["object"]["code"], 410);
    assert_eq!(server.request("GET", &path, None).status, 404);
    assert_eq!(server.request("DELETE", &format!("{SECRETS}/lost1"), Some(&unsafely)).status, 200);
    let list = server.request("GET", SECRETS, None).json();
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1), "lists are well again");
}

#[test]
fn a_list_names_a_hundred() {
    let server = with_lost(103, true);
    let list = server.request("GET", SECRETS, None).json();
    let causes = list["details"]["causes"].as_array().expect("causes");
    let last = json!({"reason": "FieldValueTooMany", "message": "too many errors, the list is truncated"});
    assert_eq!((causes.len(), &causes[100]), (101, &last));
}

#[test]
fn what_nobody_can_decode_keeps_no_server_from_starting_and_harms_itself_alone() {
    let etcd = Etcd::start();
    etcd.put("/registry/configmaps/default/garbage", b"\xff\x00 what is this");
    etcd.put("/registry/configmaps/default/torn", b"k8s\0\x0a\x0f\x0a\x02v1");
    let mut server = Server::prepare();
    server.set_arguments(&[&format!("--etcd-servers={}", etcd.url()), GATE]);
    server.run();
    assert_eq!(server.request("GET", "/readyz", None).text(), "ok");
    let map = json!({"metadata": {"name": "well"}});
    assert_eq!(server.request("POST", CONFIGMAPS, Some(&map)).status, 201);
    assert_eq!(server.request("GET", "/api/v1/namespaces/kube-system/configmaps", None).status, 200);
    let mut watch = Watch::open(server.port(), &format!("{CONFIGMAPS}?watch=1")).expect("a watch");
    assert_eq!(watch.next_event().expect("the one that can be shown")["object"]["metadata"]["name"], "well");
    let unsafely = json!({"ignoreStoreReadErrorWithClusterBreakingPotential": true});
    for name in ["garbage", "torn"] {
        let path = format!("{CONFIGMAPS}/{name}");
        let (status, text) = message(&server.request("GET", &path, None));
        assert!(status == 500 && text.contains("object not decodable revision="), "{text}");
        let list = server.request("GET", CONFIGMAPS, None).json();
        assert_eq!(list["details"]["causes"][0]["field"], format!("/registry/configmaps/default/{name}"));
        let replaced = server.request("PUT", &path, Some(&json!({"metadata": {"name": name}})));
        assert_eq!(replaced.status, 500, "{}", replaced.text());
        assert_eq!(server.request("DELETE", &path, Some(&unsafely)).status, 200);
        assert_eq!(etcd.get(&format!("/registry/configmaps/default/{name}")), None);
    }
    assert_eq!(server.request("GET", CONFIGMAPS, None).status, 200);
    assert!(!server.log().contains("panicked"), "{}", server.log());
}
