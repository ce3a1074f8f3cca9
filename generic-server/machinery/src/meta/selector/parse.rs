//! The grammar of `labelSelector`: requirements with commas between them.
//!
//! `in` and `notin` are words of the grammar only where an operator is due, so that labels and values may be called so.

use super::SelectorError;
use super::label::{Operator, Requirement, check_key, requirement_error};
use crate::Str;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    End,
    Open,
    Close,
    Comma,
    Not,
    Operator(Operator, &'a str),
    Word(&'a str),
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Token::End => "",
            Token::Open => "(",
            Token::Close => ")",
            Token::Comma => ",",
            Token::Not => "!",
            Token::Operator(_, text) | Token::Word(text) => text,
        }
    }

    /// As read where a key or a value is due.
    fn as_word(self) -> Token<'a> {
        match self {
            Token::Operator(Operator::In | Operator::NotIn, text) => Token::Word(text),
            other => other,
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    pos: usize,
}

fn err<T>(text: String) -> Result<T, SelectorError> {
    Err(SelectorError(text))
}

pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, SelectorError> {
    let mut parser = Parser { text, pos: 0 };
    let mut requirements = Vec::new();
    loop {
        match parser.peek() {
            Token::Word(_) | Token::Not => {}
            Token::End => return Ok(requirements),
            other => return err(format!("found '{}', expected: !, identifier, or 'end of string'", other.text())),
        }
        match parser.requirement() {
            Ok(requirement) => requirements.push(requirement),
            Err(SelectorError(text)) => return err(format!("unable to parse requirement: {text}")),
        }
        match parser.next() {
            Token::End => return Ok(requirements),
            Token::Comma => match parser.peek() {
                Token::Word(_) | Token::Not => {}
                other => return err(format!("found '{}', expected: identifier after ','", other.text())),
            },
            other => return err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
        }
    }
}

impl<'a> Parser<'a> {
    /// The next token where a key or a value is due; consumes nothing.
    fn peek(&mut self) -> Token<'a> {
        let pos = self.pos;
        let token = self.next();
        self.pos = pos;
        token
    }

    /// The next token where a key or a value is due.
    fn next(&mut self) -> Token<'a> {
        self.lex().as_word()
    }

    /// The next token where an operator is due. A NUL ends the text, or the token before it, as upstream's lexer has it.
    fn lex(&mut self) -> Token<'a> {
        let bytes = self.text.as_bytes();
        while self.pos < bytes.len() && is_space(bytes[self.pos]) {
            self.pos += 1;
        }
        let start = self.pos;
        let token = match bytes.get(start) {
            None | Some(0) => return Token::End,
            Some(c) if is_special(*c) => {
                let double = matches!(c, b'=' | b'!') && bytes.get(start + 1) == Some(&b'=');
                self.pos += if double { 2 } else { 1 };
                match &self.text[start..self.pos] {
                    "(" => Token::Open,
                    ")" => Token::Close,
                    "," => Token::Comma,
                    "!" => Token::Not,
                    text @ "=" => Token::Operator(Operator::Equals, text),
                    text @ "==" => Token::Operator(Operator::DoubleEquals, text),
                    text @ "!=" => Token::Operator(Operator::NotEquals, text),
                    text @ ">" => Token::Operator(Operator::GreaterThan, text),
                    text => Token::Operator(Operator::LessThan, text),
                }
            }
            Some(_) => {
                let end = |c: u8| c == 0 || is_special(c) || is_space(c);
                let len = bytes[start..].iter().position(|c| end(*c)).unwrap_or(bytes.len() - start);
                self.pos += len;
                match &self.text[start..self.pos] {
                    text @ "in" => Token::Operator(Operator::In, text),
                    text @ "notin" => Token::Operator(Operator::NotIn, text),
                    text => Token::Word(text),
                }
            }
        };
        if bytes.get(self.pos) == Some(&0) {
            self.pos += 1;
        }
        token
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let mut token = self.next();
        let negated = token == Token::Not;
        if negated {
            token = self.next();
        }
        let Token::Word(key) = token else {
            return err(format!("found '{}', expected: identifier", token.text()));
        };
        if let Some(error) = check_key(key, "") {
            return err(error.to_string());
        }
        let (operator, values) = if negated {
            (Operator::DoesNotExist, Vec::new())
        } else if matches!(self.peek(), Token::End | Token::Comma) {
            (Operator::Exists, Vec::new())
        } else {
            let operator = self.operator()?;
            let values = match operator {
                Operator::In | Operator::NotIn => self.set()?,
                _ => vec![Str::from(self.exact_value()?)],
            };
            (operator, values)
        };
        Requirement::new(key, operator, values).map_err(|errors| requirement_error(&errors))
    }

    fn operator(&mut self) -> Result<Operator, SelectorError> {
        match self.lex() {
            Token::Operator(operator, _) => Ok(operator),
            other => err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", other.text())),
        }
    }

    fn exact_value(&mut self) -> Result<&'a str, SelectorError> {
        if matches!(self.peek(), Token::End | Token::Comma) {
            return Ok("");
        }
        match self.next() {
            Token::Word(word) => Ok(word),
            other => err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    /// `(a,b)`. Where a value is missing it is the empty one.
    fn set(&mut self) -> Result<Vec<Str>, SelectorError> {
        let token = self.next();
        if token != Token::Open {
            return err(format!("found '{}' expected: '('", token.text()));
        }
        match self.peek() {
            Token::Word(_) | Token::Comma | Token::Close => {}
            other => return err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
        }
        let mut values: Vec<Str> = Vec::new();
        let mut value_due = true;
        loop {
            match self.next() {
                Token::Word(word) if value_due => {
                    values.push(word.into());
                    value_due = false;
                }
                Token::Comma => {
                    if value_due {
                        values.push(Str::default());
                    }
                    value_due = true;
                }
                Token::Close => {
                    if value_due {
                        values.push(Str::default());
                    }
                    break;
                }
                other if value_due => return err(format!("found '{}', expected: ',', or identifier", other.text())),
                other => return err(format!("found '{}', expected: ',' or ')'", other.text())),
            }
        }
        values.sort();
        values.dedup();
        Ok(values)
    }
}

