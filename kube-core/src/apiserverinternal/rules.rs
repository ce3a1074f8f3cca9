//! The rules of StorageVersions.

use std::collections::{HashMap, HashSet};

use machinery::{
    Value,
    meta::{
        field_error::{BadValue, FieldError},
        names,
    },
};

use crate::{
    strategy::Rules,
    validation::{Errors, Field, Seen},
};

/// The rules.
pub(super) const RULES: Rules = Rules::STATUS
    .conditional()
    .names(|name, _| storage_version_name(name))
    .status_alone()
    .validate(|_, version, errors| status(&version.at("status"), errors))
    .validate_update(|_, _, _, _| {})
    .validate_status(|_, version, _, errors| status(&version.at("status"), errors));

/// So many bytes of errors are shown.
const MAX_SHOWN: usize = 4 << 20;

/// A group and a resource with a dot between them.
fn storage_version_name(name: &str) -> Vec<String> {
    let Some((group, resource)) = name.rsplit_once('.') else {
        return vec!["name must be in the form of <group>.<resource>".to_owned()];
    };
    let group = names::dns1123_subdomain(group).into_iter().map(|why| format!("the group segment {why}"));
    let resource = names::dns1035_label(resource).into_iter().map(|why| format!("the resource segment {why}"));
    group.chain(resource).collect()
}

fn status(status: &Field<'_>, errors: &mut Errors) {
    let servers = status.at("storageVersions");
    let mut ids = Seen::default();
    servers.each_item(|server, value| {
        if !ids.insert(value.str_at(&["apiServerID"]).unwrap_or_default()) {
            server.at("apiServerID").duplicate_text(errors);
        }
        self::server(&server, errors);
    });
    common(status, servers.items(), errors);
    conditions(status, errors);
}

/// What one server reads, writes and serves.
fn server(server: &Field<'_>, errors: &mut Errors) {
    let encoding = server.at("encodingVersion");
    server.at("apiServerID").check(|id| names::name_is_dns_subdomain(id, false), errors);
    api_version(&encoding, errors);
    let decodable = server.at("decodableVersions");
    decodable.each(|version| api_version(&version, errors));
    let versions: HashSet<&str> = decodable.items().iter().filter_map(Value::as_str).collect();
    let decodes = |version: &str| versions.contains(version);
    if !decodes(encoding.text()) {
        decodable.invalid(format!("decodableVersions must include encodingVersion {}", encoding.text()), errors);
    }
    let all = decodable.items().iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
    // Each fault shows the whole list: no more are told than a client is shown.
    let mut left = MAX_SHOWN / all.len().max(1) + 1;
    server.at("servedVersions").each(|version| {
        api_version(&version, errors);
        if left > 0 && !decodes(version.text()) {
            let served = version.text();
            let why = format!("individual served version : {served} must be included in decodableVersions : [{all}]");
            version.invalid_text(why, errors);
            left -= 1;
        }
    });
}

/// A version with or without a group. All that is wrong with it is told as one.
fn api_version(version: &Field<'_>, errors: &mut Errors) {
    let text = version.text();
    let part = |which: &str, text: &str, rule: fn(&str) -> Vec<String>| -> Vec<String> {
        let found = if text.is_empty() { vec!["must be non-empty".to_owned()] } else { rule(text) };
        found.into_iter().map(|why| format!("{which} part: {why}")).collect()
    };
    let parts: Vec<&str> = text.split('/').collect();
    let mut found = Vec::new();
    match parts[..] {
        [version] => found.extend(part("version", version, names::dns1035_label)),
        [group, version] => {
            found.extend(part("group", group, names::dns1123_subdomain));
            found.extend(part("version", version, names::dns1035_label));
        }
        _ => {
            let label = "a DNS-1035 label, which must consist of lower case alphanumeric characters or '-', start with an \
                         alphabetic character, and end with an alphanumeric character";
            let label = names::regex_message(label, "[a-z]([-a-z0-9]*[a-z0-9])?", &["my-name", "abc-123"]);
            found.push(format!(
                "an apiVersion is {label} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyVersion')"
            ));
        }
    }
    if !found.is_empty() {
        version.invalid_text(found.join(","), errors);
    }
}

