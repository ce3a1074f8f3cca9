//! The plugins of admission policies over objects in memory.

mod rows;

use std::sync::Arc;

use arc_swap::ArcSwap;
use auth::{Authorizer, Mode};
use generic_server::{
    admission::{Admission, Chain},
    registry::{Backing, Listers, Registries, RegistrySettings, StoredForm},
    resource::Resource,
    table::{Endpoints, ResourceTable, entries},
};
use machinery::Value;
use policies::{Manifests, Policies, Tables};
use storage::{Expect, Memory, Store};

/// The plugin that judges writes.
pub(crate) fn plugin(policies: &Policies) -> Arc<dyn Admission> {
    let found = policies.plugin("ValidatingAdmissionPolicy", &Manifests::none());
    found.expect("there are no files").expect("it is one of them")
}

/// The plugins, and all rows.
pub(crate) async fn serving(objects: &[(&str, &str, Value)]) -> (Policies, Vec<Resource>) {
    let rows = rows::all();
    let store = Memory::new();
    for (group, plural, object) in objects {
        let of = |row: &&Resource| row.group == *group && row.plural == *plural && row.is_storage_version();
        let row = rows.iter().find(of).expect("the kind is stored");
        let name = object.str_at(&["metadata", "name"]).expect("it has a name");
        let bytes = StoredForm::new(row, &[]).encode(object);
        let key = format!("/registry/{}/{name}", row.storage_path);
        store.put(&key, bytes, Expect::Absent, None).await.expect("the write succeeds");
    }
    let backing = Backing { store, encryption: None, root: "/registry".into(), settings: RegistrySettings::default() };
    let listers = Listers::start(&rows, &backing);
    for lister in listers.values() {
        lister.ready().await.expect("the cache is filled");
    }
    let admission: Arc<dyn Admission> = Arc::new(Chain::default());
    let registries = Registries::new(&listers, &admission);
    let entries = entries(rows.clone(), &backing.settings, &registries, &Endpoints::new());
    let tables = Tables(vec![Arc::new(ArcSwap::from_pointee(ResourceTable::new(entries)))]);
    let authorizer: Arc<dyn Authorizer> = Arc::new(Mode::AlwaysAllow);
    (Policies::new(&listers, tables, authorizer, listers.services(false, outbound::egress::Egress::default())), rows)
}
