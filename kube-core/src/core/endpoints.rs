//! Who serves what is not stored in the core group: bindings, and subresources with rules of their own.

use std::{collections::HashMap, sync::Arc};

use generic_server::{registry::Registry, table::Endpoints};
use machinery::Str;

use super::pods;
use crate::{
    connect,
    service_accounts::{Lookup, Settings, TokenRequests},
};

/// The group's endpoints.
///
/// # Errors
/// Certificates for kubelets that cannot be used.
pub(crate) fn endpoints(
    registries: &HashMap<(Str, Str), Arc<Registry>>,
    tokens: &Settings,
    kubelets: &connect::Settings,
) -> Result<Endpoints, String> {
    let registry = |group: &'static str, plural: &'static str| {
        registries[&(Str::new_static(group), Str::new_static(plural))].clone()
    };
    let pods = registry("", "pods");
    let bindings = super::resources().into_iter().find(|row| row.plural == "bindings").expect("the group has the row");
    let tokens = TokenRequests { settings: tokens.clone(), lookup: Lookup::new(registries) };
    let mut table: Vec<connect::Served> = vec![
        ("bindings", Arc::new(pods::Binding { row: bindings, pods: pods.clone() })),
        ("pods/binding", Arc::new(pods::Binding { row: (*pods.row).clone(), pods: pods.clone() })),
        ("serviceaccounts/token", Arc::new(tokens)),
        (
            "pods/eviction",
            Arc::new(pods::Eviction { pods: pods.clone(), budgets: registry("policy", "poddisruptionbudgets") }),
        ),
    ];
    table.extend(connect::endpoints(registries, kubelets)?);
    Ok(table.into_iter().map(|(path, endpoint)| ((Str::default(), Str::new_static(path)), endpoint)).collect())
}
