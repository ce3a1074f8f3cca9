//! Regular expressions in Go's RE2 syntax, as the API's patterns are: `pattern` in schemas, `matches()` in CEL.

pub(super) mod class;
mod parse;

use std::fmt;
use std::sync::{Arc, OnceLock};

use regex_automata::meta;

use crate::Str;

/// What compiled programs may take each: patterns come from clients.
const PROGRAM_BYTES: usize = 16 << 20;
const CACHE_BYTES: usize = 256 << 10;

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct Regex(meta::Regex);

/// Why an expression is refused, in the words of Go's regexp package: ``error parsing regexp: missing closing ]: `[a` ``.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error parsing regexp: {code}: `{expression}`")]
pub struct RegexError {
    /// Go's name of the fault.
    pub code: &'static str,
    /// The part of the expression that is at fault.
    pub expression: String,
}

impl Regex {
    /// Compiles an expression. Differs: groups nest 250 deep at most (Go: 1000).
    pub fn new(expression: &str) -> Result<Self, RegexError> {
        let hir = parse::parse(expression)?;
        let config = meta::Config::new()
            .nfa_size_limit(Some(PROGRAM_BYTES))
            .onepass_size_limit(Some(CACHE_BYTES))
            .hybrid_cache_capacity(CACHE_BYTES)
            .dfa(false);
        let built = meta::Builder::new().configure(config).build_from_hir(&hir);
        built.map(Regex).map_err(|_| RegexError { code: "expression too large", expression: expression.into() })
    }

    /// Whether an expression can be compiled, without doing so where its text alone tells: only counted repetitions make
    /// much of little.
    pub fn check(expression: &str) -> Result<(), RegexError> {
        if expression.contains('{') { Self::new(expression).map(|_| ()) } else { parse::parse(expression).map(|_| ()) }
    }

    /// Whether the expression matches anywhere in `text`.
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }

    /// The expression as regex-automata has it.
    pub fn inner(&self) -> &meta::Regex {
        &self.0
    }
}

/// An expression that is compiled when it is first used, once for all clones.
#[derive(Clone)]
pub struct Pattern {
    text: Str,
    compiled: Arc<OnceLock<Result<Regex, RegexError>>>,
}

impl Pattern {
    /// An expression as written.
    pub fn new(text: Str) -> Self {
        Pattern { text, compiled: Arc::default() }
    }

    /// The expression as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The compiled expression.
    pub fn regex(&self) -> Result<&Regex, &RegexError> {
        self.compiled.get_or_init(|| Regex::new(&self.text)).as_ref()
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_mean_what_they_mean_in_go() {
        let check = |expression: &str, matching: &[&str], other: &[&str]| {
            let regex = Regex::new(expression).unwrap_or_else(|e| panic!("{expression}: {e}"));
            matching.iter().for_each(|t| assert!(regex.is_match(t), "{expression} on {t:?}"));
            other.iter().for_each(|t| assert!(!regex.is_match(t), "{expression} on {t:?}"));
        };
        check("^[a-z]+-[0-9]{2}$", &["ab-12"], &["ab-123", "Ab-12", "ab-12\n"]);
        check("b+", &["abc"], &["ac"]);
        check(r"\d\w\s", &["1a "], &["٣a ", "1é ", "1a\u{a0}"]);
        check("^(?i)straße$", &["STRAßE", "straẞe"], &["strasse"]);
        check("^(?i:k)s$", &["Ks", "\u{212a}s"], &["KS"]);
        check("^a.c$", &["abc", "a☃c"], &["a\nc"]);
        check("(?s)^a.c$", &["a\nc"], &[]);
        check("(?m)^b$", &["a\nb\nc"], &["ab"]);
        check(r"^\Qa.b\E+$", &["a.bb"], &["axb"]);
        check(r"^[[:alpha:]_][^[:space:]]$", &["_x"], &["1x", "a "]);
        check("^[]a]$", &["]", "a"], &["b"]);
        check("^[a&&b]$", &["&", "a", "b"], &["c"]);
        check("^[[]$", &["["], &[]);
        check("^[a-]$", &["a", "-"], &["b"]);
        check("^a{,2}$", &["a{,2}"], &["aa"]);
        check("^a{2,}?$", &["aa", "aaa"], &["a"]);
        check(r"^\x41\x{1F600}\101\a$", &["A😀A\u{7}"], &[]);
        check(r"^\p{Greek}\pN\P{L}\p{^Lu}$", &["α1-a"], &["a1-a"]);
        check("^(|a|b)(?P<n>c)(?<m>d)$", &["cd", "acd"], &["d"]);
        check(r"\bfoo\b", &["a foo b", "éfooé"], &["afoo"]);
        check("", &["", "x"], &[]);
        check("^[^a]$", &["\n", "b"], &["a"]);
        check("(?P<a>x)(?P<a>y)", &["xy"], &[]);
        check("^(?U)a+?$", &["aaa"], &["b"]);
    }

    #[test]
    fn what_go_refuses_is_refused_in_its_words() {
        let check = |expression: &str, want: &str| {
            let error = Regex::new(expression).map(|_| expression).expect_err("refused");
            assert_eq!(Regex::check(expression), Err(error.clone()));
            assert_eq!(error.to_string(), format!("error parsing regexp: {want}"));
        };
        check("[a", "missing closing ]: `[a`");
        check("(a", "missing closing ): `(a`");
        check("a)", "unexpected ): `a)`");
        check("*a", "missing argument to repetition operator: `*`");
        check("(+)", "missing argument to repetition operator: `+`");
        check("a**", "invalid nested repetition operator: `**`");
        check("x{2}{3}", "invalid nested repetition operator: `{2}{3}`");
        check("a{1001}", "invalid repeat count: `{1001}`");
        check("a{2,1}", "invalid repeat count: `{2,1}`");
        check("(a{100}){100}", "invalid repeat count: `{100}`");
        check("[z-a]", "invalid character class range: `z-a`");
        check("[[:foo:]]", "invalid character class range: `[:foo:]`");
        check(r"\p{Nope}", r"invalid character class range: `\p{Nope}`");
        check(r"a\", "trailing backslash at end of expression: ``");
        check(r"\y", r"invalid escape sequence: `\y`");
        check(r"\8", r"invalid escape sequence: `\8`");
        check("(?=a)", "invalid or unsupported Perl syntax: `(?=`");
        check("(?x)a", "invalid or unsupported Perl syntax: `(?x`");
        check("(?P<n", "invalid named capture: `(?P<n`");
    }
}
