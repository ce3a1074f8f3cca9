//! Reading a policy: YAML or JSON, decoded as upstream does (strictly, and if only that fails, leniently with a warning),
//! and validated with upstream's messages.

use machinery::{
    Str, Value,
    codec::{json, yaml},
    meta::{
        field_error::{self, BadValue, FieldError},
        names,
    },
};

use super::{GroupResources, Names, Policy, Rule, Stages, Verdict};
use crate::{event::Stage, level::Level};

/// A policy that was read, and what is odd about its text.
#[derive(Debug)]
pub struct Read {
    /// The policy.
    pub policy: Policy,
    /// Members that are unknown or repeated: they are passed over.
    pub warning: Option<String>,
}

/// Where a decoder of Go's registers the kinds of this group.
const SCHEME: &str = "pkg/audit/scheme.go:30";
const GROUP: &str = "audit.k8s.io";

impl Policy {
    /// Reads a policy.
    ///
    /// # Errors
    /// What is wrong with it: the decoder's words, or all invalid members.
    pub fn read(text: &[u8]) -> Result<Read, String> {
        let decoding = |why: String| format!("failed decoding: {why}");
        let (document, repeated) = match text.trim_ascii_start().first() {
            Some(b'{') => json::decode_strict(text).map_err(|e| decoding(json_error(&e.to_string())))?,
            _ => {
                let (document, repeated) = yaml::decode_strict(text).map_err(|e| decoding(e.to_string()))?;
                (document, repeated.into_iter().collect())
            }
        };
        let mut reader = Reader { odd: repeated };
        check_kind(&document, &mut reader)?;
        let policy = reader.policy(&document).map_err(decoding)?;
        let errors = validate(&document);
        if let Some(text) = field_error::aggregate(&errors) {
            return Err(text);
        }
        if policy.rules.is_empty() {
            return Err("loaded illegal policy with 0 rules".to_owned());
        }
        let warning = (!reader.odd.is_empty()).then(|| format!("strict decoding error: {}", reader.odd.join(", ")));
        Ok(Read { policy, warning })
    }
}

fn json_error(why: &str) -> String {
    format!("couldn't get version/kind; json parse error: {why}")
}

fn check_kind(document: &Value, reader: &mut Reader) -> Result<(), String> {
    let failed = |why: &str| format!("failed decoding: {}", json_error(why));
    match document {
        Value::Object(_) | Value::Null => {}
        other => {
            return Err(failed(&format!(
                "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
                 \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
                go_name(other)
            )));
        }
    }
    let text = |key: &str| match document.get(key) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(other) => Err(failed(&format!(
            "json: cannot unmarshal {} into Go struct field .{key} of type string",
            go_name(other)
        ))),
    };
    let (version, kind) = (text("apiVersion")?, text("kind")?);
    // Without both a document is read as what it is decoded into, and that version is none that a file may have.
    if version.is_empty() || kind.is_empty() {
        reader.odd.clear();
        return Err(format!("unknown group version field {GROUP}/__internal, Kind=Policy in policy"));
    }
    match (version, kind) {
        ("audit.k8s.io/v1", "Policy") => Ok(()),
        ("audit.k8s.io/v1", "Event" | "EventList" | "PolicyList") => {
            Err(format!("failed decoding: converting (v1.{kind}) to (audit.Policy): unknown conversion"))
        }
        _ => {
            Err(format!("failed decoding: no kind {kind:?} is registered for version {version:?} in scheme {SCHEME:?}"))
        }
    }
}

fn go_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Float(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Decodes; notes members that there are not.
struct Reader {
    odd: Vec<String>,
}

/// A member's place, as Go names it (`PolicyRule.rules.level`) and as strict decoding does (`rules[0].level`).
struct At<'a> {
    go: &'a str,
    path: &'a str,
}

fn mismatch(value: &Value, at: &At<'_>, key: &str, go_type: &str) -> String {
    format!("json: cannot unmarshal {} into Go struct field {}.{key} of type {go_type}", go_name(value), at.go)
}

