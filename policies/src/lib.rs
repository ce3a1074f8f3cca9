//! Expressions that decide about writes: those of admission policies, and the match conditions of webhooks.
//!
//! [`Compiler`] turns an expression into a program, or says what is wrong with it in upstream's words; validation of the kinds
//! and evaluation use the same one.

mod compile;
mod declarations;

pub use compile::{Compiler, Fault, Wanted};
