//! The plugins of admission policies over objects in memory.

use std::sync::Arc;

use arc_swap::ArcSwap;
use auth::{Authorizer, Mode};
use generic_server::{
    admission::Chain,
    registry::{Backing, Settings, StoredForm},
    resource::Resource,
    table::{Installed, ResourceTable, install},
};
use machinery::Value;
use policies::{Policies, Tables};
use storage::{Expect, Memory, Store};

/// The plugins, and all rows.
pub(crate) async fn serving(objects: &[(&str, &str, Value)]) -> (Policies, Vec<Resource>) {
    let rows = kube_core::resources();
    let store = Memory::new();
    for (group, plural, object) in objects {
        let of = |row: &&Resource| row.group == *group && row.plural == *plural && row.is_storage_version();
        let row = rows.iter().find(of).expect("the kind is stored");
        let name = object.str_at(&["metadata", "name"]).expect("it has a name");
        let bytes = StoredForm::new(row, &[]).encode(object);
        let key = format!("/registry/{}/{name}", row.storage_path);
        store.put(&key, bytes, Expect::Absent, None).await.expect("the write succeeds");
    }
    let backing = Backing {
        store,
        encryption: None,
        root: "/registry".into(),
        admission: Arc::new(Chain::default()),
        settings: Settings::default(),
    };
    let Installed { entries, registries } = install(rows.clone(), &backing, |_| Default::default());
    for registry in registries.values() {
        registry.ready().await.expect("the cache is filled");
    }
    let tables = Tables(vec![Arc::new(ArcSwap::from_pointee(ResourceTable::new(entries)))]);
    let authorizer: Arc<dyn Authorizer> = Arc::new(Mode::AlwaysAllow);
    (Policies::new(&registries, tables, authorizer, Arc::default()), rows)
}
