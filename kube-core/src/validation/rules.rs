//! Plain rules that many kinds share, beside those of [`Field`] itself.

use machinery::{Value, meta::field_error::FieldError};

use super::{Errors, Field};

impl<'a> Field<'a> {
    /// Every item of the list, in order, with its value: what is kept for later items lives as long as the object.
    pub(crate) fn each_item(&self, mut rule: impl FnMut(Field<'_>, &'a Value)) {
        for (i, item) in self.items().iter().enumerate() {
            rule(self.index(i), item);
        }
    }

    /// The number, zero if absent, follows a rule that answers what is wrong with it.
    pub(crate) fn check_int(&self, rule: impl Fn(i64) -> Vec<String>, errors: &mut Errors) {
        for message in rule(self.int_or_zero()) {
            self.invalid_as(self.int_or_zero(), message, errors);
        }
    }

    /// The number, if there is one, follows a rule that answers what is wrong with it.
    pub(crate) fn check_some_int(&self, rule: impl Fn(i64) -> Vec<String>, errors: &mut Errors) {
        if self.is_set() {
            self.check_int(rule, errors);
        }
    }

    /// The text, unless it is empty, follows a rule that answers what is wrong with it.
    pub(crate) fn check_some(&self, rule: impl Fn(&str) -> Vec<String>, errors: &mut Errors) {
        if !self.text().is_empty() {
            self.check(rule, errors);
        }
    }

    /// The text is there, and follows a rule that answers what is wrong with it.
    pub(crate) fn check_given(&self, rule: impl Fn(&str) -> Vec<String>, errors: &mut Errors) {
        if self.is_given(errors) {
            self.check(rule, errors);
        }
    }

    /// The text, if there is one, even an empty one, is one of a few.
    pub(crate) fn some_one_of(&self, supported: &[&str], errors: &mut Errors) {
        if self.is_set() {
            self.one_of(supported, errors);
        }
    }

    /// `Invalid value: "TEXT": detail`; an absent text is an empty one.
    pub(crate) fn invalid_text(&self, detail: impl Into<String>, errors: &mut Errors) {
        self.invalid_as(self.text(), detail, errors);
    }

    /// `Duplicate value: "TEXT"`; an absent text is an empty one.
    pub(crate) fn duplicate_text(&self, errors: &mut Errors) {
        errors.push(FieldError::duplicate(self, self.text()));
    }

    /// `Not found: "TEXT"`; an absent text is an empty one.
    pub(crate) fn not_found_text(&self, errors: &mut Errors) {
        errors.push(FieldError::not_found(self, self.text()));
    }

    /// There is no value.
    pub(crate) fn forbid(&self, detail: &str, errors: &mut Errors) {
        if self.is_set() {
            self.forbidden(detail, errors);
        }
    }
}
