//! Connections of which nobody is known yet: in their handshake, before their first request, between requests of
//! strangers. What all of them hold is bounded: beyond that those go that have kept the server waiting longest.
//!
//! Differs: upstream bounds the time of each, and not their number.

use std::{
    collections::HashMap,
    net::IpAddr,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::Notify,
    time::{Instant, sleep_until},
};

/// What a connection takes that has sent little or nothing, in bytes.
const UNIT: usize = 16 << 10;
/// So many such units are held: a few MB.
const ROOM: usize = 512;
/// Who is served gets so much time to answer before it has to make room for others: more than a round trip, and more than
/// this server takes for the handshakes of all of them, when a whole cluster connects anew.
const GRACE: Duration = Duration::from_secs(1);

/// The strangers of one listener.
#[derive(Debug, Default)]
pub(crate) struct Strangers {
    waiting: Mutex<Waiting>,
    /// There is room again.
    freed: Notify,
}

/// Those that the server waits for.
#[derive(Debug, Default)]
struct Waiting {
    units: usize,
    last: u64,
    guests: HashMap<u64, Held>,
}

#[derive(Debug)]
struct Held {
    address: IpAddr,
    units: usize,
    /// When it has done something last.
    since: Instant,
    leave: Arc<Notify>,
}

/// A connection. Its clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Guest(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    strangers: Arc<Strangers>,
    id: u64,
    address: IpAddr,
    leave: Arc<Notify>,
    /// What was read since the last request.
    read: AtomicUsize,
    is_known: AtomicBool,
}

/// A connection that is there as long as this is.
pub(crate) struct Visit(Guest);

impl Strangers {
    /// Returns when another connection can be taken.
    pub(crate) async fn room(&self) {
        loop {
            let freed = self.freed.notified();
            let Some(until) = self.lock().make_room() else { return };
            tokio::select! {
                () = freed => {}
                () = sleep_until(until) => {}
            }
        }
    }

    /// A connection from this address.
    pub(crate) fn visit(self: &Arc<Self>, address: IpAddr) -> Visit {
        let id = {
            let mut waiting = self.lock();
            waiting.last += 1;
            waiting.last
        };
        let inner = Inner {
            strangers: self.clone(),
            id,
            address,
            leave: Arc::default(),
            read: AtomicUsize::new(0),
            is_known: AtomicBool::new(false),
        };
        let guest = Guest(Arc::new(inner));
        guest.waits();
        Visit(guest)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Makes room for one more; when there may be some, if there is none now.
    fn make_room(&mut self) -> Option<Instant> {
        if self.units < ROOM {
            return None;
        }
        let mut by_address: HashMap<IpAddr, usize> = HashMap::new();
        for held in self.guests.values() {
            *by_address.entry(held.address).or_default() += held.units;
        }
        let now = Instant::now();
        let late = self.guests.iter().filter(|(_, held)| held.since + GRACE <= now);
        let worst = late.max_by_key(|(_, held)| (by_address.get(&held.address), std::cmp::Reverse(held.since)));
        match worst.map(|(id, _)| *id) {
            Some(id) => {
                self.send_away(id);
                self.make_room()
            }
            None => Some(self.guests.values().map(|held| held.since + GRACE).min().unwrap_or(now + GRACE)),
        }
    }

    /// Sends those away that hold most, until what is held fits.
    fn shrink(&mut self) {
        while self.units > ROOM {
            let largest = self.guests.iter().max_by_key(|(_, held)| (held.units, std::cmp::Reverse(held.since)));
            let Some((id, _)) = largest else { return };
            self.send_away(*id);
        }
    }

    fn send_away(&mut self, id: u64) {
        if let Some(held) = self.remove(id) {
            held.leave.notify_one();
        }
    }

    fn remove(&mut self, id: u64) -> Option<Held> {
        let held = self.guests.remove(&id)?;
        self.units -= held.units;
        Some(held)
    }
}

impl Guest {
    /// Somebody is known on it: it stays for as long as others do.
    pub(crate) fn is_known(&self) {
        if !self.0.is_known.load(Relaxed) && !self.0.is_known.swap(true, Relaxed) {
            self.away();
        }
    }

    /// It is being served: it is not what is waited for.
    pub(crate) fn is_served(&self) {
        if !self.0.is_known.load(Relaxed) {
            self.away();
        }
    }

    /// It is waited for from now on, unless somebody is known on it.
    pub(crate) fn waits(&self) {
        let Inner { strangers, id, address, leave, read, is_known } = &*self.0;
        if is_known.load(Relaxed) {
            return;
        }
        let units = 1 + read.load(Relaxed) / UNIT;
        let held = Held { address: *address, units, since: Instant::now(), leave: leave.clone() };
        let mut waiting = strangers.lock();
        waiting.remove(*id);
        waiting.units += units;
        waiting.guests.insert(*id, held);
        if units > 1 {
            waiting.shrink();
        }
    }

