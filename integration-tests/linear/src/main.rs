//! Runs all cases, two at a time, and names those whose work is not linear. `linear [WORD]`: those whose name has the word.

use std::{
    io::{BufRead, BufReader},
    process::{Command, ExitCode, Stdio, exit},
    thread,
};

use linear::{
    cases::{self, Case},
    steps,
};

/// How many processes work.
const WORKERS: usize = 2;

/// The largest input may take so many eighths as many steps as an eighth of it, in tenths: what grows with the logarithm, as
/// sorting does, has room; what grows with the square does not.
const TENTHS: u64 = 16;
/// And so many more, whatever the input.
const MORE: u64 = 20_000_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, from] = arguments.as_slice() {
        work(word, from.parse().expect("a number"));
        return ExitCode::SUCCESS;
    }
    let word = arguments.first().cloned().unwrap_or_default();
    let workers: Vec<_> = (0..WORKERS)
        .map(|worker| {
            let word = word.clone();
            thread::spawn(move || supervise(&word, worker))
        })
        .collect();
    let (mut count, mut faults) = (0, Vec::new());
    for worker in workers {
        let (done, found) = worker.join().expect("it does not panic");
        count += done;
        faults.extend(found);
    }
    for fault in &faults {
        println!("not linear: {fault}");
    }
    println!("{count} cases, {} not linear", faults.len());
    if faults.is_empty() && count > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Has a worker go through its cases, again from the next one on where it was ended: how many it did, and which were wrong.
fn supervise(word: &str, worker: usize) -> (usize, Vec<String>) {
    let (mut done, mut faults, mut from) = (0, Vec::new(), worker);
    loop {
        let own = std::env::current_exe().expect("there is a program");
        let mut child =
            Command::new(own).args([word, &from.to_string()]).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut last = String::new();
        for line in BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok) {
            if let Some((number, name)) =
                line.split_once(' ').and_then(|(n, name)| Some((n.parse::<usize>().ok()?, name)))
            {
                (from, last) = (number + WORKERS, name.to_owned());
                done += 1;
            }
        }
        let status = child.wait().expect("it ends");
        if status.success() {
            return (done, faults);
        }
        let why = if status.code() == Some(steps::OVER) { String::new() } else { format!(" ({status})") };
        assert!(!last.is_empty() || status.code() == Some(steps::OVER), "the worker does not start: {status}");
        faults.push(format!("{last}{why}"));
    }
}

/// Goes through a worker's cases from one on.
fn work(word: &str, from: usize) {
    let mut rows = kube_core::resources();
    rows.push(apiextensions::row());
    if !steps::are_counted() {
        println!("the crates are not built to count: see .ci/linear");
        exit(2);
    }
    for (i, case) in cases::all(rows).into_iter().enumerate().skip(from).step_by(WORKERS) {
        if case.name.contains(word) {
            println!("{i} {}", case.name);
            measure(&case);
        }
    }
}

fn measure(case: &Case) {
    // Tables that are made once are made.
    (case.make)(1)();
    let small = steps::within(u64::MAX, (case.make)(1));
    let large = steps::within(small * 8 * TENTHS / 10 + MORE, (case.make)(8));
    println!("took {small} {large}");
}
