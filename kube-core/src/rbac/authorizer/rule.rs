//! One rule of a role, ready to be asked.

use std::fmt;

use machinery::{Str, Value, request::RequestInfo};

/// Everything: any verb, group, resource or path.
const ALL: &str = "*";

/// A rule: verbs on resources, or verbs on paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) verbs: Vec<Str>,
    pub(crate) groups: Vec<Str>,
    pub(crate) resources: Vec<Str>,
    pub(crate) names: Vec<Str>,
    pub(crate) paths: Vec<Str>,
}

impl Rule {
    /// The rules of a role.
    pub(crate) fn all_of(role: &Value) -> Vec<Rule> {
        role.get("rules").and_then(Value::as_array).unwrap_or_default().iter().map(Rule::new).collect()
    }

    fn new(rule: &Value) -> Rule {
        let texts = |key: &str| -> Vec<Str> {
            let items = rule.get(key).and_then(Value::as_array).unwrap_or_default();
            items.iter().filter_map(Value::as_shared_str).cloned().collect()
        };
        Rule {
            verbs: texts("verbs"),
            groups: texts("apiGroups"),
            resources: texts("resources"),
            names: texts("resourceNames"),
            paths: texts("nonResourceURLs"),
        }
    }

    /// Whether it allows what is asked.
    pub(crate) fn allows(&self, info: &RequestInfo) -> bool {
        if !info.is_resource {
            return has(&self.verbs, &info.method) && self.paths.iter().any(|p| path_matches(p, &info.path));
        }
        has(&self.verbs, info.verb_name())
            && has(&self.groups, &info.group)
            && self.allows_resource(&info.resource, &info.subresource)
            && (self.names.is_empty() || self.names.contains(&info.name))
    }

    /// `pods`, `pods/log`, `*/log` (a subresource of anything) or `*`.
    fn allows_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|r| match r.split_once('/') {
            _ if r == ALL => true,
            None => subresource.is_empty() && r == resource,
            Some((of, sub)) => !subresource.is_empty() && sub == subresource && (of == ALL || of == resource),
        })
    }

    /// How many [`Rule::parts`] it has.
    pub(crate) fn count(&self) -> usize {
        let resources = self.groups.len().saturating_mul(self.resources.len()).saturating_mul(self.names.len().max(1));
        self.verbs.len().saturating_mul(resources.saturating_add(self.paths.len()))
    }

    /// Its parts with one verb, group, resource and name, or one verb and path, each.
    pub(crate) fn parts(&self) -> Vec<Rule> {
        let one = |text: &Str| vec![text.clone()];
        let mut parts = Vec::new();
        for verb in &self.verbs {
            for path in &self.paths {
                parts.push(Rule { verbs: one(verb), paths: one(path), ..Rule::default() });
            }
            for group in &self.groups {
                for resource in &self.resources {
                    let part =
                        Rule { verbs: one(verb), groups: one(group), resources: one(resource), ..Rule::default() };
                    if self.names.is_empty() {
                        parts.push(part);
                    } else {
                        parts.extend(self.names.iter().map(|name| Rule { names: one(name), ..part.clone() }));
                    }
                }
            }
        }
        parts
    }

    /// Whether it grants all that a part of another rule does.
    pub(crate) fn covers(&self, part: &Rule) -> bool {
        let verbs = self.verbs.iter().any(|v| v == ALL) || part.verbs.iter().all(|v| self.verbs.contains(v));
        if !part.paths.is_empty() {
            let covered = |path: &Str| self.paths.iter().any(|own| own == path || path_matches(own, path));
            return verbs && part.paths.iter().all(covered);
        }
        verbs
            && (self.groups.iter().any(|g| g == ALL) || part.groups.iter().all(|g| self.groups.contains(g)))
            && part.resources.iter().all(|r| self.covers_resource(r))
            && (self.names.is_empty() || (!part.names.is_empty() && part.names.iter().all(|n| self.names.contains(n))))
    }

    fn covers_resource(&self, resource: &str) -> bool {
        self.resources.iter().any(|own| {
            own == ALL
                || own == resource
                || resource.split_once('/').is_some_and(|(_, sub)| own.strip_prefix("*/") == Some(sub))
        })
    }

    /// Whether both say the same of the same resources, so that their verbs can stand together.
    pub(crate) fn differs_in_verbs_only(&self, other: &Rule) -> bool {
        !self.resources.is_empty()
            && (&self.groups, &self.resources, &self.names) == (&other.groups, &other.resources, &other.names)
    }
}

