//! The authorizer of `--authorization-mode=ABAC`: policies in a file, one JSON object a line.

use async_trait::async_trait;
use machinery::{
    Str, Value,
    config::{DocumentError, Unregistered, read_document},
    meta::go_text::WrongType,
};

use crate::{Attributes, Authorizer, Decision, NonResourceRule, ResourceRule, User, UserRules};

/// Everything: any user, group, namespace, resource or path.
const ALL: &str = "*";
/// The versions of lines: those of the first days need not say theirs.
const UNVERSIONED: &str = "abac.authorization.kubernetes.io/v0";
const VERSIONED: &str = "abac.authorization.kubernetes.io/v1beta1";
/// Whom policies for everybody are for.
const AUTHENTICATED: &str = "system:authenticated";

/// A line of a policy file that is none. Shown, it is what upstream's server says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error reading policy file {file}, line {line}: {text}: {fault}")]
pub struct PolicyFileError {
    /// The file's name.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The line's text.
    pub text: String,
    /// What is wrong with it.
    pub fault: Box<PolicyFault>,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyFault {
    /// It is no document.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// A value is of another type than it should be.
    #[error(transparent)]
    WrongType(#[from] WrongType),
    /// It names a version, and not the kind without which that version cannot be read.
    #[error("converting (v1beta1.Policy) to (v0.Policy): unknown conversion")]
    NoKind,
    /// It is of another kind or version.
    #[error(transparent)]
    Unregistered(#[from] Unregistered),
}

/// One line.
#[derive(Clone, Debug, Default, PartialEq)]
struct Policy {
    user: Str,
    group: Str,
    readonly: bool,
    api_group: Str,
    resource: Str,
    namespace: Str,
    path: Str,
}

/// The policies of a file: what one of them allows is allowed.
#[derive(Clone, Debug, Default)]
pub struct Abac(Vec<Policy>);

impl Abac {
    /// Reads a file's text; `path` is its name. Empty lines and those that begin with `#` say nothing.
    ///
    /// # Errors
    /// The first line that is wrong.
    pub fn parse(path: &str, text: &[u8]) -> Result<Self, PolicyFileError> {
        let mut policies = Abac::default();
        let mut unversioned = false;
        for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let shown = String::from_utf8_lossy(line);
            let trimmed = shown.trim();
            if trimmed.is_empty() || trimmed.starts_with('#') {
                continue;
            }
            let policy = read_document(line).map_err(PolicyFault::from).and_then(|document| Policy::of(&document));
            let (policy, versioned) = policy.map_err(|fault| PolicyFileError {
                file: path.to_owned(),
                line: number + 1,
                text: shown.to_string(),
                fault: Box::new(fault),
            })?;
            unversioned |= !versioned;
            policies.0.push(policy);
        }
        if unversioned {
            tracing::warn!(path, "the policy file has rules without a version");
        }
        Ok(policies)
    }
}

impl Policy {
    /// The policy of a line, and whether the line says of which version it is.
    fn of(document: &Value) -> Result<(Self, bool), PolicyFault> {
        let (api_version, kind) = (text(document, "apiVersion", ".")?, text(document, "kind", ".")?);
        let or = |given: &Str, usual: &'static str| if given.is_empty() { usual.into() } else { given.clone() };
        match (&*or(&api_version, UNVERSIONED), &*or(&kind, "Policy")) {
            (UNVERSIONED, "Policy") => Ok((Self::unversioned(document)?, !api_version.is_empty())),
            (VERSIONED, "Policy") if !kind.is_empty() => {
                Ok((Self::versioned(document.get("spec").unwrap_or(&Value::Null))?, true))
            }
            (VERSIONED, "Policy") => Err(PolicyFault::NoKind),
            (api_version, kind) => Err(PolicyFault::Unregistered(Unregistered {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                registry: "pkg/apis/abac/register.go:33",
            })),
        }
    }

    fn versioned(spec: &Value) -> Result<Self, PolicyFault> {
        if !spec.is_null() && spec.as_object().is_none() {
            return Err(WrongType::of(spec, "Policy.spec", "v1beta1.PolicySpec").into());
        }
        let of = |key| text(spec, key, "PolicySpec.spec.");
        let mut policy = Policy {
            user: of("user")?,
            group: of("group")?,
            readonly: flag(spec, "readonly", "PolicySpec.spec.")?,
            api_group: of("apiGroup")?,
            resource: of("resource")?,
            namespace: of("namespace")?,
            path: of("nonResourcePath")?,
        };
        if policy.user == ALL || policy.group == ALL {
            policy.user = Str::default();
            policy.group = AUTHENTICATED.into();
        }
        Ok(policy)
    }

    /// Without a version, what is not named is everything.
    fn unversioned(line: &Value) -> Result<Self, PolicyFault> {
        let of = |key| text(line, key, "Policy.");
        let (user, group, resource, namespace) = (of("user")?, of("group")?, of("resource")?, of("namespace")?);
        let anybody = (user.is_empty() && group.is_empty()) || user == ALL || group == ALL;
        let or_all = |text: &Str| if text.is_empty() { Str::new_static(ALL) } else { text.clone() };
        let paths = namespace.is_empty() && resource.is_empty();
        Ok(Policy {
            user: if anybody { Str::default() } else { user },
            group: if anybody { AUTHENTICATED.into() } else { group },
            readonly: flag(line, "readonly", "Policy.")?,
            api_group: ALL.into(),
            resource: or_all(&resource),
            namespace: or_all(&namespace),
            path: if paths { ALL.into() } else { Str::default() },
        })
    }

    /// Whether it is about this user.
    fn is_for(&self, user: &User) -> bool {
        let named = self.user.is_empty() || self.user == user.name;
        let grouped = self.group.is_empty() || user.in_group(&self.group);
        (!self.user.is_empty() || !self.group.is_empty()) && named && grouped
    }

    fn allows(&self, attributes: &Attributes<'_>) -> bool {
        let info = attributes.info;
        let reads = matches!(info.verb_name(), "get" | "list" | "watch");
        if !self.is_for(attributes.user) || (self.readonly && !reads) {
            return false;
        }
        if info.is_resource {
            return covers(&self.namespace, &info.namespace)
                && covers(&self.resource, &info.resource)
                && covers(&self.api_group, &info.group);
        }
        self.path == info.path || self.path.ends_with('*') && info.path.starts_with(self.path.trim_end_matches('*'))
    }

    fn verbs(&self) -> Vec<Str> {
        let verbs: &[&'static str] = if self.readonly { &["get", "list", "watch"] } else { &[ALL] };
        verbs.iter().copied().map(Str::new_static).collect()
    }
}

fn covers(pattern: &str, value: &str) -> bool {
    pattern == ALL || pattern == value
}

fn text(object: &Value, key: &str, place: &str) -> Result<Str, WrongType> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(Str::default()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Err(WrongType::of(other, format!("{place}{key}"), "string")),
    }
}

fn flag(object: &Value, key: &str, place: &str) -> Result<bool, WrongType> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(other) => Err(WrongType::of(other, format!("{place}{key}"), "bool")),
    }
}

