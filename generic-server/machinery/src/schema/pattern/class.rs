//! Character classes of Go's expressions.

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

/// A class of ranges, bounds included.
pub(super) fn ranges(ranges: &[(char, char)]) -> ClassUnicode {
    ClassUnicode::new(ranges.iter().map(|&(a, b)| ClassUnicodeRange::new(a, b)))
}

/// Everything.
pub(super) fn any() -> ClassUnicode {
    ranges(&[('\0', char::MAX)])
}

const WORD: &[(char, char)] = &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')];

/// `\d`, `\s`, `\w` and their negations: ASCII alone.
pub(super) fn perl(letter: char) -> Option<ClassUnicode> {
    let mut class = match letter.to_ascii_lowercase() {
        'd' => ranges(&[('0', '9')]),
        's' => ranges(&[('\t', '\n'), ('\x0c', '\r'), (' ', ' ')]),
        'w' => ranges(WORD),
        _ => return None,
    };
    if letter.is_ascii_uppercase() {
        class.negate();
    }
    Some(class)
}

/// `[:alpha:]` and its like, `^` in front of the name negating.
pub(super) fn posix(name: &str) -> Option<ClassUnicode> {
    let plain = name.strip_prefix('^');
    let mut class = ranges(match plain.unwrap_or(name) {
        "alnum" => &[('0', '9'), ('A', 'Z'), ('a', 'z')],
        "alpha" => &[('A', 'Z'), ('a', 'z')],
        "ascii" => &[('\0', '\x7f')],
        "blank" => &[('\t', '\t'), (' ', ' ')],
        "cntrl" => &[('\0', '\x1f'), ('\x7f', '\x7f')],
        "digit" => &[('0', '9')],
        "graph" => &[('!', '~')],
        "lower" => &[('a', 'z')],
        "print" => &[(' ', '~')],
        "punct" => &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')],
        "space" => &[('\t', '\r'), (' ', ' ')],
        "upper" => &[('A', 'Z')],
        "word" => WORD,
        "xdigit" => &[('0', '9'), ('A', 'F'), ('a', 'f')],
        _ => return None,
    });
    if plain.is_some() {
        class.negate();
    }
    Some(class)
}

/// `\p{Name}`: a category or a script, spelt as Unicode does; `Any` is everything.
pub(in crate::schema) fn unicode(name: &str) -> Option<ClassUnicode> {
    if name == "Any" {
        return Some(any());
    }
    let spelt =
        name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(|c| c.is_ascii_alphabetic() || c == '_');
    if !spelt {
        return None;
    }
    let hir = regex_syntax::parse(&format!(r"\p{{{name}}}")).ok()?;
    match hir.into_kind() {
        HirKind::Class(Class::Unicode(class)) => Some(class),
        _ => None,
    }
}
