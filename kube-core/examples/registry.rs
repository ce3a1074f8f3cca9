//! A registry of config maps over a store in memory, without a server: what reads (a lister), what writes (a registry over it), and
//! what comes of a stale write.

use std::{error::Error, sync::Arc};

use generic_server::{
    admission::Chain,
    registry::{Backing, Lister, Registry, RegistrySettings},
};
use machinery::{Value, codec::json};
use storage::{Memory, cache::ReadAt};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let row = kube_core::resources().into_iter().find(|row| row.group.is_empty() && row.plural == "configmaps");
    let backing = Backing {
        store: Memory::new(),
        encryption: None,
        root: "/registry".into(),
        settings: RegistrySettings::default(),
    };
    let lister = Lister::start(row.ok_or("no such row")?, &backing);
    let config_maps = Registry::new(lister.clone(), Arc::new(Chain::default()));

    let text = br#"{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "colors", "namespace": "default"}}"#;
    config_maps.create_as_server(json::decode(text)?).await?;
    let color = |current: &Value| {
        let mut new = current.clone();
        new.set(&["data", "door"], "red");
        Ok(new)
    };
    config_maps.edit_as("painter", ("default", "colors", ""), color).await?;

    let object = lister.get("default", "colors", ReadAt::Latest).await?;
    println!("{}", String::from_utf8_lossy(object.bytes()));

    let missing = lister.get("default", "shapes", ReadAt::Latest).await.expect_err("nobody has made it");
    println!("{} {}: {}", missing.code, missing.reason, missing.message);
    Ok(())
}
