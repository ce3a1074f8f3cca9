//! Connections of which nobody is known yet: in their handshake, before their first request, between requests of
//! strangers. What all of them hold is bounded: beyond that those go that have kept the server waiting longest, and first of
//! those networks that hold most. Whoever comes from a network that holds less than others do never waits for them.
//!
//! Differs: upstream bounds the time of each, and not their number.

use std::{
    cmp::Reverse,
    collections::{HashMap, VecDeque},
    net::{IpAddr, Ipv6Addr},
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
    sync::{
        Notify,
        oneshot::{self, error::TryRecvError},
    },
    time::{Instant, sleep_until},
};

/// What a connection takes that has sent little or nothing, in bytes.
const UNIT: usize = 16 << 10;
/// So many such units are held: a few MB.
const ROOM: usize = 512;
/// Who is served gets so much time to answer before it has to make room for its like: more than a round trip, and more than
/// this server takes for the handshakes of all of them, when a whole cluster connects anew.
const GRACE: Duration = Duration::from_secs(1);
/// So many wait to be served, as sockets from which nothing is read: as many as the kernel would hold.
const LOBBY: usize = 4096;

/// The strangers of one listener.
#[derive(Debug, Default)]
pub(crate) struct Strangers {
    waiting: Mutex<Waiting>,
    /// Somebody has to wait for its turn.
    queued: Notify,
}

/// Those that the server waits for, and those that wait for the server.
#[derive(Debug, Default)]
struct Waiting {
    units: usize,
    last: u64,
    guests: HashMap<u64, Held>,
    /// Units by network, of those that hold any.
    by_network: HashMap<IpAddr, usize>,
    lobby: HashMap<IpAddr, VecDeque<Queued>>,
    queued: usize,
}

#[derive(Debug)]
struct Held {
    network: IpAddr,
    units: usize,
    /// When it has done something last.
    since: Instant,
    leave: Arc<Notify>,
}

/// A connection in the lobby.
#[derive(Debug)]
struct Queued {
    id: u64,
    leave: Arc<Notify>,
    turn: oneshot::Sender<()>,
}

/// A connection. Its clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Guest(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    strangers: Arc<Strangers>,
    id: u64,
    network: IpAddr,
    leave: Arc<Notify>,
    /// What was read since the last request.
    read: AtomicUsize,
    is_known: AtomicBool,
}

/// A connection that is there as long as this is.
pub(crate) struct Visit(Guest);

/// Whoever has one address of IPv6 has the 2^64 beside it.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
    }
}

impl Strangers {
    /// A connection from this address, when it is its turn; `None` if there are too many that wait.
    pub(crate) async fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Visit> {
        let network = network(address);
        let (turn, mut its_turn) = oneshot::channel();
        let leave = Arc::<Notify>::default();
        let id = {
            let mut waiting = self.lock();
            waiting.last += 1;
            let id = waiting.last;
            waiting.enter(network, Queued { id, leave: leave.clone(), turn });
            id
        };
        match its_turn.try_recv() {
            Ok(()) => {}
            Err(TryRecvError::Closed) => return None,
            Err(TryRecvError::Empty) => {
                self.queued.notify_one();
                its_turn.await.ok()?;
            }
        }
        let inner = Inner {
            strangers: self.clone(),
            id,
            network,
            leave,
            read: AtomicUsize::new(0),
            is_known: AtomicBool::new(false),
        };
        Some(Visit(Guest(Arc::new(inner))))
    }

