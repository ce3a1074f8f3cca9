//! Where lines of logs go: all to standard error; or, split, errors there and the rest to standard output, which may be kept
//! back for a while.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use tracing::Level;
use tracing_subscriber::fmt::MakeWriter;

/// What is kept back, if anything is.
static KEPT: OnceLock<Buffer> = OnceLock::new();

/// Makes the writers of log lines.
#[derive(Clone)]
pub(super) enum Streams {
    /// All go to standard error.
    One,
    /// Errors go to standard error, the rest to standard output.
    Two,
    /// The same, but that the rest is kept back until there is this much of it, or its time has come.
    Buffered(Buffer),
}

impl Streams {
    /// As flags have it. `size` is in bytes: what is not an error is kept back until there is as much.
    pub(super) fn new(split: bool, size: usize, flush_every: Duration) -> Self {
        match (split, size) {
            (false, _) => Streams::One,
            (true, 0) => Streams::Two,
            (true, size) => {
                let buffer = KEPT.get_or_init(|| Buffer::new(io::stdout(), size)).clone();
                let flushed = buffer.clone();
                // A thread of its own: logging begins before the runtime and ends after it.
                let flush = move || loop {
                    std::thread::sleep(flush_every);
                    flushed.flush();
                };
                if let Err(error) = std::thread::Builder::new().name("log-flush".to_owned()).spawn(flush) {
                    eprintln!("logs are only flushed when the buffer is full: {error}");
                }
                Streams::Buffered(buffer)
            }
        }
    }
}

impl<'a> MakeWriter<'a> for Streams {
    type Writer = Box<dyn Write + 'a>;

    fn make_writer(&'a self) -> Self::Writer {
        Box::new(io::stderr())
    }

    fn make_writer_for(&'a self, meta: &tracing::Metadata<'_>) -> Self::Writer {
        match self {
            Streams::Two if *meta.level() != Level::ERROR => Box::new(io::stdout()),
            Streams::Buffered(buffer) if *meta.level() != Level::ERROR => Box::new(buffer.clone()),
            _ => Box::new(io::stderr()),
        }
    }
}

/// Writes what is kept back.
pub(super) fn flush() {
    if let Some(buffer) = KEPT.get() {
        buffer.flush();
    }
}

/// Lines that are kept back.
#[derive(Clone)]
pub(super) struct Buffer(Arc<Mutex<io::BufWriter<Box<dyn Write + Send>>>>);

impl Buffer {
    fn new(inner: impl Write + Send + 'static, size: usize) -> Self {
        Buffer(Arc::new(Mutex::new(io::BufWriter::with_capacity(size, Box::new(inner)))))
    }

    /// That nobody reads standard output any more is no reason to stop.
    fn flush(&self) {
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).flush();
    }
}

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    /// Subscribers flush after each line, which is what the buffer is there to avoid.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("nobody panics").extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_kept_back_until_there_are_enough_of_them_or_they_are_asked_for() {
        let sink = Sink::default();
        let buffer = Buffer::new(sink.clone(), 16);
        let written = || String::from_utf8(sink.0.lock().expect("nobody panics").clone()).expect("text");
        let line = |text: &str| buffer.clone().write_all(text.as_bytes()).expect("room");
        line("one\n");
        assert_eq!(written(), "");
        line("two\n");
        line("three four\n");
        assert_eq!(written(), "one\ntwo\n");
        buffer.flush();
        assert_eq!(written(), "one\ntwo\nthree four\n");
    }
}
