//! The grammar, as the language definition has it, by recursive descent.

use machinery::Str;

use super::ast::{Call, Entry, Expr, Item, Kind, Literal, Member, Select, Struct, operator};
use super::source::{Issue, Issues, Offset};
use super::token::{Token, TokenKind, is_reserved, tokens, unescape};

/// Code points that an expression may have.
const LONGEST: usize = 100_000;
/// How deep expressions nest, and how many operators of one rank follow each other.
const DEEPEST: usize = 250;
/// What an operand may begin with, as syntax errors tell it.
const OPERAND: &str =
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";
/// The same where a call's arguments may end.
const OPERAND_OR_END: &str = "{'[', '{', '(', ')', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";
/// The same where an index may be optional.
const OPERAND_OR_OPTION: &str = "{'[', '{', '(', '.', '-', '!', '?', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";
/// The same where a list may end, or have a comma alone.
const ITEM_OR_END: &str = "{'[', ']', '{', '(', '.', ',', '-', '!', '?', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";
/// The same where a map may.
const ENTRY_OR_END: &str = "{'[', '{', '}', '(', '.', ',', '-', '!', '?', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";
/// What may follow the brace of a struct.
const FIELD_OR_END: &str = "{'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}";
/// What stands between operands.
const INFIX: [&str; 15] = ["+", "-", "*", "/", "%", "<", "<=", ">=", ">", "==", "!=", "in", "&&", "||", "?"];
/// A tree, and how many nodes have been numbered in it.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The root.
    pub expr: Expr,
    /// One more than the highest number of a node.
    pub nodes: u32,
}

/// Reads an expression.
pub fn parse(text: &str) -> Result<Parsed, Issues> {
    let length = text.chars().count();
    if length > LONGEST {
        let message = format!("expression code point size exceeds limit: size: {length}, limit {LONGEST}");
        return Err(Issues::new("", vec![Issue::new(0, message)]));
    }
    let mut issues = Vec::new();
    let tokens = tokens(text, &mut issues);
    let mut parser = Parser { tokens, at: 0, nodes: 0, depth: 0, issues, open: Vec::new(), wanted: OPERAND };
    let parsed = parser.whole();
    match parsed {
        Ok(expr) if parser.issues.is_empty() => Ok(Parsed { expr, nodes: parser.nodes }),
        _ => Err(Issues::new(text, parser.issues)),
    }
}

/// The syntax error has been noted; reading ends.
pub(super) struct Stop;

pub(super) type Result<T, E = Stop> = std::result::Result<T, E>;

pub(super) struct Parser {
    tokens: Vec<Token>,
    at: usize,
    nodes: u32,
    depth: usize,
    issues: Vec<Issue>,
    /// What is still to come, the innermost last: closing brackets and colons.
    open: Vec<&'static str>,
    /// What errors say might have come where the next operand begins.
    wanted: &'static str,
}

impl Parser {
    fn whole(&mut self) -> Result<Expr> {
        let expr = self.expr()?;
        let token = self.token();
        if token.kind != TokenKind::End {
            // One token too many could be passed over, more of them cannot.
            let is_one = self.tokens.get(self.at + 1).is_none_or(|next| next.kind == TokenKind::End);
            let what = if is_one { "extraneous" } else { "mismatched" };
            return self.stop(token.at, format!("Syntax error: {what} input '{}' expecting <EOF>", token.text));
        }
        Ok(expr)
    }

    // -- nodes ---------------------------------------------------------------------------------------------------

    pub(super) fn node(&mut self, at: Offset, kind: Kind) -> Expr {
        self.nodes += 1;
        Expr { id: self.nodes - 1, at, kind }
    }

    pub(super) fn ident(&mut self, at: Offset, name: &str) -> Expr {
        self.node(at, Kind::Ident(name.into()))
    }

    pub(super) fn literal(&mut self, at: Offset, literal: Literal) -> Expr {
        self.node(at, Kind::Literal(literal))
    }

    pub(super) fn call(&mut self, at: Offset, function: impl Into<Str>, args: Vec<Expr>) -> Expr {
        self.node(at, Kind::Call(Box::new(Call { function: function.into(), target: None, args })))
    }

