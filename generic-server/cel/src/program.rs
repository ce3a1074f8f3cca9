//! Compiled expressions.

use crate::check::{self, Reference};
use crate::cost::{self, Cost};
use crate::env::Env;
use crate::eval::{self, Plan, Variables};
use crate::syntax::{self, Issues};
use crate::types::Type;
use crate::value::{Result, Value};

impl Env {
    /// Compiles an expression.
    pub fn compile(&self, text: &str) -> Result<Program, Issues> {
        let parsed = syntax::parse(text)?;
        let checked = check::check(self, parsed, text)?;
        let cost = cost::estimate(self, &checked);
        let mut used = vec![false; self.len()];
        for reference in &checked.refs {
            if let Reference::Variable(place) = reference {
                used[*place] = true;
            }
        }
        let result = checked.type_of(&checked.expr).clone();
        let (plan, fault) = match Plan::of(&checked) {
            Ok(plan) => (plan, None),
            Err(fault) => (Plan::Constant(Value::Null), Some(fault)),
        };
        Ok(Program { plan, fault, result, cost, used })
    }
}

/// An expression that can be evaluated.
#[derive(Clone, Debug)]
pub struct Program {
    plan: Plan,
    fault: Option<String>,
    result: Type,
    cost: Cost,
    used: Vec<bool>,
}

impl Program {
    /// The type of its value.
    pub fn result(&self) -> &Type {
        &self.result
    }

    /// What evaluating it costs at least and at most, by what is known of the sizes of its variables.
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// Why it cannot be evaluated although its types are right: a pattern in it does not compile.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Whether it names the variable of this place.
    pub fn uses(&self, place: usize) -> bool {
        self.used.get(place).copied().unwrap_or(false)
    }

    /// Evaluates, and says what it cost. It ends with an error as soon as it has cost more than `limit`.
    pub fn evaluate(&self, variables: &(impl Variables + ?Sized), limit: u64) -> (Result, u64) {
        eval::run(&self.plan, variables, limit)
    }
}
