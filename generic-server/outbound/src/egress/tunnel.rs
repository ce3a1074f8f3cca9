//! A connection through a konnectivity server: a gRPC stream of its own, on a connection of its own.

use std::{io, time::Duration};

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf, duplex, split},
    net::UnixStream,
    sync::mpsc,
    time::timeout,
};
use tonic::{
    Streaming,
    transport::{Endpoint, Uri},
};

use super::{
    EgressMetrics, Stream, failed,
    metrics::Connection,
    packet::{CloseDial, CloseRequest, Data, DialRequest, PROXY, Packet, PacketType, Payload},
};

/// How long the server may take to open a connection, and to close one.
const DIAL: Duration = Duration::from_secs(30);
const CLOSE: Duration = Duration::from_secs(10);
/// So many packets wait to be sent.
const WAITING: usize = 10;
/// So many bytes are in one packet, and between the two halves of a connection.
const PIECE: usize = 32 << 10;

/// A stream to the server, on which nothing was dialed yet.
pub(super) struct Tunnel {
    packets: mpsc::Sender<Packet>,
    answers: Streaming<Packet>,
    state: Connection,
}

impl Tunnel {
    /// Opens the stream.
    pub(super) async fn begin(socket: TokioIo<UnixStream>, metrics: &EgressMetrics) -> io::Result<Self> {
        let mut socket = Some(socket);
        // The connector is asked once: the stream is as long-lived as its connection.
        let connector = tower::service_fn(move |_: Uri| {
            let socket = socket.take().ok_or_else(|| io::Error::other("the connection is gone"));
            async move { socket }
        });
        let endpoint = Endpoint::from_static("http://konnectivity");
        let connecting = endpoint.connect_with_connector(connector);
        let unreachable = |why: String| failed(format!("the konnectivity server does not answer: {why}"));
        let channel = timeout(DIAL, connecting).await.map_err(|_| unreachable("i/o timeout".to_owned()))?;
        let channel = channel.map_err(|error| unreachable(crate::root_cause(&error)))?;
        let (packets, waiting) = mpsc::channel::<Packet>(WAITING);
        let sent = stream::unfold(waiting, |mut waiting| async move { Some((waiting.recv().await?, waiting)) });
        let opening = async {
            let mut client = tonic::client::Grpc::new(channel);
            client.ready().await.map_err(|error| crate::root_cause(&error))?;
            let codec: tonic_prost::ProstCodec<Packet, Packet> = tonic_prost::ProstCodec::default();
            let path = PathAndQuery::from_static(PROXY);
            let answer = client.streaming(tonic::Request::new(sent), path, codec).await;
            answer.map(tonic::Response::into_inner).map_err(|status| status.message().to_owned())
        };
        let answers = timeout(DIAL, opening).await.map_err(|_| unreachable("i/o timeout".to_owned()))?;
        let answers = answers.map_err(unreachable)?;
        Ok(Tunnel { packets, answers, state: metrics.connection("created") })
    }

    /// Has the server connect to an address.
    pub(super) async fn open(mut self, address: &str, metrics: &EgressMetrics) -> io::Result<Box<dyn Stream>> {
        self.state = metrics.connection("dialing");
        let random = uuid::Uuid::new_v4().as_u64_pair().0 as i64 & i64::MAX;
        let request = DialRequest { protocol: "tcp".to_owned(), address: address.to_owned(), random };
        let dialing = async {
            self.send(Payload::DialRequest(request), metrics).await?;
            self.dialed(random, metrics).await
        };
        let opened = match timeout(DIAL, dialing).await {
            Ok(opened) => opened,
            Err(_) => {
                let _ = self.packets.try_send(Packet::new(Payload::CloseDial(CloseDial { random })));
                Err(("timeout", "dial timeout, backstop".to_owned()))
            }
        };
        let connect_id = opened.map_err(|(reason, why)| {
            metrics.not_dialed(reason);
            failed(why)
        })?;
        let (ours, theirs) = duplex(PIECE);
        let open = Open { packets: self.packets, answers: self.answers, connect_id, metrics: metrics.clone() };
        let state = metrics.connection("ok");
        tokio::spawn(async move {
            open.run(theirs).await;
            drop(state);
        });
        Ok(Box::new(ours))
    }

