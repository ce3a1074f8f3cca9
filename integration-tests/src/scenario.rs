//! Scenarios: what a server promises, as requests and the answers that they must have, in text.
//!
//! ```text
//! # A finalizer keeps an object until it is gone
//! POST /api/v1/namespaces/$ns/configmaps
//! {"metadata": {"name": "kept", "finalizers": ["example.com/hold"]}}
//! => 201 {"metadata": {"uid": "$uid", "deletionTimestamp": "!"}}
//!
//! DELETE /api/v1/namespaces/$ns/configmaps/kept
//! => 200 {"metadata": {"uid": "$uid"}}
//! ```
//!
//! A line that begins with `#` and a space begins a scenario, a blank line ends a step. A step is a request line, headers, a body (JSON, or
//! the text after a line `|`), and after `=>` the status and what the answer must have. Of an object only the members that are named count;
//! lists have as many items as are named, unless the last is `"..."`. A text `"$name"` is bound to what stands there, and must be the same from
//! then on; in requests it stands for what it is bound to. `"!"` is a member that is not there, `"~text"` a text that has this part, `"*"`
//! anything that is there. `$ns` is a namespace of the scenario's own, which is removed after it.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::{Map, Value, json};

use crate::{Reply, client};

/// A scenario as it is written.
#[derive(Debug)]
pub struct Scenario {
    /// Its title.
    pub title: String,
    /// The line on which it begins, from 1.
    pub line: usize,
    steps: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    line: usize,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
    status: u16,
    expected: Value,
}

/// Where requests go, and as whom.
#[derive(Clone, Debug)]
pub struct Server {
    /// Host and port.
    pub address: String,
    /// A bearer token of somebody who may do everything.
    pub token: String,
}

/// Reads the scenarios of a file.
///
/// # Errors
/// What is wrong, with the line.
pub fn parse(text: &str) -> Result<Vec<Scenario>, String> {
    let mut scenarios: Vec<Scenario> = Vec::new();
    let mut block: Vec<&str> = Vec::new();
    let lines: Vec<&str> = text.lines().chain([""]).collect();
    for (number, line) in (1..).zip(&lines) {
        if let Some(title) = line.strip_prefix("# ") {
            scenarios.push(Scenario { title: title.to_owned(), line: number, steps: Vec::new() });
        } else if !line.trim().is_empty() {
            block.push(line);
        } else if !block.is_empty() {
            let first = number - block.len();
            let scenario = scenarios.last_mut().ok_or(format!("line {first}: a step before any title"))?;
            scenario.steps.push(step(first, &std::mem::take(&mut block))?);
        }
    }
    Ok(scenarios)
}

fn step(line: usize, block: &[&str]) -> Result<Step, String> {
    let wrong = |what: &str| format!("line {line}: {what}");
    let (method, path) = block[0].split_once(' ').ok_or_else(|| wrong("no request line"))?;
    let arrow = block.iter().position(|l| l.starts_with("=> ")).ok_or_else(|| wrong("no answer is expected"))?;
    let mut rest = &block[1..arrow];
    let mut headers = Vec::new();
    while let [first, more @ ..] = rest
        && let Some((name, value)) = first.split_once(": ")
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    {
        headers.push((name.to_owned(), value.to_owned()));
        rest = more;
    }
    let body = rest.strip_prefix(&["|"]).unwrap_or(rest).join("\n");
    let answer = block[arrow..].join("\n");
    let answer = answer.trim_start_matches("=> ");
    let (status, expected) = answer.split_once(' ').unwrap_or((answer, "null"));
    Ok(Step {
        line,
        method: method.to_owned(),
        path: path.to_owned(),
        headers,
        body,
        status: status.trim().parse().map_err(|_| wrong("no status"))?,
        expected: serde_json::from_str(expected).map_err(|e| wrong(&format!("the answer: {e}")))?,
    })
}

