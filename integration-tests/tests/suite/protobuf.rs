//! Clients that speak protobuf, as controllers, kubelets and the garbage collector do. Requests are built and answers are
//! read by a codec of a few lines that knows nothing of the server's own.

use integration_tests::{Reply, Server, raw};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// What client-go's controllers accept.
const ACCEPT: &str = "application/vnd.kubernetes.protobuf,application/json";
const METADATA_LIST: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
    application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

/// A field with a length: text, or a message.
pub(crate) fn field(number: u64, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    [varint(number << 3 | 2), varint(content.len() as u64), content.to_vec()].concat()
}

/// A field that is a number.
pub(crate) fn int(number: u64, value: u64) -> Vec<u8> {
    [varint(number << 3), varint(value)].concat()
}

pub(crate) fn envelope(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let type_meta = field(1, [field(1, api_version), field(2, kind)].concat());
    [b"k8s\0".to_vec(), type_meta, field(2, message)].concat()
}

fn read_varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let (first, rest) = bytes.split_first().expect("a varint goes on");
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if *first < 0x80 {
            return value;
        }
        shift += 7;
    }
}

/// All contents of a field, numbers as varints.
pub(crate) fn all(mut message: &[u8], wanted: u64) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while !message.is_empty() {
        let key = read_varint(&mut message);
        let content = match key & 7 {
            0 => varint(read_varint(&mut message)),
            2 => {
                let len = usize::try_from(read_varint(&mut message)).expect("a length");
                let (content, rest) = message.split_at(len);
                message = rest;
                content.to_vec()
            }
            other => panic!("wire type {other}"),
        };
        if key >> 3 == wanted {
            found.push(content);
        }
    }
    found
}

/// The content at the end of a path of field numbers; the last of each.
fn at(message: &[u8], path: &[u64]) -> Vec<u8> {
    path.iter().fold(message.to_vec(), |message, number| all(&message, *number).pop().unwrap_or_default())
}

pub(crate) fn text(message: &[u8], path: &[u64]) -> String {
    String::from_utf8(at(message, path)).expect("text")
}

pub(crate) fn number(message: &[u8], path: &[u64]) -> u64 {
    let content = at(message, path);
    if content.is_empty() { 0 } else { read_varint(&mut &content[..]) }
}

/// Apiversion, kind and message of an envelope.
pub(crate) fn open(bytes: &[u8]) -> (String, String, Vec<u8>) {
    let unknown = bytes.strip_prefix(b"k8s\0").unwrap_or_else(|| panic!("{}", bytes.escape_ascii()));
    (text(unknown, &[1, 1]), text(unknown, &[1, 2]), at(unknown, &[2]))
}

pub(crate) struct Client(pub(crate) Server);

impl Client {
    pub(crate) fn ask(&self, method: &str, path: &str, accept: &str, content_type: &str, body: &[u8]) -> Reply {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer admintoken\r\nConnection: close\r\n\
             User-Agent: kube-controller-manager/v1.36.2\r\nAccept: {accept}\r\nContent-Type: {content_type}\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        raw(self.0.port(), &[head.as_bytes(), body].concat()).expect("an answer")
    }

    /// A request with a message, answered by a message of this kind.
    pub(crate) fn call(&self, method: &str, path: &str, body: &[u8], status: u16, kind: &str) -> Vec<u8> {
        self.call_with(method, path, (ACCEPT, PROTOBUF), body, status, kind)
    }

    pub(crate) fn call_with(
        &self,
        method: &str,
        path: &str,
        (accept, content_type): (&str, &str),
        body: &[u8],
        status: u16,
        kind: &str,
    ) -> Vec<u8> {
        let reply = self.ask(method, path, accept, content_type, body);
        assert_eq!(reply.status, status, "{method} {path}: {}", reply.body.escape_ascii());
        let said = reply.headers.iter().find(|(name, _)| name == "content-type").map(|(_, value)| value.as_str());
        assert_eq!(said, Some(PROTOBUF), "{method} {path}");
        let (_, found, message) = open(&reply.body);
        assert_eq!(found, kind, "{method} {path}: {}", reply.body.escape_ascii());
        message
    }

