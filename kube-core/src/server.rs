//! The server of the built-in groups.

use std::{collections::HashMap, sync::Arc};

use arc_swap::ArcSwap;
use auth::{Authorizer, TokenAuthenticators};
use generic_server::{
    flow_control::FlowControl,
    registry::{Backing, Registry},
    server::{Builder, Claims, GenericServer},
    table::{Endpoints, ResourceTable, install},
    tasks::Task,
};
use machinery::Str;

use crate::{
    admission, admissionregistration, authentication, authorization, certificates, connect, coordination, core,
    flowcontrol, namespaces,
    rbac::{self, Rbac},
    resource,
    service_accounts::{self, Lookup, Verifier},
    service_network,
};

/// What the server is built of.
pub struct Options<'a> {
    /// Where its objects are kept, and who admits writes.
    pub backing: &'a Backing,
    /// Who may do what: reviews ask it.
    pub authorizer: &'a Arc<dyn Authorizer>,
    /// Reads this server's roles from then on, whether it is part of the authoriser or not.
    pub rbac: &'a Rbac,
    /// Whom requests go to that it does not claim.
    pub delegate: Arc<GenericServer>,
    /// Who knows bearer tokens, besides those of service accounts.
    pub tokens: authentication::BearerTokens,
    /// How tokens of service accounts are made and checked.
    pub service_accounts: service_accounts::Settings,
    /// Whom this server believes, for aggregated servers to do the same.
    pub trust: authentication::Trust,
    /// The addresses and ports of services.
    pub network: &'a service_network::Settings,
    /// How kubelets are reached.
    pub kubelets: connect::Settings,
    /// Where clients reach this server: host and port.
    pub address: Str,
    /// The name of the host that this server runs on.
    pub host: Str,
    /// Is told of flow schemas and priority levels, if requests are sorted by them.
    pub flow_control: Option<&'a Arc<FlowControl>>,
}

/// The built server, and what others need of it.
pub struct KubeCore {
    /// The server.
    pub server: Arc<GenericServer>,
    /// Its rows.
    pub table: Arc<ArcSwap<ResourceTable>>,
    /// The registries, by (group, plural).
    pub registries: HashMap<(Str, Str), Arc<Registry>>,
    /// Who knows bearer tokens.
    pub tokens: Arc<TokenAuthenticators>,
    /// What runs beside the requests.
    pub tasks: Vec<Task>,
}

/// Builds the server.
///
/// # Errors
/// Certificates for kubelets that cannot be used; no random numbers to be had.
pub fn build(options: Options<'_>) -> Result<KubeCore, String> {
    let tokens = options.tokens;
    let (mut known, mut refused) = (Arc::default(), None);
    let settings = &options.service_accounts;
    let installed = install(crate::resources(), options.backing, |registries| {
        let verifier = Arc::new(Verifier::new(settings.clone(), Lookup::new(registries)));
        match tokens.all(verifier, registries, &settings.audiences) {
            Ok(all) => known = Arc::new(all),
            Err(why) => refused = Some(why),
        }
        let mut endpoints = core::endpoints(registries, settings, &options.kubelets).unwrap_or_else(|why| {
            refused = Some(why);
            Endpoints::new()
        });
        let components = core::ComponentStatuses { store: options.backing.store.clone() };
        endpoints.insert((Str::default(), Str::new_static("componentstatuses")), components.endpoint());
        let admission = &options.backing.admission;
        endpoints.extend(authentication::endpoints(&known, admission));
        endpoints.extend(authorization::endpoints(options.authorizer, admission));
        endpoints
    });
    if let Some(why) = refused {
        return Err(why);
    }
    let table = Arc::new(ArcSwap::from_pointee(ResourceTable::new(installed.entries)));
    let mut server = Builder::new("kube-core", Claims::Groups).table(table.clone()).delegate(options.delegate.clone());
    for (path, endpoint) in service_accounts::discovery_endpoints(settings, &options.address) {
        // The form with a slash behind is the same document: the index names it once.
        server = if path.ends_with('/') { server.unlisted(path, endpoint) } else { server.path(path, endpoint) };
    }
    let namespaces = installed.registries[&(Str::default(), Str::new_static("namespaces"))].clone();
    let registry = |group: &'static str, plural: &'static str| {
        &installed.registries[&(Str::new_static(group), Str::new_static(plural))]
    };
    let classes = registry("scheduling.k8s.io", "priorityclasses").clone();
    let mut tasks = vec![namespaces::system_namespaces(namespaces), admission::system_classes(classes)];
    let config_maps = registry("", "configmaps");
    tasks.extend([authentication::publish(config_maps, options.trust), service_accounts::track(config_maps)]);
    const FLOW_CONTROL: &str = "flowcontrol.apiserver.k8s.io";
    let (schemas, levels) =
        (registry(FLOW_CONTROL, "flowschemas"), registry(FLOW_CONTROL, "prioritylevelconfigurations"));
    tasks.extend(flowcontrol::tasks(schemas, levels, options.flow_control));
    tasks.push(rbac::start(options.rbac, &installed.registries));
    let (network, more) = service_network::build(options.network, options.backing, &installed.registries);
    tasks.extend(more);
    let leases = registry("coordination.k8s.io", "leases");
    tasks.extend(coordination::identity_tasks(leases, &options.host, options.network.own_address()));
    registry("", "services").set_reserve(Arc::new(core::services::Pools(network)));
    for (plural, devices) in resource::CLAIMED {
        let (namespaces, authorizer) = (registry("", "namespaces").clone(), options.authorizer.clone());
        let grants = resource::Grants { namespaces, authorizer, devices };
        registry("resource.k8s.io", plural).set_consult(Arc::new(grants));
    }
    let requests = (Str::new_static("certificates.k8s.io"), Str::new_static("podcertificaterequests"));
    if let Some(requests) = installed.registries.get(&requests) {
        requests.set_consult(Arc::new(certificates::SigningGrant(options.authorizer.clone())));
    }
    let grants = admissionregistration::ParamGrants {
        table: table.clone(),
        delegate: options.delegate.clone(),
        authorizer: options.authorizer.clone(),
    };
    const ADMISSION: &str = "admissionregistration.k8s.io";
    for (policies, bindings) in [
        ("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
        ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
    ] {
        let policies = registry(ADMISSION, policies);
        policies.set_consult(Arc::new(admissionregistration::PolicyGrants(grants.clone())));
        let binding = admissionregistration::BindingGrants(grants.clone(), policies.clone());
        registry(ADMISSION, bindings).set_consult(Arc::new(binding));
    }
    Ok(KubeCore { server: server.build(), table, registries: installed.registries, tokens: known, tasks })
}
