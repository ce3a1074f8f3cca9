//! Runs all cases in processes of their own, and names those whose work is not linear.
//!
//! `linear [--size BYTES] [--workers N] [--report] [WORD]`: with lists of so many bytes (`192K`, `3M`), so many cases at a time,
//! a line for each; all cases or those whose name has the word.

use std::{
    io::{BufRead, BufReader},
    process::{Command, ExitCode, Stdio, exit},
    thread,
    time::Instant,
};

use linear::{
    cases::{self, Case},
    documents::LARGEST,
    steps,
};

/// How much a full list is, unless it is said: a square of the cheapest kind is twice what is allowed then.
const SIZE: usize = 192 << 10;
/// The small input is so many times smaller than the large one.
const TIMES: usize = 8;
/// The large input may take so many tenths of so many times the small one's steps: what grows with the logarithm, as sorting
/// does, has room; what grows with the square does not.
const TENTHS: u64 = 16;
/// And so many more a byte: what is made once, whatever the input.
const MORE: u64 = 6;

/// What is asked for.
#[derive(Clone)]
struct Asked {
    size: usize,
    workers: usize,
    report: bool,
    word: String,
}

impl Asked {
    fn read(mut arguments: impl Iterator<Item = String>) -> Option<Asked> {
        let mut asked = Asked { size: SIZE, workers: 2, report: false, word: String::new() };
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--size" => asked.size = size(&arguments.next()?)?.min(LARGEST),
                "--workers" => asked.workers = arguments.next()?.parse().ok().filter(|n| *n > 0)?,
                "--report" => asked.report = true,
                word if !word.starts_with("--") => asked.word = word.to_owned(),
                _ => return None,
            }
        }
        Some(asked)
    }
}

/// A number of bytes, perhaps in units of 1024 or of their square.
fn size(text: &str) -> Option<usize> {
    let (number, unit) = match text.strip_suffix('K') {
        Some(number) => (number, 1 << 10),
        None => text.strip_suffix('M').map_or((text, 1), |number| (number, 1 << 20)),
    };
    number.parse::<usize>().ok()?.checked_mul(unit).filter(|size| *size >= 1 << 10)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [worker, from, rest @ ..] = arguments.as_slice()
        && worker == "worker"
        && let Some(asked) = Asked::read(rest.iter().cloned())
    {
        work(&asked, from.parse().expect("a number"));
        return ExitCode::SUCCESS;
    }
    let Some(asked) = Asked::read(arguments.into_iter()) else {
        eprintln!("linear [--size BYTES] [--workers N] [--report] [WORD]");
        return ExitCode::from(2);
    };
    let workers: Vec<_> = (0..asked.workers)
        .map(|worker| {
            let asked = asked.clone();
            thread::spawn(move || supervise(&asked, worker))
        })
        .collect();
    let (mut count, mut faults) = (0, Vec::new());
    for worker in workers {
        let (done, found) = worker.join().expect("it does not panic");
        count += done;
        faults.extend(found);
    }
    match faults.iter().position(|fault| fault == cases::SQUARE) {
        Some(at) => drop(faults.remove(at)),
        None => faults.push(format!("{}: but it was not found, and nothing would be", cases::SQUARE)),
    }
    for fault in &faults {
        println!("not linear: {fault}");
    }
    println!("{} cases, {} not linear", count - 1, faults.len());
    if faults.is_empty() && count > 1 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Has a worker go through its cases, again from the next one on where it was ended: how many it did, and which were wrong.
fn supervise(asked: &Asked, worker: usize) -> (usize, Vec<String>) {
    let (mut done, mut faults, mut from) = (0, Vec::new(), worker);
    loop {
        let own = std::env::current_exe().expect("there is a program");
        let (size, workers) = (asked.size.to_string(), asked.workers.to_string());
        let arguments = ["worker", &from.to_string(), "--size", &size, "--workers", &workers];
        let mut command = Command::new(own);
        command.args(arguments).arg(&asked.word).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut last = String::new();
        for line in BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok) {
            if let Some((number, name)) =
                line.split_once(' ').and_then(|(n, name)| Some((n.parse::<usize>().ok()?, name)))
            {
                (from, last) = (number + asked.workers, name.to_owned());
                done += 1;
            } else if asked.report {
                println!("{line}: {last}");
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
fn work(asked: &Asked, from: usize) {
    let mut rows = kube_core::resources();
    rows.push(apiextensions::row());
    if !steps::are_counted() {
        println!("the crates are not built to count: see .ci/linear");
        exit(2);
    }
    for (i, case) in cases::all(rows).into_iter().enumerate().skip(from).step_by(asked.workers) {
        if case.name.contains(&asked.word) || case.name == cases::SQUARE {
            println!("{i} {}", case.name);
            measure(&case, asked.size);
        }
    }
}

fn measure(case: &Case, size: usize) {
    // Tables that are made once are made.
    (case.make)(size / TIMES / TIMES)();
    let small = steps::within(u64::MAX, (case.make)(size / TIMES));
    let limit = small * TIMES as u64 * TENTHS / 10 + MORE * size as u64;
    let large = (case.make)(size);
    let begun = Instant::now();
    let large = steps::within(limit, large);
    let milliseconds = begun.elapsed().as_micros() as f64 / 1000.0;
    let ratio = large as f64 / small as f64 / TIMES as f64;
    println!("took {small} and {large} steps, {ratio:.2} times as many for each byte; the latter {milliseconds:.1} ms");
}
