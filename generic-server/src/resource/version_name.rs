//! The names of versions, and the order in which they stand.

use std::cmp::Ordering;

/// Orders version names, the most mature first: `v2 v1 v11beta2 v10beta3 v12alpha1 foo1 foo10`.
pub fn compare_versions(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Maturity (2 stable, 1 beta, 0 alpha), major and minor number of `v1`, `v1beta2`; `None` for any other name.
fn parse(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let (major, rest) = number(rest)?;
    let (maturity, rest) = match rest {
        "" => return Some((2, major, 0)),
        _ => match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
            (Some(rest), _) => (1, rest),
            (_, Some(rest)) => (0, rest),
            _ => return None,
        },
    };
    let (minor, rest) = number(rest)?;
    rest.is_empty().then_some((maturity, major, minor))
}

/// A positive number without leading zeros, and what follows it.
fn number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    if digits.starts_with('0') {
        return None;
    }
    Some((digits.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_come_first_and_other_names_last() {
        let mut versions = [
            "foo10",
            "v1",
            "foo1",
            "v11alpha2",
            "v3beta1",
            "v20",
            "v10",
            "v12alpha1",
            "v11beta2",
            "v10beta3",
            "v0",
            "v1beta",
        ];
        versions.sort_by(|a, b| compare_versions(a, b));
        assert_eq!(
            versions,
            [
                "v20",
                "v10",
                "v1",
                "v11beta2",
                "v10beta3",
                "v3beta1",
                "v12alpha1",
                "v11alpha2",
                "foo1",
                "foo10",
                "v0",
                "v1beta"
            ]
        );
    }
}
