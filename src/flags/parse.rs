//! From arguments to typed values, by the table: `--flag value`, `--flag=value`, booleans alone, `_` for `-`.

use std::{collections::BTreeMap, ffi::OsString, net::IpAddr};

use lexopt::Arg;

use super::{
    go::GoDuration,
    table::{self, Effect, FLAGS, Flag},
    value::{PortRange, SniPair, Value},
};

/// A command line that cannot be used. The texts are upstream's.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum FlagError {
    #[error("unknown flag: --{0}")]
    Unknown(String),
    #[error("unknown shorthand flag: '{0}' in -{0}")]
    UnknownShort(char),
    #[error("flag needs an argument: --{0}")]
    NeedsArgument(&'static str),
    #[error("invalid argument {value:?} for \"--{flag}\" flag: {reason}")]
    Invalid { flag: &'static str, value: String, reason: String },
    #[error("\"kube-apiserver\" does not take any arguments, got [{0:?}]")]
    Leftover(String),
    #[error("{0}")]
    Syntax(String),
}

/// All flags with their values: as given, else their defaults.
#[derive(Debug)]
pub(crate) struct Parsed {
    given: BTreeMap<&'static str, Value>,
}

/// Reads the arguments (without the program's name).
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Parsed, FlagError> {
    let mut parser = lexopt::Parser::from_args(arguments);
    let mut given: BTreeMap<&'static str, Value> = BTreeMap::new();
    while let Some(argument) = parser.next().map_err(|error| FlagError::Syntax(error.to_string()))? {
        let flag = match argument {
            Arg::Long(name) => table::find(name).ok_or_else(|| FlagError::Unknown(name.to_owned()))?,
            Arg::Short('h') => find("help"),
            Arg::Short('v') => find("v"),
            Arg::Short(other) => return Err(FlagError::UnknownShort(other)),
            // Upstream lets empty arguments pass.
            Arg::Value(value) if value.is_empty() => continue,
            Arg::Value(value) => return Err(FlagError::Leftover(value.to_string_lossy().into_owned())),
        };
        let text = match (parser.optional_value(), flag.kind.bare()) {
            (Some(text), _) => text,
            (None, Some(bare)) => bare.into(),
            (None, None) => next_argument(&mut parser).ok_or(FlagError::NeedsArgument(flag.name))?,
        };
        let value = read(flag, text)?;
        match given.get_mut(flag.name) {
            Some(before) => before.add(value),
            None => {
                given.insert(flag.name, value);
            }
        }
    }
    Ok(Parsed { given })
}

/// The next argument whatever it looks like: `--a -1` gives a the value -1, as pflag does.
fn next_argument(parser: &mut lexopt::Parser) -> Option<OsString> {
    parser.raw_args().ok()?.next()
}

fn read(flag: &Flag, text: OsString) -> Result<Value, FlagError> {
    let invalid = |value: String, reason: String| FlagError::Invalid { flag: flag.name, value, reason };
    let text = text
        .into_string()
        .map_err(|text| invalid(text.to_string_lossy().into_owned(), "not valid UTF-8".to_owned()))?;
    flag.kind.read(&text).map_err(|reason| invalid(text, reason))
}

fn find(name: &str) -> &'static Flag {
    table::find(name).expect("config asks only for flags of the table; its tests read every one")
}

/// Panics when the table and config disagree on a flag's kind, which the tests of config would show.
macro_rules! reader {
    ($name:ident, $variant:ident, $type:ty) => {
        pub(crate) fn $name(&self, flag: &str) -> $type {
            match self.value(flag) {
                Value::$variant(value) => value,
                other => unreachable!("--{flag} is {other:?}"),
            }
        }
    };
}

impl Parsed {
    reader!(bool, Bool, bool);
    reader!(text, Text, String);
    reader!(int, Int, i64);
    reader!(float, Float, f64);
    reader!(duration, Duration, GoDuration);
    reader!(ip, Ip, Option<IpAddr>);
    reader!(list, List, Vec<String>);
    reader!(ports, Ports, PortRange);
    reader!(map, Map, BTreeMap<String, String>);
    reader!(ints, Ints, Vec<i64>);
    reader!(pairs, Pairs, Vec<SniPair>);

    /// Whether the flag was given.
    pub(crate) fn is_given(&self, flag: &str) -> bool {
        self.given.contains_key(flag)
    }