fn text(value: &Value, at: &At<'_>, key: &str, go_type: &str) -> Result<Str, String> {
    match value {
        Value::Null => Ok(Str::default()),
        Value::String(text) => Ok(text.clone()),
        other => Err(mismatch(other, at, key, go_type)),
    }
}

fn flag(value: &Value, at: &At<'_>, key: &str) -> Result<Option<bool>, String> {
    match value {
        Value::Null => Ok(None),
        Value::Bool(flag) => Ok(Some(*flag)),
        other => Err(mismatch(other, at, key, "bool")),
    }
}

fn list<'v>(value: &'v Value, at: &At<'_>, key: &str, go_type: &str) -> Result<&'v [Value], String> {
    match value {
        Value::Null => Ok(&[]),
        Value::Array(items) => Ok(items),
        other => Err(mismatch(other, at, key, &format!("[]{go_type}"))),
    }
}

fn texts(value: &Value, at: &At<'_>, key: &str) -> Result<Vec<Str>, String> {
    list(value, at, key, "string")?.iter().map(|item| text(item, at, key, "string")).collect()
}

fn stages(value: &Value, at: &At<'_>) -> Result<Stages, String> {
    let mut stages = Stages::default();
    for item in list(value, at, "omitStages", "v1.Stage")? {
        let name = text(item, at, "omitStages", "v1.Stage")?;
        // Validation names those that there are not.
        if let Some(stage) = Stage::ALL.into_iter().find(|stage| stage.name() == name) {
            stages.add(stage);
        }
    }
    Ok(stages)
}

impl Reader {
    fn unknown(&mut self, at: &At<'_>, key: &str) {
        let dot = if at.path.is_empty() { "" } else { "." };
        self.odd.push(format!("unknown field \"{}{dot}{key}\"", at.path));
    }

    fn policy(&mut self, document: &Value) -> Result<Policy, String> {
        let at = At { go: "Policy", path: "" };
        let (mut policy, mut rules) = (Policy::default(), &[][..]);
        for (key, value) in document.as_object().into_iter().flatten() {
            match key.as_str() {
                "apiVersion" | "kind" | "metadata" => {}
                "omitStages" => policy.omit = stages(value, &at)?,
                "omitManagedFields" => policy.omit_managed_fields = flag(value, &at, key)?.unwrap_or_default(),
                "rules" => rules = list(value, &at, key, "v1.PolicyRule")?,
                _ => self.unknown(&at, key),
            }
        }
        for (i, rule) in rules.iter().enumerate() {
            let mut rule = self.rule(rule, &format!("rules[{i}]"), policy.omit_managed_fields)?;
            rule.verdict.omit = rule.verdict.omit.union(policy.omit);
            policy.rules.push(rule);
        }
        Ok(policy)
    }

    fn rule(&mut self, value: &Value, path: &str, omit_managed_fields: bool) -> Result<Rule, String> {
        let at = At { go: "PolicyRule.rules", path };
        let mut rule = Rule { verdict: Verdict { omit_managed_fields, ..Verdict::default() }, ..Rule::default() };
        if !matches!(value, Value::Object(_) | Value::Null) {
            return Err(mismatch(value, &At { go: "Policy", path }, "rules", "v1.PolicyRule"));
        }
        for (key, value) in value.as_object().into_iter().flatten() {
            match key.as_str() {
                "level" => {
                    let name = text(value, &at, key, "v1.Level")?;
                    rule.verdict.level = Level::ALL.into_iter().find(|level| level.name() == name).unwrap_or_default();
                }
                "users" => rule.users = Names::new(texts(value, &at, key)?),
                "userGroups" => rule.groups = Names::new(texts(value, &at, key)?),
                "verbs" => rule.verbs = Names::new(texts(value, &at, key)?),
                "namespaces" => rule.namespaces = Names::new(texts(value, &at, key)?),
                "nonResourceURLs" => rule.paths = texts(value, &at, key)?,
                "omitStages" => rule.verdict.omit = stages(value, &at)?,
                "omitManagedFields" => {
                    rule.verdict.omit_managed_fields = flag(value, &at, key)?.unwrap_or(omit_managed_fields);
                }
                "resources" => {
                    for (i, value) in list(value, &at, key, "v1.GroupResources")?.iter().enumerate() {
                        rule.resources.push(self.resources(value, &format!("{path}.resources[{i}]"))?);
                    }
                }
                _ => self.unknown(&at, key),
            }
        }
        Ok(rule)
    }