impl Scenario {
    /// Plays the scenario. `unique` tells its namespace from those of others.
    ///
    /// # Errors
    /// The step that went another way, and how.
    pub fn play(&self, server: &Server, unique: &str) -> Result<(), String> {
        let namespace = format!("scenario-{unique}");
        let mut bound = BTreeMap::from([("ns".to_owned(), Value::from(namespace.as_str()))]);
        let made = json!({"metadata": {"name": namespace}}).to_string();
        let admin = |method, path: &str, body: &str| server.send(method, path, &[], body);
        admin("POST", "/api/v1/namespaces", &made)?;
        // Pods need an account, which a controller makes where there is one.
        let account = json!({"metadata": {"name": "default"}}).to_string();
        admin("POST", &format!("/api/v1/namespaces/{namespace}/serviceaccounts"), &account)?;
        let played = self.steps.iter().try_for_each(|step| step.play(server, &mut bound));
        let path = format!("/api/v1/namespaces/{namespace}");
        admin("DELETE", &path, "")?;
        // No controller empties it: what is left in it stays, the namespace's own mark does not.
        admin(
            "PUT",
            &format!("{path}/finalize"),
            &json!({"metadata": {"name": namespace}, "spec": {"finalizers": []}}).to_string(),
        )?;
        played
    }
}

impl Server {
    fn send(&self, method: &str, path: &str, headers: &[(String, String)], body: &str) -> Result<Reply, String> {
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        let has = |name: &str| headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        if !has("Authorization") {
            let _ = write!(request, "Authorization: Bearer {}\r\n", self.token);
        }
        if !body.is_empty() && !has("Content-Type") {
            request.push_str("Content-Type: application/json\r\n");
        }
        for (name, value) in headers {
            let _ = write!(request, "{name}: {value}\r\n");
        }
        let _ = write!(request, "Content-Length: {}\r\n\r\n{body}", body.len());
        client::raw_to(&self.address, request.as_bytes()).map_err(|e| format!("{method} {path}: {e}"))
    }
}

impl Step {
    fn play(&self, server: &Server, bound: &mut BTreeMap<String, Value>) -> Result<(), String> {
        let filled = |text: &str| fill(text, bound);
        let headers: Vec<_> = self.headers.iter().map(|(name, value)| (name.clone(), filled(value))).collect();
        let reply = server.send(&self.method, &filled(&self.path), &headers, &filled(&self.body))?;
        let answer = documents(&reply);
        let failed = |why: String| {
            let text: String = reply.text().chars().take(2000).collect();
            Err(format!("line {}: {} {}: {why}\n    {} {text}", self.line, self.method, self.path, reply.status))
        };
        if reply.status != self.status {
            return failed(format!("expected {}", self.status));
        }
        compare(&self.expected, Some(&answer), "", bound).or_else(failed)
    }
}

/// Text with what its `$names` are bound to, the longest names first.
fn fill(text: &str, bound: &BTreeMap<String, Value>) -> String {
    let mut names: Vec<&String> = bound.keys().collect();
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    names.into_iter().fold(text.to_owned(), |text, name| {
        let value = &bound[name];
        let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        text.replace(&format!("${name}"), &shown)
    })
}

/// An answer's document; the list of them where it has several (a watch); its text where it has none.
fn documents(reply: &Reply) -> Value {
    let all: Result<Vec<Value>, _> = serde_json::Deserializer::from_slice(&reply.body).into_iter().collect();
    match all {
        Ok(mut one) if one.len() == 1 && one[0].get("object").is_none() => one.remove(0),
        Ok(several) => Value::from(several),
        Err(_) => Value::from(reply.text()),
    }
}

