//! Which of YAML's styles can hold a string, as libyaml decides it.

use super::resolve::{Scalar, resolve};

/// How a scalar is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Literal,
}

/// The style of a string: literal if it has several lines, plain if it reads back as a string, double-quoted if it would
/// read back as something else; each only where its characters allow it. `key` is a key that stays on its line.
pub(super) fn style_of(text: &str, key: bool) -> Style {
    let allows = Allows::of(text);
    if key && allows.several_lines {
        return Style::DoubleQuoted;
    }
    let wanted = if text.contains('\n') {
        Style::Literal
    } else if matches!(resolve(text), Scalar::Text(_)) && !is_base_60(text) {
        Style::Plain
    } else {
        Style::DoubleQuoted
    };
    match wanted {
        Style::Plain if allows.plain => Style::Plain,
        Style::Plain if allows.single_quoted => Style::SingleQuoted,
        Style::Literal if allows.literal && !key => Style::Literal,
        _ => Style::DoubleQuoted,
    }
}

/// Whether YAML 1.1 would read a number of base 60 (`1:30`), which go-yaml writes quoted for the sake of others.
fn is_base_60(text: &str) -> bool {
    let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !rest.starts_with(|c: char| c.is_ascii_digit()) {
        return false;
    }
    let mut parts = rest.split(':');
    let first_is_digits = parts.next().is_some_and(|p| p.bytes().all(|b| b.is_ascii_digit() || b == b'_'));
    let mut parts = parts.peekable();
    if !first_is_digits || parts.peek().is_none() {
        return false;
    }
    while let Some(part) = parts.next() {
        let digits = match part.split_once('.') {
            Some((digits, fraction)) if parts.peek().is_none() => {
                if !fraction.bytes().all(|b| b.is_ascii_digit() || b == b'_') {
                    return false;
                }
                digits
            }
            _ => part,
        };
        let fits = matches!(digits.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9']);
        if !fits {
            return false;
        }
    }
    true
}

/// Whether a character is written as it is. A tab is not.
pub(super) fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}' | '\u{10000}'..)
}

pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// What a text's characters allow, in a block.
struct Allows {
    plain: bool,
    single_quoted: bool,
    literal: bool,
    several_lines: bool,
}

impl Allows {
    fn of(text: &str) -> Self {
        if text.is_empty() {
            return Allows { plain: true, single_quoted: true, literal: false, several_lines: false };
        }
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let (mut special, mut several_lines, mut space_break, mut break_space) = (false, false, false, false);
        let (mut previous_space, mut previous_break, mut after_blank) = (false, false, true);
        let mut chars = text.chars().peekable();
        let mut first = true;
        while let Some(c) = chars.next() {
            let before_blank = chars.peek().is_none_or(|c| matches!(c, ' ' | '\t'));
            indicators |= match c {
                '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`'
                    if first =>
                {
                    true
                }
                '?' | '-' if first => before_blank,
                ':' => before_blank,
                '#' => after_blank,
                _ => false,
            };
            // Differs: YAML 1.2 has no line breaks but these two, so others are escaped, which all readers read alike.
            special |= !is_printable(c) || (is_break(c) && !matches!(c, '\n' | '\r'));
            if c == ' ' {
                break_space |= previous_break;
                (previous_space, previous_break) = (true, false);
            } else if is_break(c) {
                several_lines = true;
                space_break |= previous_space;
                (previous_space, previous_break) = (false, true);
            } else {
                (previous_space, previous_break) = (false, false);
            }
            after_blank = matches!(c, ' ' | '\t') || is_break(c);
            first = false;
        }
        let edge = |c: char| c == ' ' || is_break(c);
        let mangled = space_break || special;
        Allows {
            plain: !(text.starts_with(edge)
                || text.ends_with(edge)
                || break_space
                || mangled
                || several_lines
                || indicators),
            single_quoted: !(break_space || mangled),
            literal: !(text.ends_with(' ') || mangled),
            several_lines,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_get_the_style_that_keeps_them() {
        for (text, want) in [
            ("", Style::DoubleQuoted),
            ("a", Style::Plain),
            ("a b", Style::Plain),
            ("a: b", Style::SingleQuoted),
            ("a:b", Style::Plain),
            ("a #b", Style::SingleQuoted),
            ("a#b", Style::Plain),
            ("a,b", Style::Plain),
            ("- a", Style::SingleQuoted),
            ("-a", Style::Plain),
            ("*a", Style::SingleQuoted),
            ("{}", Style::SingleQuoted),
            (" a", Style::SingleQuoted),
            ("a ", Style::SingleQuoted),
            ("---", Style::SingleQuoted),
            ("a\tb", Style::DoubleQuoted),
            ("true", Style::DoubleQuoted),
            ("y", Style::DoubleQuoted),
            ("12", Style::DoubleQuoted),
            ("0x1", Style::DoubleQuoted),
            ("1e3", Style::DoubleQuoted),
            ("1:30", Style::DoubleQuoted),
            ("1:30.5", Style::DoubleQuoted),
            ("1:90", Style::Plain),
            ("2001-01-02", Style::DoubleQuoted),
            ("null", Style::DoubleQuoted),
            ("é", Style::Plain),
            ("\u{feff}", Style::DoubleQuoted),
            ("a\nb", Style::Literal),
            ("a\nb\n", Style::Literal),
            ("a \nb", Style::DoubleQuoted),
            ("a\n b", Style::Literal),
            ("a\nb ", Style::DoubleQuoted),
        ] {
            assert_eq!(style_of(text, false), want, "{text:?}");
        }
        assert_eq!(style_of("a\nb", true), Style::DoubleQuoted);
    }
}
