//! How many steps were executed: edges between basic blocks in crates that are built with LLVM's coverage callbacks
//! (`tools/counted`), generic code of others in them included.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static TAKEN: AtomicU64 = AtomicU64::new(0);
static LIMIT: AtomicU64 = AtomicU64::new(u64::MAX);

/// What instrumented code calls at each edge. The program counts on one thread, so that no two calls meet.
#[allow(unsafe_code, reason = "the name is the compiler's, and nothing else has it")]
#[unsafe(no_mangle)]
pub extern "C" fn __sanitizer_cov_trace_pc() {
    let taken = TAKEN.load(Relaxed) + 1;
    TAKEN.store(taken, Relaxed);
    if taken > LIMIT.load(Relaxed) {
        over();
    }
}

/// A quadratic case would go on for hours: it ends here. Nothing may unwind through a callback.
#[cold]
fn over() {
    LIMIT.store(u64::MAX, Relaxed);
    println!("over");
    std::process::exit(OVER);
}

/// The status with which a process ends that takes more steps than it may.
pub const OVER: i32 = 7;

/// Whether anything counts here.
pub fn are_counted() -> bool {
    TAKEN.load(Relaxed) > 0
}

/// Calls a function that may take so many steps, and says how many it took.
pub fn within(limit: u64, work: impl FnOnce()) -> u64 {
    let before = TAKEN.load(Relaxed);
    LIMIT.store(before.saturating_add(limit), Relaxed);
    work();
    LIMIT.store(u64::MAX, Relaxed);
    TAKEN.load(Relaxed) - before
}
