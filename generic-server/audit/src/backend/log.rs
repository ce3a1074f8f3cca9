//! The log: one thread writes lines, those that have gathered meanwhile together.

use std::{
    fs::{File, OpenOptions},
    io::{self, IoSlice, Write},
    mem,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::oneshot;

use super::{MAX_WAITING, batch::Sink, rotate::Rotating};
use crate::{ack::Ack, metrics::Metrics};

pub use super::rotate::LogFile;

const PLUGIN: &str = "log";

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON.
    Json,
    /// Text.
    Legacy,
}

/// A log, and the thread that writes it. The thread ends with its last owner.
#[derive(Clone)]
pub struct Log {
    format: Format,
    shared: Arc<Shared>,
    _owned: Arc<Owned>,
}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    metrics: Metrics,
}

/// Ends the thread.
struct Owned(Arc<Shared>);

impl Drop for Owned {
    fn drop(&mut self) {
        lock(&self.0).ended = true;
        self.0.wake.notify_one();
    }
}

/// Lines that nobody waits for are gathered so long: those of one request are mostly written together, and under load the
/// thread is not woken for each.
const LINGER: Duration = Duration::from_millis(5);

#[derive(Default)]
struct State {
    pending: Vec<Entry>,
    bytes: usize,
    /// Somebody waits for one of those.
    is_urgent: bool,
    rest: Rest,
    ended: bool,
}

/// What the thread does when it does not write.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Rest {
    /// Nothing: it writes, or is about to.
    #[default]
    No,
    /// It gathers lines, for a while.
    Gathers,
    /// It has nothing to do.
    Sleeps,
}

/// Lines, and who waits for them.
struct Entry {
    lines: Vec<Bytes>,
    done: Option<oneshot::Sender<bool>>,
}

/// Writing takes as long as it takes: the queue before it is bounded.
fn far() -> Instant {
    Instant::now() + Duration::from_secs(365 * 24 * 60 * 60)
}

fn lock(shared: &Shared) -> MutexGuard<'_, State> {
    shared.state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Log {
    /// To standard output.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn stdout(format: Format, metrics: &Metrics) -> io::Result<Self> {
        Self::start(Target::Stdout(io::stdout()), format, metrics)
    }

    /// To a file, which is made if it is not there.
    ///
    /// # Errors
    /// The file cannot be made or opened, or no thread can be started.
    pub fn file(file: LogFile, format: Format, metrics: &Metrics) -> io::Result<Self> {
        file.ensure()?;
        let target = match file.max_bytes {
            None => Target::Plain(OpenOptions::new().append(true).open(&file.path)?),
            Some(_) => Target::Rotating(Rotating::new(file)?),
        };
        Self::start(target, format, metrics)
    }

    fn start(target: Target, format: Format, metrics: &Metrics) -> io::Result<Self> {
        let shared = Arc::new(Shared { state: Mutex::default(), wake: Condvar::new(), metrics: metrics.clone() });
        let writer = Writer { target, shared: shared.clone(), is_torn: false };
        thread::Builder::new().name("audit-log".to_owned()).spawn(move || writer.run())?;
        Ok(Log { format, _owned: Arc::new(Owned(shared.clone())), shared })
    }

    pub(super) fn format(&self) -> Format {
        self.format
    }

    /// Writes lines behind those before them; `waits`: whether somebody wants to know what came of it.
    pub(super) fn push(&self, lines: Vec<Bytes>, waits: bool) -> Ack {
        let size: usize = lines.iter().map(Bytes::len).sum();
        let mut state = lock(&self.shared);
        if state.bytes > 0 && state.bytes + size > MAX_WAITING {
            drop(state);
            self.shared.metrics.lost(PLUGIN, lines.len(), "the log does not keep up");
            return Ack::taken(false);
        }
        let (done, ack) = match waits {
            true => {
                let (sender, receiver) = oneshot::channel();
                (Some(sender), Ack::waiting(receiver))
            }
            false => (None, Ack::taken(true)),
        };
        state.bytes += size;
        state.pending.push(Entry { lines, done });
        state.is_urgent |= waits;
        let wakes = match state.rest {
            Rest::No => false,
            Rest::Gathers => waits,
            Rest::Sleeps => true,
        };
        if wakes {
            state.rest = Rest::No;
        }
        drop(state);
        if wakes {
            self.shared.wake.notify_one();
        }
        ack
    }

    /// Waits until all lines are written.
    pub(super) async fn flush(&self) {
        self.push(Vec::new(), true).wait_until(far()).await;
    }
}