fn is_space(c: u8) -> bool {
    matches!(c, b' ' | b'\t' | b'\r' | b'\n')
}

fn is_special(c: u8) -> bool {
    matches!(c, b'=' | b'!' | b'(' | b')' | b',' | b'>' | b'<')
}

#[cfg(test)]
mod tests {
    use crate::meta::LabelSelector;

    #[test]
    fn a_selector_has_a_normal_form() {
        for (text, want) in [
            ("", ""),
            ("  ", ""),
            ("b, a", "a,b"),
            ("x in (foo,,baz),y,z notin ()", "x in (,baz,foo),y,z notin ()"),
            ("x in (,)", "x in ()"),
            ("x in (a,)", "x in (,a)"),
            ("x in (b,a,b)", "x in (a,b)"),
            ("a = b , c == d , e != f", "a=b,c==d,e!=f"),
            ("!a,b>1,c<2", "!a,b>1,c<2"),
            ("in in (in,notin)", "in in (in,notin)"),
            ("notin=in", "notin=in"),
            ("a=,b", "a=,b"),
            ("a=", "a="),
            ("example.com/a=b", "example.com/a=b"),
        ] {
            let selector = LabelSelector::parse(text).expect(text);
            assert_eq!(selector.to_string(), want, "{text}");
            assert_eq!(LabelSelector::parse(want).expect(want), selector, "{text}");
        }
    }

    #[test]
    fn errors_read_like_upstreams() {
        for (text, want) in [
            ("a,", "found '', expected: identifier after ','"),
            ("=a", "found '=', expected: !, identifier, or 'end of string'"),
            (",a", "found ',', expected: !, identifier, or 'end of string'"),
            ("a=b=c", "found '=', expected: ',' or 'end of string'"),
            ("a in (b) c", "found 'c', expected: ',' or 'end of string'"),
            ("!a=b", "found '=', expected: ',' or 'end of string'"),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            ("a in (=", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
            ("a in (b,=", "unable to parse requirement: found '=', expected: ',', or identifier"),
            ("a near b", "unable to parse requirement: found 'near', expected: in, notin, =, ==, !=, gt, lt"),
            ("a==(", "unable to parse requirement: found '(', expected: identifier"),
            ("!", "unable to parse requirement: found '', expected: identifier"),
            (
                "n>nine",
                "unable to parse requirement: values[0]: Invalid value: \"nine\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
        ] {
            assert_eq!(LabelSelector::parse(text).expect_err(text).to_string(), want, "{text}");
        }
        let error = LabelSelector::parse("ti$er").expect_err("a bad key").to_string();
        let start = r#"unable to parse requirement: <nil>: Invalid value: "ti$er": name part must consist of"#;
        assert!(error.starts_with(start), "{error}");
        let error = LabelSelector::parse("tier=fr@nt").expect_err("a bad value").to_string();
        let start = r#"unable to parse requirement: values[0][tier]: Invalid value: "fr@nt": a valid label must"#;
        assert!(error.starts_with(start), "{error}");
    }
}
