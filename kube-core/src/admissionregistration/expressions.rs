//! Validates the expressions of policies and webhooks.

use cel::Program;
use machinery::meta::field_error::FieldError;
use policies::{CompileError, Compiler, ExpectedType};

use crate::validation::{Errors, Field};

/// An expression must be there, and compile.
pub(super) fn expression(field: &Field<'_>, wanted: ExpectedType, compiler: &mut Compiler, errors: &mut Errors) {
    if is_specified(field, errors) {
        expression_as(field, field.text(), compiler.compile(field.text(), wanted), errors);
    }
}

/// Tells what is wrong with an expression that is shown as `text`.
pub(super) fn expression_as(
    field: &Field<'_>,
    text: &str,
    compiled: Result<Program, CompileError>,
    errors: &mut Errors,
) {
    match compiled {
        Ok(_) => {}
        Err(CompileError::Invalid(why)) => field.invalid_as(text, why, errors),
        Err(CompileError::Internal(why)) => errors.push(FieldError::internal(field, why)),
    }
}

/// A name and an expression, which those that come after it can name.
pub(super) fn variable(variable: &Field<'_>, compiler: &mut Compiler, errors: &mut Errors) {
    let (name, expression) = (variable.at("name"), variable.at("expression"));
    if name.text().trim().is_empty() {
        name.required("name is not specified", errors);
    } else if !is_identifier(name.text()) {
        name.invalid("must be a valid CEL identifier", errors);
    }
    if is_specified(&expression, errors) {
        let compiled = compiler.variable(name.text(), expression.text());
        expression_as(&expression, expression.text(), compiled, errors);
    }
}

fn is_identifier(text: &str) -> bool {
    let is_letter = |b: u8| b == b'_' || b.is_ascii_alphabetic();
    text.bytes().next().is_some_and(is_letter)
        && text.bytes().all(|b| is_letter(b) || b.is_ascii_digit())
        && !cel::syntax::is_reserved(text)
}

fn is_specified(expression: &Field<'_>, errors: &mut Errors) -> bool {
    let is = !expression.text().trim().is_empty();
    if !is {
        expression.required("expression is not specified", errors);
    }
    is
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_those_of_cel() {
        for name in ["a", "_", "a1_B"] {
            assert!(is_identifier(name), "{name}");
        }
        for name in ["", "1x", "a-b", "in", "namespace", "ä"] {
            assert!(!is_identifier(name), "{name}");
        }
    }
}
