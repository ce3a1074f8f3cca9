//! Evaluates an expression about a text: `cargo run --example evaluate -- "self.startsWith('a')" abc`.

use std::{env, process::ExitCode};

use cel::{Env, Type, Value};

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let expression = arguments.next().unwrap_or_else(|| "self.size() > 2 && self.startsWith('a')".to_owned());
    let text = arguments.next().unwrap_or_else(|| "abc".to_owned());
    let program = match Env::new().variable_of("self", Type::String).compile(&expression) {
        Ok(program) => program,
        Err(wrong) => {
            eprintln!("{wrong}");
            return ExitCode::FAILURE;
        }
    };
    let (result, cost) = program.evaluate(&[Value::string(text)][..], 1_000_000);
    println!("{result:?}, which took {cost:?}");
    ExitCode::SUCCESS
}
