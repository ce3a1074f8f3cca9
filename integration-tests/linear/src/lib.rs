//! Whether the work of a write is linear in its lists: every list and map of every kind, of custom resources, of patches
//! and of managed fields is filled with as many items as the largest body holds, and what handling it executes is held
//! against what an eighth of it does.
//!
//! What is counted are the edges of the program's own flow graph ([`steps`]), not time: the same on every machine and under
//! any load. `.ci/linear` builds the crates so that they count, and runs the program.

pub mod cases;
pub mod documents;
pub mod places;
pub mod steps;
pub mod work;
