//! An etcd in this process, on a port of its own: a client writes a key and reads it.

use std::error::Error;

use etcd_server::{
    Server,
    flags::{Asked, Flags},
};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let flags = [
        format!("--data-dir={}", folder.path().display()),
        "--listen-client-urls=http://127.0.0.1:0".to_owned(),
        "--advertise-client-urls=http://127.0.0.1:0".to_owned(),
    ];
    let Asked::Run(flags) = Flags::parse(flags.into_iter(), std::iter::empty())? else {
        return Err("the flags ask for no server".into());
    };
    let (server, stop) = (Server::start(flags.config).await?, CancellationToken::new());
    let url = format!("http://{}", server.addresses()[0]);
    let running = tokio::spawn(server.run(stop.clone()));
    let mut client = etcd_client::Client::connect([url], None).await?;
    client.put("color", "green", None).await?;
    for found in client.get("color", None).await?.kvs() {
        println!("{} = {}", found.key_str()?, found.value_str()?);
    }
    stop.cancel();
    running.await??;
    Ok(())
}
