//! The grammar, as the language definition has it, by recursive descent: `operators` from the loosest to the tightest,
//! `operands` below them. Here are the tokens, the nodes, and what a syntax error is.

mod operands;
mod operators;

use machinery::Str;

use super::ast::{Call, Expr, ExprKind, Literal};
use super::source::{Issue, Issues, Offset};
use super::token::{Token, TokenKind, tokens};

/// Code points that an expression may have.
const LONGEST: usize = 100_000;
/// How deep expressions nest, and how many operators of one rank follow each other.
const DEEPEST: usize = 250;
/// What an operand may begin with, as syntax errors tell it.
const OPERAND: &str =
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

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

    pub(super) fn node(&mut self, at: Offset, kind: ExprKind) -> Expr {
        self.nodes += 1;
        Expr { id: self.nodes - 1, at, kind }
    }

    pub(super) fn ident(&mut self, at: Offset, name: &str) -> Expr {
        self.node(at, ExprKind::Ident(name.into()))
    }

    pub(super) fn literal(&mut self, at: Offset, literal: Literal) -> Expr {
        self.node(at, ExprKind::Literal(literal))
    }

    pub(super) fn call(&mut self, at: Offset, function: impl Into<Str>, args: Vec<Expr>) -> Expr {
        self.node(at, ExprKind::Call(Box::new(Call { function: function.into(), target: None, args })))
    }

    pub(super) fn method(&mut self, at: Offset, function: impl Into<Str>, target: Expr, args: Vec<Expr>) -> Expr {
        self.node(at, ExprKind::Call(Box::new(Call { function: function.into(), target: Some(target), args })))
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
}
