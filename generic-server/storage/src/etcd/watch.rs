//! Watches on etcd: a task each, which feeds its sink and resumes where it was when a connection or a server is lost.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use etcd_client::{Client, WatchOptions, WatchRequestSender, WatchResponse, WatchResponseStream};
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use super::{
    MOST_BYTES, Shared,
    convert::{event, failure, prefix_end, revision_of},
};
use crate::{
    Error, Event, Revision, Sink, Watch,
    watchers::{Alive, Watcher},
};

/// Between attempts to open a lost watch again: at first, and at most.
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// etcd looks every 100 ms after watches that are behind; one that asked for history has it after a few of these.
const SETTLED: Duration = Duration::from_millis(500);
/// A request for progress without an answer for so long is taken for ignored: servers from 3.4.31 and 3.5.13 on do so
/// while a watch is still behind. (Upstream's server asks every 100 ms as long as a read waits.)
const IGNORED: Duration = Duration::from_millis(100);
/// The watch id of progress that was asked for.
const ASKED: i64 = -1;

/// How servers answer a request for progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// After all events before it (3.4.31, 3.5.13 and later).
    Exact,
    /// Perhaps before events that are on their way: it takes several answers to be sure of the first.
    Loose,
}

/// How often a loose server is asked for one answer. Events wait in line with the answers and are picked at random, so an
/// event that stays behind so many of them is out of the question.
const LOOSE_ANSWERS: u32 = 24;

/// Asks a server for its version; one that does not answer is taken for an old one.
pub(super) async fn progress_of(client: &Client, patience: Duration) -> Progress {
    let status = timeout(patience, client.maintenance_client().status()).await;
    let version = status.ok().and_then(Result::ok).map(|status| status.version().to_owned());
    if version.is_some_and(|version| is_exact(&version)) { Progress::Exact } else { Progress::Loose }
}

fn is_exact(version: &str) -> bool {
    let mut numbers = version.split(['.', '-', '+']).map_while(|part| part.parse::<u32>().ok());
    let (major, minor, patch) = (numbers.next(), numbers.next(), numbers.next());
    match (major, minor, patch) {
        (Some(3), Some(4), Some(patch)) => patch >= 31,
        (Some(3), Some(5), Some(patch)) => patch >= 13,
        (Some(major), Some(minor), _) => (major, minor) > (3, 5),
        _ => false,
    }
}

/// Where each watch hears that its progress is wanted, by the prefix of its keys. (A server that is asked about all watches,
/// whenever one cache waits, has more to do with answers than with anything else.)
#[derive(Default)]
pub(super) struct Prompts(Mutex<HashMap<Arc<str>, Weak<Notify>>>);

impl Prompts {
    /// For a watch that is opened.
    fn of(&self, prefix: &str) -> Arc<Notify> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(prompt) = all.get(prefix).and_then(Weak::upgrade) {
            return prompt;
        }
        all.retain(|_, prompt| prompt.strong_count() > 0);
        let prompt = Arc::new(Notify::new());
        all.insert(prefix.into(), Arc::downgrade(&prompt));
        prompt
    }

    /// Wants the progress of the watches of a prefix.
    pub(super) fn ask(&self, prefix: &str) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(prompt) = all.get(prefix).and_then(Weak::upgrade) {
            prompt.notify_waiters();
        }
    }
}

/// Opens a watch; fails if no server can be reached.
pub(super) async fn open(
    shared: &Arc<Shared>,
    prefix: &str,
    after: Revision,
    sink: Arc<dyn Sink>,
) -> Result<Watch, Error> {
    if shared.closed.is_cancelled() {
        return Err(Error::Closed);
    }
    let (alive, ended) = Alive::new();
    let prompt = shared.progress.of(prefix);
    let feed = Feed { shared: shared.clone(), prefix: prefix.into(), prompt, watcher: Watcher { sink, alive, after } };
    let stream = feed.connect().await?;
    let task = shared.tasks.spawn(async move { feed.run(stream).await });
    let abort = task.abort_handle();
    Ok(Watch::new(move || {
        drop(ended);
        abort.abort();
    }))
}