    pub(super) fn method(&mut self, at: Offset, function: impl Into<Str>, target: Expr, args: Vec<Expr>) -> Expr {
        self.node(at, Kind::Call(Box::new(Call { function: function.into(), target: Some(target), args })))
    }

    pub(super) fn complain(&mut self, at: Offset, message: impl Into<String>) {
        self.issues.push(Issue::new(at, message));
    }

    // -- tokens --------------------------------------------------------------------------------------------------

    fn token(&self) -> Token {
        self.tokens[self.at].clone()
    }

    fn advance(&mut self) -> Token {
        let token = self.token();
        if token.kind != TokenKind::End {
            self.at += 1;
        }
        token
    }

    fn is(&self, symbol: &str) -> bool {
        let token = &self.tokens[self.at];
        matches!(token.kind, TokenKind::Symbol | TokenKind::Keyword) && token.text == symbol
    }

    fn take(&mut self, symbol: &str) -> Option<Offset> {
        self.is(symbol).then(|| self.advance().at)
    }

    fn expect(&mut self, symbol: &str) -> Result<Offset> {
        if let Some(at) = self.take(symbol) {
            return Ok(at);
        }
        let token = self.token();
        let message = match token.kind {
            TokenKind::End => format!("Syntax error: missing '{symbol}' at '<EOF>'"),
            _ => format!("Syntax error: mismatched input '{}' expecting '{symbol}'", token.text),
        };
        self.stop(token.at, message)
    }

    /// [`Parser::expect`] of what is open; one token too many is passed over, and a parenthesis that has been forgotten is taken as
    /// read. `expected`: what errors say might have come.
    fn close(&mut self, symbol: &str, expected: &str) -> Result<Offset> {
        self.open.pop();
        if let Some(at) = self.take(symbol) {
            return Ok(at);
        }
        let token = self.token();
        let may_follow = match self.open.last() {
            Some(next) => self.is(next),
            None => token.kind == TokenKind::End,
        };
        if symbol == ")" && may_follow {
            self.complain(token.at, format!("Syntax error: missing ')' at '{}'", token.text));
            return Ok(token.at);
        }
        if token.kind == TokenKind::End || !self.is_symbol(self.at + 1, symbol) {
            return self
                .stop(token.at, format!("Syntax error: mismatched input '{}' expecting {expected}", token.text));
        }
        self.complain(token.at, format!("Syntax error: extraneous input '{}' expecting {expected}", token.text));
        self.at += 1;
        self.expect(symbol)
    }

    /// Passes over a token that nothing can begin with, if what closes comes right after it.
    fn skip_before(&mut self, close: &str, expected: &str) {
        let token = self.token();
        if !self.begins_operand(self.at) && !self.is("?") && !self.is(close) && self.is_symbol(self.at + 1, close) {
            self.complain(token.at, format!("Syntax error: extraneous input '{}' expecting {expected}", token.text));
            self.at += 1;
        }
    }

    fn is_symbol(&self, at: usize, symbol: &str) -> bool {
        self.tokens.get(at).is_some_and(|token| token.kind == TokenKind::Symbol && token.text == symbol)
    }

    /// Whether an operand may begin with the token at this place.
    fn begins_operand(&self, at: usize) -> bool {
        let Some(token) = self.tokens.get(at) else { return false };
        match token.kind {
            TokenKind::Symbol => ["[", "{", "(", ".", "-", "!"].contains(&token.text.as_str()),
            TokenKind::Keyword => token.text != "in",
            TokenKind::Quoted | TokenKind::End => false,
            _ => true,
        }
    }

    /// Refuses an end behind the comma of an item, and a comma behind that.
    fn expect_more(&mut self, close: &str, has_items: bool) -> Result<()> {
        if has_items && (self.token().kind == TokenKind::End || self.is(",")) {
            self.expect(close)?;
        }
        Ok(())
    }

    /// The colon, which may have been forgotten before an operand.
    fn expect_colon(&mut self) -> Result<Offset> {
        let token = self.token();
        if self.is(":") || !self.begins_operand(self.at) || self.is_symbol(self.at + 1, ":") {
            return self.close(":", "':'");
        }
        self.open.pop();
        self.complain(token.at, format!("Syntax error: missing ':' at '{}'", token.text));
        Ok(token.at)
    }

