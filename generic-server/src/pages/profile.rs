//! `/debug/pprof/profile`: where the time of the processor goes, as a file for `go tool pprof`.
//!
//! Differs: there are no stacks in it but the thread's name and whether its own code or the kernel's ran. What it says is
//! the kernel's own account of every thread: nothing is interrupted to take it, and it costs nothing while nobody asks.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, SystemTime},
};

use flate2::{Compression, write::GzEncoder};
use http::{HeaderValue, StatusCode, header};
use machinery::codec::protobuf::wire::{BYTES, VARINT, key, put_bytes, put_varint};

use crate::{
    body::Body,
    response::{self, Response},
};

/// How long a profile takes if the request does not say it, in seconds.
const USUAL: u64 = 30;
/// How long it takes at most.
const LONGEST: u64 = 300;
/// The kernel counts in these, in nanoseconds: a hundred a second on every architecture that we run on.
const TICK: u64 = 10_000_000;

/// One profile is made at a time.
static RUNNING: AtomicBool = AtomicBool::new(false);

struct Running;

impl Running {
    fn start() -> Option<Running> {
        (!RUNNING.swap(true, Ordering::AcqRel)).then_some(Running)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.store(false, Ordering::Release);
    }
}

/// Watches the threads for as long as the request says, and answers with what they did.
pub(super) async fn serve(seconds: Option<&str>) -> Response {
    let Some(_running) = Running::start() else {
        return failed("cpu profiling already in use");
    };
    let seconds = duration(seconds);
    match record(seconds).await {
        Ok(profile) => {
            let mut response = response::bytes(StatusCode::OK, "application/octet-stream", Body::full(profile));
            let headers = response.headers_mut();
            headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"profile\""));
            response
        }
        Err(error) => failed(&error.to_string()),
    }
}

fn failed(why: &str) -> Response {
    response::text(StatusCode::INTERNAL_SERVER_ERROR, format!("Could not enable CPU profiling: {why}\n"))
}

/// What is no number above zero counts as nothing said.
fn duration(seconds: Option<&str>) -> u64 {
    seconds.and_then(|s| s.parse::<i64>().ok()).filter(|s| *s > 0).map_or(USUAL, |s| s.unsigned_abs().min(LONGEST))
}

async fn record(seconds: u64) -> io::Result<Vec<u8>> {
    let started = SystemTime::now();
    let mut account = Account::default();
    account.look(true)?;
    for _ in 0..seconds {
        tokio::time::sleep(Duration::from_secs(1)).await; // threads that end are seen shortly before
        account.look(false)?;
    }
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&account.profile(started, seconds))?;
    gzip.finish()
}

/// What a thread has used, in ticks.
#[derive(Clone, Copy, Default)]
struct Used {
    user: u64,
    kernel: u64,
}

struct Thread {
    name: String,
    first: Used,
    last: Used,
}

/// The threads that there were, by their number.
#[derive(Default)]
struct Account(BTreeMap<u64, Thread>);

impl Account {
    /// Threads that are new at the first look have a past; those that come later do not.
    fn look(&mut self, is_first: bool) -> io::Result<()> {
        for entry in std::fs::read_dir("/proc/self/task")? {
            let entry = entry?;
            let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            // A thread may have ended since the folder was read.
            let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
            let Some((name, used)) = parse(&stat) else { continue };
            let first = if is_first { used } else { Used::default() };
            let thread = self.0.entry(number).or_insert_with(|| Thread { name: name.to_owned(), first, last: used });
            thread.last = used;
        }
        Ok(())
    }

    /// The message that pprof reads: a sample for each thread's own and kernel time.
    fn profile(&self, started: SystemTime, seconds: u64) -> Vec<u8> {
        let mut times: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for thread in self.0.values() {
            *times.entry((&thread.name, "user")).or_default() += thread.last.user.saturating_sub(thread.first.user);
            *times.entry((&thread.name, "kernel")).or_default() +=
                thread.last.kernel.saturating_sub(thread.first.kernel);
        }
        times.retain(|_, ticks| *ticks > 0);
        let nanos = started.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
        encode(&times, nanos, seconds)
    }
}

/// The name, and the times used, in `/proc/self/task/N/stat`: the name stands in parentheses and may hold some.
fn parse(stat: &str) -> Option<(&str, Used)> {
    let (start, rest) = stat.rsplit_once(')')?;
    let (_, name) = start.split_once('(')?;
    let mut numbers = rest.split_ascii_whitespace().skip(11).map(str::parse::<u64>);
    let (user, kernel) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some((name, Used { user, kernel }))
}

/// Texts by their place in the profile's table; the first is empty.
struct Texts(Vec<String>);

impl Texts {
    fn place(&mut self, text: &str) -> u64 {
        let found = self.0.iter().position(|t| t == text);
        found.unwrap_or_else(|| {
            self.0.push(text.to_owned());
            self.0.len() - 1
        }) as u64
    }
}