#[async_trait]
impl Authorizer for Abac {
    async fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        if self.0.iter().any(|policy| policy.allows(attributes)) {
            return Decision::allow("");
        }
        Decision::no_opinion(Str::new_static("No policy matched."))
    }

    async fn rules_of(&self, user: &User, namespace: &str) -> UserRules {
        let mut rules = UserRules::default();
        for policy in self.0.iter().filter(|policy| policy.is_for(user) && covers(&policy.namespace, namespace)) {
            if !policy.resource.is_empty() {
                rules.resource.push(ResourceRule {
                    verbs: policy.verbs(),
                    api_groups: vec![policy.api_group.clone()],
                    resources: vec![policy.resource.clone()],
                    resource_names: Vec::new(),
                });
            }
            if !policy.path.is_empty() {
                rules.non_resource.push(NonResourceRule { verbs: policy.verbs(), urls: vec![policy.path.clone()] });
            }
        }
        rules
    }
}

#[cfg(test)]
mod tests {
    use machinery::request::{Query, resolve};

    use super::*;

    fn user(name: &str, groups: &[&str]) -> User {
        User { name: name.into(), groups: groups.iter().map(|g| Str::from(*g)).collect(), ..User::default() }
    }

    async fn check(line: &str, who: &User, request: &str, expect: bool) {
        let (method, target) = request.split_once(' ').expect("a request line");
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let info = resolve(method, path, &Query::parse(query));
        let policies = Abac::parse("p", line.as_bytes()).expect("a policy");
        let decision = policies.authorize(&Attributes { user: who, info: &info }).await;
        let expected = if expect { Decision::allow("") } else { Decision::no_opinion("No policy matched.") };
        assert_eq!(decision, expected, "{line} {} {request}", who.name);
    }

