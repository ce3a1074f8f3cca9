//! Commands in containers: the channels of a client's WebSocket, translated into the streams of a kubelet.
//!
//! The client speaks `v5.channel.k8s.io`, the kubelet SPDY with whatever of the older protocols it has chosen. What goes
//! wrong after the client has its WebSocket is told on the channel for errors.

mod channels;
mod command;
mod session;
mod status;

use std::time::Duration;

pub use session::{Kubelet, translate};

use crate::throttle::Rate;

/// The protocol that clients speak.
pub const PROTOCOL: &str = "v5.channel.k8s.io";

/// The protocols that a kubelet may choose from, best first.
pub const KUBELET_PROTOCOLS: [&str; 5] =
    [PROTOCOL, "v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"];

/// Which streams a command has, and how fast each may be.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommandOptions {
    /// It reads.
    pub stdin: bool,
    /// It writes.
    pub stdout: bool,
    /// It writes about errors; with a terminal that is the same as what it writes.
    pub stderr: bool,
    /// It has a terminal.
    pub tty: bool,
    /// `--max-connection-bytes-per-sec`.
    pub rate: Option<Rate>,
}

/// A WebSocket on which nothing has come or gone for so long is closed.
const IDLE: Duration = Duration::from_secs(4 * 60 * 60);
/// How long a client may take to take the last message.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// How often the kubelet is asked whether it is there.
const PING: Duration = Duration::from_secs(5);
/// What a client's frame may hold (upstream's library: the same).
const MAX_FRAME: u64 = 32 << 20;
/// What a kubelet may say about how a command has ended, in bytes.
const MAX_ERROR: usize = 1 << 20;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// Followed by a channel that the client closes.
const CLOSE: u8 = 255;
