//! A proxy that is asked for connections by `CONNECT`, at a socket.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpStream, UnixListener, UnixStream},
    runtime::Runtime,
};

/// The proxy. It ends when this is dropped.
pub struct Proxy {
    asked: Arc<Mutex<Vec<String>>>,
    _runtime: Runtime,
}

impl Proxy {
    /// A proxy that connects to whatever it is asked for.
    pub fn start_at(socket: PathBuf) -> Self {
        Self::serve(socket, |address| Some(address.to_owned()))
    }

    /// A proxy that connects to what `to` makes of an address; `None` is refused.
    pub fn serve(socket: PathBuf, to: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        let builder = &mut tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().expect("a runtime starts");
        let listener = runtime.block_on(async { UnixListener::bind(socket) }).expect("a socket");
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let to: Arc<Leading> = Arc::new(to);
        let seen = asked.clone();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, seen.clone(), to.clone()));
            }
        });
        Proxy { asked, _runtime: runtime }
    }

    /// What it was asked for, each address once.
    pub fn asked(&self) -> Vec<String> {
        let mut asked = self.asked.lock().expect("not poisoned").clone();
        asked.sort_unstable();
        asked.dedup();
        asked
    }
}

/// Where an address leads.
type Leading = dyn Fn(&str) -> Option<String> + Send + Sync;

async fn serve(mut stream: UnixStream, seen: Arc<Mutex<Vec<String>>>, to: Arc<Leading>) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let address = head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()).unwrap_or_default().to_owned();
    seen.lock().expect("not poisoned").push(address.clone());
    let Some(address) = to(&address) else {
        return stream.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").await;
    };
    let mut to = TcpStream::connect(address).await?;
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    copy_bidirectional(&mut stream, &mut to).await.map(drop)
}
