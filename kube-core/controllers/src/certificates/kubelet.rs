//! What kubelets may ask for.

use x509::CertificateRequest;

const ORGANIZATION: &str = "system:nodes";
const PREFIX: &str = "system:node:";

/// Whether usages are just these, or these without the one that RSA keys alone need.
fn are(usages: &[&str], purpose: &str) -> Result<(), String> {
    let mut given = usages.to_vec();
    given.sort_unstable();
    given.dedup();
    let mut wanted = ["digital signature", "key encipherment", purpose];
    wanted.sort_unstable();
    let without: Vec<&str> = wanted.into_iter().filter(|usage| *usage != "key encipherment").collect();
    if given == wanted || given == without {
        return Ok(());
    }
    Err(format!("usages did not match [{}]", wanted.join(" ")))
}

fn organization(request: &CertificateRequest) -> Result<(), String> {
    let is_nodes = request.organizations() == [ORGANIZATION];
    if is_nodes { Ok(()) } else { Err(format!("subject organization is not {ORGANIZATION}")) }
}

fn common_name(request: &CertificateRequest) -> Result<(), String> {
    let is_node = request.common_name().starts_with(PREFIX);
    if is_node { Ok(()) } else { Err(format!("subject common name does not begin with {PREFIX}")) }
}

fn none(is_empty: bool, what: &str) -> Result<(), String> {
    if is_empty { Ok(()) } else { Err(format!("{what} subjectAltNames are not allowed")) }
}

/// A certificate by which a kubelet is known to the API server.
///
/// # Errors
/// Why it is none, in upstream's words.
pub(super) fn client(request: &CertificateRequest, usages: &[&str]) -> Result<(), String> {
    organization(request)?;
    let names = request.names();
    none(names.dns.is_empty(), "DNS")?;
    none(names.emails.is_empty(), "Email")?;
    none(names.ips.is_empty(), "IP")?;
    none(names.uris.is_empty(), "URI")?;
    common_name(request)?;
    are(usages, "client auth")
}

/// A certificate by which the API server knows a kubelet.
///
/// # Errors
/// Why it is none, in upstream's words.
pub(super) fn serving(request: &CertificateRequest, usages: &[&str]) -> Result<(), String> {
    organization(request)?;
    let names = request.names();
    if names.dns.is_empty() && names.ips.is_empty() {
        return Err("DNS or IP subjectAltName is required".to_owned());
    }
    none(names.emails.is_empty(), "Email")?;
    none(names.uris.is_empty(), "URI")?;
    are(usages, "server auth")?;
    common_name(request)
}