fn compare(want: &Value, found: Option<&Value>, at: &str, bound: &mut BTreeMap<String, Value>) -> Result<(), String> {
    let differs =
        || Err(format!("{at} is {}, expected {want}", found.map_or("not there".to_owned(), Value::to_string)));
    match want {
        Value::Null if at.is_empty() => Ok(()), // nothing is said of the answer
        Value::String(text) if text == "!" => found.map_or(Ok(()), |_| differs()),
        Value::String(text) if text == "*" => found.map_or_else(differs, |_| Ok(())),
        Value::String(text) if text.starts_with('~') => match found.and_then(Value::as_str) {
            Some(whole) if whole.contains(&fill(&text[1..], bound)) => Ok(()),
            _ => differs(),
        },
        Value::String(text) if text.starts_with('$') && text[1..].bytes().all(|b| b.is_ascii_alphanumeric()) => {
            let Some(value) = found else { return differs() };
            let known = bound.entry(text[1..].to_owned()).or_insert_with(|| value.clone());
            if known == value { Ok(()) } else { Err(format!("{at} is {value}, expected {known} ({text})")) }
        }
        Value::String(text) if found.and_then(Value::as_str) == Some(&fill(text, bound)) => Ok(()),
        Value::Object(members) => objects(members, found, at, bound).unwrap_or_else(differs),
        Value::Array(items) => {
            let Some(others) = found.and_then(Value::as_array) else { return differs() };
            let (items, open) = match items.split_last() {
                Some((last, first)) if last == "..." => (first, true),
                _ => (items.as_slice(), false),
            };
            if others.len() < items.len() || (!open && others.len() > items.len()) {
                return Err(format!("{at} has {} items, expected {want}: {others:?}", others.len()));
            }
            let mut pairs = items.iter().zip(others).enumerate();
            pairs.try_for_each(|(i, (item, other))| compare(item, Some(other), &format!("{at}[{i}]"), bound))
        }
        other if found == Some(other) => Ok(()),
        _ => differs(),
    }
}

/// The members of an object; `None` if there is no object.
fn objects(
    members: &Map<String, Value>,
    found: Option<&Value>,
    at: &str,
    bound: &mut BTreeMap<String, Value>,
) -> Option<Result<(), String>> {
    let others = found?.as_object()?;
    let mut all = members.iter();
    Some(all.try_for_each(|(name, value)| compare(value, others.get(name), &format!("{at}.{name}"), bound)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_compared_as_far_as_they_are_named() {
        let check = |want: Value, found: Value, fits: bool| {
            let mut bound = BTreeMap::from([("ns".to_owned(), json!("n1"))]);
            let result = compare(&want, Some(&found), "", &mut bound);
            assert_eq!(result.is_ok(), fits, "{want} {found}: {result:?}");
        };
        check(json!({"a": 1}), json!({"a": 1, "b": 2}), true);
        check(json!({"a": "!"}), json!({"b": 2}), true);
        check(json!({"a": "!"}), json!({"a": null}), false);
        check(json!({"a": "*"}), json!({"a": null}), true);
        check(json!({"a": "~in $ns"}), json!({"a": "pod in n1 is"}), true);
        check(json!(["$x", "$x"]), json!([1, 1]), true);
        check(json!(["$x", "$x"]), json!([1, 2]), false);
        check(json!([1]), json!([1, 2]), false);
        check(json!([1, "..."]), json!([1, 2]), true);
        check(json!({"a": {"b": 1}}), json!({"a": 1}), false);
    }

    #[test]
    fn steps_have_headers_bodies_and_answers() {
        let text = "# One\nPOST /x\nAccept: a/b\n{\"a\":\n 1}\n=> 201 {\"a\": 1}\n\n# Two\nGET /y\n=> 404\n";
        let all = parse(text).expect("two scenarios");
        assert_eq!(all.len(), 2);
        let step = &all[0].steps[0];
        assert_eq!((step.headers.len(), step.body.as_str(), step.status), (1, "{\"a\":\n 1}", 201));
        assert_eq!((all[1].line, all[1].steps[0].status, &all[1].steps[0].expected), (8, 404, &Value::Null));
        assert!(parse("GET /x\n=> 200\n").is_err());
        assert!(parse("# One\nGET /x\n").expect_err("no answer").starts_with("line 2"));
    }
}
