//! Parses Go's expressions (package regexp, flags of regexp.Compile) into regex-syntax's HIR.

use regex_syntax::hir::{Capture, Class, ClassUnicode, ClassUnicodeRange, Hir, Look, Repetition};

use super::{RegexError, class};

const MAX_DEPTH: usize = 250;
const MAX_REPEAT: u32 = 1000;

#[derive(Clone, Copy, Default)]
struct Flags {
    fold: bool,
    multi_line: bool,
    dot_all: bool,
    ungreedy: bool,
}

/// An expression, and how often its parts are repeated at most, which Go limits.
struct Node {
    hir: Hir,
    repeats: u32,
}

struct Parser<'a> {
    whole: &'a str,
    rest: &'a str,
    flags: Flags,
    groups: u32,
    depth: usize,
}

type Result<T> = std::result::Result<T, RegexError>;

fn error<T>(code: &'static str, expression: &str) -> Result<T> {
    Err(RegexError { code, expression: expression.into() })
}

pub(super) fn parse(expression: &str) -> Result<Hir> {
    let mut parser = Parser { whole: expression, rest: expression, flags: Flags::default(), groups: 0, depth: 0 };
    let node = parser.alternation()?;
    if parser.rest.is_empty() { Ok(node.hir) } else { error("unexpected )", expression) }
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn eat(&mut self, prefix: &str) -> bool {
        match self.rest.strip_prefix(prefix) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// What was read since `before`.
    fn since(&self, before: &'a str) -> &'a str {
        &before[..before.len() - self.rest.len()]
    }

    /// Up to the end or an unmatched `)`.
    fn alternation(&mut self) -> Result<Node> {
        let mut branches = Vec::new();
        let mut repeats = 1;
        loop {
            let mut parts = Vec::new();
            while let Some(c) = self.peek().filter(|c| !matches!(c, '|' | ')')) {
                if let Some(node) = self.repeated(c)? {
                    repeats = repeats.max(node.repeats);
                    parts.push(node.hir);
                }
            }
            branches.push(Hir::concat(parts));
            if !self.eat("|") {
                return Ok(Node { hir: Hir::alternation(branches), repeats });
            }
        }
    }

    /// An atom with its repetition, if it has one; `None` for what only changes flags.
    fn repeated(&mut self, first: char) -> Result<Option<Node>> {
        if first == '*' || first == '+' || first == '?' {
            return error("missing argument to repetition operator", &self.rest[..1]);
        }
        if first == '{'
            && let Some((_, _, text)) = repeat_count(self.rest)
        {
            return error("missing argument to repetition operator", text);
        }
        if self.rest.starts_with(r"\Q") {
            return self.quoted().map(Some);
        }
        match self.atom(first)? {
            Some(node) => self.repetition(node).map(Some),
            None if self.rest.starts_with(['*', '+', '?']) => {
                error("missing argument to repetition operator", &self.rest[..1])
            }
            None => Ok(None),
        }
    }

    /// `\Q…\E`; a repetition that follows belongs to the last character.
    fn quoted(&mut self) -> Result<Node> {
        self.rest = &self.rest[2..];
        let (text, rest) = self.rest.split_once(r"\E").unwrap_or((self.rest, ""));
        self.rest = rest;
        let mut parts: Vec<Hir> = text.chars().map(|c| self.literal(c)).collect();
        let Some(last) = parts.pop() else { return Ok(Node { hir: Hir::empty(), repeats: 1 }) };
        let last = self.repetition(Node { hir: last, repeats: 1 })?;
        parts.push(last.hir);
        Ok(Node { hir: Hir::concat(parts), repeats: last.repeats })
    }

    fn repetition(&mut self, node: Node) -> Result<Node> {
        let before = self.rest;
        let Some((min, max)) = self.operator()? else { return Ok(node) };
        let lazy = self.eat("?");
        let again = self.rest;
        if self.operator()?.is_some() {
            return error("invalid nested repetition operator", self.since(before));
        }
        let operator = &before[..before.len() - again.len()];
        let mut repeats = node.repeats;
        if operator.starts_with('{') {
            repeats = repeats.saturating_mul(max.unwrap_or(min).max(1));
            if repeats > MAX_REPEAT {
                return error("invalid repeat count", operator.trim_end_matches('?'));
            }
        }
        let greedy = lazy == self.flags.ungreedy;
        let hir = Hir::repetition(Repetition { min, max, greedy, sub: Box::new(node.hir) });
        Ok(Node { hir, repeats })
    }

    /// A repetition operator, without what makes it lazy.
    fn operator(&mut self) -> Result<Option<(u32, Option<u32>)>> {
        let bounds = match self.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => {
                let Some((min, max, text)) = repeat_count(self.rest) else { return Ok(None) };
                let fits = min <= MAX_REPEAT && max.is_none_or(|max| min <= max && max <= MAX_REPEAT);
                if !fits {
                    return error("invalid repeat count", text);
                }
                self.rest = &self.rest[text.len()..];
                return Ok(Some((min, max)));
            }
            _ => return Ok(None),
        };
        self.rest = &self.rest[1..];
        Ok(Some(bounds))
    }

    fn atom(&mut self, first: char) -> Result<Option<Node>> {
        let plain = |hir| Ok(Some(Node { hir, repeats: 1 }));
        match first {
            '(' => return self.group(),
            '[' => {
                let class = self.bracket()?;
                return plain(Hir::class(Class::Unicode(class)));
            }
            '\\' => {
                let hir = self.escaped()?;
                return plain(hir);
            }
            _ => {}
        }
        self.next();
        plain(match first {
            '^' if self.flags.multi_line => Hir::look(Look::StartLF),
            '^' => Hir::look(Look::Start),
            '$' if self.flags.multi_line => Hir::look(Look::EndLF),
            '$' => Hir::look(Look::End),
            '.' if self.flags.dot_all => Hir::class(Class::Unicode(class::any())),
            '.' => Hir::class(Class::Unicode(class::ranges(&[('\0', '\t'), ('\x0b', char::MAX)]))),
            c => self.literal(c),
        })
    }

    fn literal(&self, c: char) -> Hir {
        if self.flags.fold {
            Hir::class(Class::Unicode(self.folded(class::ranges(&[(c, c)]))))
        } else {
            Hir::literal(c.to_string().into_bytes())
        }
    }

    fn folded(&self, mut class: ClassUnicode) -> ClassUnicode {
        if self.flags.fold {
            class.case_fold_simple();
        }
        class
    }

    fn group(&mut self) -> Result<Option<Node>> {
        let flags = self.flags;
        let before = self.rest;
        self.next();
        let mut captures = true;
        if self.rest.starts_with('?') {
            if before.starts_with("(?P<")
                || before.starts_with("(?<") && !before.starts_with("(?<=") && !before.starts_with("(?<!")
            {
                self.group_name(before)?;
            } else {
                captures = false;
                if self.group_flags(before)? {
                    return Ok(None); // (?i): what follows has these flags
                }
            }
        }
        let index = self.groups + 1;
        self.groups += u32::from(captures);
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return error("expression nests too deeply", self.whole);
        }
        let node = self.alternation()?;
        if !self.eat(")") {
            return error("missing closing )", self.whole);
        }
        self.depth -= 1;
        self.flags = flags;
        let Node { hir, repeats } = node;
        let hir = if captures { Hir::capture(Capture { index, name: None, sub: Box::new(hir) }) } else { hir };
        Ok(Some(Node { hir, repeats }))
    }

    /// Reads a group's name, which nothing asks for later (Go lets several groups have one name).
    fn group_name(&mut self, before: &'a str) -> Result<()> {
        let start = before.find('<').expect("the caller saw it") + 1;
        let Some(length) = before[start..].find('>') else { return error("invalid named capture", before) };
        let name = &before[start..start + length];
        let capture = &before[..=start + length];
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return error("invalid named capture", capture);
        }
        self.rest = &before[capture.len()..];
        Ok(())
    }

    /// `(?flags)` and `(?flags:`; whether the group ended.
    fn group_flags(&mut self, before: &'a str) -> Result<bool> {
        self.next(); // the question mark
        let (mut set, mut any) = (true, false);
        loop {
            match self.next() {
                Some('i') => self.flags.fold = set,
                Some('m') => self.flags.multi_line = set,
                Some('s') => self.flags.dot_all = set,
                Some('U') => self.flags.ungreedy = set,
                Some('-') if set => {
                    set = false;
                    any = false;
                    continue;
                }
                Some(end @ (':' | ')')) if set || any => return Ok(end == ')'),
                None => return error("missing closing )", self.whole),
                Some(_) => return error("invalid or unsupported Perl syntax", self.since(before)),
            }
            any = true;
        }
    }

    fn escaped(&mut self) -> Result<Hir> {
        let look = match self.rest.as_bytes().get(1) {
            Some(b'A') => Some(Look::Start),
            Some(b'z') => Some(Look::End),
            Some(b'b') => Some(Look::WordAscii),
            Some(b'B') => Some(Look::WordAsciiNegate),
            _ => None,
        };
        if let Some(look) = look {
            self.rest = &self.rest[2..];
            return Ok(Hir::look(look));
        }
        if let Some(class) = self.escaped_class()? {
            return Ok(Hir::class(Class::Unicode(class)));
        }
        let c = self.escaped_char()?;
        Ok(self.literal(c))
    }

    /// `\d` and its like, `\p{…}`.
    fn escaped_class(&mut self) -> Result<Option<ClassUnicode>> {
        let before = self.rest;
        let mut chars = before[1..].chars();
        let Some(letter) = chars.next() else { return Ok(None) };
        if let Some(class) = class::perl(letter) {
            self.rest = chars.as_str();
            return Ok(Some(self.folded(class)));
        }
        if letter != 'p' && letter != 'P' {
            return Ok(None);
        }
        let rest = chars.as_str();
        let (name, rest) = match rest.strip_prefix('{') {
            Some(braced) => match braced.split_once('}') {
                Some(split) => split,
                None => return error("invalid character class range", before),
            },
            None => rest.split_at(rest.chars().next().map_or(0, char::len_utf8)),
        };
        self.rest = rest;
        let plain = name.strip_prefix('^');
        let Some(class) = class::unicode(plain.unwrap_or(name)) else {
            return error("invalid character class range", self.since(before));
        };
        let mut class = self.folded(class);
        if (letter == 'P') != plain.is_some() {
            class.negate();
        }
        Ok(Some(class))
    }

    fn escaped_char(&mut self) -> Result<char> {
        let before = self.rest;
        self.next(); // the backslash
        let Some(c) = self.next() else { return error("trailing backslash at end of expression", "") };
        let digit = |c: Option<char>, radix| c.and_then(|c| c.to_digit(radix));
        let code = match c {
            '1'..='7' if digit(self.peek(), 8).is_none() => None, // a back reference
            '0'..='7' => {
                let mut code = digit(Some(c), 8).expect("an octal digit");
                for _ in 0..2 {
                    let Some(d) = digit(self.peek(), 8) else { break };
                    code = code * 8 + d;
                    self.next();
                }
                Some(code)
            }
            'x' if self.eat("{") => self.hexadecimal().filter(|_| self.eat("}")),
            'x' => {
                let (high, low) = (digit(self.next(), 16), digit(self.next(), 16));
                high.zip(low).map(|(h, l)| h * 16 + l)
            }
            'a' => Some(7),
            'f' => Some(12),
            'n' => Some(10),
            'r' => Some(13),
            't' => Some(9),
            'v' => Some(11),
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(c.into()),
            _ => None,
        };
        match code.and_then(char::from_u32) {
            Some(c) => Ok(c),
            None => error("invalid escape sequence", self.since(before)),
        }
    }

    fn hexadecimal(&mut self) -> Option<u32> {
        let end = self.rest.find(|c: char| !c.is_ascii_hexdigit())?;
        let code = u32::from_str_radix(self.rest.get(..end)?, 16).ok()?;
        self.rest = &self.rest[end..];
        Some(code)
    }

    /// `[…]`
    fn bracket(&mut self) -> Result<ClassUnicode> {
        let before = self.rest;
        self.next();
        let negated = self.eat("^");
        let mut class = ClassUnicode::empty();
        let mut first = true;
        while first || !self.rest.starts_with(']') {
            first = false;
            if self.rest.starts_with("[:")
                && let Some(end) = self.rest[2..].find(":]")
            {
                let text = &self.rest[..end + 4];
                let Some(named) = class::posix(&text[2..end + 2]) else {
                    return error("invalid character class range", text);
                };
                class.union(&self.folded(named));
                self.rest = &self.rest[text.len()..];
                continue;
            }
            if self.rest.starts_with('\\')
                && let Some(escaped) = self.escaped_class()?
            {
                class.union(&escaped);
                continue;
            }
            let range = self.rest;
            let low = self.class_char(before)?;
            let mut high = low;
            if self.rest.starts_with('-') && self.rest.len() >= 2 && !self.rest.starts_with("-]") {
                self.next();
                high = self.class_char(before)?;
                if high < low {
                    return error("invalid character class range", self.since(range));
                }
            }
            class.union(&self.folded(ClassUnicode::new([ClassUnicodeRange::new(low, high)])));
        }
        self.next();
        if negated {
            class.negate();
        }
        Ok(class)
    }

    fn class_char(&mut self, class: &str) -> Result<char> {
        match self.peek() {
            None => error("missing closing ]", class),
            Some('\\') => self.escaped_char(),
            Some(c) => {
                self.next();
                Ok(c)
            }
        }
    }
}

/// `{n}`, `{n,}` or `{n,m}` at the start of a text; numbers beyond what counts are cut to it.
fn repeat_count(text: &str) -> Option<(u32, Option<u32>, &str)> {
    let inner = &text[1..text.find('}')?];
    let number = |digits: &str| {
        let plain = !digits.is_empty()
            && digits.bytes().all(|b| b.is_ascii_digit())
            && (digits == "0" || !digits.starts_with('0'));
        plain.then(|| digits.parse::<u32>().unwrap_or(u32::MAX))
    };
    let (min, max) = match inner.split_once(',') {
        None => (number(inner)?, Some(number(inner)?)),
        Some((min, "")) => (number(min)?, None),
        Some((min, max)) => (number(min)?, Some(number(max)?)),
    };
    Some((min, max, &text[..inner.len() + 2]))
}
