//! Which version of Kubernetes the server behaves like. Everything here speaks of minor versions of Kubernetes 1.

use std::fmt;

/// The minor version that this server is.
pub const BINARY: u32 = 36;
/// The oldest one that it can behave like, or stay compatible with.
pub const OLDEST: u32 = BINARY - 3;

/// A minor version of Kubernetes 1, as it is written: `1.36`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Minor(pub u32);

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

/// The versions that a server is to behave by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// Whose APIs and features are there: `--emulated-version`.
    pub emulated: u32,
    /// What others in the control plane may be: objects are stored in versions that it knows. `--min-compatibility-version`.
    pub compatible: u32,
}

impl Versions {
    /// Of a server that behaves like a minor version; others may be one minor version older.
    pub fn emulating(emulated: u32) -> Self {
        Versions { emulated, compatible: emulated.saturating_sub(1).max(OLDEST) }
    }

    /// Whether the server behaves like another version than its own.
    pub fn emulates(&self) -> bool {
        self.emulated != BINARY
    }

    /// What is wrong with them, in upstream's words.
    pub fn check(&self) -> Vec<String> {
        let (emulated, compatible, oldest) = (Minor(self.emulated), Minor(self.compatible), Minor(OLDEST));
        let mut wrong = Vec::new();
        if !(OLDEST..=BINARY).contains(&self.emulated) {
            wrong.push(format!("emulation version {emulated} is not between [{oldest}, {}.0]", Minor(BINARY)));
        }
        if !(OLDEST..=self.emulated).contains(&self.compatible) {
            let of = "minCompatibilityVersion version";
            wrong.push(format!("{of} {compatible} is not between [{oldest}, {emulated}]"));
        }
        wrong
    }
}

impl Default for Versions {
    fn default() -> Self {
        Versions::emulating(BINARY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_within_three_of_the_servers_own_and_in_order() {
        let check = |emulated: u32, compatible: Option<u32>, expect: &[&str]| {
            let default = Versions::emulating(emulated);
            let versions = Versions { emulated, compatible: compatible.unwrap_or(default.compatible) };
            assert_eq!(versions.check(), expect);
        };
        check(36, None, &[]);
        check(36, Some(36), &[]);
        check(33, None, &[]);
        check(34, Some(35), &["minCompatibilityVersion version 1.35 is not between [1.33, 1.34]"]);
        check(36, Some(32), &["minCompatibilityVersion version 1.32 is not between [1.33, 1.36]"]);
        check(37, None, &["emulation version 1.37 is not between [1.33, 1.36.0]"]);
        check(
            32,
            None,
            &[
                "emulation version 1.32 is not between [1.33, 1.36.0]",
                "minCompatibilityVersion version 1.33 is not between [1.33, 1.32]",
            ],
        );
        assert_eq!(Versions::default(), Versions { emulated: 36, compatible: 35 });
    }
}
