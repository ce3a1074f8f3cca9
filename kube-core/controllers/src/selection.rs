//! `--controllers`: which controllers run, in kube-controller-manager's syntax.

use crate::names::{NAMES, Name};

/// A name of a controller that nobody has. Shown, it is what kube-controller-manager says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not in the list of known controllers")]
pub struct UnknownController(pub String);

/// What the flag says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection(Vec<Item>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    All { on: bool },
    One { name: &'static str, on: bool },
}

impl Selection {
    /// Reads the flag's items: `*` and `-*` (all that upstream has on), `name`, `-name`. The first one that is about a controller decides, those
    /// with a name before those without; none: it does not run.
    ///
    /// # Errors
    /// All names that nobody has.
    pub fn parse<S: AsRef<str>>(items: &[S]) -> Result<Self, Vec<UnknownController>> {
        let (mut parsed, mut unknown) = (Vec::new(), Vec::new());
        for item in items {
            let item = item.as_ref();
            let (name, on) = item.strip_prefix('-').map_or((item, true), |name| (name, false));
            if name == "*" {
                parsed.push(Item::All { on });
                continue;
            }
            match NAMES.iter().find(|known| known.is(name)) {
                Some(Name { name, .. }) => parsed.push(Item::One { name, on }),
                None => unknown.push(UnknownController(name.to_owned())),
            }
        }
        if unknown.is_empty() { Ok(Selection(parsed)) } else { Err(unknown) }
    }

    /// Whether a controller runs.
    pub fn has(&self, name: &str) -> bool {
        let named = self.0.iter().find_map(|item| match item {
            Item::One { name: known, on } if *known == name => Some(*on),
            _ => None,
        });
        let in_all = NAMES.iter().any(|known| known.name == name && known.in_all);
        let all = self.0.iter().find_map(|item| match item {
            Item::All { on } => Some(*on && in_all),
            Item::One { .. } => None,
        });
        named.or(all).unwrap_or(false)
    }

    /// Whether any controller runs.
    pub fn is_empty(&self) -> bool {
        !NAMES.iter().any(|known| self.has(known.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_count_more_than_stars_and_the_first_decides() {
        let check = |items: &[&str], namespace: bool, garbage: bool| {
            let selection = Selection::parse(items).expect("known names");
            let found = (selection.has("namespace-controller"), selection.has("garbage-collector-controller"));
            assert_eq!(found, (namespace, garbage), "{items:?}");
        };
        check(&[], false, false);
        check(&["*"], true, true);
        check(&["-*"], false, false);
        check(&["namespace-controller"], true, false);
        check(&["namespace"], true, false);
        check(&["*", "-namespace-controller"], false, true);
        check(&["-namespace", "*"], false, true);
        check(&["-*", "garbagecollector"], false, true);
        check(&["namespace", "-namespace"], true, false);
        assert!(
            !Selection::parse(&["*"]).expect("known").has("token-cleaner-controller"),
            "it is named or it does not run"
        );
        assert!(Selection::parse(&["*", "tokencleaner"]).expect("known").has("token-cleaner-controller"));
        assert!(Selection::parse(&["-*"]).expect("known").is_empty());
    }

    #[test]
    fn unknown_names_are_all_told() {
        let unknown = Selection::parse(&["*", "nosuch", "-deployment-controller"]).expect_err("unknown");
        let expect = [
            "\"nosuch\" is not in the list of known controllers",
            "\"deployment-controller\" is not in the list of known controllers",
        ];
        assert_eq!(unknown.iter().map(ToString::to_string).collect::<Vec<_>>(), expect);
    }
}
