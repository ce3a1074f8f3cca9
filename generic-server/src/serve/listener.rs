//! The TCP listener: where the port is bound, and the accept loop that nothing can block.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// Connections that the kernel may hold for us (it caps this at its own limit).
const BACKLOG: u32 = 4096;
/// After an accept that failed for want of descriptors or memory, so that the loop does not spin.
const PAUSE: Duration = Duration::from_millis(50);

/// Where to listen.
#[derive(Clone, Debug)]
pub struct BindOptions {
    /// `--bind-address`; an unspecified address of either family means all addresses of both.
    pub address: IpAddr,
    /// `--secure-port`; 0 picks a free one.
    pub port: u16,
    /// `--permit-port-sharing`: SO_REUSEPORT.
    pub share_port: bool,
}

/// A bound port.
#[derive(Debug)]
pub struct Listener {
    inner: TcpListener,
    local: SocketAddr,
}

impl Listener {
    /// Binds the port.
    ///
    /// # Errors
    /// What the system says: the address is in use, not ours, or not permitted.
    pub fn bind(options: &BindOptions) -> io::Result<Self> {
        if options.address.is_unspecified() {
            // One IPv6 socket takes both families; where the system has no IPv6, IPv4 alone.
            let all = BindOptions { address: IpAddr::V6(Ipv6Addr::UNSPECIFIED), ..options.clone() };
            match Self::bind_one(&all) {
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                    Self::bind_one(&BindOptions { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), ..all })
                }
                bound => bound,
            }
        } else {
            Self::bind_one(options)
        }
    }

    fn bind_one(options: &BindOptions) -> io::Result<Self> {
        let socket = if options.address.is_ipv6() { TcpSocket::new_v6()? } else { TcpSocket::new_v4()? };
        // A restarted server must not wait for its old connections' TIME_WAIT; two servers still cannot share the port.
        socket.set_reuseaddr(true)?;
        if options.share_port {
            socket.set_reuseport(true)?;
        }
        socket.bind(SocketAddr::new(options.address, options.port))?;
        let inner = socket.listen(BACKLOG)?;
        let local = inner.local_addr()?;
        Ok(Self { inner, local })
    }

    /// The address that was bound (with the port that was picked).
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The next connection. An error of one connection is not an error of the listener: it goes on.
    pub(crate) async fn accept(&self) -> (TcpStream, SocketAddr) {
        loop {
            match self.inner.accept().await {
                Ok((stream, remote)) => {
                    let remote = SocketAddr::new(remote.ip().to_canonical(), remote.port());
                    return (stream, remote);
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(address: &str, port: u16) -> BindOptions {
        BindOptions { address: address.parse().expect("an address"), port, share_port: false }
    }

    #[tokio::test]
    async fn the_unspecified_address_takes_ipv4_clients_and_shows_their_plain_address() {
        let listener = Listener::bind(&options("0.0.0.0", 0)).expect("binds");
        let port = listener.local_addr().port();
        let client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.expect("connects");
        let (_stream, remote) = listener.accept().await;
        assert_eq!(remote, client.local_addr().expect("an address"));
    }

    #[tokio::test]
    async fn a_port_in_use_is_an_error() {
        for address in ["127.0.0.1", "0.0.0.0"] {
            let first = Listener::bind(&options(address, 0)).expect("binds");
            let second = Listener::bind(&options(address, first.local_addr().port()));
            assert_eq!(second.expect_err("is refused").kind(), io::ErrorKind::AddrInUse, "{address}");
        }
    }
}