    /// The events of a watch until it ends: type, kind, message.
    pub(crate) fn watch(&self, path: &str, accept: &str) -> Vec<(String, String, Vec<u8>)> {
        let reply = self.ask("GET", path, accept, "", b"");
        assert_eq!(reply.status, 200, "{}", reply.body.escape_ascii());
        let said = reply.headers.iter().find(|(name, _)| name == "content-type").map(|(_, value)| value.as_str());
        assert_eq!(said, Some("application/vnd.kubernetes.protobuf;stream=watch"));
        let (mut events, mut rest) = (Vec::new(), &reply.body[..]);
        while let Some((len, after)) = rest.split_first_chunk::<4>() {
            let (event, after) = after.split_at(u32::from_be_bytes(*len) as usize);
            let (_, kind, message) = open(&at(event, &[2, 1]));
            events.push((text(event, &[1]), kind, message));
            rest = after;
        }
        events
    }
}

pub(crate) fn named(name: &str) -> Vec<u8> {
    field(1, field(1, name))
}

pub(crate) fn config_map(name: &str, value: &str) -> Vec<u8> {
    envelope("v1", "ConfigMap", &[named(name), field(2, [field(1, "k"), field(2, value)].concat())].concat())
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[test]
fn objects_are_written_read_and_watched() {
    let client = Client(Server::start());
    let one = client.call("POST", CONFIG_MAPS, &config_map("one", "v"), 201, "ConfigMap");
    assert_eq!((text(&one, &[1, 1]).as_str(), text(&one, &[1, 3]).as_str()), ("one", "default"));
    assert_eq!((text(&one, &[2, 1]).as_str(), text(&one, &[2, 2]).as_str()), ("k", "v"));
    let (uid, version) = (text(&one, &[1, 5]), text(&one, &[1, 6]));
    assert_eq!(uid.len(), 36);
    assert!(number(&one, &[1, 8, 1]) > 1_700_000_000, "a creation timestamp in seconds");
    assert_eq!(text(&one, &[1, 17, 1]), "kube-controller-manager", "the manager is the client");
    let path = format!("{CONFIG_MAPS}/one");
    assert_eq!(client.call("GET", &path, b"", 200, "ConfigMap"), one);

    client.call("POST", CONFIG_MAPS, &config_map("two", "v"), 201, "ConfigMap");
    let list = client.call("GET", CONFIG_MAPS, b"", 200, "ConfigMapList");
    let names: Vec<String> = all(&list, 2).iter().map(|item| text(item, &[1, 1])).collect();
    assert!(names.contains(&"one".into()) && names.contains(&"two".into()), "{names:?}");
    assert!(!text(&list, &[1, 2]).is_empty());

    let patched = client.call_with(
        "PATCH",
        &path,
        (ACCEPT, "application/strategic-merge-patch+json"),
        br#"{"data":{"k":"w"}}"#,
        200,
        "ConfigMap",
    );
    assert_eq!(text(&patched, &[2, 2]), "w");
    let stale = envelope("v1", "ConfigMap", &field(1, [field(1, "one"), field(6, &version)].concat()));
    let conflict = client.call("PUT", &path, &stale, 409, "Status");
    assert_eq!((text(&conflict, &[4]).as_str(), number(&conflict, &[6])), ("Conflict", 409));
    assert_eq!(text(&conflict, &[5, 1]), "one");

    let metadata = client.call_with("GET", CONFIG_MAPS, (METADATA_LIST, ""), b"", 200, "PartialObjectMetadataList");
    let items = all(&metadata, 2);
    assert!(items.iter().any(|item| text(item, &[1, 5]) == uid));
    assert!(items.iter().all(|item| all(item, 2).is_empty()), "no data");

    let since = format!(
        "{CONFIG_MAPS}?watch=true&resourceVersion={version}&timeoutSeconds=1&fieldSelector=metadata.name%3Done"
    );
    let events = client.watch(&since, ACCEPT);
    assert_eq!(events.len(), 1, "{events:?}");
    let (event, kind, object) = &events[0];
    assert_eq!((event.as_str(), kind.as_str(), text(object, &[2, 2]).as_str()), ("MODIFIED", "ConfigMap", "w"));
    let (_, kind, object) = client.watch(&since, METADATA).pop().expect("an event");
    assert_eq!((kind.as_str(), text(&object, &[1, 1]).as_str()), ("PartialObjectMetadata", "one"));
    let streamed = client.watch(
        &format!(
            "{CONFIG_MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=\
             &allowWatchBookmarks=true&timeoutSeconds=1"
        ),
        ACCEPT,
    );
    let bookmark =
        streamed.iter().position(|(event, _, _)| event == "BOOKMARK").expect("the end of the initial events");
    assert!(streamed[..bookmark].iter().any(|(event, _, object)| event == "ADDED" && text(object, &[1, 1]) == "two"));
    assert_eq!(text(&streamed[bookmark].2, &[1, 12, 1]), "k8s.io/initial-events-end");

    let options =
        |uid: &str| envelope("v1", "DeleteOptions", &[field(2, field(1, uid)), field(4, "Background")].concat());
    let other = client.call("DELETE", &path, &options("11111111-2222-3333-4444-555555555555"), 409, "Status");
    assert!(
        text(&other, &[3])
            .contains("the UID in the precondition (11111111-2222-3333-4444-555555555555) does not match"),
        "{}",
        text(&other, &[3])
    );
    let gone = client.call("DELETE", &path, &options(&uid), 200, "Status");
    assert_eq!((text(&gone, &[2]).as_str(), text(&gone, &[5, 6])), ("Success", uid));
    let missing = client.call("GET", &path, b"", 404, "Status");
    assert_eq!(
        (text(&missing, &[4]).as_str(), text(&missing, &[3]).as_str()),
        ("NotFound", "configmaps \"one\" not found")
    );
}

#[test]
fn leases_events_and_nodes_are_kept_as_controllers_and_kubelets_keep_them() {
    let client = Client(Server::start());
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    client.call("POST", "/api/v1/namespaces", &envelope("v1", "Namespace", &named("more")), 201, "Namespace");
    let lease = |version: &str, holder: &str, nanos: u64| {
        let time = [int(1, 1_800_000_000), int(2, nanos)].concat();
        let spec = [field(1, holder), int(2, 15), field(3, &time), field(4, &time), int(5, 1)].concat();
        let meta = [field(1, "elected"), field(6, version)].concat();
        envelope("coordination.k8s.io/v1", "Lease", &[field(1, meta), field(2, spec)].concat())
    };
    let created = client.call("POST", leases, &lease("", "a", 5_000), 201, "Lease");
    assert_eq!((text(&created, &[2, 1]).as_str(), number(&created, &[2, 4, 2])), ("a", 5_000));
    let path = format!("{leases}/elected");
    let renewed = client.call("PUT", &path, &lease(&text(&created, &[1, 6]), "a", 7_000), 200, "Lease");
    assert_eq!((number(&renewed, &[2, 4, 1]), number(&renewed, &[2, 4, 2])), (1_800_000_000, 7_000));
    client.call("PUT", &path, &lease(&text(&created, &[1, 6]), "b", 9_000), 409, "Status");

    let events = "/api/v1/namespaces/default/events";
    let involved = [field(1, "Pod"), field(2, "default"), field(3, "p"), field(5, "v1")].concat();
    let seen = int(1, 1_800_000_000);
    let event = [
        named("p.1"),
        field(2, involved),
        field(3, "Scheduled"),
        field(4, "Successfully assigned"),
        field(5, field(1, "default-scheduler")),
        field(6, &seen),
        field(7, &seen),
        int(8, 1),
        field(9, "Normal"),
    ];
    client.call("POST", events, &envelope("v1", "Event", &event.concat()), 201, "Event");
    let counted = client.call_with(
        "PATCH",
        &format!("{events}/p.1"),
        (ACCEPT, "application/strategic-merge-patch+json"),
        br#"{"count":2,"lastTimestamp":"2027-01-15T08:00:30Z"}"#,
        200,
        "Event",
    );
    assert_eq!((number(&counted, &[8]), number(&counted, &[7, 1])), (2, 1_800_000_030));

    client.call("POST", "/api/v1/nodes", &envelope("v1", "Node", &named("n1")), 201, "Node");
    let condition = [field(1, "Ready"), field(2, "True"), field(5, "KubeletReady")].concat();
    let capacity = field(1, [field(1, "cpu"), field(2, field(1, "4"))].concat());
    let node = [named("n1"), field(3, [capacity, field(4, condition)].concat())].concat();
    let node = client.call("PUT", "/api/v1/nodes/n1/status", &envelope("v1", "Node", &node), 200, "Node");
    assert_eq!((text(&node, &[3, 4, 1]).as_str(), text(&node, &[3, 1, 2, 1]).as_str()), ("Ready", "4"));

    // A review: created, answered, not kept.
    let attributes = [field(1, "default"), field(2, "get"), field(3, ""), field(5, "pods")].concat();
    let review = envelope("authorization.k8s.io/v1", "SelfSubjectAccessReview", &field(2, field(1, attributes)));
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let answered = client.call("POST", path, &review, 201, "SelfSubjectAccessReview");
    assert_eq!(number(&answered, &[3, 1]), 1, "allowed");
}

#[test]
fn what_has_no_message_or_is_none_is_refused() {
    let client = Client(Server::start());
    let refuse = |method: &str, path: &str, body: &[u8], status: u16, wanted: &str| {
        let answer = client.call(method, path, body, status, "Status");
        let message = text(&answer, &[3]);
        assert!(message.contains(wanted), "{message}");
    };
    let whole = config_map("a", "v");
    refuse("POST", CONFIG_MAPS, &whole[..whole.len() - 3], 400, "unexpected EOF");
    refuse(
        "POST",
        CONFIG_MAPS,
        b"k8s",
        400,
        "does not appear to be a protobuf message, expected prefix [107 56 115 0]",
    );
    refuse("POST", CONFIG_MAPS, b"", 400, "empty data");
    refuse("POST", CONFIG_MAPS, b"k8s\0", 400, "empty body");
    refuse("POST", CONFIG_MAPS, &envelope("v1", "ConfigMap", b"\x08\x01"), 400, "wrong wireType = 0 for field");
    refuse(
        "POST",
        CONFIG_MAPS,
        &envelope("v1", "Secret", &named("a")),
        400,
        "Secret in version \"v1\" cannot be handled as a ConfigMap",
    );
    refuse("POST", CONFIG_MAPS, &envelope("nosuch/v1", "ConfigMap", &named("a")), 400, "nosuch/v1");
    // The envelope need not say what everybody knows.
    client.call("POST", CONFIG_MAPS, &envelope("", "", &named("b")), 201, "ConfigMap");

    client.0.kubectl_with(&["apply", "-f", "-"], include_str!("widgets.yaml").split("---").next().expect("a CRD"));
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    // Custom resources have no messages, but their metadata have.
    refuse(
        "POST",
        widgets,
        &envelope("example.com/v1", "Widget", &named("a")),
        400,
        "object *unstructured.Unstructured does not implement the protobuf marshalling interface",
    );
    let metadata = client.call_with("GET", widgets, (METADATA_LIST, ""), b"", 200, "PartialObjectMetadataList");
    assert!(!text(&metadata, &[1, 2]).is_empty());
}
