//! Reading a policy: YAML or JSON, decoded as upstream does (strictly, and if only that fails, leniently with a warning),
//! and validated with upstream's messages.

use machinery::{
    Str, Value,
    codec::{json, yaml},
    config::{DocumentError, Unregistered, type_text},
    meta::{
        field_error::{self, BadValue, FieldError},
        go_text::{NotAnObject, WrongType},
        names,
    },
};

use super::{GroupResources, Names, Policy, Rule, Stages, Verdict};
use crate::{event::Stage, level::Level};

/// A policy that was read, and what is odd about its text.
#[derive(Debug)]
pub struct ReadPolicy {
    /// The policy.
    pub policy: Policy,
    /// Members that are unknown or repeated: they are passed over.
    pub warning: Option<String>,
}

/// Why a text is no policy. Shown, it is what upstream says.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PolicyError {
    /// It cannot be decoded.
    #[error("failed decoding: {0}")]
    Decoding(#[from] DecodingFault),
    /// It does not say what it is.
    #[error("unknown group version field {GROUP}/__internal, Kind=Policy in policy")]
    NoType,
    /// Its fields are invalid, in these ways.
    #[error("{}", field_error::aggregate(.0).unwrap_or_default())]
    Invalid(Vec<FieldError>),
    /// Nothing would ever be audited by it.
    #[error("loaded illegal policy with 0 rules")]
    NoRules,
}

/// Why a text cannot be decoded as a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodingFault {
    /// It is no document.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// A value is of another type than it should be.
    #[error(transparent)]
    WrongType(#[from] WrongType),
    /// It is of another kind of this group.
    #[error("converting (v1.{0}) to (audit.Policy): unknown conversion")]
    OtherKind(String),
    /// It is of a type that nobody knows.
    #[error(transparent)]
    Unregistered(#[from] Unregistered),
}

/// Where a decoder of Go's registers the kinds of this group.
const SCHEME: &str = "pkg/audit/scheme.go:30";
const GROUP: &str = "audit.k8s.io";

impl Policy {
    /// Reads a policy.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: &[u8]) -> Result<ReadPolicy, PolicyError> {
        let (document, repeated) = decode(text).map_err(DecodingFault::from)?;
        let mut reader = Reader { odd: repeated };
        check_kind(&document)?;
        let policy = reader.policy(&document).map_err(DecodingFault::from)?;
        let errors = validate(&document);
        if !errors.is_empty() {
            return Err(PolicyError::Invalid(errors));
        }
        if policy.rules.is_empty() {
            return Err(PolicyError::NoRules);
        }
        let warning = (!reader.odd.is_empty()).then(|| format!("strict decoding error: {}", reader.odd.join(", ")));
        Ok(ReadPolicy { policy, warning })
    }
}

/// The document, and what stands twice in it.
fn decode(text: &[u8]) -> Result<(Value, Vec<String>), DocumentError> {
    let (document, repeated) = match text.trim_ascii_start().first() {
        Some(b'{') => json::decode_strict(text).map_err(DocumentError::Json)?,
        _ => {
            let (document, repeated) = yaml::decode_strict(text).map_err(DocumentError::Yaml)?;
            (document, repeated.into_iter().collect())
        }
    };
    match document {
        Value::Object(_) | Value::Null => Ok((document, repeated)),
        other => Err(DocumentError::NotAnObject(NotAnObject::of(&other))),
    }
}

fn check_kind(document: &Value) -> Result<(), PolicyError> {
    let text = |key| type_text(document, key).map_err(DecodingFault::from);
    let (version, kind) = (text("apiVersion")?, text("kind")?);
    // Without both a document is read as what it is decoded into, and that version is none that a file may have.
    if version.is_empty() || kind.is_empty() {
        return Err(PolicyError::NoType);
    }
    match (version, kind) {
        ("audit.k8s.io/v1", "Policy") => Ok(()),
        ("audit.k8s.io/v1", "Event" | "EventList" | "PolicyList") => {
            Err(DecodingFault::OtherKind(kind.to_owned()).into())
        }
        (api_version, kind) => {
            let unregistered =
                Unregistered { api_version: api_version.to_owned(), kind: kind.to_owned(), registry: SCHEME };
            Err(DecodingFault::Unregistered(unregistered).into())
        }
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

fn mismatch(value: &Value, at: &At<'_>, key: &str, go_type: &str) -> WrongType {
    WrongType::of(value, format!("{}.{key}", at.go), go_type)
}

fn text(value: &Value, at: &At<'_>, key: &str, go_type: &str) -> Result<Str, WrongType> {
    match value {
        Value::Null => Ok(Str::default()),
        Value::String(text) => Ok(text.clone()),
        other => Err(mismatch(other, at, key, go_type)),
    }
}

fn flag(value: &Value, at: &At<'_>, key: &str) -> Result<Option<bool>, WrongType> {
    match value {
        Value::Null => Ok(None),
        Value::Bool(flag) => Ok(Some(*flag)),
        other => Err(mismatch(other, at, key, "bool")),
    }
}

fn list<'v>(value: &'v Value, at: &At<'_>, key: &str, go_type: &str) -> Result<&'v [Value], WrongType> {
    match value {
        Value::Null => Ok(&[]),
        Value::Array(items) => Ok(items),
        other => Err(mismatch(other, at, key, &format!("[]{go_type}"))),
    }
}

fn texts(value: &Value, at: &At<'_>, key: &str) -> Result<Vec<Str>, WrongType> {
    list(value, at, key, "string")?.iter().map(|item| text(item, at, key, "string")).collect()
}

fn stages(value: &Value, at: &At<'_>) -> Result<Stages, WrongType> {
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

    fn policy(&mut self, document: &Value) -> Result<Policy, WrongType> {
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

    fn rule(&mut self, value: &Value, path: &str, omit_managed_fields: bool) -> Result<Rule, WrongType> {
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

    fn resources(&mut self, value: &Value, path: &str) -> Result<GroupResources, WrongType> {
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
