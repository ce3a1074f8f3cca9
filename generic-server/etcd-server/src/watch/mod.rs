//! Watches: one task a stream, which tells all watchers of its client what has changed, as fast as the client takes it.
//!
//! Watchers that are in step share a position: they have been told of everything up to it. New changes come from the window
//! of the newest ones. A watcher that begins in the past, and all of a stream whose client was so slow that the window has
//! moved on, catch up one by one with what is read from the log, and then are in step again. So a slow client costs
//! a position, not memory.

mod fragment;
mod watcher;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

use self::{fragment::fragments, watcher::Watcher};
use crate::{
    database::Database,
    error::Refusal,
    proto::{Event, WatchCreateRequest, WatchRequest, WatchResponse, watch_request::RequestUnion},
    window::{Group, event_bytes},
};

/// The number of a watch that was not made, and of progress that all watchers have made.
const NONE: i64 = -1;
/// Bytes of events that go into one response, unless one revision has more.
const MOST_BYTES: usize = 1 << 20;
/// Watchers of a stream.
const MOST_WATCHERS: usize = 100_000;

/// Responses on their way to the client.
pub(crate) type Responses = mpsc::Sender<Result<WatchResponse, Status>>;

/// One stream of a client.
pub(crate) struct Stream {
    database: Arc<Database>,
    responses: Responses,
    watchers: BTreeMap<i64, Watcher>,
    /// Watchers in step have been told of everything up to this revision.
    position: i64,
    /// Where the next search for a free number begins.
    next_id: i64,
    progress_interval: Duration,
}

/// The client is gone.
struct Gone;

impl Stream {
    pub(crate) fn new(database: Arc<Database>, responses: Responses, progress_interval: Duration) -> Stream {
        let position = database.revision();
        Stream { database, responses, watchers: BTreeMap::new(), position, next_id: 0, progress_interval }
    }

    /// Serves the stream until the client leaves it or the server stops.
    pub(crate) async fn run(mut self, mut requests: Streaming<WatchRequest>, stopped: CancellationToken) {
        let mut newest = self.database.window().newest();
        // What came before it was followed is news, too.
        newest.mark_changed();
        let left = tokio::select! {
            left = self.serve(&mut requests, &mut newest) => left,
            () = stopped.cancelled() => Ok(Some(Refusal::Stopped)),
        };
        if let Ok(Some(refusal)) = left {
            // The client may be gone as well.
            let _ = self.responses.try_send(Err(refusal.into()));
        }
    }

    /// Ends when the client does, or with a reason of its own.
    async fn serve(
        &mut self,
        requests: &mut Streaming<WatchRequest>,
        newest: &mut watch::Receiver<i64>,
    ) -> Result<Option<Refusal>, Gone> {
        let mut tick = tokio::time::interval_at(Instant::now() + self.progress_interval, self.progress_interval);
        loop {
            let lagging = self.watchers.values().any(|watcher| watcher.lags);
            tokio::select! {
                request = requests.message() => match request {
                    Ok(Some(request)) => self.act(request).await?,
                    Ok(None) | Err(_) => return Ok(None),
                },
                changed = newest.changed() => match changed {
                    Ok(()) => self.tell_news().await?,
                    Err(_) => return Ok(Some(Refusal::Stopped)),
                },
                // What is behind goes on whenever nothing else is to be done.
                () = std::future::ready(()), if lagging => {
                    if let Some(refusal) = self.catch_up().await? {
                        return Ok(Some(refusal));
                    }
                }
                _ = tick.tick() => self.tell_progress().await?,
            }
        }
    }

    async fn act(&mut self, request: WatchRequest) -> Result<(), Gone> {
        match request.request_union {
            Some(RequestUnion::Create(request)) => self.create(request).await,
            Some(RequestUnion::Cancel(request)) => {
                if self.watchers.remove(&request.watch_id).is_none() {
                    return Ok(());
                }
                let canceled = WatchResponse { watch_id: request.watch_id, canceled: true, ..WatchResponse::default() };
                self.send(self.database.revision(), canceled).await
            }
            Some(RequestUnion::Progress(_)) => {
                // Whoever has read a revision finds it in the answer, though the window gets it a moment after readers do.
                let read = self.database.revision();
                // An error says that the server stops.
                let _ = self.database.window().newest().wait_for(|newest| *newest >= read).await;
                self.tell_news().await?;
                // While one is behind there is no answer: it would promise what has not been told.
                if self.watchers.values().any(|watcher| watcher.lags) {
                    return Ok(());
                }
                self.send(self.position, WatchResponse { watch_id: NONE, ..WatchResponse::default() }).await
            }
            None => Ok(()),
        }
    }

    async fn create(&mut self, request: WatchCreateRequest) -> Result<(), Gone> {
        let revision = self.database.revision();
        let refused = match request.watch_id {
            _ if self.watchers.len() >= MOST_WATCHERS => Some("etcdserver: too many watchers on one stream"),
            id if id != 0 && self.watchers.contains_key(&id) => {
                Some("mvcc: duplicate watch ID provided on the WatchStream")
            }
            _ => None,
        };
        let mut watcher = Watcher::new(&request, revision);
        let refused = refused.or(watcher.range.is_empty().then_some("mvcc: watcher range is empty"));
        if let Some(reason) = refused {
            let cancel_reason = reason.to_owned();
            let response = WatchResponse {
                watch_id: NONE,
                created: true,
                canceled: true,
                cancel_reason,
                ..WatchResponse::default()
            };
            return self.send(revision, response).await;
        }
        let id = if request.watch_id == 0 { self.free_id() } else { request.watch_id };
        watcher.lags = watcher.next <= self.position;
        self.watchers.insert(id, watcher);
        self.send(revision, WatchResponse { watch_id: id, created: true, ..WatchResponse::default() }).await
    }

