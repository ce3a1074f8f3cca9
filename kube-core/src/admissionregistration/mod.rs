//! The group admissionregistration.k8s.io: webhooks and policies that judge or change writes.

mod conversion;
mod expressions;
mod grants;
mod matching;
mod policies;
mod printers;
mod rules;
mod static_names;
mod webhooks;

use generic_server::resource::Resource;

pub(crate) use grants::{BindingGrants, ParamGrants, PolicyGrants};

use crate::row::{GroupVersion, Row};

const V1: GroupVersion = GroupVersion("admissionregistration.k8s.io", "v1");
/// What v1.36 stores mutating policies in, so that the minor version before it can read them.
const V1BETA1: GroupVersion = GroupVersion("admissionregistration.k8s.io", "v1beta1");
const V1ALPHA1: GroupVersion = GroupVersion("admissionregistration.k8s.io", "v1alpha1");

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    let validating = [validating_policies, validating_bindings].into_iter().flat_map(|row| {
        let old = row(V1BETA1).renamed_from(V1).deprecated_since(31, Some(V1)).until(34);
        [row(V1), old]
    });
    let mutating = [policies, bindings].into_iter().flat_map(|row| {
        let alpha = row(V1ALPHA1).stored_as(V1BETA1, conversion::V1Alpha1).deprecated_since(35, None);
        [row(V1).renamed_from(V1BETA1).since(36), row(V1BETA1).since(34), alpha]
    });
    let webhooks = |plural, kind, hash, rules| {
        V1.cluster(plural, kind, hash).table(printers::WEBHOOKS).strategy(rules).category("api-extensions")
    };
    let mutating_webhooks = webhooks(
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        "Sqi0GUgDaX0=",
        rules::MUTATING_WEBHOOKS,
    );
    let validating_webhooks = webhooks(
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        "B0wHjQmsGNk=",
        rules::VALIDATING_WEBHOOKS,
    );
    mutating.chain([mutating_webhooks]).chain(validating).chain([validating_webhooks]).map(Row::build).collect()
}

fn validating_policies(version: GroupVersion) -> Row {
    version
        .cluster("validatingadmissionpolicies", "ValidatingAdmissionPolicy", "6OxvlMmQ6is=")
        .table(printers::VALIDATING_POLICIES)
        .strategy(rules::VALIDATING_POLICIES)
        .category("api-extensions")
        .status()
}

fn validating_bindings(version: GroupVersion) -> Row {
    version
        .cluster("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", "v9715VZqakg=")
        .table(printers::BINDINGS)
        .strategy(rules::VALIDATING_BINDINGS)
        .category("api-extensions")
}

fn policies(version: GroupVersion) -> Row {
    version
        .cluster("mutatingadmissionpolicies", "MutatingAdmissionPolicy", "LYmCf+UMVdg=")
        .table(printers::MUTATING_POLICIES)
        .strategy(rules::MUTATING_POLICIES)
        .category("api-extensions")
}

fn bindings(version: GroupVersion) -> Row {
    version
        .cluster("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", "90V5FRZZ3Zg=")
        .table(printers::BINDINGS)
        .strategy(rules::MUTATING_BINDINGS)
        .category("api-extensions")
}