    /// Lets those in whose turn it is because others have been silent for long. Does not return.
    pub(crate) async fn let_in(&self) {
        loop {
            let next = self.lock().usher();
            let queued = self.queued.notified();
            match next {
                Some(next) => tokio::select! {
                    () = queued => {}
                    () = sleep_until(next) => {}
                },
                None => queued.await,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn enter(&mut self, network: IpAddr, queued: Queued) {
        self.lobby.entry(network).or_default().push_back(queued);
        self.queued += 1;
        self.usher();
        if self.queued > LOBBY
            && let Some((network, _)) = self.lobby.iter().max_by_key(|(_, queue)| queue.len())
        {
            let network = *network;
            self.unqueue(network, VecDeque::pop_back);
        }
    }

    fn unqueue(&mut self, network: IpAddr, pop: fn(&mut VecDeque<Queued>) -> Option<Queued>) -> Option<Queued> {
        let queue = self.lobby.get_mut(&network)?;
        let queued = pop(queue)?;
        if queue.is_empty() {
            self.lobby.remove(&network);
        }
        self.queued -= 1;
        Some(queued)
    }

    /// Lets those in for whom there is room, in turn, beginning with whose network holds least; when there may be some
    /// for the next, if there is none now.
    fn usher(&mut self) -> Option<Instant> {
        loop {
            let next = self.lobby.iter().filter_map(|(network, queue)| {
                Some((self.by_network.get(network).copied().unwrap_or_default(), queue.front()?.id, *network))
            });
            let (holds, _, network) = next.min()?;
            if self.units >= ROOM {
                let (victim, held) = self.worst()?;
                let late = held.since + GRACE;
                if self.by_network.get(&held.network).is_some_and(|most| *most > holds + 1) || late <= Instant::now() {
                    self.send_away(victim);
                } else {
                    return Some(late);
                }
            } else if let Some(Queued { id, leave, turn }) = self.unqueue(network, VecDeque::pop_front)
                && turn.send(()).is_ok()
            {
                self.insert(id, Held { network, units: 1, since: Instant::now(), leave });
            }
        }
    }

    /// Who goes next: of those whose network holds most, the one that has been silent for longest.
    fn worst(&self) -> Option<(u64, &Held)> {
        let of = |held: &Held| self.by_network.get(&held.network).copied();
        let worst = self.guests.iter().max_by_key(|(_, held)| (of(held), Reverse(held.since)));
        worst.map(|(id, held)| (*id, held))
    }

    /// Sends those away that hold most, until what is held fits.
    fn shrink(&mut self) {
        while self.units > ROOM {
            let largest = self.guests.iter().max_by_key(|(_, held)| (held.units, Reverse(held.since)));
            let Some((id, _)) = largest else { return };
            self.send_away(*id);
        }
    }

    fn send_away(&mut self, id: u64) {
        if let Some(held) = self.remove(id) {
            held.leave.notify_one();
        }
    }

    fn insert(&mut self, id: u64, held: Held) {
        self.units += held.units;
        *self.by_network.entry(held.network).or_default() += held.units;
        self.guests.insert(id, held);
    }

    /// One that is there takes so many units more.
    fn grow(&mut self, id: u64, units: usize) {
        if let Some(held) = self.guests.get_mut(&id) {
            held.units += units;
            self.units += units;
            *self.by_network.entry(held.network).or_default() += units;
        }
    }

    fn remove(&mut self, id: u64) -> Option<Held> {
        let held = self.guests.remove(&id)?;
        self.units -= held.units;
        if let Some(units) = self.by_network.get_mut(&held.network) {
            *units -= held.units;
            if *units == 0 {
                self.by_network.remove(&held.network);
            }
        }
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
        let Inner { strangers, id, network, leave, read, is_known } = &*self.0;
        if is_known.load(Relaxed) {
            return;
        }
        let units = 1 + read.load(Relaxed) / UNIT;
        let held = Held { network: *network, units, since: Instant::now(), leave: leave.clone() };
        let mut waiting = strangers.lock();
        waiting.remove(*id);
        waiting.insert(*id, held);
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
        if more > 0 {
            waiting.grow(*id, more);
            waiting.shrink();
        }
    }

    /// Returns when it has to go.
    pub(crate) async fn told_to_leave(&self) {
        self.0.leave.notified().await;
    }

    fn away(&self) {
        let mut waiting = self.0.strangers.lock();
        if waiting.remove(self.0.id).is_some() && waiting.queued > 0 {
            waiting.usher();
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
    use tokio::task::JoinHandle;

    use super::*;

    const FLOOD: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn has_to_leave(visit: &Visit) -> bool {
        visit.guest().told_to_leave().now_or_never().is_some()
    }

    fn leaving(visits: &[Visit]) -> usize {
        visits.iter().filter(|visit| has_to_leave(visit)).count()
    }

    /// One that is let in at once.
    fn visit(strangers: &Arc<Strangers>, address: IpAddr) -> Visit {
        strangers.admit(address).now_or_never().expect("its turn").expect("is let in")
    }

    fn fill(strangers: &Arc<Strangers>) -> Vec<Visit> {
        (0..ROOM).map(|_| visit(strangers, FLOOD)).collect()
    }

    /// One that comes, and those that it waits for.
    fn come(strangers: &Arc<Strangers>, address: IpAddr) -> JoinHandle<Option<Visit>> {
        let strangers = strangers.clone();
        tokio::spawn(async move {
            tokio::select! {
                visit = strangers.admit(address) => visit,
                () = strangers.let_in() => None,
            }
        })
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_comes_from_elsewhere_does_not_wait_for_a_flood() {
        let strangers = Arc::new(Strangers::default());
        let flood = fill(&strangers);
        let late = come(&strangers, FLOOD);
        tokio::task::yield_now().await;
        let others: Vec<Visit> = (0..ROOM / 2).map(|_| visit(&strangers, OTHER)).collect();
        assert_eq!(leaving(&flood), ROOM / 2);
        assert!(strangers.admit(OTHER).now_or_never().is_none(), "they hold as much now");
        assert_eq!(leaving(&others), 0);
        assert!(!late.is_finished());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_silent_longest_makes_room_for_its_like_after_a_while() {
        let strangers = Arc::new(Strangers::default());
        let flood = fill(&strangers);
        tokio::time::sleep(GRACE / 2).await;
        flood[0].guest().sent(10);
        let since = Instant::now();
        let late = come(&strangers, FLOOD).await.expect("no panic").expect("is let in");
        assert_eq!(since.elapsed(), GRACE / 2, "a round trip is waited for");
        assert!(!has_to_leave(&flood[0]) && !has_to_leave(&late));
        assert_eq!(leaving(&flood), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_known_served_or_gone_makes_room_at_once() {
        let strangers = Arc::new(Strangers::default());
        let mut flood = fill(&strangers);
        let since = Instant::now();
        let makes_room: [fn(&mut Vec<Visit>); 3] =
            [|flood| flood[0].guest().is_known(), |flood| flood[1].guest().is_served(), |flood| drop(flood.pop())];
        for step in makes_room {
            let late = come(&strangers, FLOOD);
            tokio::task::yield_now().await;
            assert!(!late.is_finished());
            step(&mut flood);
            flood.push(late.await.expect("no panic").expect("is let in"));
        }
        assert_eq!((since.elapsed(), leaving(&flood)), (Duration::ZERO, 0));
        flood[0].guest().waits();
        assert_eq!(strangers.lock().guests.len(), ROOM, "it is no stranger");
        drop(flood);
        let waiting = strangers.lock();
        assert_eq!((waiting.units, waiting.queued), (0, 0));
        assert!(waiting.by_network.is_empty() && waiting.lobby.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn of_those_that_wait_the_last_of_the_longest_queue_is_sent_away() {
        let strangers = Arc::new(Strangers::default());
        let _flood = fill(&strangers);
        let mut queue: Vec<_> = (0..LOBBY).map(|_| Box::pin(strangers.admit(FLOOD))).collect();
        assert!(queue.iter_mut().all(|one| one.as_mut().now_or_never().is_none()));
        assert!(strangers.admit(FLOOD).await.is_none());
        drop(visit(&strangers, OTHER));
        assert!(queue[0].as_mut().now_or_never().expect("its turn").is_some(), "there is room now");
        assert!(queue[LOBBY - 1].as_mut().now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_sends_much_before_it_is_known_goes_first() {
        let strangers = Arc::new(Strangers::default());
        let quiet = visit(&strangers, OTHER);
        let [large, larger] = [visit(&strangers, FLOOD), visit(&strangers, OTHER)];
        large.guest().sent(UNIT * ROOM / 4);
        larger.guest().sent(UNIT * ROOM / 2);
        assert!(![&quiet, &large, &larger].into_iter().any(has_to_leave));
        large.guest().sent(UNIT * ROOM / 4);
        assert!(has_to_leave(&large) != has_to_leave(&larger) && !has_to_leave(&quiet));
        assert!(strangers.lock().units <= ROOM);
    }

    #[test]
    fn addresses_of_ipv6_side_by_side_are_one_network() {
        let of = |address: &str| network(address.parse().expect("an address"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:0:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }
}
