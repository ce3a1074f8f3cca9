//! Endpoints of the core group for what is not stored: bindings, and subresources with rules of their own.

use std::sync::Arc;

use generic_server::{registry::Registries, table::Endpoints};
use machinery::meta::GroupResource;
use outbound::ClientError;

use super::pods;
use crate::{
    connect,
    service_accounts::{Lookup, TokenRequests, TokenSettings},
};

/// The group's endpoints.
///
/// # Errors
/// Certificates for kubelets that cannot be used.
pub(crate) fn endpoints(
    registries: &Registries,
    lookup: Lookup,
    tokens: &TokenSettings,
    kubelets: &connect::KubeletSettings,
) -> Result<Endpoints, ClientError> {
    let pods = registries.of("", "pods").clone();
    let bindings = super::resources().into_iter().find(|row| row.plural == "bindings").expect("the group has the row");
    let tokens =
        TokenRequests { settings: tokens.clone(), accounts: registries.of("", "serviceaccounts").clone(), lookup };
    let mut table: Vec<connect::Served> = vec![
        ("bindings", Arc::new(pods::Binding { row: bindings, pods: pods.clone() })),
        ("pods/binding", Arc::new(pods::Binding { row: (*pods.row).clone(), pods: pods.clone() })),
        ("serviceaccounts/token", Arc::new(tokens)),
        (
            "pods/eviction",
            Arc::new(pods::Eviction {
                pods: pods.clone(),
                budgets: registries.of("policy", "poddisruptionbudgets").clone(),
            }),
        ),
    ];
    table.extend(connect::endpoints(registries, kubelets)?);
    Ok(table.into_iter().map(|(path, endpoint)| (GroupResource::new("", path), endpoint)).collect())
}