    fn resources(&mut self, value: &Value, path: &str) -> Result<GroupResources, String> {
        let at = At { go: "GroupResources.rules.resources", path };
        let mut found = GroupResources::default();
        if !matches!(value, Value::Object(_) | Value::Null) {
            return Err(mismatch(value, &At { go: "PolicyRule.rules", path }, "resources", "v1.GroupResources"));
        }
        for (key, value) in value.as_object().into_iter().flatten() {
            match key.as_str() {
                "group" => found.group = text(value, &at, key, "string")?,
                "resources" => found.resources = texts(value, &at, key)?,
                "resourceNames" => found.names = Names::new(texts(value, &at, key)?),
                _ => self.unknown(&at, key),
            }
        }
        Ok(found)
    }
}

/// All that is invalid in a policy that could be decoded.
fn validate(document: &Value) -> Vec<FieldError> {
    let mut errors = omitted_stages(document, "omitStages");
    for (i, rule) in items(document, "rules").iter().enumerate() {
        rule_errors(rule, &format!("rules[{i}]"), &mut errors);
    }
    errors
}

fn items<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).unwrap_or_default()
}

fn rule_errors(rule: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let level = rule.str_at(&["level"]).unwrap_or_default();
    if level.is_empty() {
        errors.push(FieldError::required(format!("{at}.level"), ""));
    } else if !Level::ALL.iter().any(|known| known.name() == level) {
        errors.push(FieldError::not_supported(format!("{at}.level"), level, Level::ALL.map(Level::name)));
    }
    let urls = items(rule, "nonResourceURLs");
    for (i, url) in urls.iter().filter_map(Value::as_str).enumerate().filter(|(_, url)| *url != "*") {
        let at = format!("{at}.nonResourceURLs[{i}]");
        if !url.starts_with('/') {
            errors.push(FieldError::invalid(&at, url, "non-resource URL rules must begin with a '/' character"));
        }
        if url.find('*').is_some_and(|first| first + 1 < url.len()) {
            let why = "non-resource URL wildcards '*' must be the final character of the rule";
            errors.push(FieldError::invalid(&at, url, why));
        }
    }
    for resources in items(rule, "resources") {
        let group = resources.str_at(&["group"]).unwrap_or_default();
        let wrong = names::name_is_dns_subdomain(group, false);
        if !group.is_empty() && group != "*" && !wrong.is_empty() {
            errors.push(FieldError::invalid(format!("{at}.resources.group"), group, wrong.join(",")));
        }
        let named = items(resources, "resourceNames");
        if !named.is_empty() && items(resources, "resources").is_empty() {
            let why = "using resourceNames requires at least one resource";
            errors.push(FieldError::invalid(format!("{at}.resources.resourceNames"), shown(named), why));
        }
    }
    errors.extend(omitted_stages(rule, &format!("{at}.omitStages")));
    if !urls.is_empty() && (!items(rule, "resources").is_empty() || !items(rule, "namespaces").is_empty()) {
        let why = "rules cannot apply to both regular resources and non-resource URLs";
        errors.push(FieldError::invalid(format!("{at}.nonResourceURLs"), shown(urls), why));
    }
}

/// A list as upstream's errors show it.
fn shown(items: &[Value]) -> BadValue {
    BadValue::verbatim(String::from_utf8_lossy(&json::encode(&Value::from(items.to_vec()))))
}

fn omitted_stages(value: &Value, at: &str) -> Vec<FieldError> {
    let known = Stage::ALL.map(Stage::name);
    let stages = items(value, "omitStages").iter().filter_map(Value::as_str).enumerate();
    let unknown = stages.filter(|(_, stage)| !known.contains(stage));
    let why = format!("allowed stages are {}", known.join(","));
    unknown.map(|(i, stage)| FieldError::invalid(format!("{at}[{i}]"), stage, why.clone())).collect()
}
