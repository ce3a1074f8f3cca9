//! Compiles the expression of an admission policy, or says what is wrong with it as the API server does:
//! `cargo run -p policies --example compile -- "object.spec.replicas <= 5"`.

use std::{env, process::ExitCode};

use policies::{Compiler, ExpectedType};

fn main() -> ExitCode {
    let expression = env::args().nth(1).unwrap_or_else(|| "variables.replicas <= 5".to_owned());
    let mut compiler = Compiler::new(false, true);
    let compiled = compiler
        .variable("replicas", "object.spec.replicas")
        .and_then(|_| compiler.compile(&expression, ExpectedType::Condition));
    match compiled {
        Ok(_) => {
            println!("it is a condition");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
