//! What operators stand between: literals, names, calls, fields, indexes, lists, maps and structs.

use machinery::Str;

use super::{OPERAND, Parser, Result, Stop};
use crate::syntax::ast::{Expr, ExprKind, Item, Literal, MapEntry, Member, Select, Struct, operator};
use crate::syntax::source::Offset;
use crate::syntax::token::{Token, TokenKind, is_reserved, unescape};

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

impl Parser {
    pub(super) fn member(&mut self) -> Result<Expr> {
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
                Ok(self.node(at, ExprKind::Select(Box::new(Select { operand, field: token.text, test: false }))))
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
            None => Ok(self.node(at, ExprKind::Ident(name))),
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
        Ok(self.node(at, ExprKind::List(items)))
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
            entries.push(MapEntry { key, value: self.expr()?, optional });
            if self.take(",").is_none() {
                self.close("}", "{'}', ','}")?;
                break;
            }
            self.open.pop();
        }
        Ok(self.node(at, ExprKind::Map(entries)))
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
        Ok(self.node(at, ExprKind::Struct(Box::new(Struct { name, fields }))))
    }
}
