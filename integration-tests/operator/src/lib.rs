//! Only tests are here: see `tests/controller.rs`.
