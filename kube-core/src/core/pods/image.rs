//! Image references, as far as the API server reads them: the tag decides how an image is pulled.

/// `Always` for images without a tag or with the tag `latest`, else `IfNotPresent`. A reference that does not parse has no
/// tag that is known to be the latest.
pub(crate) fn pull_policy(image: &str) -> &'static str {
    if is_latest(image).unwrap_or(false) { "Always" } else { "IfNotPresent" }
}

/// Whether the reference means the latest image; `None` if it is not a reference.
fn is_latest(image: &str) -> Option<bool> {
    let (rest, digest) = match image.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (image, None),
    };
    let name_end = rest.rfind('/').map_or(0, |i| i + 1);
    let (name, tag) = match rest[name_end..].find(':') {
        Some(i) => (&rest[..name_end + i], Some(&rest[name_end + i + 1..])),
        None => (rest, None),
    };
    let tag_is_fine = tag.is_none_or(is_tag);
    let digest_is_fine = digest.is_none_or(is_digest);
    if !is_name(name) || !tag_is_fine || !digest_is_fine {
        return None;
    }
    Some(match (tag, digest) {
        (Some(tag), _) => tag == "latest",
        (None, Some(_)) => false,
        (None, None) => true,
    })
}

fn is_tag(tag: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (1..=128).contains(&tag.len()) && tag.starts_with(word) && tag.chars().all(|c| word(c) || c == '.' || c == '-')
}

/// `algorithm:hex`, with at least 32 digits.
fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else { return false };
    let part =
        |p: &str| p.starts_with(|c: char| c.is_ascii_alphabetic()) && p.chars().all(|c| c.is_ascii_alphanumeric());
    algorithm.split(['+', '.', '_', '-']).all(part) && hex.len() >= 32 && hex.chars().all(|c| c.is_ascii_hexdigit())
}

/// An optional registry host and lower-case path components.
fn is_name(name: &str) -> bool {
    if name.len() > 255 {
        return false;
    }
    let mut components: Vec<&str> = name.split('/').collect();
    let first = components[0];
    let is_host = first.contains('.') || first.contains(':') || first == "localhost" || first != first.to_lowercase();
    if components.len() > 1 && is_host {
        if !is_domain(first) {
            return false;
        }
        components.remove(0);
    }
    components.into_iter().all(is_component)
}

fn is_domain(host: &str) -> bool {
    let (host, port) = host.split_once(':').map_or((host, None), |(h, p)| (h, Some(p)));
    let label = |l: &str| {
        let ends = |c: char| c.is_ascii_alphanumeric();
        l.starts_with(ends) && l.ends_with(ends) && l.chars().all(|c| ends(c) || c == '-')
    };
    host.split('.').all(label) && port.is_none_or(|p| !p.is_empty() && p.chars().all(|c| c.is_ascii_digit()))
}

/// Lower-case letters and digits, joined by one dot, one or two underscores, or dashes.
fn is_component(component: &str) -> bool {
    let alnum = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if !component.starts_with(alnum) || !component.ends_with(alnum) {
        return false;
    }
    component
        .split(alnum)
        .filter(|separator| !separator.is_empty())
        .all(|separator| matches!(separator, "." | "_" | "__") || separator.chars().all(|c| c == '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_decides() {
        let digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
        let check = |image: &str, expect: &str| assert_eq!(pull_policy(image), expect, "{image}");
        check("example.test/app", "Always");
        check("app", "Always");
        check("example.test:5000/app:latest", "Always");
        check("example.test:5000/app", "Always");
        check("example.test/app:latest-1", "IfNotPresent");
        check(&format!("example.test/app@{digest}"), "IfNotPresent");
        check(&format!("example.test/app:latest@{digest}"), "Always");
        check("Not//Valid::Ref", "IfNotPresent");
        check("UPPER", "IfNotPresent");
        check("", "IfNotPresent");
    }
}
