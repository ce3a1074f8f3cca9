//! What happens to an object and its managers as configurations are applied and updates are made.

use super::*;
use crate::patch::testing::{json, text};
use crate::schema::{ListType, Object, Shape, StringFormat, builtin};
use std::sync::Arc;

const THEN: &str = "2026-01-01T00:00:00Z";
const NOW: &str = "2026-01-02T00:00:00Z";

/// One object through its life.
struct Story {
    schema: Schema,
    kind: GroupVersionKind,
    object: Option<Value>,
    reset: ResetFields,
}

impl Story {
    fn of(group: &str, version: &str, kind: &str) -> Self {
        let schema = builtin::schema_of(group, version, kind).expect("a built-in").clone();
        let kind = GroupVersionKind::new(group, version, kind);
        Story { schema, kind, object: None, reset: ResetFields::None }
    }

    fn config_map() -> Self {
        Self::of("", "v1", "ConfigMap")
    }

    /// A custom resource with a granular map, an atomic one, a set, a list by key and a part of unknown shape.
    fn custom() -> Self {
        let text = || Schema::of(Shape::String(StringFormat::Plain));
        let field =
            |name: &str, schema: Schema| crate::schema::Field { name: name.into(), schema, ..Default::default() };
        let object = |fields: Vec<crate::schema::Field>| {
            Schema::of(Shape::Object(Arc::new(Object { fields, ..Object::default() })))
        };
        let list =
            |items: Schema, list_type: ListType| Schema { list_type, ..Schema::of(Shape::List(Arc::new(items))) };
        let protocol = Schema { default: Some("TCP".into()), ..text() };
        let port = object(vec![field("name", text()), field("protocol", protocol)]);
        let spec = object(vec![
            field("atom", Schema { atomic: true, ..Schema::of(Shape::Map(Arc::new(text()))) }),
            field("env", Schema::of(Shape::Map(Arc::new(text())))),
            field("free", Schema { preserve_unknown_fields: true, ..object(vec![]) }),
            field("ports", list(port, ListType::Map(vec!["name".into(), "protocol".into()]))),
            field("tags", list(text(), ListType::Set)),
        ]);
        let schema = object(vec![field("spec", spec)]);
        let kind = GroupVersionKind::new("acme.example", "v1", "Thing");
        Story { schema, kind, object: None, reset: ResetFields::None }
    }

    fn write<'a>(&'a self, manager: &'a str, subresource: &'a str, now: &'a str) -> Write<'a> {
        Write { manager, subresource, kind: &self.kind, now, reset: &self.reset, versions: &OneVersion }
    }

    fn config(&self, rest: &str) -> Value {
        let mut config = json(rest);
        config.set(&["apiVersion"], self.kind.api_version());
        config.set(&["kind"], &self.kind.kind);
        config
    }

    fn try_apply(&self, manager: &str, rest: &str, force: bool) -> Result<Value, ApplyError> {
        let write = self.write(manager, "", NOW);
        apply(self.object.as_ref(), &self.config(rest), &self.schema, &write, force)
    }

    #[track_caller]
    fn apply(&mut self, manager: &str, rest: &str) -> &mut Self {
        let new = self.try_apply(manager, rest, false).unwrap_or_else(|e| panic!("{manager} applies {rest}: {e}"));
        self.object = Some(new);
        self
    }

    #[track_caller]
    fn force(&mut self, manager: &str, rest: &str) -> &mut Self {
        self.object = Some(self.try_apply(manager, rest, true).unwrap_or_else(|e| panic!("{rest}: {e}")));
        self
    }

    #[track_caller]
    fn refuse(&mut self, manager: &str, rest: &str, message: &str) -> &mut Self {
        assert_eq!(self.try_apply(manager, rest, false).expect_err(rest).to_string(), message);
        self
    }

    /// Replaces the object's content, keeping its managers as a client does that does not know them.
    fn update(&mut self, manager: &str, rest: &str) -> &mut Self {
        let mut new = self.config(rest);
        track_update(self.object.as_ref(), &mut new, &self.schema, &self.write(manager, "", THEN));
        self.object = Some(new);
        self
    }

