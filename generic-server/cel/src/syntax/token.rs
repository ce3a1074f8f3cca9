//! Text to tokens.

use machinery::Str;

use super::source::{Issue, Offset};

/// A token and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) at: Offset,
    pub(super) kind: TokenKind,
    pub(super) text: Str,
}

/// What a token is. Operators and brackets are known by their text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Symbol,
    Ident,
    /// `` `with-dash` ``, with the ticks: names that Kubernetes does not take
    Quoted,
    /// `true`, `false`, `null`, `in`
    Keyword,
    Int,
    Uint,
    Float,
    String,
    Bytes,
    End,
}

/// Those of two characters first.
const SYMBOLS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":", "+", "*",
    "/", "%",
];

/// Words that no variable can have for a name.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Whether a word is no name in expressions.
pub fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

/// The tokens, the last one `End`; what is none is noted and left out.
pub(super) fn tokens(text: &str, issues: &mut Vec<Issue>) -> Vec<Token> {
    let mut lexer = Lexer { chars: text.chars().collect(), at: 0 };
    let mut found = Vec::new();
    loop {
        lexer.skip_space();
        let at = lexer.at;
        if at >= lexer.chars.len() {
            found.push(Token { at: at as Offset, kind: TokenKind::End, text: Str::new_static("<EOF>") });
            return found;
        }
        match lexer.next() {
            Some((kind, text)) => found.push(Token { at: at as Offset, kind, text }),
            None => {
                let bad: String = lexer.chars[at..lexer.at].iter().collect();
                issues.push(Issue::new(at as Offset, format!("Syntax error: token recognition error at: '{bad}'")));
            }
        }
    }
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
}