    fn stop<T>(&mut self, at: Offset, message: impl Into<String>) -> Result<T> {
        self.complain(at, message);
        Err(Stop)
    }

    /// Every level of nesting, and every further operator of a chain, counts.
    fn deeper(&mut self, levels: usize) -> Result<()> {
        self.depth += levels;
        if self.depth > DEEPEST {
            return self.stop(0, format!("expression recursion limit exceeded: {DEEPEST}"));
        }
        Ok(())
    }

    // -- grammar -------------------------------------------------------------------------------------------------

    fn expr(&mut self) -> Result<Expr> {
        self.deeper(1)?;
        let condition = self.logical(operator::OR, "||")?;
        let expr = match self.take("?") {
            None => condition,
            Some(at) => {
                self.open.push(":");
                let yes = self.logical(operator::OR, "||")?;
                self.expect_colon()?;
                let no = self.expr()?;
                self.call(at, operator::CONDITIONAL, vec![condition, yes, no])
            }
        };
        self.depth -= 1;
        Ok(expr)
    }

    /// A chain of `||` or `&&`, made a balanced tree.
    fn logical(&mut self, function: &'static str, symbol: &str) -> Result<Expr> {
        let mut terms = vec![self.term(function)?];
        let mut places = Vec::new();
        while let Some(at) = self.take(symbol) {
            places.push(at);
            terms.push(self.term(function)?);
        }
        let mut terms = terms.into_iter().map(Some).collect::<Vec<_>>();
        let last = terms.len() - 1;
        Ok(self.balanced(function, &mut terms, &places, 0, last))
    }

    fn term(&mut self, function: &str) -> Result<Expr> {
        if function == operator::OR { self.logical(operator::AND, "&&") } else { self.relation() }
    }

    fn balanced(
        &mut self,
        function: &'static str,
        terms: &mut [Option<Expr>],
        places: &[Offset],
        low: usize,
        high: usize,
    ) -> Expr {
        if low == high {
            return terms[low].take().expect("every term is used once");
        }
        let middle = (low + high).div_ceil(2);
        let left = self.balanced(function, terms, places, low, middle - 1);
        let right = self.balanced(function, terms, places, middle, high);
        self.call(places[middle - 1], function, vec![left, right])
    }

    fn relation(&mut self) -> Result<Expr> {
        const RELATIONS: [(&str, &str); 7] = [
            ("<", operator::LESS),
            ("<=", operator::LESS_EQUALS),
            (">=", operator::GREATER_EQUALS),
            (">", operator::GREATER),
            ("==", operator::EQUALS),
            ("!=", operator::NOT_EQUALS),
            ("in", operator::IN),
        ];
        self.chain(&RELATIONS, Self::sum)
    }

    fn sum(&mut self) -> Result<Expr> {
        self.chain(&[("+", operator::ADD), ("-", operator::SUBTRACT)], Self::product)
    }

    fn product(&mut self) -> Result<Expr> {
        self.chain(&[("*", operator::MULTIPLY), ("/", operator::DIVIDE), ("%", operator::MODULO)], Self::unary)
    }