/// The fields of pprof's Profile: 1 what is measured, 2 samples, 4 locations, 5 functions, 6 texts, 9 when, 10 how long, 11
/// and 12 how often. A function and a location stand for each name, with the number of its text.
fn encode(times: &BTreeMap<(&str, &str), u64>, nanos: u64, seconds: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut texts = Texts(vec![String::new()]);
    let message = |out: &mut Vec<u8>, number: u32, fields: &[(u32, u64)]| {
        let mut inner = Vec::new();
        fields.iter().for_each(|(number, value)| field(&mut inner, *number, *value));
        put_bytes(out, key(number, BYTES), &inner);
    };
    let (samples, count) = (texts.place("samples"), texts.place("count"));
    let (cpu, nanoseconds) = (texts.place("cpu"), texts.place("nanoseconds"));
    message(&mut out, 1, &[(1, samples), (2, count)]);
    message(&mut out, 1, &[(1, cpu), (2, nanoseconds)]);
    let mut names = Vec::new();
    for ((thread, mode), ticks) in times {
        let (thread, mode) = (texts.place(thread), texts.place(mode));
        message(&mut out, 2, &[(1, mode), (1, thread), (2, *ticks), (2, ticks * TICK)]); // the innermost comes first
        names.extend([mode, thread]);
    }
    names.sort_unstable();
    names.dedup();
    for name in names {
        let mut location = Vec::new();
        field(&mut location, 1, name);
        message(&mut location, 4, &[(1, name)]);
        put_bytes(&mut out, key(4, BYTES), &location);
        message(&mut out, 5, &[(1, name), (2, name), (3, name)]);
    }
    texts.0.iter().for_each(|text| put_bytes(&mut out, key(6, BYTES), text.as_bytes()));
    field(&mut out, 9, nanos);
    field(&mut out, 10, seconds * 1_000_000_000);
    message(&mut out, 11, &[(1, cpu), (2, nanoseconds)]);
    field(&mut out, 12, TICK);
    out
}

fn field(out: &mut Vec<u8>, number: u32, value: u64) {
    put_varint(out, key(number, VARINT).into());
    put_varint(out, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threads_account_is_read_whatever_it_is_called() {
        let stat = "12 (a) (b c) S 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20 0 1 0 99";
        let (name, used) = parse(stat).expect("a thread");
        assert_eq!((name, used.user, used.kernel), ("a) (b c", 150, 25));
        assert!(parse("12 (a) S 1").is_none());
        assert!(parse("").is_none());
    }

    #[test]
    fn what_is_no_duration_is_the_usual_one_and_none_is_endless() {
        for (asked, expect) in [
            (None, 30),
            (Some(""), 30),
            (Some("x"), 30),
            (Some("-1"), 30),
            (Some("0"), 30),
            (Some("2"), 2),
            (Some("999999999999"), 300),
        ] {
            assert_eq!(duration(asked), expect, "{asked:?}");
        }
    }

    #[test]
    fn a_profile_is_pprofs_message() {
        let times = BTreeMap::from([(("writer", "user"), 2), (("writer", "kernel"), 1)]);
        let bytes = encode(&times, 5, 1);
        let wanted: &[&[u8]] = &[
            b"\x0a\x04\x08\x01\x10\x02",                                 // samples, count
            b"\x0a\x04\x08\x03\x10\x04",                                 // cpu, nanoseconds
            b"\x12\x0b\x08\x06\x08\x05\x10\x01\x10\x80\xad\xe2\x04",     // kernel of writer: one tick
            b"\x12\x0b\x08\x07\x08\x05\x10\x02\x10\x80\xda\xc4\x09",     // user of writer: two
            b"\x22\x06\x08\x05\x22\x02\x08\x05\x2a\x06\x08\x05\x10\x05\x18\x05",
            b"\x22\x06\x08\x06\x22\x02\x08\x06\x2a\x06\x08\x06\x10\x06\x18\x06",
            b"\x22\x06\x08\x07\x22\x02\x08\x07\x2a\x06\x08\x07\x10\x07\x18\x07",
            b"\x32\x00\x32\x07samples\x32\x05count\x32\x03cpu\x32\x0bnanoseconds\x32\x06writer\x32\x06kernel\x32\x04user",
            b"\x48\x05\x50\x80\x94\xeb\xdc\x03\x5a\x04\x08\x03\x10\x04\x60\x80\xad\xe2\x04",
        ];
        assert_eq!(bytes, wanted.concat());
    }

    #[tokio::test]
    async fn one_profile_is_made_at_a_time() {
        let first = tokio::spawn(async { serve(Some("1")).await });
        tokio::task::yield_now().await;
        let second = serve(Some("1")).await;
        assert_eq!(second.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let first = first.await.expect("an answer");
        assert_eq!(
            (first.status(), first.headers()[header::CONTENT_TYPE].as_bytes()),
            (StatusCode::OK, &b"application/octet-stream"[..])
        );
        assert!(Running::start().is_some());
    }
}
