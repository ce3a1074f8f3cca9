//! Documentation of the built-in types, gathered when this crate is built: what `kubectl explain` shows.

/// Records `definition US member US text RS`, sorted by bytes.
static DOCS: &str = include_str!(concat!(env!("OUT_DIR"), "/docs.txt"));

const RECORD: char = '\u{1e}';
const UNIT: char = '\u{1f}';
const WATCH_EVENT: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent";

/// All of it.
pub(crate) fn all() -> &'static str {
    DOCS
}

/// What the definition (`io.k8s.api.core.v1.PodSpec`) is.
pub fn of_type(definition: &str) -> Option<&'static str> {
    let text = find(definition, "").or_else(|| find(&stable(definition)?, ""))?;
    if definition == WATCH_EVENT { text.split_once("\n\n").map(|(text, _)| text) } else { Some(text) }
}

/// What a member of the definition is, by its JSON name. What every kind has is said the same way of all of them.
pub fn of_member(definition: &str, member: &str) -> Option<&'static str> {
    find(definition, member).or_else(|| match member {
        // What is gathered says of the type what upstream says of its member.
        "object" if definition == WATCH_EVENT => find(definition, "")?.split_once("\n\n").map(|(_, text)| text),
        "apiVersion" | "kind" => find("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions", member),
        "metadata" if definition.ends_with("List") => find("io.k8s.apimachinery.pkg.apis.meta.v1.Status", member),
        _ => find(&stable(definition)?, member),
    })
}

/// The definition of the stable version, for those that only emulated versions have.
fn stable(definition: &str) -> Option<String> {
    definition.contains(".v1beta1.").then(|| definition.replace(".v1beta1.", ".v1."))
}

/// Binary search over the text: a probe goes back to the start of the record it hits.
fn find(definition: &str, member: &str) -> Option<&'static str> {
    let (mut low, mut high) = (0, DOCS.len());
    while low < high {
        let middle = floor((low + high) / 2);
        let start = DOCS[low..middle].rfind(RECORD).map_or(low, |i| low + i + 1);
        let end = start + DOCS[start..].find(RECORD)?;
        let (name, rest) = DOCS[start..end].split_once(UNIT)?;
        let (held, text) = rest.split_once(UNIT)?;
        match (name, held).cmp(&(definition, member)) {
            std::cmp::Ordering::Equal => return Some(text),
            std::cmp::Ordering::Less => low = end + 1,
            std::cmp::Ordering::Greater => high = start,
        }
    }
    None
}

/// The start of the character that a byte belongs to.
fn floor(mut at: usize) -> usize {
    while !DOCS.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_and_most_members_of_the_facts_table_are_described() {
        use machinery::schema::{Shape, builtin};
        let (mut members, mut described) = (0, 0);
        for id in builtin::definitions() {
            let name = builtin::name(id);
            if let Shape::Object(object) = &builtin::schema(id).shape {
                members += object.fields.len();
                described += object.fields.iter().filter(|f| of_member(&name, &f.name).is_some()).count();
            }
        }
        assert!(described * 10 > members * 9, "{described} of {members}");
        assert!(of_type("io.k8s.api.core.v1.Pod").is_some_and(|text| text.starts_with("Pod is ")));
    }

    #[test]
    fn texts_are_plain() {
        let port = of_member("io.k8s.api.core.v1.ContainerPort", "containerPort").expect("a text");
        assert!(port.contains("0 < x < 65536"), "{port}");
        let fqdn = of_member("io.k8s.api.core.v1.PodSpec", "setHostnameAsFQDN").expect("a text");
        assert!(fqdn.contains(r"HKEY_LOCAL_MACHINE\\SYSTEM\\CurrentControlSet"), "{fqdn}");
    }

    #[test]
    fn what_an_event_holds_is_said_of_its_member() {
        let definition = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent";
        assert_eq!(of_type(definition), Some("Event represents a single event to a watched resource."));
        assert!(
            of_member(definition, "object").is_some_and(|text| text.starts_with("Object is:\n * If Type is Added"))
        );
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        assert_eq!(of_type("io.k8s.api.core.v1.Nosuch"), None);
        assert_eq!(of_member("io.k8s.api.core.v1.Pod", "nosuch"), None);
        assert_eq!(of_type(""), None);
        assert_eq!(of_type("zzz"), None);
    }
}