    /// Flags that were given and do nothing, though they say something else than their default.
    pub(crate) fn without_effect(&self) -> impl Iterator<Item = &'static str> {
        let idle = FLAGS.iter().filter(|flag| flag.effect != Effect::Used && self.is_given(flag.name));
        idle.filter(|flag| self.value(flag.name) != Self::default_of(flag)).map(|flag| flag.name)
    }

    fn default_of(flag: &Flag) -> Value {
        flag.kind.default_value(flag.default).expect("a test reads every default")
    }

    /// All flags, and their values as text.
    pub(crate) fn all(&self) -> BTreeMap<&'static str, String> {
        FLAGS.iter().map(|flag| (flag.name, self.value(flag.name).to_string())).collect()
    }

    fn value(&self, name: &str) -> Value {
        let flag = find(name);
        let given = self.given.get(flag.name).cloned();
        given.unwrap_or_else(|| Self::default_of(flag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(arguments: &[&str]) -> Result<Parsed, FlagError> {
        parse(arguments.iter().map(OsString::from))
    }

    #[test]
    fn values_come_after_a_space_or_an_equals_sign() {
        for arguments in [
            &["--secure-port", "7443"][..],
            &["--secure-port=7443"],
            &["--secure_port=7443"],
            &["--secure-port=1", "--secure-port=7443"],
            &["", "--secure-port=7443"],
        ] {
            assert_eq!(given(arguments).expect("parses").int("secure-port"), 7443, "{arguments:?}");
        }
        let parsed = given(&["--livez-grace-period", "-5s", "--etcd-prefix="]).expect("parses");
        assert_eq!(parsed.duration("livez-grace-period"), GoDuration(-5_000_000_000));
        assert_eq!(parsed.text("etcd-prefix"), "");
        assert_eq!(parsed.int("secure-port"), 6443, "the default");
    }

    #[test]
    fn booleans_stand_alone_or_take_a_value() {
        for (argument, expect) in
            [("--profiling", true), ("--profiling=false", false), ("--profiling=T", true), ("--anonymous-auth=0", true)]
        {
            assert_eq!(given(&[argument]).expect("parses").bool("profiling"), expect, "{argument}");
        }
        assert_eq!(
            given(&["--profiling", "false"]).expect_err("false is left over"),
            FlagError::Leftover("false".into())
        );
    }

    #[test]
    fn lists_and_maps_accumulate_and_the_rest_is_replaced() {
        let parsed = given(&[
            "--etcd-servers=a,b",
            "--etcd-servers",
            "c",
            "--service-account-issuer=x,y",
            "--service-account-issuer=z",
            "--runtime-config=a=1",
            "--runtime-config=b=2",
            "--oidc-signing-algs=ES256",
            "--tls-sni-cert-key=a,b",
            "--tls-sni-cert-key=c,d:e",
        ])
        .expect("parses");
        assert_eq!(parsed.list("etcd-servers"), ["a", "b", "c"]);
        assert_eq!(parsed.list("service-account-issuer"), ["x,y", "z"]);
        assert_eq!(parsed.map("runtime-config").len(), 2);
        assert_eq!(parsed.list("oidc-signing-algs"), ["ES256"], "a given list replaces the default");
        assert_eq!(parsed.pairs("tls-sni-cert-key").len(), 2);
    }

    #[test]
    fn levels_have_a_short_form() {
        for arguments in [&["-v", "4"][..], &["-v4"], &["-v=4"], &["--v=4"]] {
            assert_eq!(given(arguments).expect("parses").int("v"), 4, "{arguments:?}");
        }
        assert!(given(&["-h"]).expect("parses").bool("help"));
        assert_eq!(given(&["--version=raw"]).expect("parses").text("version"), "raw");
        assert_eq!(given(&["--version"]).expect("parses").text("version"), "true");
    }

    #[test]
    fn what_cannot_be_used_is_said_in_one_line() {
        let check = |arguments: &[&str], expect: &str| {
            assert_eq!(given(arguments).expect_err("is refused").to_string(), expect);
        };
        check(&["--foo"], "unknown flag: --foo");
        check(&["--foo=bar"], "unknown flag: --foo");
        check(&["-x"], "unknown shorthand flag: 'x' in -x");
        check(&["--secure-port"], "flag needs an argument: --secure-port");
        check(&["-v"], "flag needs an argument: --v");
        check(&["serve"], "\"kube-apiserver\" does not take any arguments, got [\"serve\"]");
        check(&["--", "x"], "\"kube-apiserver\" does not take any arguments, got [\"x\"]");
        check(
            &["--secure-port=abc"],
            "invalid argument \"abc\" for \"--secure-port\" flag: strconv.ParseInt: parsing \"abc\": invalid syntax",
        );
        check(
            &["--request_timeout", "5"],
            "invalid argument \"5\" for \"--request-timeout\" flag: time: missing unit in duration \"5\"",
        );
        check(&["--bind-address=x"], "invalid argument \"x\" for \"--bind-address\" flag: failed to parse IP: \"x\"");
    }

    #[test]
    fn flags_without_effect_are_listed_once_when_given() {
        let parsed =
            given(&["--contention-profiling=false", "--contention-profiling=true", "--secure-port=0"]).expect("parses");
        assert_eq!(parsed.without_effect().collect::<Vec<_>>(), ["contention-profiling"]);
        let parsed = given(&["--feature-gates=", "--contention-profiling=false"]).expect("parses");
        assert_eq!(parsed.without_effect().count(), 0, "what says nothing needs no effect");
    }
}