#[async_trait]
impl Sink for Log {
    async fn take(&self, batch: Vec<Bytes>) {
        self.push(batch, true).wait_until(far()).await;
    }

    fn at_once(&self) -> usize {
        1
    }
}

enum Target {
    Stdout(io::Stdout),
    Plain(File),
    Rotating(Rotating),
}

struct Writer {
    target: Target,
    shared: Arc<Shared>,
    /// The last line was not written whole.
    is_torn: bool,
}

impl Writer {
    fn run(mut self) {
        let mut entries = Vec::new();
        while self.next(&mut entries) {
            self.write(&mut entries);
        }
    }

    /// Waits for entries; `false` when there will be no more.
    fn next(&self, entries: &mut Vec<Entry>) -> bool {
        let mut state = lock(&self.shared);
        let mut until = Instant::now() + LINGER;
        while !state.is_urgent && !state.ended {
            let wake = &self.shared.wake;
            let left = until.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                state.rest = Rest::Gathers;
                state = wake.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            } else if state.pending.is_empty() {
                state.rest = Rest::Sleeps;
                state = wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                until = Instant::now() + LINGER;
            } else {
                break;
            }
        }
        state.rest = Rest::No;
        state.is_urgent = false;
        mem::swap(&mut state.pending, entries);
        !entries.is_empty() || !state.ended
    }

    fn write(&mut self, entries: &mut Vec<Entry>) {
        let mut written = 0;
        // What fits into the file together is written together.
        let lines: Vec<&Bytes> = entries.iter().flat_map(|entry| &entry.lines).collect();
        let mut failures = Vec::new(); // their numbers, rising
        while written < lines.len() {
            let (count, result) = self.write_some(&lines[written..]);
            if let Err(error) = result {
                self.shared.metrics.lost(PLUGIN, count, &error.to_string());
                failures.extend(written..written + count);
            }
            written += count;
        }
        drop(lines);
        let (mut number, mut failures) = (0, failures.into_iter().peekable());
        let mut size = 0;
        for entry in entries.drain(..) {
            number += entry.lines.len();
            size += entry.lines.iter().map(Bytes::len).sum::<usize>();
            let mut taken = true;
            while failures.next_if(|failed| *failed < number).is_some() {
                taken = false;
            }
            if let Some(done) = entry.done {
                let _ = done.send(taken); // whoever waited may have gone
            }
        }
        lock(&self.shared).bytes -= size;
    }

    /// Writes some of these lines; how many, and what came of it.
    fn write_some(&mut self, lines: &[&Bytes]) -> (usize, io::Result<()>) {
        const TOGETHER: usize = 64;
        let (count, file): (usize, &mut dyn Write) = match &mut self.target {
            Target::Stdout(stdout) => (lines.len().min(TOGETHER), stdout),
            Target::Plain(file) => (lines.len().min(TOGETHER), file),
            Target::Rotating(rotating) => match rotating.room_for(&lines[..lines.len().min(TOGETHER)]) {
                Ok((count, file)) => (count, file),
                Err((count, error)) => return (count, Err(error)),
            },
        };
        let result = write_whole(file, &lines[..count], &mut self.is_torn);
        (count, result)
    }
}

/// Writes lines; where the last attempt has left a part of one, that is ended first.
fn write_whole(file: &mut dyn Write, lines: &[&Bytes], is_torn: &mut bool) -> io::Result<()> {
    let head: &[u8] = if *is_torn { b"\n" } else { b"" };
    let mut slices: Vec<IoSlice<'_>> =
        std::iter::once(head).chain(lines.iter().map(|line| &***line)).map(IoSlice::new).collect();
    let mut slices = &mut slices[..];
    IoSlice::advance_slices(&mut slices, 0); // empty ones at the front
    while !slices.is_empty() {
        match file.write_vectored(slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                *is_torn = true;
                IoSlice::advance_slices(&mut slices, written);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    file.flush()?;
    *is_torn = false;
    Ok(())
}
