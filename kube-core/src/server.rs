//! The server of the built-in groups.

use std::sync::Arc;

use arc_swap::ArcSwap;
use auth::{Authorizer, TokenAuthenticators, authn::NoRandomNumbers};
use generic_server::{
    admission::Admission,
    flow_control::FlowControl,
    registry::{Backing, Listers, Registries},
    server::{Builder, GenericServer, ServerScope},
    table::{ResourceTable, entries},
    tasks::Task,
};
use machinery::{Str, meta::GroupResource};
use outbound::ClientError;

use crate::{
    admission, admissionregistration, authentication, authorization, certificates,
    compatible::resources_as,
    connect, coordination, core, flowcontrol, namespaces, rbac, resource,
    service_accounts::{self, Lookup, Verifier},
    service_network::{self, Network},
};

const FLOW_CONTROL: &str = "flowcontrol.apiserver.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

/// What the server is built of.
pub struct Options<'a> {
    /// Where its objects are kept.
    pub backing: &'a Backing,
    /// What reads them.
    pub listers: &'a Listers,
    /// Who admits writes.
    pub admission: &'a Arc<dyn Admission>,
    /// Who may do what: reviews ask it.
    pub authorizer: &'a Arc<dyn Authorizer>,
    /// Where its rows are put.
    pub table: &'a Arc<ArcSwap<ResourceTable>>,
    /// Whom requests go to that it does not claim.
    pub delegate: Arc<GenericServer>,
    /// Who knows bearer tokens, besides those of service accounts.
    pub tokens: authentication::BearerTokens,
    /// How tokens of service accounts are made and checked.
    pub service_accounts: service_accounts::TokenSettings,
    /// Where it is counted how those are used.
    pub metrics: &'a prometheus::Registry,
    /// Whom this server believes, for aggregated servers to do the same.
    pub trust: authentication::Trust,
    /// The addresses and ports of services.
    pub network: &'a service_network::NetworkSettings,
    /// How kubelets are reached.
    pub kubelets: connect::KubeletSettings,
    /// Where clients reach this server: host and port.
    pub address: Str,
    /// The name of the host that this server runs on.
    pub host: Str,
    /// Where other API servers reach this one, if they are told.
    pub peer_address: Option<std::net::SocketAddr>,
    /// How long leases of coordinated leader election last.
    pub leadership: coordination::LeadershipTimers,
    /// Is told of flow schemas and priority levels, if requests are sorted by them.
    pub flow_control: Option<&'a Arc<FlowControl>>,
}

/// The built server, and what others need of it.
pub struct KubeCore {
    /// The server.
    pub server: Arc<GenericServer>,
    /// What writes its objects.
    pub registries: Registries,
    /// Who knows bearer tokens.
    pub tokens: Arc<TokenAuthenticators>,
    /// What runs beside the requests.
    pub tasks: Vec<Task>,
}