impl fmt::Display for Rule {
    /// As refusals show it: `{APIGroups:["apps"], Resources:["deployments"], Verbs:["get" "list"]}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lists = [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.paths),
            ("ResourceNames", &self.names),
            ("Verbs", &self.verbs),
        ];
        f.write_str("{")?;
        let mut first = true;
        for (name, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            if !std::mem::take(&mut first) {
                f.write_str(", ")?;
            }
            write!(f, "{name}:{}", Texts(list))?;
        }
        f.write_str("}")
    }
}

/// A role's rules, and which questions none of them is about: most grants of a user are about something else.
#[derive(Debug)]
pub(crate) struct Role {
    rules: Vec<Rule>,
    verbs: u16,
    resources: u64,
    paths: bool,
}

/// A question, and the bits that a role must have to answer it.
pub(crate) struct Asked<'a> {
    info: &'a RequestInfo,
    verb: u16,
    resource: u64,
}

impl Role {
    pub(crate) fn new(rules: Vec<Rule>) -> Self {
        let verbs = rules.iter().flat_map(|rule| &rule.verbs).fold(0, |bits, verb| bits | verb_bits(verb));
        let resources = rules.iter().flat_map(|rule| &rule.resources).fold(0, |bits, name| bits | resource_bits(name));
        let paths = rules.iter().any(|rule| !rule.paths.is_empty());
        Role { rules, verbs, resources, paths }
    }

    pub(crate) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Whether one of its rules allows what is asked.
    pub(crate) fn allows(&self, asked: &Asked<'_>) -> bool {
        let is_about = match asked.info.is_resource {
            true => self.verbs & asked.verb != 0 && self.resources & asked.resource != 0,
            false => self.paths,
        };
        is_about && self.rules.iter().any(|rule| rule.allows(asked.info))
    }
}

impl<'a> Asked<'a> {
    pub(crate) fn new(info: &'a RequestInfo) -> Self {
        Asked { info, verb: verb_bits(info.verb_name()), resource: hash_bit(&info.resource) }
    }
}

/// The bit of a verb, or those of all.
fn verb_bits(verb: &str) -> u16 {
    const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
    if verb == ALL {
        return u16::MAX;
    }
    1 << VERBS.iter().position(|known| *known == verb).unwrap_or(VERBS.len())
}

/// The bit of a rule's resource, or those of all.
fn resource_bits(resource: &str) -> u64 {
    match resource.split('/').next().unwrap_or(resource) {
        ALL => u64::MAX,
        name => hash_bit(name),
    }
}

/// One of 64 bits by the hash (FNV-1a) of a text.
fn hash_bit(text: &str) -> u64 {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    1 << (hash >> 58)
}

/// Texts as Go shows them: `["a" "b"]`.
pub(crate) struct Texts<'a>(pub(crate) &'a [Str]);

impl fmt::Display for Texts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted: Vec<String> = self.0.iter().map(|t| format!("{:?}", t.as_str())).collect();
        write!(f, "[{}]", quoted.join(" "))
    }
}

fn has(list: &[Str], wanted: &str) -> bool {
    list.iter().any(|item| item == ALL || item == wanted)
}

/// A path, or one that ends in `*` and stands for all that start so.
fn path_matches(pattern: &str, path: &str) -> bool {
    pattern == path || pattern.strip_suffix('*').is_some_and(|start| path.starts_with(start))
}

#[cfg(test)]
mod tests {
    use machinery::{object, request::resource_info};

    use super::*;

    fn list(items: &[&str]) -> Value {
        Value::from(items.iter().map(|i| Value::from(*i)).collect::<Vec<_>>())
    }

    fn rule(verbs: &[&str], groups: &[&str], resources: &[&str], names: &[&str]) -> Rule {
        Rule::new(&object! {
            "verbs" => list(verbs), "apiGroups" => list(groups), "resources" => list(resources), "resourceNames" => list(names),
        })
    }

