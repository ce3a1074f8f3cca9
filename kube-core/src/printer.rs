//! Tables of groups that have one kind.

use machinery::Value;

use generic_server::printer::{
    AGE, Doc, NAME, NONE, Table, UNSET, age, boolean, flag, holds_any, human, int, integer, items, name, scalar,
    some_of, text, text_at, text_or,
};

/// Disruption budgets.
pub(crate) const DISRUPTION_BUDGETS: Table = Table::new(
    &[
        NAME,
        text("Min Available", Doc::Text("The minimum number of pods that must be available.")),
        text("Max Unavailable", Doc::Text("The maximum number of pods that may be unavailable.")),
        integer("Allowed Disruptions", Doc::Text("Calculated number of pods that may be disrupted at this time.")),
        AGE,
    ],
    |budget, now| {
        let bound = |name: &str| Value::from(scalar(budget.at(&["spec", name])).unwrap_or_else(|| "N/A".to_owned()));
        let allowed = Value::Int(int(budget, &["status", "disruptionsAllowed"]));
        vec![name(budget), bound("minAvailable"), bound("maxUnavailable"), allowed, age(budget, now)]
    },
);

/// Endpoint slices.
pub(crate) const ENDPOINT_SLICES: Table = Table::new(
    &[
        NAME,
        text("AddressType", Doc::Of("discovery.v1.EndpointSlice", "addressType")),
        text("Ports", Doc::Of("discovery.v1.EndpointSlice", "ports")),
        text("Endpoints", Doc::Of("discovery.v1.EndpointSlice", "endpoints")),
        AGE,
    ],
    |slice, now| {
        let ports = items(slice, &["ports"]).iter().map(|port| {
            let name = || port.str_at(&["name"]).map(str::to_owned);
            scalar(port.get("port")).or_else(name).unwrap_or_else(|| "*".to_owned())
        });
        let endpoints = items(slice, &["endpoints"]).iter().flat_map(|endpoint| items(endpoint, &["addresses"]));
        let shown = |all: Vec<String>| if all.is_empty() { UNSET.to_owned() } else { some_of(&all, 3, ",") };
        let addresses = endpoints.filter_map(|a| a.as_str().map(str::to_owned));
        vec![
            name(slice),
            text_at(slice, &["addressType"]),
            shown(ports.collect()).into(),
            shown(addresses.collect()).into(),
            age(slice, now),
        ]
    },
);

/// Leases.
pub(crate) const LEASES: Table =
    Table::new(&[NAME, text("Holder", Doc::Of("coordination.v1.LeaseSpec", "holderIdentity")), AGE], |lease, now| {
        vec![name(lease), text_at(lease, &["spec", "holderIdentity"]), age(lease, now)]
    });

/// Runtime classes.
pub(crate) const RUNTIME_CLASSES: Table = Table::new(&[NAME, text("Handler", Doc::Text("")), AGE], |class, now| {
    vec![name(class), text_at(class, &["handler"]), age(class, now)]
});

const PRIORITY: &str = "scheduling.v1.PriorityClass";

/// Priority classes.
pub(crate) const PRIORITY_CLASSES: Table = Table::new(
    &[
        NAME,
        integer("Value", Doc::Of(PRIORITY, "value")),
        boolean("Global-Default", Doc::Of(PRIORITY, "globalDefault")),
        AGE,
        text("PreemptionPolicy", Doc::Of(PRIORITY, "preemptionPolicy")),
    ],
    |class, now| {
        vec![
            name(class),
            Value::Int(int(class, &["value"])),
            Value::Bool(flag(class, &["globalDefault"])),
            age(class, now),
            text_at(class, &["preemptionPolicy"]),
        ]
    },
);

/// The text of an older version of the field, which the table still shows.
const SIGNER: &str = "Requested signer for the request. It is a qualified name in the form: `scope-hostname.io/name`. If empty, it \
    will be defaulted:\n 1. If it's a kubelet client certificate, it is assigned\n    \
    \"kubernetes.io/kube-apiserver-client-kubelet\".\n 2. If it's a kubelet serving certificate, it is assigned\n    \
    \"kubernetes.io/kubelet-serving\".\n 3. Otherwise, it is assigned \"kubernetes.io/legacy-unknown\".\nDistribution of trust \
    for signers happens out of band. You can select on this field using `spec.signerName`.";

/// Requests to sign certificates.
pub(crate) const SIGNING_REQUESTS: Table = Table::new(
    &[
        NAME,
        AGE,
        text("SignerName", Doc::Text(SIGNER)),
        text("Requestor", Doc::Text("Base64-encoded PKCS#10 CSR data")),
        text("RequestedDuration", Doc::Of("certificates.v1.CertificateSigningRequestSpec", "expirationSeconds")),
        text("Condition", Doc::Text("Conditions applied to the request, such as approval or denial.")),
    ],
    |request, now| {
        let wanted = request.at(&["spec", "expirationSeconds"]).and_then(Value::as_i64);
        vec![
            name(request),
            age(request, now),
            text_or(request, &["spec", "signerName"], NONE),
            text_at(request, &["spec", "username"]),
            wanted.map_or_else(|| NONE.to_owned(), human).into(),
            signing_state(request).into(),
        ]
    },
);

fn signing_state(request: &Value) -> String {
    let state = match () {
        () if holds_any(request, "Denied") => "Denied",
        () if holds_any(request, "Approved") => "Approved",
        () => "Pending",
    };
    let failed = if holds_any(request, "Failed") { ",Failed" } else { "" };
    let issued = request.str_at(&["status", "certificate"]).is_some_and(|c| !c.is_empty());
    format!("{state}{failed}{}", if issued { ",Issued" } else { "" })
}