    /// Operators of one rank, the left ones first.
    fn chain(&mut self, operators: &[(&str, &'static str)], operand: fn(&mut Self) -> Result<Expr>) -> Result<Expr> {
        let mut left = operand(self)?;
        let before = self.depth;
        while let Some(&(_, function)) = operators.iter().find(|(symbol, _)| self.is(symbol)) {
            self.deeper(1)?;
            let at = self.advance().at;
            let right = operand(self)?;
            left = self.call(at, function, vec![left, right]);
        }
        self.depth = before;
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expr> {
        for (symbol, function) in [("!", operator::NOT), ("-", operator::NEGATE)] {
            if !self.is(symbol) || (symbol == "-" && self.is_signed_number()) {
                continue;
            }
            let at = self.token().at;
            let mut times = 0;
            while self.is(symbol) && !(symbol == "-" && self.is_signed_number()) {
                self.advance();
                times += 1;
            }
            let operand = self.signed(symbol)?;
            return Ok(if times % 2 == 1 { self.call(at, function, vec![operand]) } else { operand });
        }
        self.member()
    }

    /// What stands behind `-` or `!`.
    fn signed(&mut self, sign: &str) -> Result<Expr> {
        self.wanted = OPERAND;
        let next = self.token();
        if self.is_signed_number() || (self.begins_operand(self.at) && !self.is("-") && !self.is("!")) {
            return self.member();
        }
        self.unsigned(sign, &next)
    }

    /// What is wrong behind `-` or `!`.
    #[cold]
    fn unsigned(&mut self, sign: &str, next: &Token) -> Result<Expr> {
        if sign == "-" {
            let text = if next.kind == TokenKind::End { "" } else { next.text.as_str() };
            self.complain(next.at, format!("Syntax error: no viable alternative at input '-{text}'"));
            return match self.is("!") {
                true => self.unary(),
                false => {
                    self.stop(next.at, format!("Syntax error: mismatched input '{}' expecting {OPERAND}", next.text))
                }
            };
        }
        if self.take("-").is_some() {
            return self.signed("-");
        }
        self.stop(next.at, format!("Syntax error: extraneous input '{}' expecting {OPERAND}", next.text))
    }

    fn is_signed_number(&self) -> bool {
        let next = self.tokens.get(self.at + 1).map(|t| t.kind);
        self.is("-") && matches!(next, Some(TokenKind::Int | TokenKind::Float))
    }

    fn member(&mut self) -> Result<Expr> {
        let mut expr = self.primary()?;
        let before = self.depth;
        loop {
            if let Some(at) = self.take(".") {
                self.deeper(1)?;
                expr = self.after_dot(at, expr)?;
            } else if let Some(at) = self.take("[") {
                self.deeper(1)?;
                let function = if self.take("?").is_some() { operator::OPT_INDEX } else { operator::INDEX };
                if function == operator::INDEX {
                    self.wanted = OPERAND_OR_OPTION;
                }
                self.open.push("]");
                let index = self.expr()?;
                self.open.pop();
                self.expect("]")?;
                expr = self.call(at, function, vec![expr, index]);
            } else {
                self.depth = before;
                return Ok(expr);
            }
        }
    }

    fn after_dot(&mut self, at: Offset, operand: Expr) -> Result<Expr> {
        let optional = self.take("?").is_some();
        let token = self.advance();
        match token.kind {
            TokenKind::Quoted => self.stop(token.at, "unsupported syntax: '`'"),
            TokenKind::Ident if optional => {
                let field = self.literal(token.at, Literal::String(token.text));
                Ok(self.call(at, operator::OPT_SELECT, vec![operand, field]))
            }
            TokenKind::Ident if self.is("(") => {
                let open = self.advance().at;
                let args = self.args()?;
                Ok(self.expand_method(open, token.text, operand, args))
            }
            TokenKind::Ident => {
                Ok(self.node(at, Kind::Select(Box::new(Select { operand, field: token.text, test: false }))))
            }
            TokenKind::End if optional => {
                let expected = "{IDENTIFIER, ESC_IDENTIFIER}";
                self.complain(token.at, format!("Syntax error: mismatched input '<EOF>' expecting {expected}"));
                self.stop(token.at, "unsupported ident kind")
            }
            TokenKind::End => self.stop(token.at, "Syntax error: no viable alternative at input '.'".to_owned()),
            _ => self.stop(token.at, format!("Syntax error: no viable alternative at input '.{}'", token.text)),
        }
    }

    /// Expressions between commas, up to the closing bracket.
    fn args(&mut self) -> Result<Vec<Expr>> {
        let mut args = Vec::new();
        self.skip_before(")", OPERAND_OR_END);
        if self.take(")").is_some() {
            return Ok(args);
        }
        self.open.push(")");
        self.wanted = OPERAND_OR_END;
        loop {
            args.push(self.expr()?);
            if self.take(",").is_none() {
                self.close(")", "')'")?;
                return Ok(args);
            }
        }
    }

    fn primary(&mut self) -> Result<Expr> {
        let wanted = std::mem::replace(&mut self.wanted, OPERAND);
        if self.is_signed_number() {
            let at = self.advance().at;
            let number = self.advance();
            return self.number(at, number, true);
        }
        let token = self.advance();
        let at = token.at;
        match token.kind {
            TokenKind::Int | TokenKind::Uint | TokenKind::Float => self.number(at, token, false),
            TokenKind::String | TokenKind::Bytes => Ok(self.text(&token)),
            TokenKind::Ident => self.name(at, token, false),
            _ => match token.text.as_str() {
                "true" | "false" => Ok(self.literal(at, Literal::Bool(token.text == "true"))),
                "null" => Ok(self.literal(at, Literal::Null)),
                "(" => {
                    self.open.push(")");
                    let inner = self.expr()?;
                    self.close(")", "')'")?;
                    Ok(inner)
                }
                "[" => self.list(at),
                "{" => self.map(at),
                "." if self.token().kind == TokenKind::Ident => {
                    let name = self.advance();
                    self.name(name.at, name, true)
                }
                "." => self.no_name(),
                _ => self.no_operand(&token, wanted),
            },
        }
    }

    /// A dot with nothing behind it.
    #[cold]
    fn no_name(&mut self) -> Result<Expr> {
        let next = self.token();
        let text = if next.kind == TokenKind::End { "" } else { next.text.as_str() };
        self.stop(next.at, format!("Syntax error: no viable alternative at input '.{text}'"))
    }

    /// What no operand begins with. Apart from [`Parser::primary`], so that nesting takes less of the stack.
    #[cold]
    fn no_operand(&mut self, token: &Token, wanted: &str) -> Result<Expr> {
        let (at, text) = (token.at, token.text.as_str());
        if token.kind != TokenKind::End && self.begins_operand(self.at) {
            self.complain(at, format!("Syntax error: extraneous input '{text}' expecting {wanted}"));
            return self.primary();
        }
        self.complain(at, format!("Syntax error: mismatched input '{text}' expecting {wanted}"));
        if !INFIX.contains(&text) || token.kind == TokenKind::End {
            return Err(Stop);
        }
        // Reading goes on as if there were an operand before the operator.
        self.at -= 1;
        Ok(self.literal(at, Literal::Null))
    }

    fn number(&mut self, at: Offset, token: Token, negative: bool) -> Result<Expr> {
        let sign = if negative { "-" } else { "" };
        let text = token.text.as_str();
        let hex = text.strip_prefix("0x");
        let literal = match token.kind {
            TokenKind::Float => text
                .parse::<f64>()
                .ok()
                .filter(|d| d.is_finite())
                .map(|d| Literal::Double(if negative { -d } else { d })),
            TokenKind::Uint => {
                let digits = text.trim_end_matches(['u', 'U']);
                match digits.strip_prefix("0x") {
                    Some(hex) => u64::from_str_radix(hex, 16),
                    None => digits.parse(),
                }
                .ok()
                .map(Literal::Uint)
            }
            _ => match hex {
                Some(hex) => i64::from_str_radix(&format!("{sign}{hex}"), 16),
                None => format!("{sign}{text}").parse(),
            }
            .ok()
            .map(Literal::Int),
        };
        let kind = match token.kind {
            TokenKind::Float => "double",
            TokenKind::Uint => "uint",
            _ => "int",
        };
        let literal = literal.unwrap_or_else(|| {
            self.complain(at, format!("invalid {kind} literal"));
            Literal::Int(0)
        });
        Ok(self.literal(at, literal))
    }

    fn text(&mut self, token: &Token) -> Expr {
        let bytes = token.kind == TokenKind::Bytes;
        let value = unescape(&token.text, bytes).unwrap_or_else(|message| {
            self.complain(token.at, message);
            Vec::new()
        });
        let literal = match bytes {
            true => Literal::Bytes(value),
            false => Literal::String(String::from_utf8_lossy(&value).into()),
        };
        self.literal(token.at, literal)
    }

    /// A name: a variable, a function, or the beginning of a struct.
    fn name(&mut self, at: Offset, token: Token, leading_dot: bool) -> Result<Expr> {
        let dot = if leading_dot { "." } else { "" };
        if let Some(brace) = self.struct_ahead() {
            let mut name = format!("{dot}{}", token.text);
            while self.at < brace {
                name.push_str(&self.advance().text);
            }
            let open = self.advance().at;
            return self.structure(open, name.into());
        }
        if is_reserved(&token.text) {
            self.complain(at, format!("reserved identifier: {}", token.text));
        }
        let name: Str = if leading_dot { format!(".{}", token.text).into() } else { token.text };
        match self.take("(") {
            None => Ok(self.node(at, Kind::Ident(name))),
            Some(open) => {
                let args = self.args()?;
                Ok(self.expand_function(open, name, args))
            }
        }
    }

    /// Where the brace of `a.b.C{` stands, if this is one.
    fn struct_ahead(&self) -> Option<usize> {
        let symbol = |i: usize, s: &str| self.tokens.get(i).is_some_and(|t| t.kind == TokenKind::Symbol && t.text == s);
        let mut i = self.at;
        while symbol(i, ".") && self.tokens.get(i + 1).is_some_and(|t| t.kind == TokenKind::Ident) {
            i += 2;
        }
        symbol(i, "{").then_some(i)
    }

    fn list(&mut self, at: Offset) -> Result<Expr> {
        let mut items = Vec::new();
        if self.is(",") && self.is_symbol(self.at + 1, "]") {
            self.advance(); // an empty list may have the comma of a full one
        }
        self.skip_before("]", ITEM_OR_END);
        while self.take("]").is_none() {
            self.expect_more("]", !items.is_empty())?;
            self.wanted = if items.is_empty() && !self.is("?") { ITEM_OR_END } else { OPERAND };
            let optional = self.take("?").is_some();
            self.open.push("]");
            items.push(Item { value: self.expr()?, optional });
            if self.take(",").is_none() {
                self.close("]", "{']', ','}")?;
                break;
            }
            self.open.pop();
            self.skip_before("]", "']'");
        }
        Ok(self.node(at, Kind::List(items)))
    }

    fn map(&mut self, at: Offset) -> Result<Expr> {
        let mut entries = Vec::new();
        if self.is(",") && self.is_symbol(self.at + 1, "}") {
            self.advance();
        }
        while self.take("}").is_none() {
            self.expect_more("}", !entries.is_empty())?;
            self.wanted = if entries.is_empty() && !self.is("?") { ENTRY_OR_END } else { OPERAND };
            let optional = self.take("?").is_some();
            self.open.extend(["}", ":"]);
            let key = self.expr()?;
            self.expect_colon()?;
            entries.push(Entry { key, value: self.expr()?, optional });
            if self.take(",").is_none() {
                self.close("}", "{'}', ','}")?;
                break;
            }
            self.open.pop();
        }
        Ok(self.node(at, Kind::Map(entries)))
    }

    fn structure(&mut self, at: Offset, name: Str) -> Result<Expr> {
        let mut fields = Vec::new();
        if self.take(",").is_some() {
            self.expect("}")?; // a comma alone
            self.at -= 1;
        }
        while self.take("}").is_none() {
            let optional = self.take("?").is_some();
            let token = self.advance();
            if token.kind == TokenKind::Quoted {
                return self.stop(token.at, "unsupported syntax: '`'");
            }
            if token.kind != TokenKind::Ident {
                let is_first = fields.is_empty() && !optional;
                let expected = if is_first { FIELD_OR_END } else { "{IDENTIFIER, ESC_IDENTIFIER}" };
                let what = |what: &str, expected: &str| {
                    format!("Syntax error: {what} input '{}' expecting {expected}", token.text)
                };
                if is_first && self.token().kind == TokenKind::Ident && token.kind == TokenKind::Symbol {
                    self.complain(token.at, what("extraneous", expected));
                } else if !is_first && !optional && self.is("}") {
                    self.complain(token.at, what("extraneous", "'}'"));
                } else {
                    return self.stop(token.at, what("mismatched", expected));
                }
                continue;
            }
            self.open.extend(["}", ":"]);
            let colon = self.expect_colon()?;
            fields.push(Member { at: colon, name: token.text, value: self.expr()?, optional });
            if self.take(",").is_none() {
                self.close("}", "{'}', ','}")?;
                break;
            }
            self.open.pop();
        }
        Ok(self.node(at, Kind::Struct(Box::new(Struct { name, fields }))))
    }
}
