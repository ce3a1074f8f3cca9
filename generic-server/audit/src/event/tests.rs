use serde_json::{Value as Json, json};

use super::{encode::Bodies, *};

fn event() -> Event {
    Event {
        level: Level::RequestResponse,
        id: "an-id".into(),
        stage: Stage::ResponseComplete,
        uri: "/api/v1/pods?a=<b>".into(),
        verb: "create".into(),
        user: User {
            name: "ann".into(),
            groups: vec!["a".into(), "b\"".into()],
            extra: vec![("z".into(), vec!["1".into()]), ("a/b".into(), vec![])],
            ..User::default()
        },
        source_ips: vec!["10.1.2.3".parse().expect("an address"), "::1".parse().expect("an address")],
        object: Some(ObjectReference { resource: "pods".into(), version: "v1".into(), ..ObjectReference::default() }),
        code: 201,
        received: Some(Timestamp::new(1_795_000_000, 1_000)),
        staged: Some(Timestamp::new(1_795_000_001, 0)),
        annotations: vec![("b".into(), "2".into()), ("a".into(), "1".into())],
        ..Event::default()
    }
}

fn parsed(event: &Event, bodies: Bodies) -> Json {
    let line = event.encode(bodies).expect("an event");
    assert_eq!(line.iter().filter(|b| **b == b'\n').count(), 1, "one line");
    serde_json::from_slice(&line).expect("JSON")
}

#[test]
fn an_event_is_a_line_of_json() {
    let expect = json!({
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "RequestResponse", "auditID": "an-id",
        "stage": "ResponseComplete", "requestURI": "/api/v1/pods?a=<b>", "verb": "create",
        "user": {"username": "ann", "groups": ["a", "b\""], "extra": {"a/b": [], "z": ["1"]}},
        "sourceIPs": ["10.1.2.3", "::1"], "objectRef": {"resource": "pods", "apiVersion": "v1"},
        "responseStatus": {"metadata": {}, "code": 201},
        "requestReceivedTimestamp": "2026-11-18T11:06:40.000001Z", "stageTimestamp": "2026-11-18T11:06:41.000000Z",
        "annotations": {"a": "1", "b": "2"},
    });
    assert_eq!(parsed(&event(), Bodies::Whole), expect);
    let text = event().encode(Bodies::Whole).expect("an event");
    assert!(text.ends_with(b",\"annotations\":{\"a\":\"1\",\"b\":\"2\"}}\n"), "keys are sorted");
}

#[test]
fn bodies_are_whole_or_left_out() {
    let mut event = event();
    event.request = Some(Document::Foreign("{ \"a\":\n 1 }".into()));
    event.response = Some(Document::Json(vec!["{\"kind\":".into(), "\"Pod\"}".into(), "\n".into()]));
    let whole = parsed(&event, Bodies::Whole);
    assert_eq!((&whole["requestObject"], &whole["responseObject"]), (&json!({"a": 1}), &json!({"kind": "Pod"})));
    let lean = parsed(&event, Bodies::LeftOut);
    assert_eq!((&lean["requestObject"], &lean["responseObject"]), (&Json::Null, &Json::Null));
    assert_eq!(lean["annotations"], json!({"a": "1", "audit.k8s.io/truncated": "true", "b": "2"}));
    event.request = Some(Document::Foreign("a: 1".into()));
    assert!(event.encode(Bodies::Whole).is_err(), "what is no JSON cannot be shown");
}

#[test]
fn a_status_is_shown_by_its_own_words_and_the_code_that_was_sent() {
    let show = |status: Status, code| {
        let event = Event { status: Some(Arc::new(status)), code, ..event() };
        parsed(&event, Bodies::Whole)["responseStatus"].clone()
    };
    let status = Status::not_found(&machinery::meta::gvk::GroupResource::new("", "pods"), "p");
    let expect = json!({
        "metadata": {}, "status": "Failure", "message": "pods \"p\" not found", "reason": "NotFound",
        "details": {"name": "p", "kind": "pods"}, "code": 404,
    });
    assert_eq!(show(status, 404), expect);
    assert_eq!(show(Status::success(None), 200), json!({"metadata": {}, "status": "Success", "code": 200}));
}

#[test]
fn the_first_value_of_an_annotation_stays() {
    let mut event = event();
    event.annotate("a".into(), "other".into());
    event.annotate("c".into(), "3".into());
    assert_eq!(parsed(&event, Bodies::Whole)["annotations"], json!({"a": "1", "b": "2", "c": "3"}));
}

#[test]
fn an_impersonated_user_is_shown_with_the_mode() {
    let mut event = event();
    event.impersonated = Some((User { name: "bob".into(), ..User::default() }, "impersonate:user-info"));
    let shown = parsed(&event, Bodies::Whole);
    assert_eq!(shown["impersonatedUser"], json!({"username": "bob"}));
    assert_eq!(shown["authenticationMetadata"], json!({"impersonationConstraint": "impersonate:user-info"}));
}

#[test]
fn legacy_lines_quote_what_they_hold() {
    let expect = "2026-11-18T11:06:40.000001Z AUDIT: id=\"an-id\" stage=\"ResponseComplete\" ip=\"10.1.2.3\" \
                  method=\"create\" user=\"ann\" groups=\"\\\"a\\\",\\\"b\\\\\\\"\\\"\" as=\"<self>\" asgroups=\"<lookup>\" \
                  user-agent=\"\" namespace=\"<none>\" uri=\"/api/v1/pods?a=<b>\" response=\"201\"\n";
    assert_eq!(event().legacy(), expect);
    let early = Event { code: 0, ..event() };
    assert!(early.legacy().ends_with("response=\"<deferred>\"\n"));
}