    #[test]
    fn resources_subresources_and_names() {
        let check = |rule: &Rule, verb: &str, what: &str, name: &str, expect: bool| {
            let (resource, sub) = what.split_once('/').unwrap_or((what, ""));
            let info =
                RequestInfo { name: name.into(), subresource: sub.into(), ..resource_info(verb, "", "v1", resource) };
            assert_eq!(rule.allows(&info), expect, "{rule} {verb} {what} {name}");
        };
        let pods = rule(&["get", "list"], &[""], &["pods"], &[]);
        check(&pods, "get", "pods", "a", true);
        check(&pods, "delete", "pods", "a", false);
        check(&pods, "get", "pods/log", "a", false);
        check(&rule(&["get"], &["apps"], &["pods"], &[]), "get", "pods", "a", false);
        check(&rule(&["*"], &["*"], &["*"], &[]), "bind", "pods/log", "a", true);
        let logs = rule(&["get"], &[""], &["*/log"], &[]);
        check(&logs, "get", "pods/log", "a", true);
        check(&logs, "get", "pods", "a", false);
        let one = rule(&["get", "list"], &[""], &["pods"], &["a"]);
        check(&one, "get", "pods", "a", true);
        check(&one, "get", "pods", "b", false);
        check(&one, "list", "pods", "", false);
    }

    #[test]
    fn a_role_allows_what_one_of_its_rules_allows() {
        let role = Role::new(vec![
            rule(&["get"], &[""], &["pods", "services/*"], &[]),
            rule(&["*"], &["apps"], &["*/scale"], &[]),
            rule(&["use"], &[""], &["podsecuritypolicies"], &[]),
        ]);
        let check = |verb: &str, group: &str, what: &str, expect: bool| {
            let (resource, sub) = what.split_once('/').unwrap_or((what, ""));
            let info = RequestInfo { subresource: sub.into(), ..resource_info(verb, group, "v1", resource) };
            assert_eq!(role.allows(&Asked::new(&info)), expect, "{verb} {group} {what}");
            assert_eq!(role.rules().iter().any(|rule| rule.allows(&info)), expect, "{verb} {group} {what}");
        };
        check("get", "", "pods", true);
        check("list", "", "pods", false);
        check("get", "", "secrets", false);
        check("patch", "apps", "deployments/scale", true);
        check("use", "", "podsecuritypolicies", true);
        check("impersonate", "", "users", false);
        let info = RequestInfo { path: "/metrics".into(), method: "get".into(), ..RequestInfo::default() };
        assert!(!role.allows(&Asked::new(&info)));
        let paths = Rule { verbs: vec!["get".into()], paths: vec!["/metrics".into()], ..Rule::default() };
        assert!(Role::new(vec![paths]).allows(&Asked::new(&info)));
    }

    #[test]
    fn paths() {
        let urls =
            Rule { verbs: vec!["get".into()], paths: vec!["/metrics".into(), "/api/*".into()], ..Rule::default() };
        let check = |verb: &str, path: &str, expect: bool| {
            let info = RequestInfo { path: path.into(), method: verb.into(), ..RequestInfo::default() };
            assert_eq!(urls.allows(&info), expect, "{verb} {path}");
        };
        check("get", "/metrics", true);
        check("get", "/metrics/slis", false);
        check("get", "/api/v1", true);
        check("post", "/api/v1", false);
    }

    #[test]
    fn a_rule_covers_its_parts_and_no_more() {
        let check = |own: &Rule, other: &Rule, expect: bool| {
            assert_eq!(other.parts().iter().all(|part| own.covers(part)), expect, "{own} {other}");
        };
        let own = rule(&["get", "list"], &["", "apps"], &["pods", "*/status"], &[]);
        check(&own, &own, true);
        check(&own, &rule(&["get"], &["apps"], &["pods", "deployments/status"], &["a"]), true);
        check(&own, &rule(&["*"], &[""], &["pods"], &[]), false);
        check(&own, &rule(&["get"], &["*"], &["pods"], &[]), false);
        let named = rule(&["get"], &[""], &["pods"], &["a"]);
        check(&named, &rule(&["get"], &[""], &["pods"], &[]), false);
        check(&named, &named, true);
    }

    #[test]
    fn rules_are_shown_as_refusals_do() {
        let shown = rule(&["get", "list"], &["apps"], &["deployments"], &["a"]).to_string();
        assert_eq!(
            shown,
            r#"{APIGroups:["apps"], Resources:["deployments"], ResourceNames:["a"], Verbs:["get" "list"]}"#
        );
    }
}
