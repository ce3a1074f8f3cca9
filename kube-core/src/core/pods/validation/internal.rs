//! Values as upstream shows them: of its own types, with the names that these have in Go.

use machinery::{
    Value,
    meta::{BadValue, go_text},
};

/// A type a line: its name and its members in order. A member is its name in Go, `=` and its name in the API where that does
/// not follow from the first, and its kind: nothing (text), `#` (number), `!` (boolean), `~` (amount), `*` (a pointer to one of these),
/// `@` (written as in the API), `?` (a label selector, written so in the order of its type), or a type's name, with `*` for a pointer and `[]` for a list.
const TYPES: &str = include_str!("internal.txt");

/// What an error shows of a value of a type.
pub(crate) fn shown(kind: &str, value: &Value) -> BadValue {
    let mut out = String::new();
    write(kind, value, &mut Compact, &mut out);
    BadValue::verbatim(out)
}

/// A value of a type, a line a member, indented by one space a level.
pub(crate) fn pretty(kind: &str, value: &Value) -> String {
    let mut out = String::new();
    write(kind, value, &mut Indented(0), &mut out);
    out
}

/// The spec of a pod.
pub(super) fn pretty_spec(spec: &Value) -> String {
    pretty("PodSpec", &upstreams_spec(spec))
}

/// What an error shows of the spec of a pod.
pub(crate) fn shown_spec(spec: &Value) -> BadValue {
    shown("PodSpec", &upstreams_spec(spec))
}

/// What the API has in the spec of a pod itself, upstream holds in the security context.
fn upstreams_spec(spec: &Value) -> Value {
    let mut spec = spec.clone();
    for member in ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"] {
        if let Some(value) = spec.get(member).cloned() {
            spec.set(&["securityContext", member], value);
        }
    }
    spec
}

/// The members of metadata in upstream's order, those of templates.
const METADATA: [&str; 15] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// A template of a type's specs as upstream shows it: what is set of its metadata, by names of the API, stands beside the spec.
pub(crate) fn shown_template(kind: &str, template: &Value) -> BadValue {
    let mut out = String::from("{");
    let metadata = template.get("metadata").unwrap_or(&Value::Null);
    for name in METADATA {
        if let Some(value) = metadata.get(name).filter(|v| !v.is_null()) {
            out.push_str(&format!("{}:{},", go_text::quote(name), machinery::json::encode_text(value)));
        }
    }
    let spec = template.get("spec").unwrap_or(&Value::Null);
    let spec = if kind == "PodSpec" { shown(kind, &upstreams_spec(spec)) } else { shown(kind, spec) };
    BadValue::verbatim(format!("{out}\"Spec\":{spec}}}"))
}

/// An object of these types of spec and status, indented: what is set of its metadata stands beside them.
pub(crate) fn pretty_object(spec: &str, status: &str, object: &Value) -> String {
    let (mut out, mut layout) = (String::new(), Indented(0));
    let mut first = true;
    layout.open('{', &mut out);
    let mut member = |name: &str, layout: &mut Indented, out: &mut String| {
        layout.item(std::mem::take(&mut first), out);
        out.push_str(&go_text::quote(name));
        out.push_str(layout.after_key());
    };
    for name in METADATA {
        if let Some(value) = object.at(&["metadata", name]).filter(|value| !value.is_null()) {
            member(name, &mut layout, &mut out);
            layout.plain(value, &mut out);
        }
    }
    for (name, key, kind) in [("Spec", "spec", spec), ("Status", "status", status)] {
        member(name, &mut layout, &mut out);
        write(kind, object.get(key).unwrap_or(&Value::Null), &mut layout, &mut out);
    }
    layout.close('}', &mut out);
    out
}

/// How members and items stand to each other.
trait Layout {
    fn open(&mut self, bracket: char, out: &mut String);
    fn item(&mut self, first: bool, out: &mut String);
    fn close(&mut self, bracket: char, out: &mut String);
    fn after_key(&self) -> &'static str;
    fn plain(&self, value: &Value, out: &mut String);
}

struct Compact;

impl Layout for Compact {
    fn open(&mut self, bracket: char, out: &mut String) {
        out.push(bracket);
    }

    fn item(&mut self, first: bool, out: &mut String) {
        if !first {
            out.push(',');
        }
    }

    fn close(&mut self, bracket: char, out: &mut String) {
        out.push(bracket);
    }

    fn after_key(&self) -> &'static str {
        ":"
    }

    fn plain(&self, value: &Value, out: &mut String) {
        out.push_str(&machinery::json::encode_text(value));
    }
}

struct Indented(usize);

