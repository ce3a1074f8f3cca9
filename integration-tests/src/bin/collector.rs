//! A collector of traces at a port, which prints each trace as a tree: `collector PORT`. What two servers say of the same
//! requests can be compared so.

use std::{collections::BTreeSet, time::Duration};

use integration_tests::{Collected, Collector, text};

fn main() {
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok()).expect("a port");
    let collector = Collector::start(port);
    let mut shown = BTreeSet::new();
    loop {
        std::thread::sleep(Duration::from_secs(1));
        for root in collector.spans() {
            let span = &root.span;
            let all = collector.trace(&span.trace_id);
            let is_root = !all.iter().any(|other| other.span.span_id == span.parent_span_id);
            if is_root && shown.insert((span.trace_id.clone(), span.span_id.clone())) {
                show(&root, &all, 0);
                println!();
            }
        }
    }
}

fn show(of: &Collected, all: &[Collected], depth: usize) {
    let span = &of.span;
    let indent = "  ".repeat(depth);
    println!(
        "{indent}{} [kind {} flags {:#x} links {}] {} {}",
        span.name,
        span.kind,
        span.flags,
        span.links.len(),
        of.scope.0,
        of.scope.1
    );
    for attribute in &span.attributes {
        println!("{indent}    {} = {}", attribute.key, text(attribute));
    }
    for event in &span.events {
        let said: Vec<_> = event.attributes.iter().map(|a| format!("{}={}", a.key, text(a))).collect();
        println!("{indent}    * {} {}", event.name, said.join(" "));
    }
    if let Some(status) = span.status.as_ref().filter(|status| status.code != 0) {
        println!("{indent}    ! {} {}", status.code, status.message);
    }
    for child in all.iter().filter(|other| other.span.parent_span_id == span.span_id) {
        show(child, all, depth + 1);
    }
}
