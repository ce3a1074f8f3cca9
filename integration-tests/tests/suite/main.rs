//! One test binary: real processes, real HTTPS, real clients.

mod aggregation;
mod bad_input;
mod durability;
mod kubectl;
mod readme;
mod workspace;