impl Indented {
    fn line(&self, out: &mut String) {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', self.0));
    }
}

impl Layout for Indented {
    fn open(&mut self, bracket: char, out: &mut String) {
        out.push(bracket);
        self.0 += 1;
    }

    fn item(&mut self, first: bool, out: &mut String) {
        if !first {
            out.push(',');
        }
        self.line(out);
    }

    fn close(&mut self, bracket: char, out: &mut String) {
        self.0 -= 1;
        self.line(out);
        out.push(bracket);
    }

    fn after_key(&self) -> &'static str {
        ": "
    }

    fn plain(&self, value: &Value, out: &mut String) {
        let mut layout = Indented(self.0);
        match value {
            Value::Array(items) if !items.is_empty() => {
                layout.open('[', out);
                for (i, item) in items.iter().enumerate() {
                    layout.item(i == 0, out);
                    layout.plain(item, out);
                }
                layout.close(']', out);
            }
            Value::Object(map) if !map.is_empty() => {
                layout.open('{', out);
                for (i, (key, item)) in map.iter().enumerate() {
                    layout.item(i == 0, out);
                    out.push_str(&machinery::json::encode_text(&Value::from(key)));
                    out.push_str(": ");
                    layout.plain(item, out);
                }
                layout.close('}', out);
            }
            plain => out.push_str(&machinery::json::encode_text(plain)),
        }
    }
}

fn write(kind: &str, value: &Value, layout: &mut impl Layout, out: &mut String) {
    if let Some(item) = kind.strip_prefix("[]") {
        return match value.as_array() {
            None => out.push_str("null"),
            Some([]) => out.push_str("[]"),
            Some(items) => {
                layout.open('[', out);
                for (i, value) in items.iter().enumerate() {
                    layout.item(i == 0, out);
                    write(item, value, layout, out);
                }
                layout.close(']', out);
            }
        };
    }
    let (pointer, kind) = kind.strip_prefix('*').map_or((false, kind), |kind| (true, kind));
    if value.is_null() && pointer {
        return out.push_str("null");
    }
    match kind {
        "" if value.is_null() => out.push_str("\"\""),
        "#" if value.is_null() => out.push('0'),
        "!" if value.is_null() => out.push_str("false"),
        "~" if value.is_null() => out.push_str("\"0\""),
        "" | "#" | "!" | "~" | "@" => layout.plain(value, out),
        "?" => write_selector(value, layout, out),
        name => {
            layout.open('{', out);
            for (i, member) in members(name).split(' ').enumerate() {
                let (go, api, kind) = parse(member);
                layout.item(i == 0, out);
                out.push_str(&go_text::quote(go));
                out.push_str(layout.after_key());
                let held = value.get(&api).unwrap_or(&Value::Null);
                write(kind, held, layout, out);
            }
            layout.close('}', out);
        }
    }
}

fn write_selector(selector: &Value, layout: &mut impl Layout, out: &mut String) {
    let part = |name| Some((name, selector.get(name).filter(|part| !part.semantic_eq(&Value::Null))?));
    let parts: Vec<(&str, &Value)> = ["matchLabels", "matchExpressions"].into_iter().filter_map(part).collect();
    if parts.is_empty() {
        return out.push_str("{}");
    }
    layout.open('{', out);
    for (i, (name, value)) in parts.into_iter().enumerate() {
        layout.item(i == 0, out);
        out.push_str(&go_text::quote(name));
        out.push_str(layout.after_key());
        layout.plain(value, out);
    }
    layout.close('}', out);
}

/// The members of a type.
fn members(name: &str) -> &'static str {
    let line = TYPES.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.expect("a test goes through all types that are named")
}

/// A member's name in Go, its name in the API, and its kind.
fn parse(member: &str) -> (&str, String, &str) {
    let (names, kind) = member.split_once(':').unwrap_or((member, ""));
    match names.split_once('=') {
        Some((go, api)) => (go, api.to_owned(), kind),
        None => (names, lowered(names), kind),
    }
}

