//! Files of one volume that stand in each other's way: the same path twice, or a file where another one's folder is.

use std::collections::{HashMap, HashSet};

use machinery::{Value, meta::go_text::quote};

use super::validation::scope::{has, list, name, text};

/// Of what stands in a path's way so much is named: more than all warnings of an answer have room for.
const NAMED: usize = 200;

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
        let mut files = Files::default();
        for path in paths(source) {
            files.add(path, "", |what| note(format!("volume {shown} ({kind}{of}): overlapping paths: {what}")));
        }
    }
    if let Some(projected) = volume.get("projected") {
        in_projection(projected, &shown, &mut note);
    }
}

fn paths(source: &Value) -> Vec<&str> {
    list(source, "items").iter().map(|item| text(item, "path")).collect()
}

fn in_projection(projected: &Value, volume: &str, note: &mut impl FnMut(String)) {
    let sources: Vec<Option<Projected<'_>>> = list(projected, "sources").iter().map(projection).collect();
    let mut files = Files::default();
    for source in &sources {
        let Some(source) = source else {
            note(format!("volume {volume} (Projected) has no sources provided"));
            continue;
        };
        for (path, of) in source {
            files.add(path, of, |what| note(format!("volume {volume} (Projected): overlapping paths: {what}")));
        }
    }
}

/// The paths of a source of a projected volume, each with what it is called after.
type Projected<'a> = Vec<(&'a str, String)>;

/// The paths of a source; `None` if it is no source at all.
fn projection(source: &Value) -> Option<Projected<'_>> {
    if source.as_object().is_none_or(|members| members.iter().all(|(_, v)| v.is_null())) {
        return None;
    }
    let all = |held, of: String| paths(held).into_iter().map(|path| (path, of.clone())).collect();
    let listed = |member| source.get(member).filter(|held: &&Value| has(held, "items"));
    if let Some(held) = listed("configMap") {
        return Some(all(held, format!("ConfigMap {}", quote(name(held)))));
    }
    if let Some(held) = listed("secret") {
        return Some(all(held, format!("Secret {}", quote(name(held)))));
    }
    if let Some(held) = listed("downwardAPI") {
        return Some(all(held, "DownwardAPI".to_owned()));
    }
    let single = |member| source.get(member).filter(|held: &&Value| !held.is_null());
    if let Some(token) = single("serviceAccountToken") {
        return Some(vec![(text(token, "path"), "ServiceAccountToken".to_owned())]);
    }
    if let Some(bundle) = single("clusterTrustBundle") {
        let named = if has(bundle, "name") { name(bundle) } else { text(bundle, "signerName") };
        return Some(vec![(text(bundle, "path"), format!("ClusterTrustBundle {}", quote(named)))]);
    }
    let Some(certificate) = single("podCertificate") else { return Some(Vec::new()) };
    let parts = [("certificateChainPath", "chain"), ("keyPath", "key"), ("credentialBundlePath", "credential bundle")];
    let named = parts.map(|(member, what)| (text(certificate, member), format!("PodCertificate {what}")));
    Some(named.into_iter().filter(|(path, _)| !path.is_empty()).collect())
}

/// The files of a volume so far, as a tree of their paths' steps.
#[derive(Default)]
struct Files<'a> {
    /// What a step below a node leads to. The root is 0.
    steps: HashMap<(usize, &'a str), usize>,
    /// The files that end at a node, and those that end there or below.
    ends: HashMap<usize, Vec<usize>>,
    below: HashMap<usize, Vec<usize>>,
    /// Each file: its path, and what has it.
    files: Vec<(&'a str, &'a str)>,
    known: HashSet<(&'a str, &'a str)>,
}

impl<'a> Files<'a> {
    /// Adds a file that `of` has, and notes with which earlier ones it collides, in their order.
    fn add(&mut self, path: &'a str, of: &'a str, mut note: impl FnMut(String)) {
        let path = path.trim_end_matches('/');
        if path.is_empty() {
            return;
        }
        // A file that comes again collides as before, but for those that came in between: once it is known, it is looked
        // up and not added again.
        let is_new = self.known.insert((path, of));
        let file = self.files.len();
        let mut found: Vec<usize> = Vec::new();
        let mut node = 0;
        for step in path.split('/') {
            let next = self.steps.len() + 1;
            node = *self.steps.entry((node, step)).or_insert(next);
            let folders = self.ends.get(&node).into_iter().flatten();
            found.extend(folders.take(NAMED));
            if is_new {
                self.below.entry(node).or_default().push(file);
            }
        }
        let within = self.below.get(&node).into_iter().flatten();
        found.extend(within.take(NAMED));
        found.sort_unstable();
        found.dedup();
        for other in found.into_iter().filter(|other| *other < file) {
            let (other_path, other_of) = self.files[other];
            note(format!("{} with {}", shown(path, of), shown(other_path, other_of)));
        }
        if is_new {
            self.ends.entry(node).or_default().push(file);
            self.files.push((path, of));
        }
    }
}

fn shown(path: &str, of: &str) -> String {
    if of.is_empty() { quote(path) } else { format!("{} ({of})", quote(path)) }
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
        check(r#"{"name":"v","configMap":{"name":"c","items":[{"path":"a"},{"path":"b"},{"path":"ab"}]}}"#, &[]);
        check(
            r#"{"name":"v","configMap":{"name":"c","items":[{"path":"a"},{"path":"a/b"}]}}"#,
            &[r#"volume "v" (ConfigMap "c"): overlapping paths: "a/b" with "a""#],
        );
        check(
            r#"{"name":"v","secret":{"secretName":"s","items":[{"path":"a/b"},{"path":"a/c/"},{"path":"a"}]}}"#,
            &[
                r#"volume "v" (Secret "s"): overlapping paths: "a" with "a/b""#,
                r#"volume "v" (Secret "s"): overlapping paths: "a" with "a/c""#,
            ],
        );
        check(
            r#"{"name":"v","projected":{"sources":[{"secret":{"name":"s","items":[{"path":"a"}]}},
                {"serviceAccountToken":{"path":"a"}},{}]}}"#,
            &[
                r#"volume "v" (Projected): overlapping paths: "a" (ServiceAccountToken) with "a" (Secret "s")"#,
                r#"volume "v" (Projected) has no sources provided"#,
            ],
        );
    }

    #[test]
    fn what_comes_again_collides_again() {
        check(
            r#"{"name":"v","downwardAPI":{"items":[{"path":"a"},{"path":"a/b"},{"path":"a"}]}}"#,
            &[
                r#"volume "v" (DownwardAPI): overlapping paths: "a/b" with "a""#,
                r#"volume "v" (DownwardAPI): overlapping paths: "a" with "a""#,
                r#"volume "v" (DownwardAPI): overlapping paths: "a" with "a/b""#,
            ],
        );
    }
}
