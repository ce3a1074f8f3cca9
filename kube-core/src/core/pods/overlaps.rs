//! Files of one volume that stand in each other's way: the same path twice, or a file where another one's folder is.

use machinery::{Value, meta::go_text::quote};

use super::validation::scope::{has, list, name, text};

/// How many paths of a volume are compared at most.
const MAX_PATHS: usize = 500;

/// Notes what overlaps in a volume.
pub(super) fn in_volume(volume: &Value, mut note: impl FnMut(String)) {
    let shown = quote(name(volume));
    let sources = [
        ("configMap", "ConfigMap", Some("name")),
        ("secret", "Secret", Some("secretName")),
        ("downwardAPI", "DownwardAPI", None),
    ];
    for (member, kind, named) in sources {
        let Some(source) = volume.get(member).filter(|source| has(source, "items")) else { continue };
        let of = named.map(|named| format!(" {}", quote(text(source, named)))).unwrap_or_default();
        overlaps(&paths(source), &format!("volume {shown} ({kind}{of}): overlapping paths"), &mut note);
    }
    if let Some(projected) = volume.get("projected") {
        in_projection(projected, &shown, &mut note);
    }
}

fn paths(source: &Value) -> Vec<&str> {
    list(source, "items").iter().map(|item| text(item, "path")).collect()
}

fn in_projection(projected: &Value, volume: &str, note: &mut impl FnMut(String)) {
    let mut all: Vec<&str> = Vec::new();
    for source in list(projected, "sources") {
        if source.as_object().is_none_or(|members| members.iter().all(|(_, v)| v.is_null())) {
            note(format!("volume {volume} (Projected) has no sources provided"));
            continue;
        }
        let Some((kind, own)) = projection(source).filter(|(_, own)| !own.is_empty()) else { continue };
        let label = format!("volume {volume} (Projected {kind}): overlapping paths");
        overlaps(&own, &label, note);
        let mut unique = own.clone();
        unique.sort_unstable();
        unique.dedup();
        let mut together = unique.clone();
        together.extend(&all);
        together.sort_unstable();
        overlaps(&together, &label, note);
        all.extend(unique);
        all.sort_unstable();
        all.dedup();
    }
}

/// What a source is called, and its paths; none if it names none.
fn projection(source: &Value) -> Option<(String, Vec<&str>)> {
    let listed = |member| source.get(member).filter(|held: &&Value| has(held, "items"));
    if let Some(held) = listed("configMap") {
        return Some((format!("ConfigMap {}", quote(name(held))), paths(held)));
    }
    if let Some(held) = listed("secret") {
        return Some((format!("Secret {}", quote(name(held))), paths(held)));
    }
    if let Some(held) = listed("downwardAPI") {
        return Some(("DownwardAPI".to_owned(), paths(held)));
    }
    let single = |member| source.get(member).filter(|held: &&Value| !held.is_null());
    if let Some(token) = single("serviceAccountToken") {
        return Some(("ServiceAccountToken".to_owned(), vec![text(token, "path")]));
    }
    let bundle = single("clusterTrustBundle")?;
    let named = if has(bundle, "name") { name(bundle) } else { text(bundle, "signerName") };
    Some((format!("ClusterTrustBundle {}", quote(named)), vec![text(bundle, "path")]))
}

fn overlaps(paths: &[&str], label: &str, note: &mut impl FnMut(String)) {
    let mut seen: Vec<&str> = Vec::new();
    for path in paths.iter().take(MAX_PATHS) {
        let path = path.trim_end_matches('/');
        if let Some(other) = collision(&seen, path) {
            note(format!("{label}: {} with {}", quote(path), quote(other)));
        }
        if !seen.contains(&path) {
            seen.push(path);
        }
    }
}

/// The path that stands in the way of another one.
fn collision<'a>(paths: &[&'a str], path: &str) -> Option<&'a str> {
    let below = |long: &str, short: &str| long.strip_prefix(short).is_some() || format!("{long}/") == short;
    if path.is_empty() {
        return None;
    }
    paths.iter().copied().find(|item| !item.is_empty() && (below(item, path) || below(path, item)))
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    fn check(volume: &str, expect: &[&str]) {
        let mut found = Vec::new();
        in_volume(&json::decode(volume.as_bytes()).expect("valid JSON"), |text| found.push(text));
        assert_eq!(found, expect);
    }

    #[test]
    fn a_path_is_there_once_and_no_file_is_a_folder() {
        check(r#"{"name":"v","configMap":{"name":"c","items":[{"path":"a"},{"path":"b"}]}}"#, &[]);
        check(
            r#"{"name":"v","configMap":{"name":"c","items":[{"path":"a"},{"path":"a/b"}]}}"#,
            &[r#"volume "v" (ConfigMap "c"): overlapping paths: "a/b" with "a""#],
        );
        check(
            r#"{"name":"v","projected":{"sources":[{"secret":{"name":"s","items":[{"path":"a"}]}},
                {"serviceAccountToken":{"path":"a"}},{}]}}"#,
            &[
                r#"volume "v" (Projected ServiceAccountToken): overlapping paths: "a" with "a""#,
                r#"volume "v" (Projected) has no sources provided"#,
            ],
        );
    }
}