/// The name in the API: all capitals that the name begins with are small, but for the last if a word begins with it.
fn lowered(go: &str) -> String {
    let capitals = go.chars().take_while(char::is_ascii_uppercase).count();
    let small = if capitals > 1 && capitals < go.len() { capitals - 1 } else { capitals };
    let mut out = go.to_owned();
    out[..small].make_ascii_lowercase();
    out
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    #[test]
    fn a_template_has_its_metadata_beside_its_spec() {
        let template =
            br#"{"metadata":{"labels":{"a":"b"},"name":"x"},"spec":{"hostNetwork":true,"restartPolicy":"Never"}}"#;
        let template = json::decode(template).expect("valid JSON");
        let BadValue::Verbatim(text) = shown_template("PodSpec", &template) else { panic!("verbatim") };
        assert!(
            text.starts_with(r#"{"name":"x","labels":{"a":"b"},"Spec":{"Volumes":null,"InitContainers":null,"#),
            "{text}"
        );
        assert!(
            text.contains(r#""RestartPolicy":"Never","#) && text.ends_with(r#""SchedulingGroup":null}}"#),
            "{text}"
        );
        assert!(text.contains(r#""SecurityContext":{"HostNetwork":true,"HostPID":false,"#), "{text}");
    }

    #[test]
    fn an_object_has_its_metadata_beside_spec_and_status() {
        let claim = br#"{"metadata":{"labels":{"a":"b"},"name":"c"},"spec":{"accessModes":["ReadWriteOnce"]},"status":{"phase":"Bound"}}"#;
        let claim = json::decode(claim).expect("valid JSON");
        let text = pretty_object("PersistentVolumeClaimSpec", "PersistentVolumeClaimStatus", &claim);
        let start = "{\n \"name\": \"c\",\n \"labels\": {\n  \"a\": \"b\"\n },\n \"Spec\": {\n  \"AccessModes\": [\n   \"ReadWriteOnce\"\n  ],";
        let status = " \"Status\": {\n  \"Phase\": \"Bound\",\n  \"AccessModes\": null,\n  \"Capacity\": null,";
        assert!(text.starts_with(start) && text.contains(status) && text.ends_with("\n }\n}"), "{text}");
    }

    #[test]
    fn names_follow_from_names() {
        let check = |go: &str, api: &str| assert_eq!(lowered(go), api);
        check("Name", "name");
        check("OS", "os");
        check("DNSPolicy", "dnsPolicy");
        check("VolumeID", "volumeID");
        check("SELinuxOptions", "seLinuxOptions");
        check("AWSElasticBlockStore", "awsElasticBlockStore");
    }

    #[test]
    fn every_type_that_is_named_has_a_line() {
        for line in TYPES.lines() {
            let (_, all) = line.split_once(": ").expect("a name and members");
            for member in all.split(' ') {
                let kind = parse(member).2.trim_start_matches("[]").trim_start_matches('*');
                if !matches!(kind, "" | "#" | "!" | "~" | "@" | "?") {
                    assert!(!members(kind).is_empty());
                }
            }
        }
    }

    #[test]
    fn a_selector_is_in_the_order_of_its_type() {
        let value = json::decode(
            br#"{"path":"p","labelSelector":{"matchExpressions":[{"key":"a","operator":"Exists"}],"matchLabels":{"b":"c"}}}"#,
        )
        .expect("valid JSON");
        let BadValue::Verbatim(text) = shown("ClusterTrustBundleProjection", &value) else { panic!("verbatim") };
        assert_eq!(
            &*text,
            r#"{"Name":null,"SignerName":null,"LabelSelector":{"matchLabels":{"b":"c"},"matchExpressions":[{"key":"a","operator":"Exists"}]},"Optional":null,"Path":"p"}"#
        );
        let volume = json::decode(br#"{"iscsi":{"iqn":"q","portals":["p"],"secretRef":{}}}"#).expect("valid JSON");
        let BadValue::Verbatim(text) = shown("PersistentVolumeSource", &volume) else { panic!("verbatim") };
        assert!(text.contains(r#""ISCSI":{"TargetPortal":"","IQN":"q","Lun":0,"ISCSIInterface":"","FSType":"","ReadOnly":false,"Portals":["p"],"DiscoveryCHAPAuth":false,"SessionCHAPAuth":false,"SecretRef":{"Name":"","Namespace":""},"InitiatorName":null}"#), "{text}");
    }

    #[test]
    fn a_value_has_all_members_of_its_type() {
        let value = json::decode(br#"{"type":"RuntimeDefault","localhostProfile":"x"}"#).expect("valid JSON");
        let BadValue::Verbatim(text) = shown("SeccompProfile", &value) else { panic!("verbatim") };
        assert_eq!(&*text, r#"{"Type":"RuntimeDefault","LocalhostProfile":"x"}"#);
        let value = json::decode(br#"[{"matchFields":[{"key":"a","operator":"In"}]}]"#).expect("valid JSON");
        assert_eq!(
            pretty("[]NodeSelectorTerm", &value),
            "[\n {\n  \"MatchExpressions\": null,\n  \"MatchFields\": [\n   {\n    \"Key\": \"a\",\n    \
             \"Operator\": \"In\",\n    \"Values\": null\n   }\n  ]\n }\n]"
        );
    }
}