/// The version that all servers write, if they agree.
pub(super) fn common_version(servers: &[Value]) -> Option<&str> {
    let mut versions = servers.iter().map(|server| server.str_at(&["encodingVersion"]).unwrap_or_default());
    let first = versions.next()?;
    versions.all(|version| version == first).then_some(first)
}

fn common(status: &Field<'_>, servers: &[Value], errors: &mut Errors) {
    let said = status.at("commonEncodingVersion");
    match (common_version(servers), said.is_set()) {
        (None, true) => {
            let why = "should be nil if servers do not agree on the same encoding version, or if there is no server reporting \
                       the supported versions yet";
            said.invalid(why, errors);
        }
        (Some(common), false) => {
            said.invalid_as(BadValue::verbatim("null"), format!("the common encoding version is {common}"), errors);
        }
        (Some(common), true) if common != said.text() => {
            said.invalid(format!("the actual common encoding version is {common}"), errors);
        }
        _ => {}
    }
}

/// Upstream tells their place in the status, not in the list.
fn conditions(status: &Field<'_>, errors: &mut Errors) {
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (i, condition) in status.at("conditions").items().iter().enumerate() {
        let at = |member: &str| format!("status[{i}].{member}");
        let text = |member: &str| condition.str_at(&[member]).unwrap_or_default();
        let kind = text("type");
        if let Some(first) = places.insert(kind, i) {
            let why = format!("the type of the condition is not unique, it also appears in conditions[{first}]");
            errors.push(FieldError::invalid(at("type"), kind, why));
        }
        for member in ["type", "status"] {
            for why in names::qualified_name(text(member)) {
                errors.push(FieldError::invalid(at(member), text(member), why));
            }
        }
        for member in ["reason", "message"] {
            if text(member).is_empty() {
                errors.push(FieldError::required(at(member), ""));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    fn check(text: &str, expect: &[&str]) {
        let value = json::decode(text.as_bytes()).expect("JSON");
        let mut errors = Errors::default();
        status(&Field::root(&value), &mut errors);
        let found: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
        assert_eq!(found, expect, "{text}");
    }

    #[test]
    fn a_server_reads_what_it_writes_and_serves() {
        check(
            r#"{"commonEncodingVersion":"v1","storageVersions":[{"apiServerID":"a","encodingVersion":"v1","decodableVersions":["v1","v2"],"servedVersions":["v1"]}]}"#,
            &[],
        );
        check(
            r#"{"commonEncodingVersion":"v9","storageVersions":[{"apiServerID":"a","encodingVersion":"v1","decodableVersions":["v2"],"servedVersions":["v3"]}]}"#,
            &[
                r#"storageVersions[0].decodableVersions: Invalid value: ["v2"]: decodableVersions must include encodingVersion v1"#,
                r#"storageVersions[0].servedVersions[0]: Invalid value: "v3": individual served version : v3 must be included in decodableVersions : [v2]"#,
                r#"commonEncodingVersion: Invalid value: "v9": the actual common encoding version is v1"#,
            ],
        );
        check(
            r#"{"storageVersions":[{"apiServerID":"a","encodingVersion":"v1","decodableVersions":["v1"]},{"apiServerID":"a","encodingVersion":"v1","decodableVersions":["v1"]}]}"#,
            &[
                r#"storageVersions[1].apiServerID: Duplicate value: "a""#,
                "commonEncodingVersion: Invalid value: null: the common encoding version is v1",
            ],
        );
    }

    #[test]
    fn names_are_groups_and_resources() {
        assert!(storage_version_name("apps.deployments").is_empty());
        assert_eq!(storage_version_name("pods"), ["name must be in the form of <group>.<resource>"]);
        assert_eq!(storage_version_name("a_b.Pods").len(), 2);
    }
}
