//! One test binary: real processes, real HTTPS, real clients.

mod aggregation;
mod bad_input;
mod durability;
mod encryption;
mod kubectl;
mod readme;
mod workspace;