    fn v1beta1(spec: &str) -> String {
        format!(r#"{{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{{{spec}}}}}"#)
    }

    #[tokio::test]
    async fn a_policy_is_for_a_user_and_a_group() {
        let (alice, bob) = (user("alice", &["dev", "system:authenticated"]), user("bob", &["system:unauthenticated"]));
        let all = |who: &str| v1beta1(&format!(r#"{who}"namespace":"*","resource":"*","apiGroup":"*""#));
        let pods = "GET /api/v1/namespaces/n/pods";
        check(&all(r#""user":"alice","#), &alice, pods, true).await;
        check(&all(r#""user":"alice","#), &bob, pods, false).await;
        check(&all(r#""user":"alice","group":"dev","#), &alice, pods, true).await;
        check(&all(r#""user":"alice","group":"ops","#), &alice, pods, false).await;
        check(&all(r#""group":"dev","#), &alice, pods, true).await;
        check(&all(r#""user":"*","#), &alice, pods, true).await;
        check(&all(r#""user":"*","#), &bob, pods, false).await; // only those who are known
        check(&all(""), &alice, pods, false).await;
        check("{}", &alice, pods, true).await;
        check("{}", &bob, pods, false).await;
    }

    #[tokio::test]
    async fn it_allows_resources_or_paths() {
        let alice = user("alice", &[]);
        let policy = |spec: &str| v1beta1(&format!(r#""user":"alice",{spec}"#));
        let apps = policy(r#""namespace":"n","resource":"deployments","apiGroup":"apps","readonly":true"#);
        check(&apps, &alice, "GET /apis/apps/v1/namespaces/n/deployments/d", true).await;
        check(&apps, &alice, "GET /apis/apps/v1/namespaces/n/deployments?watch=1", true).await;
        check(&apps, &alice, "GET /apis/apps/v1/namespaces/n/deployments/d/scale", true).await; // whatever the subresource
        check(&apps, &alice, "DELETE /apis/apps/v1/namespaces/n/deployments/d", false).await;
        check(&apps, &alice, "GET /apis/apps/v1/deployments", false).await;
        check(&apps, &alice, "GET /apis/batch/v1/namespaces/n/deployments/d", false).await;
        let nothing = policy(r#""resource":"nodes""#);
        check(&nothing, &alice, "DELETE /api/v1/nodes/a", true).await;
        check(&nothing, &alice, "GET /healthz", false).await;
        let paths = policy(r#""nonResourcePath":"/api*""#);
        check(&paths, &alice, "GET /apis", true).await;
        check(&paths, &alice, "POST /healthz", false).await;
        check(&paths, &alice, "GET /api/v1/pods", false).await;
        check(&policy(r#""nonResourcePath":"/healthz""#), &alice, "GET /healthz", true).await;
        check(&policy(r#""nonResourcePath":"/healthz""#), &alice, "GET /healthz/ping", false).await;
        let old = r#"{"user":"alice","resource":"pods"}"#;
        check(old, &alice, "DELETE /api/v1/namespaces/n/pods/p", true).await;
        check(old, &alice, "GET /healthz", false).await;
        check(r#"{"user":"alice","readonly":true}"#, &alice, "GET /healthz", true).await;
        check(r#"{"user":"alice","readonly":true}"#, &alice, "POST /healthz", false).await;
    }

    #[test]
    fn lines_are_told_that_are_wrong() {
        let check = |text: &str, expect: &str| {
            assert_eq!(Abac::parse("/p", text.as_bytes()).expect_err(text).to_string(), expect, "{text}");
        };
        assert_eq!(Abac::parse("/p", b"# a comment\n\n  # another\r\n{}\n").map(|all| all.0.len()), Ok(1));
        check(
            "\n{\"user\":",
            "error reading policy file /p, line 2: {\"user\":: couldn't get version/kind; json parse error: unexpected end of \
             JSON input",
        );
        let line = |line: &str, why: &str| check(line, &format!("error reading policy file /p, line 1: {line}: {why}"));
        line(
            r#"{"apiVersion":"v1","kind":"Pod"}"#,
            "no kind \"Pod\" is registered for version \"v1\" in scheme \"pkg/apis/abac/register.go:33\"",
        );
        line(
            r#"{"apiVersion":"abac.authorization.kubernetes.io/v9","kind":"Policy"}"#,
            "no kind \"Policy\" is registered for version \"abac.authorization.kubernetes.io/v9\" in scheme \
             \"pkg/apis/abac/register.go:33\"",
        );
        line(
            r#"{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","user":"a"}"#,
            "converting (v1beta1.Policy) to (v0.Policy): unknown conversion",
        );
        line(
            r#"{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":[]}"#,
            "json: cannot unmarshal array into Go struct field Policy.spec of type v1beta1.PolicySpec",
        );
        assert!(Abac::parse("/p", br#"{"kind":"Policy","user":"a"}"#).is_ok());
        assert!(Abac::parse("/p", br#"{"apiVersion":"abac.authorization.kubernetes.io/v0","kind":"Policy"}"#).is_ok());
        assert!(Abac::parse("/p", b"[1]").is_err() && Abac::parse("/p", b"x").is_err());
        check(
            r#"{"user":1}"#,
            "error reading policy file /p, line 1: {\"user\":1}: json: cannot unmarshal number into Go struct field Policy.user \
             of type string",
        );
    }

    #[tokio::test]
    async fn rules_are_told_for_a_namespace() {
        let text = [
            v1beta1(r#""user":"alice","namespace":"n","resource":"pods","readonly":true"#),
            v1beta1(r#""user":"alice","namespace":"*","nonResourcePath":"/x""#),
            v1beta1(r#""user":"alice","namespace":"m","resource":"pods""#),
        ];
        let policies = Abac::parse("p", text.join("\n").as_bytes()).expect("policies");
        let rules = policies.rules_of(&user("alice", &[]), "n").await;
        let texts = |texts: &[&str]| texts.iter().map(|t| Str::from(*t)).collect::<Vec<_>>();
        let pods = ResourceRule {
            verbs: texts(&["get", "list", "watch"]),
            api_groups: texts(&[""]),
            resources: texts(&["pods"]),
            resource_names: Vec::new(),
        };
        let paths = NonResourceRule { verbs: texts(&["*"]), urls: texts(&["/x"]) };
        assert_eq!(rules, UserRules { resource: vec![pods], non_resource: vec![paths], ..UserRules::default() });
    }
}
