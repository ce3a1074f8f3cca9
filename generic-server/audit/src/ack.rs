//! What becomes of an event that was handed to the backends, for those who wait for it.

use std::time::Instant;

use tokio::{sync::oneshot, task::JoinHandle};

/// What has become of an event. Whoever is not interested drops it.
#[derive(Debug)]
pub struct Ack(State);

#[derive(Debug)]
enum State {
    /// Whether all backends that must take the event have; those that are waited for say it later.
    Handed(bool, Vec<Waited>),
    Encoding(JoinHandle<Ack>),
}

/// A backend that is waited for.
#[derive(Debug)]
struct Waited {
    taken: oneshot::Receiver<bool>,
    /// Whether it must take the event.
    must: bool,
}

impl Ack {
    pub(crate) fn taken(taken: bool) -> Self {
        Ack(State::Handed(taken, Vec::new()))
    }

    pub(crate) fn waiting(taken: oneshot::Receiver<bool>) -> Self {
        Ack(State::Handed(true, vec![Waited { taken, must: true }]))
    }

    pub(crate) fn encoding(task: JoinHandle<Ack>) -> Self {
        Ack(State::Encoding(task))
    }

    /// Of several backends.
    pub(crate) fn all(acks: Vec<Ack>) -> Self {
        let (mut all, mut waited) = (true, Vec::new());
        for ack in acks {
            match ack.0 {
                State::Handed(taken, more) => {
                    all &= taken;
                    waited.extend(more);
                }
                State::Encoding(_) => unreachable!("backends are handed what is encoded"),
            }
        }
        Ack(State::Handed(all, waited))
    }

    /// Of a backend that may fail.
    pub(crate) fn ignoring_failures(self) -> Self {
        match self.0 {
            State::Handed(_, mut waited) => {
                waited.iter_mut().for_each(|waited| waited.must = false);
                Ack(State::Handed(true, waited))
            }
            State::Encoding(task) => Ack(State::Encoding(task)),
        }
    }

    /// Whether there is nothing to wait for.
    pub fn is_ready(&self) -> bool {
        matches!(&self.0, State::Handed(_, waited) if waited.is_empty())
    }

    /// Waits for the backends that the mode waits for, at most until a moment; whether all have taken the event that must.
    pub async fn wait_until(self, deadline: Instant) -> bool {
        let (mut all, waited) = match self.0 {
            State::Handed(all, waited) => (all, waited),
            State::Encoding(task) => match tokio::time::timeout_at(deadline.into(), task).await {
                Ok(Ok(Ack(State::Handed(all, waited)))) => (all, waited),
                _ => return false,
            },
        };
        for Waited { taken, must } in waited {
            let taken = tokio::time::timeout_at(deadline.into(), taken).await;
            all &= matches!(taken, Ok(Ok(true))) || !must;
        }
        all
    }
}