    fn free_id(&mut self) -> i64 {
        while self.watchers.contains_key(&self.next_id) {
            self.next_id += 1;
        }
        self.next_id += 1;
        self.next_id - 1
    }

    /// Tells the watchers in step what is new.
    async fn tell_news(&mut self) -> Result<(), Gone> {
        let Ok(groups) = self.database.window().after(self.position) else {
            // Too slow: each catches up on its own.
            let told = std::mem::replace(&mut self.position, self.database.revision());
            for watcher in self.watchers.values_mut().filter(|watcher| !watcher.lags) {
                watcher.next = watcher.next.max(told + 1);
                watcher.lags = watcher.next <= self.position;
            }
            return Ok(());
        };
        let Some(newest) = groups.last().map(|group| group.revision) else { return Ok(()) };
        let ids: Vec<i64> = self.watchers.iter().filter(|(_, watcher)| !watcher.lags).map(|(id, _)| *id).collect();
        for id in ids {
            self.tell(id, &groups).await?;
        }
        self.position = newest;
        Ok(())
    }

    /// Tells a watcher what is of interest to it, a revision never in two responses.
    async fn tell(&mut self, id: i64, groups: &[Arc<Group>]) -> Result<(), Gone> {
        let (mut events, mut bytes, mut revision): (Vec<Event>, usize, i64) = (Vec::new(), 0, 0);
        for group in groups {
            let Some(watcher) = self.watchers.get(&id) else { return Ok(()) };
            if group.revision < watcher.next {
                continue;
            }
            let before = events.len();
            events.extend(group.events.iter().filter_map(|event| watcher.picks(event)));
            bytes += events[before..].iter().map(event_bytes).sum::<usize>();
            revision = group.revision;
            if bytes >= MOST_BYTES {
                self.send_events(id, revision, std::mem::take(&mut events)).await?;
                bytes = 0;
            }
        }
        if events.is_empty() { Ok(()) } else { self.send_events(id, revision, events).await }
    }

    async fn send_events(&mut self, id: i64, revision: i64, events: Vec<Event>) -> Result<(), Gone> {
        let Some(watcher) = self.watchers.get_mut(&id) else { return Ok(()) };
        watcher.quiet = false;
        let response = WatchResponse { watch_id: id, events, ..WatchResponse::default() };
        // Responses are made small for clients whose own limit is that of requests here.
        let most = if watcher.fragments { self.database.limits().request_bytes } else { usize::MAX };
        for part in fragments(response, most) {
            self.send(revision, part).await?;
        }
        Ok(())
    }

    /// Brings one watcher that is behind a step further. A refusal ends the stream.
    async fn catch_up(&mut self) -> Result<Option<Refusal>, Gone> {
        // The one that is furthest behind.
        let behind = self.watchers.iter().filter(|(_, watcher)| watcher.lags).min_by_key(|(_, watcher)| watcher.next);
        let Some((id, next)) = behind.map(|(id, watcher)| (*id, watcher.next)) else { return Ok(None) };
        let replay = match self.database.replay(next).await {
            Ok(replay) => replay,
            Err(Refusal::Compacted) => {
                self.watchers.remove(&id);
                let compact_revision = self.database.compacted();
                let response =
                    WatchResponse { watch_id: id, canceled: true, compact_revision, ..WatchResponse::default() };
                self.send(self.database.revision(), response).await?;
                return Ok(None);
            }
            Err(refusal) => return Ok(Some(refusal)),
        };
        // What comes after the position of the others is told to all of them together.
        let upto = replay.groups.partition_point(|group| group.revision <= self.position);
        self.tell(id, &replay.groups[..upto]).await?;
        if let Some(watcher) = self.watchers.get_mut(&id) {
            watcher.next = replay.next.min(self.position + 1);
            watcher.lags = watcher.next <= self.position;
        }
        Ok(None)
    }

    /// Tells watchers that asked for it, and had nothing to be told of for a while, how far they are.
    async fn tell_progress(&mut self) -> Result<(), Gone> {
        self.tell_news().await?;
        let wants = |watcher: &Watcher| watcher.progress && watcher.quiet && !watcher.lags;
        let ids: Vec<i64> = self.watchers.iter().filter(|(_, watcher)| wants(watcher)).map(|(id, _)| *id).collect();
        self.watchers.values_mut().for_each(|watcher| watcher.quiet = true);
        for id in ids {
            self.send(self.position, WatchResponse { watch_id: id, ..WatchResponse::default() }).await?;
        }
        Ok(())
    }

    async fn send(&self, revision: i64, response: WatchResponse) -> Result<(), Gone> {
        let header = Some(self.database.header_at(revision));
        self.responses.send(Ok(WatchResponse { header, ..response })).await.map_err(|_| Gone)
    }
}
