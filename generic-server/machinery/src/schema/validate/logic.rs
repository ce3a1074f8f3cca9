//! `allOf`, `anyOf`, `oneOf` and `not`.

use super::Walk;
use super::ratchet::Old;
use super::result::Outcome;
use crate::Value;
use crate::schema::{Schema, Validation};
use crate::value::Path;

impl Walk<'_> {
    pub(super) fn logic(
        &self,
        validation: &Validation,
        value: &Value,
        old: Option<Old<'_>>,
        path: &Path<'_>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let quoted = || crate::meta::go_text::quote(&path.to_string());
        if !validation.any_of.is_empty() {
            let branches = self.branches(&validation.any_of, value, old, path, true);
            if branches.valid == 0 {
                outcome.add(self.plain(format!("{} must validate at least one schema (anyOf)", quoted())));
            }
            outcome.merge(branches.reported);
        }
        if !validation.one_of.is_empty() {
            let branches = self.branches(&validation.one_of, value, old, path, false);
            let found = match branches.valid {
                0 => Some("Found none valid".to_owned()),
                1 => None,
                n => Some(format!("Found {n} valid alternatives")),
            };
            if let Some(found) = found {
                outcome.add(self.plain(format!("{} must validate one and only one schema (oneOf). {found}", quoted())));
            }
            if branches.valid <= 1 {
                outcome.merge(branches.reported);
            }
        }
        if !validation.all_of.is_empty() {
            let mut valid = 0;
            for schema in &validation.all_of {
                let result = self.value(schema, value, old, path);
                valid += usize::from(result.is_valid());
                outcome.merge(result);
            }
            if valid != validation.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                outcome.add(self.plain(format!("{} must validate all the schemas (allOf){none}", quoted())));
            }
        }
        if let Some(not) = &validation.not
            && self.value(not, value, old, path).is_valid()
        {
            outcome.add(self.plain(format!("{} must not validate the schema (not)", quoted())));
        }
        outcome.matched();
        outcome
    }

    /// Tries alternatives, up to the first valid one if one will do.
    fn branches(
        &self,
        schemas: &[Schema],
        value: &Value,
        old: Option<Old<'_>>,
        path: &Path<'_>,
        one_will_do: bool,
    ) -> Branches {
        let mut valid = 0;
        let (mut first, mut best): (Option<Outcome>, Option<Outcome>) = (None, None);
        for schema in schemas {
            let result = self.value(schema, value, old, path);
            if result.is_valid() {
                valid += 1;
                first.get_or_insert(result);
                if one_will_do {
                    break;
                }
            } else if best.as_ref().is_none_or(|best| result.matches > best.matches) {
                best = Some(result);
            }
        }
        Branches { valid, reported: first.or(best).unwrap_or_default() }
    }
}

struct Branches {
    valid: usize,
    /// Of the first valid one, or else of the one that matched best.
    reported: Outcome,
}
