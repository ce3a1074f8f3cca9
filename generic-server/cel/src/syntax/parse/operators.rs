//! Operators, from the loosest to the tightest: conditions, `||`, `&&`, relations, sums, products, signs.

use super::{OPERAND, Parser, Result};
use crate::syntax::ast::{Expr, operator};
use crate::syntax::source::Offset;
use crate::syntax::token::{Token, TokenKind};

impl Parser {
    pub(super) fn expr(&mut self) -> Result<Expr> {
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

    pub(super) fn is_signed_number(&self) -> bool {
        let next = self.tokens.get(self.at + 1).map(|t| t.kind);
        self.is("-") && matches!(next, Some(TokenKind::Int | TokenKind::Float))
    }
}
