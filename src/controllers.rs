//! The controllers in this process (`--controllers`): what they are built of.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use arc_swap::ArcSwap;
use controllers::{Authorities, AuthorityFiles, Door, Options};
use generic_server::{
    registry::{Lister, Listers},
    table::ResourceTable,
    tasks::Task,
};
use machinery::Str;

use crate::{config::Config, pki::Pki};

/// The tasks, and where their requests go in: it is opened when the pipeline is built.
pub(crate) fn controllers(
    config: &Config,
    pki: &Pki,
    (listers, definitions, tables): (&Listers, &Arc<Lister>, Vec<Arc<ArcSwap<ResourceTable>>>),
    metrics: &prometheus::Registry,
) -> Result<(Vec<Task>, Door)> {
    let door = Door::default();
    let settings = &config.controllers;
    if settings.selection.is_empty() {
        return Ok((Vec::new(), door));
    }
    let root_ca = settings.root_ca.as_ref().unwrap_or(&pki.server_ca);
    let root_ca = std::fs::read_to_string(root_ca).with_context(|| format!("cannot read {}", root_ca.display()))?;
    let authorities = authorities(config, pki)?;
    let host = crate::pki::host_name().unwrap_or_else(|| "localhost".to_owned());
    let tasks = controllers::build(Options {
        selection: &settings.selection,
        door: door.clone(),
        tables,
        listers: listers.clone(),
        definitions: definitions.clone(),
        metrics,
        single: config.storage.etcd.is_none(),
        identity: identity(&host),
        root_ca: root_ca.into(),
        authorities,
    });
    Ok((tasks, door))
}

/// Who signs requests for certificates: whom the flags name, else the authority of this server, if it is the one that clients are
/// known by. One that cannot sign stops the start.
fn authorities(config: &Config, pki: &Pki) -> Result<Authorities> {
    let settings = &config.controllers;
    if !settings.selection.has("certificatesigningrequest-signing-controller") {
        return Ok(Authorities::default());
    }
    let authorities = match (&settings.authorities, &pki.signer) {
        (Some(authorities), _) => authorities.clone(),
        (None, Some(own)) => {
            let files = AuthorityFiles { certificate: own.certificate.clone(), key: own.key.clone() };
            Authorities::one(files, settings.signing_duration)
        }
        (None, None) => {
            tracing::info!(
                "no authority to sign requests for certificates with: --cluster-signing-cert-file is not given"
            );
            Authorities::default()
        }
    };
    authorities.check()?;
    Ok(authorities)
}

/// The holder of a lease: the host and something that no other process has.
fn identity(host: &str) -> Str {
    let start = machinery::meta::Timestamp::now();
    format!("{host}_{}_{}{:09}", std::process::id(), start.seconds(), start.nanos()).into()
}
