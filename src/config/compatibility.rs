//! Which version of Kubernetes the server behaves like, and which others must be able to work beside it.

use generic_server::features::{BINARY, Minor, OLDEST, Versions};

use super::Findings;
use crate::{flags::Parsed, version};

/// Reads `--emulated-version` and `--min-compatibility-version`.
pub(super) fn versions(flags: &Parsed, findings: &mut Findings) -> Versions {
    let mut version = |flag: &str| {
        of_kube(&flags.list(flag)).unwrap_or_else(|why| {
            findings.error(why);
            None
        })
    };
    let (emulated, compatible) = (version("emulated-version"), version("min-compatibility-version"));
    let mut versions = Versions::emulating(emulated.unwrap_or(BINARY));
    versions.compatible = compatible.unwrap_or(versions.compatible);
    versions.check().into_iter().for_each(|why| findings.error(why));
    for (flag, option) in [
        ("emulation-forward-compatible", "EmulationForwardCompatible"),
        ("runtime-config-emulation-forward-compatible", "RuntimeConfigEmulationForwardCompatible"),
    ] {
        if flags.bool(flag) && !versions.emulates() {
            findings.error(format!(
                "ServerRunOptions.{option} cannot be set to true if the emulation version is the same as the binary version"
            ));
        }
    }
    versions
}

/// The minor version that is given for this component: `1.35` or `kube=1.35`.
fn of_kube(list: &[String]) -> Result<Option<u32>, String> {
    let mut found: Option<u32> = None;
    for text in list {
        let (component, text) =
            text.split_once('=').map_or(("kube", text.as_str()), |(name, text)| (name.trim(), text.trim()));
        let numbers = version::numbers(text)?;
        if numbers.get(2).is_some_and(|patch| *patch != 0) {
            let shown: Vec<String> = numbers.iter().map(u64::to_string).collect();
            return Err(format!("patch version not allowed, got: {component}={}", shown.join(".")));
        }
        if component != "kube" {
            return Err(format!("component not registered: {component}"));
        }
        let minor = match numbers[..] {
            [1, minor, ..] => u32::try_from(minor).unwrap_or(u32::MAX),
            [major, minor, ..] => {
                let range = format!("[{}, {}.0]", Minor(OLDEST), Minor(BINARY));
                return Err(format!("emulation version {major}.{minor} is not between {range}"));
            }
            _ => unreachable!("a version has two numbers at least"),
        };
        if let Some(before) = found.replace(minor) {
            let (before, again) = (Minor(before), Minor(minor));
            return Err(format!("duplicate version flag, kube={before} and kube={again}"));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_version_is_read_and_what_is_none_is_refused_in_upstreams_words() {
        let check = |list: &[&str], expect: Result<Option<u32>, &str>| {
            let list: Vec<String> = list.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(of_kube(&list), expect.map_err(str::to_owned), "{list:?}");
        };
        check(&[], Ok(None));
        check(&["1.35"], Ok(Some(35)));
        check(&["kube=v1.34.0"], Ok(Some(34)));
        check(&["1.35.1"], Err("patch version not allowed, got: kube=1.35.1"));
        check(&["foo=1.35"], Err("component not registered: foo"));
        check(&["x"], Err("could not parse \"x\" as version"));
        check(&["1"], Err("illegal version string \"1\""));
        check(&["2.0"], Err("emulation version 2.0 is not between [1.33, 1.36.0]"));
        check(&["1.35", "kube=1.34"], Err("duplicate version flag, kube=1.35 and kube=1.34"));
    }
}
