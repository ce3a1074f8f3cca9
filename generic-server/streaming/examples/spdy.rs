//! Both ends of a SPDY connection in one process: a client opens a stream and sends, a server takes it and answers.

use streaming::spdy::{Connection, Headers, SpdyError};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), SpdyError> {
    let (here, there) = tokio::io::duplex(1024);
    let client = Connection::client(here);
    let (_server, mut opened) = Connection::server(there);
    let accepted = async {
        let stream = opened.next().await.expect("a stream");
        stream.accept().await.map(|()| stream)
    };
    let (own, other) = tokio::join!(client.open(Headers::of([("streamtype", "stdin")])), accepted);
    let ((mut reading, writing), (mut receiving, sending)) = (own?.split(), other?.split());
    writing.write("ping".into()).await?;
    println!("the server gets {:?}", receiving.next().await);
    sending.write("pong".into()).await?;
    println!("the client gets {:?}", reading.next().await);
    Ok(())
}