struct Feed {
    shared: Arc<Shared>,
    prefix: String,
    /// Tells that its progress is wanted.
    prompt: Arc<Notify>,
    /// Its `after` is what has been fed.
    watcher: Watcher,
}

type Stream = (WatchRequestSender, WatchResponseStream);

/// Why a stream is left.
enum Left {
    /// It can be opened again.
    Lost(String),
    /// It is over.
    Ended(Error),
}

impl Feed {
    async fn run(mut self, mut stream: Stream) {
        let mut pause = PAUSE;
        let closed = self.shared.closed.clone();
        loop {
            let before = self.watcher.after;
            let left = tokio::select! {
                left = self.follow(&mut stream) => left,
                () = closed.cancelled() => Left::Ended(Error::Closed),
            };
            match left {
                Left::Ended(error) => return self.watcher.close(error),
                Left::Lost(reason) => tracing::debug!(prefix = self.prefix, reason, "a watch is opened again"),
            }
            if self.watcher.after > before {
                pause = PAUSE;
            }
            loop {
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = closed.cancelled() => return self.watcher.close(Error::Closed),
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
                match self.connect().await {
                    Ok(again) => break stream = again,
                    Err(Error::Closed) => return self.watcher.close(Error::Closed),
                    Err(error) => tracing::debug!(prefix = self.prefix, %error, "a watch cannot be opened again yet"),
                }
            }
        }
    }

    async fn connect(&self) -> Result<Stream, Error> {
        let options = WatchOptions::new()
            .with_range(prefix_end(&self.prefix))
            .with_start_revision(self.watcher.after as i64 + 1)
            .with_prev_key()
            .with_progress_notify();
        let key = if self.prefix.is_empty() { "\0" } else { &self.prefix };
        let stream = self.shared.call(true, || {
            let mut client = self.shared.client.watch_client().max_decoding_message_size(MOST_BYTES);
            let options = options.clone();
            async move { client.watch(key, Some(options)).await }
        });
        Ok(stream.await?.split())
    }

    /// Feeds what a stream brings until it is lost or over.
    async fn follow(&mut self, (requests, responses): &mut Stream) -> Left {
        let (progress, begun) = (self.prompt.clone(), Instant::now());
        let mut asking = Asking::default();
        let mut asked = std::pin::pin!(progress.notified());
        loop {
            let response = tokio::select! {
                response = responses.message() => response,
                () = &mut asked => {
                    asked.set(progress.notified());
                    if asking.begin(self.shared.told, Instant::now()) && requests.request_progress().await.is_err() {
                        return Left::Lost("the stream takes no requests".into());
                    }
                    continue;
                }
            };
            let response = match response {
                Ok(Some(response)) => response,
                Ok(None) => return Left::Lost("the stream ended".into()),
                Err(error) => return Left::Lost(error.to_string()),
            };
            if response.watch_id() == ASKED {
                let (known, again) = asking.answered(self.shared.told, revision_of(response.header()), Instant::now());
                if let Some(revision) = known {
                    self.progress(revision);
                }
                if again && requests.request_progress().await.is_err() {
                    return Left::Lost("the stream takes no requests".into());
                }
                if known.is_none() && begun.elapsed() < SETTLED {
                    tokio::time::sleep(SETTLED / LOOSE_ANSWERS).await;
                }
            } else if let Some(left) = self.take(&response) {
                return left;
            }
        }
    }

    fn take(&mut self, response: &WatchResponse) -> Option<Left> {
        if response.compact_revision() > 0 {
            return Some(Left::Ended(Error::Compacted { oldest: response.compact_revision() as Revision }));
        }
        if response.canceled() {
            return Some(Left::Lost(format!("etcd ended the watch: {}", response.cancel_reason())));
        }
        if response.created() {
            return None;
        }
        let events: Vec<Event> = response.events().iter().filter_map(event).collect();
        match events.last() {
            Some(last) => {
                let last = last.revision;
                self.watcher.feed(&events);
                self.watcher.after = self.watcher.after.max(last);
            }
            None => self.progress(revision_of(response.header())),
        }
        None
    }

    fn progress(&mut self, revision: Revision) {
        self.watcher.after = self.watcher.after.max(revision);
        self.watcher.progress(revision);
    }
}