    async fn send(&self, payload: Payload, metrics: &EgressMetrics) -> Result<(), (&'static str, String)> {
        let packet = Packet::new(payload);
        metrics.sent(packet.r#type());
        self.packets.send(packet).await.map_err(|_| ("tunnelclosed", "tunnel closed".to_owned()))
    }

    /// Waits for the connection; its number. An error says why there is none, and in a word for metrics.
    async fn dialed(&mut self, random: i64, metrics: &EgressMetrics) -> Result<i64, (&'static str, String)> {
        while let Some(packet) = next(&mut self.answers, metrics).await {
            match packet.payload {
                Some(Payload::DialResponse(answer)) if answer.random != random => break,
                Some(Payload::DialResponse(answer)) if !answer.error.is_empty() => {
                    return Err(("endpoint", answer.error));
                }
                Some(Payload::DialResponse(answer)) => return Ok(answer.connect_id),
                Some(Payload::CloseDial(_)) => return Err(("dialclosed", "dial closed".to_owned())),
                _ => {}
            }
        }
        Err(("tunnelclosed", "tunnel closed".to_owned()))
    }
}

/// The next packet; none when the stream is over.
async fn next(answers: &mut Streaming<Packet>, metrics: &EgressMetrics) -> Option<Packet> {
    match answers.message().await {
        Ok(packet) => {
            let packet = packet?;
            metrics.received(packet.r#type());
            Some(packet)
        }
        Err(status) => {
            metrics.broken(status.code());
            None
        }
    }
}

/// A connection that is there.
struct Open {
    packets: mpsc::Sender<Packet>,
    answers: Streaming<Packet>,
    connect_id: i64,
    metrics: EgressMetrics,
}

impl Open {
    /// Carries bytes both ways until one end closes. Who does not read holds up the stream, which is its own.
    async fn run(self, inside: DuplexStream) {
        let Open { packets, answers, connect_id, metrics } = self;
        let (read, write) = split(inside);
        let outgoing = send_all(read, packets.clone(), connect_id, &metrics);
        let mut incoming = Box::pin(receive_all(write, answers, connect_id, &metrics));
        tokio::select! {
            () = &mut incoming => return,
            () = outgoing => {}
        }
        let close = Packet::new(Payload::CloseRequest(CloseRequest { connect_id }));
        metrics.sent(PacketType::CloseReq);
        if packets.send(close).await.is_ok() {
            let _ = timeout(CLOSE, incoming).await;
        }
    }
}

async fn send_all(
    mut read: ReadHalf<DuplexStream>,
    packets: mpsc::Sender<Packet>,
    connect_id: i64,
    metrics: &EgressMetrics,
) {
    let mut buffer = BytesMut::with_capacity(PIECE);
    while matches!(read.read_buf(&mut buffer).await, Ok(1..)) {
        let data: Bytes = buffer.split().freeze();
        let packet = Packet::new(Payload::Data(Data { connect_id, error: String::new(), data }));
        metrics.sent(PacketType::Data);
        if packets.send(packet).await.is_err() {
            return;
        }
        buffer.reserve(PIECE);
    }
}

async fn receive_all(
    mut write: WriteHalf<DuplexStream>,
    mut answers: Streaming<Packet>,
    connect_id: i64,
    metrics: &EgressMetrics,
) {
    while let Some(packet) = next(&mut answers, metrics).await {
        match packet.payload {
            Some(Payload::Data(data)) if data.connect_id == connect_id => {
                // Who has let go of the connection needs no bytes, but the end of it is still waited for.
                let _ = write.write_all(&data.data).await;
            }
            Some(Payload::CloseResponse(closed)) if closed.connect_id == connect_id => break,
            _ => {}
        }
    }
    let _ = write.shutdown().await;
}
