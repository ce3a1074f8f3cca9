//! How fast bytes may go in one direction.

use std::{io, num::NonZeroU64, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::{Instant, sleep},
};

use crate::PIECE;

/// Bytes a second.
pub type Rate = NonZeroU64;

/// In how many parts of a second the bytes of a second are spread.
const PARTS: u64 = 10;

/// Limits the bytes of one direction to a rate; without one it lets all pass.
pub struct Throttle {
    rate: Option<Rate>,
    /// What may go now, in bytes times nanoseconds: no fraction of a byte is lost.
    credit: u128,
    filled: Instant,
}

const SECOND: u128 = 1_000_000_000;

impl Throttle {
    /// A throttle that starts with as much as a tenth of a second is worth.
    pub fn new(rate: Option<Rate>) -> Self {
        let credit = rate.map_or(0, Self::most);
        Self { rate, credit, filled: Instant::now() }
    }

    fn most(rate: Rate) -> u128 {
        u128::from((rate.get() / PARTS).max(1)) * SECOND
    }

    /// Waits until some of so many bytes (more than none) may go, and says how many.
    pub async fn some_of(&mut self, wanted: usize) -> usize {
        let Some(rate) = self.rate else { return wanted };
        loop {
            let now = Instant::now();
            let earned = (now - self.filled).as_nanos() * u128::from(rate.get());
            self.filled = now;
            self.credit = (self.credit + earned).min(Self::most(rate));
            // Small change is saved up: a wake-up for each byte would cost more than the byte.
            let enough = Self::most(rate).min(wanted as u128 * SECOND);
            if self.credit >= enough {
                let allowed = usize::try_from(self.credit / SECOND).unwrap_or(wanted).min(wanted);
                self.credit -= allowed as u128 * SECOND;
                return allowed;
            }
            let missing = (enough - self.credit).div_ceil(u128::from(rate.get()));
            sleep(Duration::from_nanos(u64::try_from(missing).unwrap_or(u64::MAX))).await;
        }
    }

    /// Copies until there is nothing more to read.
    ///
    /// # Errors
    /// Reading or writing fails.
    pub async fn copy<R, W>(mut self, from: &mut R, to: &mut W) -> io::Result<()>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let mut buffer = vec![0; PIECE].into_boxed_slice();
        loop {
            let read = from.read(&mut buffer).await?;
            if read == 0 {
                return to.flush().await;
            }
            let mut rest = &buffer[..read];
            while !rest.is_empty() {
                let (now, later) = rest.split_at(self.some_of(rest.len()).await);
                to.write_all(now).await?;
                rest = later;
            }
            to.flush().await?;
        }
    }
}

/// Copies both ways, each at this rate, until one of the ends has nothing more to say; then both are closed, as upstream's
/// proxy does.
pub async fn join<A, B>(mut a: A, mut b: B, rate: Option<Rate>)
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    {
        let (mut a_in, mut a_out) = tokio::io::split(&mut a);
        let (mut b_in, mut b_out) = tokio::io::split(&mut b);
        // Either end may just go away: that is how such connections end.
        tokio::select! {
            _ = Throttle::new(rate).copy(&mut a_in, &mut b_out) => {}
            _ = Throttle::new(rate).copy(&mut b_in, &mut a_out) => {}
        }
    }
    let farewell = async { tokio::join!(a.shutdown(), b.shutdown()) };
    // Who does not take it is left without it.
    let _ = tokio::time::timeout(Duration::from_secs(10), farewell).await;
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    /// How long copying takes, in milliseconds.
    async fn time(bytes: usize, rate: u64) -> u128 {
        let start = Instant::now();
        let mut copied = Vec::new();
        let source = vec![0; bytes];
        Throttle::new(Rate::new(rate)).copy(&mut source.as_slice(), &mut copied).await.expect("copied");
        assert_eq!(copied.len(), bytes);
        start.elapsed().as_millis()
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_go_as_fast_as_they_may() {
        assert_eq!(time(1 << 20, 0).await, 0, "no limit");
        for (bytes, rate, expect) in [(10_000, 1000, 9_900), (100_000, 100_000, 900), (5, 1, 4_000), (100, 1000, 0)] {
            let took = time(bytes, rate).await;
            // The clock of tests goes in milliseconds.
            assert!((expect..=expect + expect / 50 + 100).contains(&took), "{bytes} at {rate}: {took}");
        }
    }

    #[tokio::test]
    async fn when_one_end_is_silent_for_good_the_other_is_let_go() {
        let ((client, server), (here, mut there)) = (duplex(64), duplex(64));
        let joined = tokio::spawn(join(server, here, None));
        let (mut client_in, mut client_out) = tokio::io::split(client);
        client_out.write_all(b"hello").await.expect("sent");
        let mut hello = [0; 5];
        there.read_exact(&mut hello).await.expect("received");
        there.write_all(b"bye").await.expect("sent");
        drop(there);
        let mut rest = Vec::new();
        client_in.read_to_end(&mut rest).await.expect("closed");
        assert_eq!((&hello, rest.as_slice()), (b"hello", &b"bye"[..]));
        joined.await.expect("it ends though the client is still there");
    }
}
