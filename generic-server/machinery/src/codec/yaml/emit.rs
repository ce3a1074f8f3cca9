//! Writes scalars and indents, and folds lines after column 80, as libyaml's emitter does.

use super::style::{Style, is_break, is_printable, style_of};

/// Lines are folded at the first space beyond this column.
const BEST_WIDTH: usize = 80;
/// A longer key is written as `? key`.
const LONGEST_SIMPLE_KEY: usize = 128;

/// The text so far, and what the next token must know of it.
#[derive(Default)]
pub(super) struct Emitter {
    out: String,
    /// The column of the next character, in characters.
    column: usize,
    /// The last thing written was white space.
    whitespace: bool,
    /// The line has only indentation (and `-`, `?`, `:` that count as it) so far.
    pub(super) indention: bool,
}

impl Emitter {
    pub(super) fn new() -> Self {
        Emitter { whitespace: true, indention: true, ..Emitter::default() }
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        if self.column > 0 {
            self.out.push('\n');
        }
        self.out.into_bytes()
    }

    fn put(&mut self, c: char) {
        self.out.push(c);
        self.column += 1;
    }

    fn put_break(&mut self, c: char) {
        self.out.push(c);
        self.column = 0;
    }

    /// Goes to column `indent` of this line if it is still free, else of the next.
    pub(super) fn indent(&mut self, indent: usize) {
        if !self.indention || self.column > indent || (self.column == indent && !self.whitespace) {
            self.put_break('\n');
        }
        while self.column < indent {
            self.put(' ');
        }
        self.whitespace = true;
        self.indention = true;
    }

    /// A space if one is needed, then an indicator.
    pub(super) fn indicator(&mut self, text: &str, needs_space: bool, is_indention: bool) {
        if needs_space && !self.whitespace {
            self.put(' ');
        }
        text.chars().for_each(|c| self.put(c));
        self.whitespace = false;
        self.indention &= is_indention;
    }

    /// Whether a key can be written as `key:`.
    pub(super) fn is_simple_key(text: &str) -> bool {
        text.len() <= LONGEST_SIMPLE_KEY && !text.contains(is_break)
    }

    /// A string. `indent` is the column of its further lines; a `key` is never folded.
    pub(super) fn string(&mut self, text: &str, indent: usize, key: bool) {
        match style_of(text, key) {
            Style::Plain => self.plain(text, indent, key),
            Style::SingleQuoted => self.single_quoted(text, indent, key),
            Style::DoubleQuoted => self.double_quoted(text, indent, key),
            Style::Literal => self.literal(text, indent),
        }
    }

    /// A scalar that needs no quotes.
    pub(super) fn plain(&mut self, text: &str, indent: usize, key: bool) {
        if !self.whitespace {
            self.put(' ');
        }
        let mut after_space = false;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            if c == ' ' && !key && !after_space && self.column > BEST_WIDTH && chars.peek() != Some(&' ') {
                self.indent(indent);
            } else {
                self.put(c);
            }
            after_space = c == ' ';
            self.indention &= after_space;
        }
        self.whitespace = false;
        self.indention = false;
    }

    fn single_quoted(&mut self, text: &str, indent: usize, key: bool) {
        self.indicator("'", true, false);
        let (mut after_space, mut after_break, mut first) = (false, false, true);
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let next = chars.peek().copied();
            let inside = !first && next.is_some();
            first = false;
            if c == ' ' {
                if !key && !after_space && self.column > BEST_WIDTH && inside && next != Some(' ') {
                    self.indent(indent);
                } else {
                    self.put(c);
                }
                after_space = true;
            } else if is_break(c) {
                self.put_break(c);
                self.indention = true;
                after_break = true;
            } else {
                if after_break {
                    self.indent(indent);
                }
                if c == '\'' {
                    self.put('\'');
                }
                self.put(c);
                self.indention = false;
                (after_space, after_break) = (false, false);
            }
        }
        self.indicator("'", false, false);
    }

    fn double_quoted(&mut self, text: &str, indent: usize, key: bool) {
        self.indicator("\"", true, false);
        let (mut after_space, mut first) = (false, true);
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let next = chars.peek().copied();
            let inside = !first && next.is_some();
            first = false;
            if !is_printable(c) || is_break(c) || matches!(c, '"' | '\\' | '\u{feff}') {
                self.escape(c);
                after_space = false;
            } else if c == ' ' {
                if !key && !after_space && self.column > BEST_WIDTH && inside {
                    self.indent(indent);
                    if next == Some(' ') {
                        self.put('\\');
                    }
                } else {
                    self.put(c);
                }
                after_space = true;
            } else {
                self.put(c);
                after_space = false;
            }
        }
        self.indicator("\"", false, false);
    }

    fn escape(&mut self, c: char) {
        let short = match c {
            '\0' => '0',
            '\u{7}' => 'a',
            '\u{8}' => 'b',
            '\t' => 't',
            '\n' => 'n',
            '\u{b}' => 'v',
            '\u{c}' => 'f',
            '\r' => 'r',
            '\u{1b}' => 'e',
            '"' | '\\' => c,
            '\u{85}' => 'N',
            '\u{2028}' => 'L',
            '\u{2029}' => 'P',
            _ => {
                let code = match c as u32 {
                    n @ ..0x100 => format!("\\x{n:02X}"),
                    n @ ..0x10000 => format!("\\u{n:04X}"),
                    n => format!("\\U{n:08X}"),
                };
                code.chars().for_each(|c| self.put(c));
                return;
            }
        };
        self.put('\\');
        self.put(short);
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.indicator("|", true, false);
        if text.starts_with(|c| c == ' ' || is_break(c)) {
            self.indicator("2", false, false);
        }
        let mut ends = text.chars().rev();
        match (ends.next().map(is_break), ends.next().map(is_break)) {
            (Some(true), None | Some(true)) => self.indicator("+", false, false),
            (Some(true), Some(false)) => {}
            _ => self.indicator("-", false, false),
        }
        self.put_break('\n');
        self.indention = true;
        self.whitespace = true;
        let mut after_break = true;
        for c in text.chars() {
            if is_break(c) {
                self.put_break(c);
                self.indention = true;
                after_break = true;
            } else {
                if after_break {
                    self.indent(indent);
                }
                self.put(c);
                self.indention = false;
                after_break = false;
            }
        }
    }
}