    /// Its request is answered; what it has sent for that is forgotten.
    pub(crate) fn is_answered(&self) {
        self.0.read.store(0, Relaxed);
        self.waits();
    }

    /// It has sent so many bytes.
    fn sent(&self, bytes: usize) {
        let Inner { strangers, id, read, is_known, .. } = &*self.0;
        if is_known.load(Relaxed) {
            return;
        }
        let units = 1 + (read.fetch_add(bytes, Relaxed) + bytes) / UNIT;
        let mut waiting = strangers.lock();
        let Some(held) = waiting.guests.get_mut(id) else { return };
        held.since = Instant::now();
        let more = units.saturating_sub(held.units);
        held.units += more;
        if more > 0 {
            waiting.units += more;
            waiting.shrink();
        }
    }

    /// Returns when it has to go.
    pub(crate) async fn told_to_leave(&self) {
        self.0.leave.notified().await;
    }

    fn away(&self) {
        if self.0.strangers.lock().remove(self.0.id).is_some() {
            self.0.strangers.freed.notify_one();
        }
    }
}

impl Visit {
    /// The connection.
    pub(crate) fn guest(&self) -> &Guest {
        &self.0
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.0.is_known();
    }
}

/// A stream whose bytes are counted.
pub(crate) struct Counted<S> {
    stream: S,
    guest: Guest,
}

impl<S> Counted<S> {
    pub(crate) fn new(stream: S, guest: Guest) -> Self {
        Counted { stream, guest }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        self.guest.sent(buf.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const FLOOD: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn has_to_leave(visit: &Visit) -> bool {
        visit.guest().told_to_leave().now_or_never().is_some()
    }

    fn fill(strangers: &Arc<Strangers>) -> Vec<Visit> {
        (0..ROOM).map(|_| strangers.visit(FLOOD)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_silent_longest_makes_room_and_of_those_who_hold_most() {
        let strangers = Arc::new(Strangers::default());
        let other = strangers.visit(OTHER);
        tokio::time::sleep(Duration::from_millis(1)).await;
        let flood: Vec<Visit> = fill(&strangers).into_iter().skip(1).collect();
        let since = Instant::now();
        strangers.room().await;
        assert_eq!(since.elapsed(), GRACE - Duration::from_millis(1), "a round trip is waited for");
        assert!(has_to_leave(&other), "nobody else has had its time");
        let other = strangers.visit(OTHER);
        tokio::time::sleep(GRACE).await;
        flood[0].guest().sent(10);
        strangers.room().await;
        assert!(!has_to_leave(&other) && !has_to_leave(&flood[0]));
        assert_eq!(flood.iter().filter(|visit| has_to_leave(visit)).count(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_known_served_or_gone_makes_room_at_once() {
        let strangers = Arc::new(Strangers::default());
        let mut flood = fill(&strangers);
        flood[0].guest().is_known();
        strangers.room().now_or_never().expect("room");
        flood[0].guest().waits();
        flood.push(strangers.visit(FLOOD));
        assert!(strangers.room().now_or_never().is_none());
        flood[1].guest().is_served();
        strangers.room().now_or_never().expect("room");
        flood[1].guest().is_answered();
        assert!(strangers.room().now_or_never().is_none());
        let waiting = tokio::spawn({
            let strangers = strangers.clone();
            async move { strangers.room().await }
        });
        tokio::task::yield_now().await;
        let since = Instant::now();
        flood.pop();
        waiting.await.expect("no panic");
        assert_eq!(since.elapsed(), Duration::ZERO);
        tokio::time::sleep(GRACE * 4).await;
        strangers.room().await;
        assert!(!has_to_leave(&flood[0]), "it is no stranger");
        drop(flood);
        assert_eq!(strangers.lock().units, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_sends_much_before_it_is_known_goes_first() {
        let strangers = Arc::new(Strangers::default());
        let quiet = strangers.visit(OTHER);
        let [large, larger] = [strangers.visit(FLOOD), strangers.visit(OTHER)];
        large.guest().sent(UNIT * ROOM / 4);
        larger.guest().sent(UNIT * ROOM / 2);
        assert!(![&quiet, &large, &larger].into_iter().any(has_to_leave));
        large.guest().sent(UNIT * ROOM / 4);
        assert!(has_to_leave(&large) != has_to_leave(&larger) && !has_to_leave(&quiet));
        assert!(strangers.lock().units <= ROOM);
    }
}