/// Why the server cannot be built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BuildError {
    /// Verdicts on tokens cannot be cached.
    #[error(transparent)]
    Tokens(#[from] NoRandomNumbers),
    /// Kubelets cannot be called: their authorities, or the certificate to show them, cannot be used.
    #[error(transparent)]
    Kubelets(#[from] ClientError),
}

/// Builds the server.
///
/// # Errors
/// See [`BuildError`].
pub fn build(options: Options<'_>) -> Result<KubeCore, BuildError> {
    let Options { backing, listers, admission, authorizer, table, .. } = options;
    let settings = &options.service_accounts;
    let plain = Registries::new(listers, admission);
    let network = service_network::network(options.network, backing, &plain);
    let registries = with_rules(plain, &options, &network);

    let lookup = Lookup::new(listers);
    let secrets = registries.of("", "secrets").clone();
    let verifier = Verifier::new(settings.clone(), lookup.clone()).noting_uses(secrets);
    let verifier = Arc::new(verifier.counting_uses(options.metrics));
    let tokens = Arc::new(options.tokens.all(verifier, listers, &settings.audiences)?);
    let mut endpoints = core::endpoints(&registries, lookup, settings, &options.kubelets)?;
    let components = core::ComponentStatuses { store: backing.store.clone() };
    endpoints.insert(GroupResource::new("", "componentstatuses"), components.endpoint());
    endpoints.extend(authentication::endpoints(&tokens, admission));
    endpoints.extend(authorization::endpoints(authorizer, admission));
    let rows = resources_as(&backing.settings);
    let entries = entries(rows, &backing.settings, &registries, &endpoints);
    table.store(Arc::new(ResourceTable::new(entries)));

    let mut server = Builder::new("kube-core", ServerScope::Groups).table(table.clone()).delegate(options.delegate);
    for (path, endpoint) in service_accounts::discovery_endpoints(settings, &options.address) {
        // The form with a slash behind is the same document: the index names it once.
        server = if path.ends_with('/') { server.unlisted(path, endpoint) } else { server.path(path, endpoint) };
    }

    let registry = |group: &str, plural: &str| registries.of(group, plural);
    let config_maps = registry("", "configmaps");
    let (schemas, levels) =
        (registry(FLOW_CONTROL, "flowschemas"), registry(FLOW_CONTROL, "prioritylevelconfigurations"));
    let mut tasks = vec![
        namespaces::system_namespaces(registry("", "namespaces").clone()),
        admission::system_classes(registry("scheduling.k8s.io", "priorityclasses").clone()),
        authentication::publish(config_maps, options.trust),
        service_accounts::track(config_maps),
        rbac::bootstrap(&registries),
    ];
    tasks.extend(flowcontrol::tasks(schemas, levels, options.flow_control));
    tasks.extend(service_network::tasks(options.network, backing, &network, &registries, options.metrics));
    let leases = registry("coordination.k8s.io", "leases");
    if backing.settings.features.is_on("APIServerIdentity") {
        tasks.extend(coordination::identity_tasks(leases, &options.host, options.peer_address));
    }
    if backing.settings.features.is_on("CoordinatedLeaderElection") {
        match registries.get("coordination.k8s.io", "leasecandidates") {
            Some(found) => tasks.push(coordination::elections(leases, found, &options.host, options.leadership)),
            None => tracing::warn!("CoordinatedLeaderElection is on, but --runtime-config serves no leasecandidates"),
        }
    }
    Ok(KubeCore { server: server.build(), registries, tokens, tasks })
}

/// The registries of kinds that take from pools, or whose rules look beyond the object, with those.
fn with_rules(mut registries: Registries, options: &Options<'_>, network: &Arc<Network>) -> Registries {
    let Options { listers, authorizer, .. } = *options;
    let pools = core::services::Pools(network.clone());
    registries.change("", "services", |services| services.reserving(Arc::new(pools)));
    for (plural, devices) in resource::CLAIMED {
        let namespaces = listers.of("", "namespaces").clone();
        let is_granular = namespaces.settings().features.is_on("DRAResourceClaimGranularStatusAuthorization");
        let grants = resource::Grants { namespaces, authorizer: authorizer.clone(), devices, is_granular };
        registries.change("resource.k8s.io", plural, |registry| registry.consulting(Arc::new(grants)));
    }
    let signing = certificates::SigningGrant(authorizer.clone());
    let requests = "podcertificaterequests";
    registries.change("certificates.k8s.io", requests, |requests| requests.consulting(Arc::new(signing)));
    let grants = admissionregistration::ParamGrants {
        table: options.table.clone(),
        delegate: options.delegate.clone(),
        authorizer: authorizer.clone(),
    };
    for (policies, bindings) in [
        ("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
        ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
    ] {
        let of_policies = admissionregistration::PolicyGrants(grants.clone());
        registries.change(ADMISSION, policies, |policies| policies.consulting(Arc::new(of_policies)));
        let of_bindings = admissionregistration::BindingGrants(grants.clone(), listers.of(ADMISSION, policies).clone());
        registries.change(ADMISSION, bindings, |bindings| bindings.consulting(Arc::new(of_bindings)));
    }
    registries
}
