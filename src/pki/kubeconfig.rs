//! The admin's kubeconfig, with everything that it needs inside.

use std::path::Path;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use generic_server::serve::CertificateFiles;

use super::store::{PkiError, read};

/// The text of a kubeconfig for the server at `host:port`.
pub(super) fn admin(server: &str, server_ca: &Path, client: &CertificateFiles) -> Result<String, PkiError> {
    let encoded = |path: &Path| read(path).map(|content| STANDARD.encode(content));
    Ok(format!(
        "apiVersion: v1
kind: Config
clusters:
- name: local
  cluster:
    server: https://{server}
    certificate-authority-data: {ca}
users:
- name: admin
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: local
  context:
    cluster: local
    user: admin
current-context: local
",
        ca = encoded(server_ca)?,
        certificate = encoded(&client.certificate)?,
        key = encoded(&client.key)?,
    ))
}