impl Lexer {
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn skip_space(&mut self) {
        loop {
            match self.peek(0) {
                '\t' | ' ' | '\r' | '\n' | '\u{c}' => self.at += 1,
                '/' if self.peek(1) == '/' => {
                    while self.at < self.chars.len() && self.peek(0) != '\n' {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    fn taken(&self, from: usize) -> Str {
        self.chars[from..self.at].iter().collect::<String>().into()
    }

    fn next(&mut self) -> Option<(TokenKind, Str)> {
        if let Some(prefix) = self.string_prefix() {
            return self.string(prefix);
        }
        let c = self.peek(0);
        if c.is_ascii_alphabetic() || c == '_' {
            return Some(self.word());
        }
        if c.is_ascii_digit() || (c == '.' && self.peek(1).is_ascii_digit()) {
            return Some(self.number());
        }
        if c == '`' {
            return self.quoted();
        }
        let here = |s: &&&str| s.chars().enumerate().all(|(i, c)| self.peek(i) == c);
        match SYMBOLS.iter().find(here) {
            Some(symbol) => {
                self.at += symbol.len();
                Some((TokenKind::Symbol, Str::new_static(symbol)))
            }
            // A token that is cut short is told with the character that it breaks off at.
            None => {
                let begun = usize::from(matches!(c, '=' | '&' | '|'));
                self.at = (self.at + 1 + begun).min(self.chars.len());
                None
            }
        }
    }

    fn word(&mut self) -> (TokenKind, Str) {
        let from = self.at;
        while self.peek(0).is_ascii_alphanumeric() || self.peek(0) == '_' {
            self.at += 1;
        }
        let text = self.taken(from);
        let kind = if matches!(text.as_str(), "true" | "false" | "null" | "in") {
            TokenKind::Keyword
        } else {
            TokenKind::Ident
        };
        (kind, text)
    }

    fn digits(&mut self) {
        while self.peek(0).is_ascii_digit() {
            self.at += 1;
        }
    }

    fn number(&mut self) -> (TokenKind, Str) {
        let from = self.at;
        let mut kind = TokenKind::Int;
        if self.peek(0) == '0' && self.peek(1) == 'x' && self.peek(2).is_ascii_hexdigit() {
            self.at += 2;
            while self.peek(0).is_ascii_hexdigit() {
                self.at += 1;
            }
        } else {
            self.digits();
            if self.peek(0) == '.' && self.peek(1).is_ascii_digit() {
                kind = TokenKind::Float;
                self.at += 1;
                self.digits();
            }
            let sign = usize::from(matches!(self.peek(1), '+' | '-'));
            if matches!(self.peek(0), 'e' | 'E') && self.peek(1 + sign).is_ascii_digit() {
                kind = TokenKind::Float;
                self.at += 1 + sign;
                self.digits();
            }
        }
        if kind == TokenKind::Int && matches!(self.peek(0), 'u' | 'U') {
            self.at += 1;
            return (TokenKind::Uint, self.taken(from));
        }
        (kind, self.taken(from))
    }

    fn quoted(&mut self) -> Option<(TokenKind, Str)> {
        let from = self.at;
        self.at += 1;
        while self.peek(0).is_ascii_alphanumeric() || matches!(self.peek(0), '_' | '.' | '-' | '/' | ' ') {
            self.at += 1;
        }
        if self.peek(0) != '`' || self.at == from + 1 {
            return None;
        }
        self.at += 1;
        Some((TokenKind::Quoted, self.taken(from)))
    }

    /// The letters before a string's quote, if a string begins here.
    fn string_prefix(&self) -> Option<usize> {
        let letters = (0..2).take_while(|&i| matches!(self.peek(i), 'r' | 'R' | 'b' | 'B')).count();
        let same = letters == 2 && self.peek(0).eq_ignore_ascii_case(&self.peek(1));
        (matches!(self.peek(letters), '"' | '\'') && !same).then_some(letters)
    }

    /// The token's text is the literal as written, from the prefix to the last quote.
    fn string(&mut self, prefix: usize) -> Option<(TokenKind, Str)> {
        let from = self.at;
        let letters: String = self.chars[from..from + prefix].iter().collect();
        let raw = letters.contains(['r', 'R']);
        let kind = if letters.contains(['b', 'B']) { TokenKind::Bytes } else { TokenKind::String };
        self.at += prefix;
        let quote = self.peek(0);
        let width = if self.peek(1) == quote && self.peek(2) == quote { 3 } else { 1 };
        self.at += width;
        while self.at < self.chars.len() {
            let c = self.peek(0);
            if (0..width).all(|i| self.peek(i) == quote) {
                self.at += width;
                return Some((kind, self.taken(from)));
            }
            match c {
                '\n' | '\r' if width == 1 => {
                    self.at += 1;
                    return None;
                }
                '\\' if !raw => match self.escape() {
                    Ok(end) => self.at = end,
                    Err(end) => {
                        self.at = end;
                        break;
                    }
                },
                _ => self.at += 1,
            }
        }
        if width == 3 {
            // Two quotes are a string as well.
            self.at = from + prefix + 2;
            return Some((kind, self.taken(from)));
        }
        self.at = self.at.min(self.chars.len());
        None
    }

    /// Where the escape sequence that begins here ends; `Err`: behind the character that does not belong to it.
    fn escape(&self) -> Result<usize, usize> {
        let (radix, digits) = match self.peek(1) {
            'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '\\' | '\'' | '"' | '`' | '?' => (0, 0),
            'x' | 'X' => (16, 2),
            'u' => (16, 4),
            'U' => (16, 8),
            '0'..='3' => (8, 2),
            _ => return Err(self.at + 2),
        };
        let bad = (2..2 + digits).find(|i| !self.peek(*i).is_digit(radix));
        bad.map_or(Ok(self.at + 2 + digits), |i| Err(self.at + i + 1))
    }
}

/// The value of a string or bytes literal, as written. `Err`: why it is none.
pub(super) fn unescape(written: &str, bytes: bool) -> Result<Vec<u8>, &'static str> {
    let start = written.find(['"', '\'']).expect("a literal has quotes");
    let raw = written[..start].contains(['r', 'R']);
    let body = &written[start..];
    let width = if body.len() >= 6 && (body.starts_with("\"\"\"") || body.starts_with("'''")) { 3 } else { 1 };
    let body = &body[width..body.len() - width];
    let body = if body.contains('\r') { body.replace("\r\n", "\n").replace('\r', "\n") } else { body.to_owned() };
    if raw || !body.contains('\\') {
        return Ok(body.into_bytes());
    }
    let mut out = Vec::with_capacity(body.len());
    let mut chars = body.chars();
    while let Some(c) = chars.next() {
        if c == '\\' {
            escape(&mut chars, bytes, &mut out)?;
        } else {
            push(&mut out, c);
        }
    }
    Ok(out)
}

fn push(out: &mut Vec<u8>, c: char) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

fn escape(chars: &mut std::str::Chars<'_>, bytes: bool, out: &mut Vec<u8>) -> Result<(), &'static str> {
    const BAD: &str = "unable to unescape string";
    let simple = match chars.clone().next().ok_or(BAD)? {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 11,
        c @ ('\\' | '\'' | '"' | '`' | '?') => c as u8,
        kind => {
            let mut ahead = chars.clone();
            ahead.next();
            *chars = ahead;
            let mut number = |first, digits| {
                let radix = if matches!(kind, '0'..='3') { 8 } else { 16 };
                let mut value: u32 = first;
                for _ in 0..digits {
                    let digit = chars.next().and_then(|c| c.to_digit(radix)).ok_or(BAD)?;
                    value = value.checked_mul(radix).ok_or(BAD)? + digit;
                }
                Ok(value)
            };
            let (value, of_byte) = match kind {
                'x' | 'X' => (number(0, 2)?, true),
                'u' if !bytes => (number(0, 4)?, false),
                'U' if !bytes => (number(0, 8)?, false),
                '0'..='3' => (number(kind as u32 - '0' as u32, 2)?, true),
                _ => return Err(BAD),
            };
            if bytes && of_byte {
                out.push(u8::try_from(value).map_err(|_| BAD)?);
            } else {
                push(out, char::from_u32(value).ok_or(BAD)?);
            }
            return Ok(());
        }
    };
    chars.next();
    out.push(simple);
    Ok(())
}