/// A request for progress that is under way.
#[derive(Default)]
struct Asking {
    /// Answers still to come.
    left: u32,
    /// The first answer.
    first: Revision,
    /// Asked again meanwhile: the answer under way may be too old for that.
    again: bool,
    /// When the last request was sent.
    sent: Option<Instant>,
}

impl Asking {
    /// Whether a request must be sent.
    fn begin(&mut self, told: Progress, now: Instant) -> bool {
        let ignored = told == Progress::Exact && self.sent.is_some_and(|sent| now >= sent + IGNORED);
        if self.left > 0 && !ignored {
            self.again = true;
            return false;
        }
        self.left = LOOSE_ANSWERS;
        self.first = 0;
        self.sent = Some(now);
        true
    }

    /// Takes an answer: the revision that is known now, if any, and whether another request must be sent.
    fn answered(&mut self, told: Progress, revision: Revision, now: Instant) -> (Option<Revision>, bool) {
        if self.first == 0 {
            self.first = revision;
        }
        self.left = self.left.saturating_sub(1);
        if told == Progress::Loose && self.left > 0 {
            return (None, true);
        }
        self.left = 0;
        let known = self.first;
        let again = std::mem::take(&mut self.again) && self.begin(told, now);
        (Some(known), again)
    }
}

/// The oldest revision that etcd can still show: what it tells a watch from the beginning.
pub(super) async fn oldest(shared: &Shared) -> Result<Revision, Error> {
    let options = etcd_client::GetOptions::new().with_revision(1).with_count_only();
    match shared.get("\0", Some(options)).await {
        Ok(_) => return Ok(1),
        Err(failed) if failed.compacted => {}
        Err(failed) => return Err(failed.into()),
    }
    let stream = shared.call(true, || {
        let mut client = shared.client.watch_client();
        async move { client.watch("\0", Some(WatchOptions::new().with_start_revision(1))).await }
    });
    let mut stream = stream.await?;
    let told = async {
        while let Some(response) = stream.message().await.map_err(|error| Error::from(failure(&error)))? {
            if response.compact_revision() > 0 {
                return Ok(response.compact_revision() as Revision);
            }
        }
        Err(Error::Unavailable("etcd ended a watch without a reason".into()))
    };
    timeout(shared.options.timeout, told).await.unwrap_or_else(|_| Err(Error::Timeout("etcd ended no watch".into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_tell_progress_exactly_are_known() {
        let check = |version: &str, exact: bool| assert_eq!(is_exact(version), exact, "{version}");
        check("3.4.23", false);
        check("3.4.31", true);
        check("3.5.12", false);
        check("3.5.13", true);
        check("3.6.0-rc.1", true);
        check("4.0.0", true);
        check("2.3.8", false);
        check("", false);
    }

    #[test]
    fn a_loose_answer_counts_once_it_is_certain() {
        let (mut asking, now) = (Asking::default(), Instant::now());
        assert!(asking.begin(Progress::Loose, now));
        assert!(!asking.begin(Progress::Loose, now), "one at a time");
        for n in 1..LOOSE_ANSWERS {
            assert_eq!(asking.answered(Progress::Loose, Revision::from(100 + n), now), (None, true));
        }
        assert_eq!(asking.answered(Progress::Loose, 200, now), (Some(101), true), "asked again meanwhile");
        assert_eq!(asking.answered(Progress::Exact, 300, now), (Some(300), false));
        assert!(asking.begin(Progress::Loose, now));
        assert_eq!(asking.answered(Progress::Exact, 400, now), (Some(400), false));
    }

    #[test]
    fn a_request_that_is_ignored_is_sent_again() {
        let (mut asking, now) = (Asking::default(), Instant::now());
        assert!(asking.begin(Progress::Exact, now));
        assert!(!asking.begin(Progress::Exact, now + IGNORED / 2), "one at a time");
        assert!(asking.begin(Progress::Exact, now + IGNORED));
        assert!(!asking.begin(Progress::Exact, now + IGNORED), "just sent");
        assert_eq!(asking.answered(Progress::Exact, 7, now + IGNORED), (Some(7), true), "for who came in between");
    }
}
