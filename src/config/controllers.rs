//! The controllers in this process.

use std::{path::PathBuf, time::Duration};

use controllers::{Authorities, AuthorityFiles, Selection};

use super::Findings;
use crate::flags::Parsed;

/// Which controllers run, and with what.
#[derive(Clone, Debug, Default)]
pub struct Controllers {
    /// `--controllers`.
    pub selection: Selection,
    /// `--root-ca-file`.
    pub root_ca: Option<PathBuf>,
    /// `--cluster-signing-cert-file` and its like; none: nobody was named.
    pub authorities: Option<Authorities>,
    /// `--cluster-signing-duration`.
    pub signing_duration: Duration,
}

/// What runs where `--controllers` is not given: with the embedded store, and with etcd, which others may be on.
const DEFAULTS: (&[&str], &[&str]) = (&[], &[]);

impl Controllers {
    pub(super) fn from_flags(flags: &Parsed, findings: &mut Findings) -> Self {
        let default = if flags.list("etcd-servers").is_empty() { DEFAULTS.0 } else { DEFAULTS.1 };
        let selection = match flags.is_given("controllers") {
            true => Selection::parse(&flags.list("controllers")),
            false => Selection::parse(default),
        };
        let selection = selection.unwrap_or_else(|unknown| {
            findings.errors.extend(unknown.iter().map(ToString::to_string));
            Selection::default()
        });
        let signing_duration = findings.duration(flags, "cluster-signing-duration");
        let authorities = authorities(flags, findings, signing_duration);
        Controllers { selection, root_ca: findings.file(flags, "root-ca-file"), authorities, signing_duration }
    }
}

/// Who signs requests for certificates: one for all signers, or some of them each with its own.
fn authorities(flags: &Parsed, findings: &mut Findings, duration: Duration) -> Option<Authorities> {
    let mut files = |signer: &str| {
        let (certificate, key) =
            (format!("cluster-signing{signer}-cert-file"), format!("cluster-signing{signer}-key-file"));
        let pair = findings.pair(flags, &certificate, &key);
        pair.map(|files| AuthorityFiles { certificate: files.certificate, key: files.key })
    };
    let all = files("");
    let each = Authorities {
        api_server_client: files("-kube-apiserver-client"),
        kubelet_client: files("-kubelet-client"),
        kubelet_serving: files("-kubelet-serving"),
        legacy: files("-legacy-unknown"),
        duration,
    };
    let has_each = each != Authorities { duration, ..Authorities::default() };
    match all {
        Some(_) if has_each => {
            findings.error("cannot specify default and per controller certs at the same time");
            None
        }
        Some(files) => Some(Authorities::one(files, duration)),
        None => has_each.then_some(each),
    }
}
