//! A priority level with two seats and one queue: what runs at once, what waits, and what is turned away.

use flowcontrol::{Arrival, LimitResponse, QueueSet, Work};

fn main() {
    let mut level = QueueSet::new(LimitResponse::Reject, 2);
    let mut running = Vec::new();
    for request in 1..=3 {
        match level.arrive(request, request, Work::seats(1), 0, &mut Vec::new()) {
            Arrival::Execute(execution) => {
                println!("{request} runs");
                running.push(execution);
            }
            Arrival::Reject(_) => println!("{request} is turned away"),
            _ => println!("{request} waits"),
        }
    }
    for execution in running {
        level.finish(10, execution, &mut Vec::new());
    }
    let again = level.arrive(11, 3, Work::seats(1), 0, &mut Vec::new());
    println!("3 {} later", if matches!(again, Arrival::Execute(_)) { "runs" } else { "does not run" });
}
