use super::*;

fn check(accept: &str, offer: &Offer, expect: Option<(Media, Form)>) {
    let got = negotiate(Some(accept), None, None, offer).map(|a| (a.media, a.form));
    assert_eq!(got, expect, "{accept}");
}

#[test]
fn accept_headers_are_read_as_upstream_reads_them() {
    let objects = &Offer::OBJECTS;
    check("", objects, Some((Media::Json, Form::Whole)));
    check("*/*", objects, Some((Media::Json, Form::Whole)));
    check("application/*", objects, Some((Media::Json, Form::Whole)));
    check("text/html", objects, None);
    check("text/html,application/yaml;q=0.5", objects, Some((Media::Yaml, Form::Whole)));
    check("application/json;q=0.2,application/yaml;q=0.5", objects, Some((Media::Yaml, Form::Whole)));
    check("application/json;as=Table;v=v1;g=meta.k8s.io", objects, Some((Media::Json, Form::Table { beta: false })));
    check("application/json;as=Table;v=v2;g=meta.k8s.io", objects, None);
    check("application/json;as=Table;v=v1", objects, None);
    check(
        "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json",
        objects,
        Some((Media::Json, Form::Whole)),
    );
    check(
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        &Offer::PLAIN,
        Some((Media::Json, Form::Whole)),
    );
    check(
        "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io",
        &Offer::DISCOVERY,
        Some((Media::Json, Form::Aggregated)),
    );
}

#[test]
fn protobuf_is_passed_over_where_the_objects_have_none() {
    let custom = &Offer::CUSTOM;
    let json = Some((Media::Json, Form::Whole));
    let metadata = Form::Metadata { beta: false };
    for (accept, expect) in [
        ("application/vnd.kubernetes.protobuf,application/json", json),
        ("application/vnd.kubernetes.protobuf;q=1,application/json;q=0.1", json),
        ("application/vnd.kubernetes.protobuf;stream=watch,application/json;stream=watch", json),
        ("application/vnd.kubernetes.protobuf", None),
        ("application/vnd.kubernetes.protobuf,*/*", json),
        (
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
            Some((Media::Protobuf, metadata)),
        ),
    ] {
        check(accept, custom, expect);
    }
    check(
        "application/vnd.kubernetes.protobuf,application/json",
        &Offer::OBJECTS,
        Some((Media::Protobuf, Form::Whole)),
    );
}

#[test]
fn what_is_not_understood_is_left_out() {
    let objects = &Offer::OBJECTS;
    let json = Some((Media::Json, Form::Whole));
    let yaml = Some((Media::Yaml, Form::Whole));
    let table = Some((Media::Json, Form::Table { beta: false }));
    for (accept, expect) in [
        ("*", json),
        ("application", None),
        ("/", None),
        ("application/json/x", None),
        ("APPLICATION/JSON", None),
        ("application/json;;q=1", json),
        ("application/json;", json),
        ("application/json;q=abc,application/yaml", yaml),
        ("application/json;q=0,application/yaml", yaml),
        ("application/json;q=0", json),
        ("application/json;as=\"Table\";v=v1;g=meta.k8s.io", None),
        ("application/json;AS=Table;V=v1;G=meta.k8s.io", json),
        ("application/json;as=;v=;g=", json),
        ("application/json;v=v1", None),
        ("application/json;as=Foo;as=Table;v=v1;g=meta.k8s.io", table),
        // What is named counts more than a wildcard.
        ("*/*,application/yaml", yaml),
        ("application/*,application/yaml", yaml),
        ("*/*;as=Table;v=v1;g=meta.k8s.io", table),
        ("application/json;stream=watch", json),
        ("application/json;stream=other", None),
        ("application/yaml;stream=watch", None),
    ] {
        check(accept, objects, expect);
    }
    check("application/json;stream=watch", &Offer::PLAIN, json);
    check("application/json;sv=v1", objects, json);
    check("application/json;sv=v2", objects, None);
    check("application/json;sv=v1", &Offer::PLAIN, None);
    check("application/json;sv=", &Offer::PLAIN, json);
    let whole = "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io";
    check(&format!("application/json,{whole}"), &Offer::DISCOVERY, Some((Media::Json, Form::Aggregated)));
    check("application/json;as=APIGroupDiscoveryList;v=v1;g=apidiscovery.k8s.io", &Offer::DISCOVERY, None);
}

#[test]
fn routers_read_media_types_by_the_letter() {
    let check = |accept: &str, expect: bool| assert_eq!(Offer::OBJECTS.has_media(accept), expect, "{accept}");
    check("*/*", true);
    check("text/html, application/yaml ;q=0.1", true);
    check("application/json;;", true);
    check("application/*", false);
    check("*", false);
    check("Application/JSON", false);
    check("", true);
    check(" ", false);
}

#[test]
fn the_query_says_more_than_the_agent() {
    let check = |accept: &str, pretty: Option<&str>, agent: &str, expect: bool| {
        let accepted = negotiate(Some(accept), pretty, Some(agent), &Offer::OBJECTS).expect("JSON");
        assert_eq!(accepted.pretty, expect, "{accept} {pretty:?} {agent}");
    };
    let json = "application/json";
    check(json, None, "kubectl", false);
    check(json, None, "curl/8", true);
    check(json, None, "Mozilla/4", false);
    check(json, Some("0"), "curl/8", false);
    check(json, Some("x"), "curl/8", false);
    check(json, Some(""), "curl/8", true);
    check(json, Some(""), "kubectl", false);
    check(json, Some("True"), "kubectl", true);
    check("application/json;pretty=1", Some("0"), "kubectl", true);
    check("application/json;pretty=true", None, "kubectl", false);
    check("application/yaml", Some("1"), "kubectl", false);
}

#[test]
fn content_types_name_encodings() {
    let check = |header: &str, expect: Option<Media>| {
        assert_eq!(Media::of_content_type(Some(header), &Media::ALL), expect, "{header}");
    };
    check("", Some(Media::Json));
    check("application/json; charset=utf-8", Some(Media::Json));
    check("Application/JSON", Some(Media::Json));
    check("application/json;", Some(Media::Json));
    check("application/json ; ", Some(Media::Json));
    check("application/json;;", None);
    check("application/json; charset", None);
    check("application/json;a=b;a=b", Some(Media::Json));
    check("application/json;a=b;A=c", None);
    check("application/json; a=\"x;\\\"y\" ; b=c", Some(Media::Json));
    check("application/json; a=\"x", None);
    check("application/json, application/yaml", None);
    check("nonsense", None);
    check("*/*", None);
    check("text/yaml", None);
    check("application/vnd.kubernetes.protobuf", Some(Media::Protobuf));
}