    /// `Apply anna: {…}` for every manager.
    #[track_caller]
    fn owned(&mut self, want: &[(&str, &str)]) -> &mut Self {
        let entries = self.object.as_ref().and_then(|o| o.at(&["metadata", "managedFields"]));
        let mut got: Vec<(String, String)> = entries
            .and_then(Value::as_array)
            .unwrap_or_default()
            .iter()
            .map(|e| {
                let who =
                    format!("{} {}", e.str_at(&["operation"]).unwrap_or("?"), e.str_at(&["manager"]).unwrap_or("?"));
                (who, text(e.get("fieldsV1").expect("fields")))
            })
            .collect();
        got.sort();
        let want: Vec<(String, String)> = want.iter().map(|(w, f)| ((*w).into(), text(&json(f)))).collect();
        assert_eq!(got, want);
        self
    }

    #[track_caller]
    fn holds(&mut self, path: &[&str], want: &str) -> &mut Self {
        let found = self.object.as_ref().and_then(|o| o.at(path)).cloned().unwrap_or_default();
        assert_eq!(text(&found), text(&json(want)));
        self
    }
}

#[test]
fn an_applier_owns_what_it_applies_and_takes_away_what_it_no_longer_does() {
    Story::config_map()
        .apply("anna", r#"{"metadata":{"name":"c","labels":{"l":"1"}},"data":{"x":"1","y":"1"}}"#)
        .owned(&[("Apply anna", r#"{"f:data":{"f:x":{},"f:y":{}},"f:metadata":{"f:labels":{"f:l":{}}}}"#)])
        .apply("anna", r#"{"metadata":{"name":"c"},"data":{"y":"2"}}"#)
        .owned(&[("Apply anna", r#"{"f:data":{"f:y":{}}}"#)])
        .holds(&["data"], r#"{"y":"2"}"#)
        .holds(&["metadata", "labels"], "null");
}

#[test]
fn what_another_manager_owns_stays() {
    Story::config_map()
        .apply("anna", r#"{"metadata":{"name":"c"},"data":{"x":"1","y":"1"}}"#)
        .apply("bert", r#"{"metadata":{"name":"c"},"data":{"x":"1","z":"1"}}"#)
        .apply("anna", r#"{"metadata":{"name":"c"},"data":{}}"#)
        .holds(&["data"], r#"{"x":"1","z":"1"}"#)
        .owned(&[("Apply anna", r#"{"f:data":{}}"#), ("Apply bert", r#"{"f:data":{"f:x":{},"f:z":{}}}"#)]);
    Story::config_map()
        .update("maker", r#"{"metadata":{"name":"c"},"data":{"x":"1"}}"#)
        .apply("anna", r#"{"metadata":{"name":"c"},"data":{"x":"1","y":"1"}}"#)
        .apply("anna", r#"{"metadata":{"name":"c"},"data":{"y":"1"}}"#)
        .holds(&["data"], r#"{"x":"1","y":"1"}"#);
}

#[test]
fn members_of_a_granular_place_are_told_apart_though_its_type_is_one_value() {
    Story::of("", "v1", "PersistentVolume")
        .apply("anna", r#"{"metadata":{"name":"p"},"spec":{"claimRef":{"name":"c"}}}"#)
        .apply("bert", r#"{"metadata":{"name":"p"},"spec":{"claimRef":{"namespace":"n"}}}"#)
        .holds(&["spec", "claimRef"], r#"{"name":"c","namespace":"n"}"#)
        .owned(&[
            ("Apply anna", r#"{"f:spec":{"f:claimRef":{"f:name":{}}}}"#),
            ("Apply bert", r#"{"f:spec":{"f:claimRef":{"f:namespace":{}}}}"#),
        ]);
    Story::of("", "v1", "Event")
        .apply("anna", r#"{"metadata":{"name":"e"},"involvedObject":{"name":"c"}}"#)
        .owned(&[("Apply anna", r#"{"f:involvedObject":{}}"#)]);
}

#[test]
fn conflicts_name_the_managers_and_fields() {
    let mut story = Story::config_map();
    story
        .apply("anna", r#"{"metadata":{"name":"c"},"data":{"x":"1","y":"1"}}"#)
        .refuse(
            "bert",
            r#"{"metadata":{"name":"c"},"data":{"x":"2"}}"#,
            "Apply failed with 1 conflict: conflict with \"anna\": .data.x",
        )
        .refuse(
            "bert",
            r#"{"metadata":{"name":"c"},"data":{"x":"2","y":"2"}}"#,
            "Apply failed with 2 conflicts: conflicts with \"anna\":\n- .data.x\n- .data.y",
        )
        .force("bert", r#"{"metadata":{"name":"c"},"data":{"x":"2"}}"#)
        .owned(&[("Apply anna", r#"{"f:data":{"f:y":{}}}"#), ("Apply bert", r#"{"f:data":{"f:x":{}}}"#)])
        .update("patcher", r#"{"metadata":{"name":"c"},"data":{"x":"3","y":"1"}}"#)
        .refuse(
            "bert",
            r#"{"metadata":{"name":"c"},"data":{"x":"2"}}"#,
            "Apply failed with 1 conflict: conflict with \"patcher\" using v1: .data.x",
        );
    let ApplyError::Conflict { causes, .. } =
        story.try_apply("bert", r#"{"metadata":{"name":"c"},"data":{"x":"2"}}"#, false).expect_err("conflict")
    else {
        panic!("not a conflict")
    };
    assert_eq!(causes, [("conflict with \"patcher\" using v1".to_owned(), ".data.x".to_owned())]);
}

#[test]
fn updates_own_what_they_change_and_take_it_from_others() {
    Story::config_map()
        .update("maker", r#"{"metadata":{"name":"c"},"data":{"x":"1","y":"1"}}"#)
        .owned(&[("Update maker", r#"{"f:data":{".":{},"f:x":{},"f:y":{}}}"#)])
        .update("other", r#"{"metadata":{"name":"c"},"data":{"x":"2","y":"1"}}"#)
        .owned(&[("Update maker", r#"{"f:data":{".":{},"f:y":{}}}"#), ("Update other", r#"{"f:data":{"f:x":{}}}"#)])
        .update("other", r#"{"metadata":{"name":"c"}}"#)
        .owned(&[]);
}

#[test]
fn times_change_with_what_is_owned_only() {
    let time = |story: &Story| {
        let entry = story.object.as_ref().and_then(|o| o.at(&["metadata", "managedFields"])).and_then(|m| m.as_array());
        entry.and_then(|e| e.first()).and_then(|e| e.str_at(&["time"])).map(str::to_owned)
    };
    let mut story = Story::config_map();
    story.update("maker", r#"{"metadata":{"name":"c"},"data":{"x":"1"}}"#);
    assert_eq!(time(&story).as_deref(), Some(THEN));
    let mut same = story.object.clone().expect("made");
    track_update(story.object.as_ref(), &mut same, &story.schema, &story.write("maker", "", NOW));
    assert_eq!(Some(&same), story.object.as_ref());
    // An applier that changes nothing has no time yet.
    story
        .update("maker", r#"{"metadata":{"name":"c"}}"#)
        .update("maker", r#"{"metadata":{"name":"c"},"data":{"x":"1"}}"#);
    let applied = story.try_apply("anna", r#"{"metadata":{"name":"c"},"data":{"x":"1"}}"#, false).expect("applies");
    let entries = applied.at(&["metadata", "managedFields"]).and_then(Value::as_array).expect("entries").to_vec();
    let anna = entries.iter().find(|e| e.str_at(&["manager"]) == Some("anna")).expect("her entry");
    assert_eq!(anna.get("time"), None);
}

#[test]
fn objects_without_managers_belong_to_before_first_apply() {
    let mut story = Story::config_map();
    story.object = Some(story.config(r#"{"metadata":{"name":"c","uid":"u"},"data":{"x":"1"}}"#));
    story
        .update("quiet", r#"{"metadata":{"name":"c","uid":"u"},"data":{"x":"2"}}"#)
        .owned(&[])
        .apply("anna", r#"{"metadata":{"name":"c"},"data":{"y":"1"}}"#);
    story.owned(&[
        ("Apply anna", r#"{"f:data":{"f:y":{}}}"#),
        ("Update before-first-apply", r#"{"f:data":{".":{},"f:x":{}}}"#),
    ]);
}

#[test]
fn managers_can_be_forgotten_and_edited_by_a_write() {
    let reset = |managed: &str, want: &[(&str, &str)]| {
        let mut story = Story::config_map();
        story.update("maker", r#"{"metadata":{"name":"c"},"data":{"x":"1"}}"#);
        let rest = format!(r#"{{"metadata":{{"name":"c","managedFields":{managed}}},"data":{{"x":"1"}}}}"#);
        story.update("maker", &rest).owned(want);
    };
    reset("[{}]", &[]);
    reset("[]", &[]);
    reset("null", &[("Update maker", r#"{"f:data":{".":{},"f:x":{}}}"#)]);
    reset(r#"[{"manager":"x"}]"#, &[("Update maker", r#"{"f:data":{".":{},"f:x":{}}}"#)]);
    reset(
        r#"[{"manager":"heir","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:x":{}}}}]"#,
        &[("Apply heir", r#"{"f:data":{"f:x":{}}}"#)],
    );
}

#[test]
fn lists_of_objects_merge_by_their_keys() {
    let containers = |list: &str| {
        format!(r#"{{"metadata":{{"name":"d"}},"spec":{{"template":{{"spec":{{"containers":{list}}}}}}}}}"#)
    };
    let path = ["spec", "template", "spec", "containers"];
    let mut story = Story::of("apps", "v1", "Deployment");
    story
        .apply("anna", &containers(r#"[{"name":"one","image":"i:1","ports":[{"containerPort":80}]}]"#))
        .apply("bert", &containers(r#"[{"name":"two","image":"j:1"},{"name":"one","args":["x"]}]"#))
        .holds(
            &path,
            r#"[{"name":"two","image":"j:1"},{"name":"one","image":"i:1","args":["x"],"ports":[{"containerPort":80}]}]"#,
        )
        .refuse(
            "bert",
            &containers(r#"[{"name":"one","image":"other"}]"#),
            "Apply failed with 1 conflict: conflict with \"anna\": .spec.template.spec.containers[name=\"one\"].image",
        )
        .refuse(
            "bert",
            &containers(r#"[{"name":"one","ports":[{"containerPort":8080},{"containerPort":8080,"protocol":"TCP"}]}]"#),
            "failed to create typed patch object (/d; apps/v1, Kind=Deployment): .spec.template.spec.containers[name=\"one\"].ports: duplicate entries for key [containerPort=8080,protocol=\"TCP\"]",
        )
        .apply("bert", &containers("[]"))
        .holds(&path, r#"[{"name":"one","image":"i:1","ports":[{"containerPort":80}]}]"#);
}

#[test]
fn custom_resources_follow_their_schema() {
    let mut story = Story::custom();
    story
        .apply(
            "anna",
            r#"{"metadata":{"name":"t"},"spec":{"atom":{"a":"1"},"env":{"A":"1"},"free":{"z":{"w":1}},"ports":[{"name":"p"}],"tags":["b","a"]}}"#,
        )
        .owned(&[(
            "Apply anna",
            r#"{"f:spec":{"f:atom":{},"f:env":{"f:A":{}},"f:free":{"f:z":{".":{},"f:w":{}}},"f:ports":{"k:{\"name\":\"p\",\"protocol\":\"TCP\"}":{".":{},"f:name":{}}},"f:tags":{"v:\"a\"":{},"v:\"b\"":{}}}}"#,
        )])
        .refuse(
            "bert",
            r#"{"metadata":{"name":"t"},"spec":{"atom":{"b":"1"}}}"#,
            "Apply failed with 1 conflict: conflict with \"anna\": .spec.atom",
        )
        .apply("bert", r#"{"metadata":{"name":"t"},"spec":{"env":{"B":"2"},"tags":["c","a"]}}"#)
        .holds(&["spec", "env"], r#"{"A":"1","B":"2"}"#)
        .holds(&["spec", "tags"], r#"["b","c","a"]"#)
        .apply("anna", r#"{"metadata":{"name":"t"}}"#)
        .holds(&["spec"], r#"{"env":{"B":"2"},"tags":["c","a"]}"#)
        .refuse(
            "bert",
            r#"{"metadata":{"name":"t"},"spec":{"tags":["x","x"]}}"#,
            "failed to create typed patch object (/t; acme.example/v1, Kind=Thing): .spec.tags: duplicate entries for key [=\"x\"]",
        )
        .refuse(
            "bert",
            r#"{"metadata":{"name":"t"},"spec":{"colour":"red"}}"#,
            "failed to create typed patch object (/t; acme.example/v1, Kind=Thing): .spec.colour: field not declared in schema",
        );
}

#[test]
fn configurations_that_do_not_fit_are_refused() {
    let mut story = Story::config_map();
    let refuse = |story: &mut Story, rest: &str, detail: &str| {
        let message = format!("failed to create typed patch object (/c; /v1, Kind=ConfigMap): {detail}");
        story.refuse("anna", rest, &message);
    };
    refuse(&mut story, r#"{"metadata":{"name":"c"},"data":["a"]}"#, ".data: expected map, got &{[a]}");
    refuse(
        &mut story,
        r#"{"metadata":{"name":"c"},"data":{"n":1}}"#,
        ".data.n: expected string, got &value.valueUnstructured{Value:1}",
    );
    refuse(&mut story, r#"{"metadata":{"name":"c"},"immutable":"x"}"#, ".immutable: expected boolean, got &{x}");
    story.refuse("anna", r#"{"metadata":{"name":"c","managedFields":[]}}"#, "metadata.managedFields must be nil");
    let write = story.write("anna", "", NOW);
    let other = json(r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"c"}}"#);
    let e = apply(None, &other, &story.schema, &write, false).expect_err("another kind");
    assert_eq!((e.code(), e.to_string().as_str()), (400, "invalid object type: /v1, Kind=Secret"));
}

#[test]
fn endpoints_keep_their_fields_to_themselves() {
    let mut story = Story::of("apps", "v1", "Deployment");
    story.reset = ResetFields::exclude(&[&["status"]]);
    story
        .apply("anna", r#"{"metadata":{"name":"d"},"spec":{"replicas":1},"status":{"replicas":3}}"#)
        .owned(&[("Apply anna", r#"{"f:spec":{"f:replicas":{}}}"#)]);
    story.reset = ResetFields::Include(vec![vec!["spec".into(), "replicas".into()]]);
    story
        .update("scaler", r#"{"metadata":{"name":"d","labels":{"a":"b"}},"spec":{"replicas":2}}"#)
        .owned(&[("Update scaler", r#"{"f:spec":{"f:replicas":{}}}"#)]);
}

#[test]
fn kubectl_takes_over_from_client_side_apply() {
    let last =
        r#"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"c\"},\"data\":{\"x\":\"1\"}}\n"#;
    let annotation = format!(r#""annotations":{{"kubectl.kubernetes.io/last-applied-configuration":"{last}"}}"#);
    let mut story = Story::config_map();
    story.update(
        "kubectl-client-side-apply",
        &format!(r#"{{"metadata":{{"name":"c",{annotation}}},"data":{{"x":"1"}}}}"#),
    );
    story
        .refuse(
            "anna",
            r#"{"metadata":{"name":"c"},"data":{"x":"2"}}"#,
            "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using v1: .data.x",
        )
        .apply("kubectl", r#"{"metadata":{"name":"c"},"data":{"x":"2"}}"#)
        .holds(&["data"], r#"{"x":"2"}"#)
        .holds(
            &["metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"],
            r#""{\"apiVersion\":\"v1\",\"data\":{\"x\":\"2\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"c\"}}\n""#,
        );
}

#[test]
fn a_scale_shows_and_takes_the_replicas() {
    let paths: [(&str, Option<&[&str]>); 1] = [("apps/v1", Some(&["spec", "replicas"]))];
    let scale = Scale { paths: &paths };
    let mut story = Story::of("apps", "v1", "Deployment");
    story.apply("anna", r#"{"metadata":{"name":"d"},"spec":{"replicas":1,"paused":true}}"#);
    let parent = story.object.as_ref().and_then(|o| o.at(&["metadata", "managedFields"]));
    let shown = scale.of_parent(parent).expect("decodes").expect("she owns the replicas");
    let want = format!(
        r#"[{{"manager":"anna","operation":"Apply","apiVersion":"autoscaling/v1","time":"{NOW}","fieldsType":"FieldsV1","fieldsV1":{{"f:spec":{{"f:replicas":{{}}}}}}}}]"#
    );
    assert_eq!(text(&shown), text(&json(&want)));
    let taken = json(
        r#"[{"manager":"hpa","operation":"Update","apiVersion":"autoscaling/v1","subresource":"scale","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:replicas":{}}}}]"#,
    );
    let back = scale.to_parent(parent, Some(&taken), "apps/v1").expect("decodes").expect("two managers");
    let want = format!(
        r#"[{{"manager":"anna","operation":"Apply","apiVersion":"apps/v1","time":"{NOW}","fieldsType":"FieldsV1","fieldsV1":{{"f:spec":{{"f:paused":{{}}}}}}}},{{"manager":"hpa","operation":"Update","apiVersion":"apps/v1","subresource":"scale","fieldsType":"FieldsV1","fieldsV1":{{"f:spec":{{"f:replicas":{{}}}}}}}}]"#
    );
    assert_eq!(text(&back), text(&json(&want)));
    // Who has set other parts of the scale, and the replicas no more, owns nothing of the object.
    let other = json(
        r#"[{"manager":"hpa","operation":"Update","apiVersion":"autoscaling/v1","subresource":"scale","fieldsType":"FieldsV1","fieldsV1":{"f:status":{"f:replicas":{}}}}]"#,
    );
    let back = scale.to_parent(Some(&back), Some(&other), "apps/v1").expect("decodes").expect("one manager");
    let want = format!(
        r#"[{{"manager":"anna","operation":"Apply","apiVersion":"apps/v1","time":"{NOW}","fieldsType":"FieldsV1","fieldsV1":{{"f:spec":{{"f:paused":{{}}}}}}}}]"#
    );
    assert_eq!(text(&back), text(&json(&want)));
}

#[test]
fn unchanged_objects_keep_their_times() {
    let with = |time: &str, data: &str| {
        json(&format!(
            r#"{{"metadata":{{"name":"c","managedFields":[{{"manager":"m","operation":"Apply","time":"{time}"}}]}},"data":{{"x":"{data}"}}}}"#
        ))
    };
    let mut new = with(NOW, "1");
    assert_eq!(keep_times(&with(THEN, "1"), &mut new), Compared::EqualSlow);
    assert_eq!(new, with(THEN, "1"));
    assert_eq!(keep_times(&with(THEN, "1"), &mut new), Compared::UnequalFast, "nobody has written it anew");
    let mut changed = with(NOW, "2");
    assert_eq!(keep_times(&with(THEN, "1"), &mut changed), Compared::UnequalSlow);
    assert_eq!(changed, with(NOW, "2"));
}

#[test]
fn the_manager_comes_from_the_user_agent() {
    assert_eq!(manager_name("given", "kubectl/v1.36"), "given");
    assert_eq!(manager_name("", "kubectl/v1.36 (linux)"), "kubectl");
    assert_eq!(manager_name("", "a\u{7}b"), "ab");
    assert_eq!(manager_name("", &"x".repeat(200)).len(), MAX_MANAGER);
}
