//! Expressions of configuration files, about what clients send: evaluated where they are as long as that takes little, and
//! outside of the reactor's threads where it takes more.

use cel::{Program, Value};
use tokio::runtime::{Handle, RuntimeFlavor};

/// What one evaluation may cost (upstream's limit of a call).
const COST_LIMIT: u64 = 1_000_000;
/// What it may cost where it is begun: a thousand steps or so take some hundred microseconds.
const INLINE: u64 = 10_000;

/// The value of an expression about one variable.
///
/// # Errors
/// What went wrong.
pub(crate) fn evaluate(program: &Program, variable: &Value) -> cel::Result {
    let variables = std::slice::from_ref(variable);
    let (value, cost) = program.evaluate(variables, INLINE);
    if cost <= INLINE {
        return value;
    }
    // It is begun anew: what was done so far is little.
    blocking(|| program.evaluate(variables, COST_LIMIT).0)
}

/// Calls a function that takes long, outside of the reactor's threads. A runtime of one thread (of tests) has no others.
fn blocking<T>(work: impl FnOnce() -> T) -> T {
    let several = |handle: Handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread;
    if Handle::try_current().is_ok_and(several) { tokio::task::block_in_place(work) } else { work() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cel::{Decl, Env};

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn what_costs_much_is_evaluated_to_its_end_and_what_costs_too_much_is_not() {
        let list = Arc::new(Decl::list_of(Decl::dynamic()));
        let value = |length: usize| {
            let items: Vec<machinery::Value> = (0..length).map(|_| machinery::Value::from("x")).collect();
            cel::from_json(&machinery::Value::from(items), &list).expect("a list")
        };
        let program = Env::new().variable_with("l", &list).compile("l.all(a, l.all(b, a == b))").expect("valid");
        // The runtime has one worker, which nobody else could use meanwhile.
        for (length, expect) in [(3, true), (100, true), (2000, false)] {
            let variable = value(length);
            let found = tokio::spawn({
                let program = program.clone();
                async move { matches!(evaluate(&program, &variable), Ok(Value::Bool(true))) }
            });
            assert_eq!(found.await.expect("no panic"), expect, "{length}");
        }
    }
}
