//! Signs what is approved, for the signers of Kubernetes itself.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use machinery::{
    Value,
    meta::{Timestamp, status::Status},
};
use x509::{CertificateRequest, Issuer, Terms};

use super::{REQUESTS, add_condition, has_certificate, has_condition, kubelet, parsed, signer_of, usages};
use crate::{
    authorities::{API_SERVER_CLIENT, AuthorityFiles, KUBELET_CLIENT, KUBELET_SERVING},
    objects::{self, Each, Key},
    ready::Ready,
    shared::Shared,
    workqueue::Outcome,
};

const WORKERS: usize = 5;
/// Certificates begin so many seconds before they are signed, for clocks differ.
const BACKDATE: i64 = 300;
/// Those that last so long end earlier by as much.
const SHORT: i64 = 8 * 3600;
/// None is shorter.
const MIN: i64 = 600;

/// Signs requests as they are approved.
pub(crate) async fn run(shared: Arc<Shared>, ready: Ready) {
    let of = Each { queue: "certificate", resource: REQUESTS, workers: WORKERS, concerns: |_| true };
    objects::each(&shared, ready, of, |shared, key| async move { sync(&shared, &key).await }).await;
}

async fn sync(shared: &Shared, key: &Key) -> Result<Outcome, Status> {
    let Some(mut request) = objects::read(shared, REQUESTS, key).await? else { return Ok(Outcome::Done) };
    let waits = has_condition(&request, "Approved") && !has_condition(&request, "Denied");
    if !waits || has_certificate(&request) || has_condition(&request, "Failed") {
        return Ok(Outcome::Done);
    }
    let Some(files) = shared.authorities.of(signer_of(&request)).cloned() else { return Ok(Outcome::Done) };
    let max = i64::try_from(shared.authorities.duration.as_secs()).unwrap_or(i64::MAX);
    // Files are read and keys used beside the requests.
    let signed = tokio::task::spawn_blocking(move || {
        let asked = parsed(&request)?;
        match judge(signer_of(&request), &asked, &usages(&request)) {
            Err(why) => add_condition(&mut request, "Failed", "SignerValidationFailure", &why),
            Ok(()) => {
                let certificate = certificate(&files, &request, &asked, max)
                    .map_err(|why| Status::internal_error(format!("error auto signing csr: {why}")))?;
                request.set(&["status", "certificate"], STANDARD.encode(certificate));
            }
        }
        Ok::<Value, Status>(request)
    });
    let request = signed.await.map_err(Status::internal_error)??;
    let path = format!("{}/status", key.path(REQUESTS.in_version("v1")));
    objects::written(shared.client().update(&path, &request).await)
}

/// Whether a signer signs a request.
fn judge(signer: &str, asked: &CertificateRequest, usages: &[&str]) -> Result<(), String> {
    match signer {
        KUBELET_CLIENT => kubelet::client(asked, usages),
        KUBELET_SERVING => kubelet::serving(asked, usages),
        API_SERVER_CLIENT => {
            let optional = ["digital signature", "key encipherment"];
            if let Some(other) = usages.iter().find(|usage| **usage != "client auth" && !optional.contains(usage)) {
                return Err(format!("invalid usage for client certificate: {other}"));
            }
            let is_client = usages.contains(&"client auth");
            if is_client {
                Ok(())
            } else {
                Err("missing required usage for client certificate: client auth".to_owned())
            }
        }
        _ => Ok(()),
    }
}

fn certificate(
    files: &AuthorityFiles,
    request: &Value,
    asked: &CertificateRequest,
    max: i64,
) -> Result<String, String> {
    let issuer = files.read().map_err(|error| error.to_string())?;
    let wanted = request.at(&["spec", "expirationSeconds"]).and_then(Value::as_i64);
    let terms = terms(&issuer, &usages(request), duration(wanted, max), Timestamp::now().seconds())?;
    let der = issuer.issue(asked, &terms).map_err(|error| error.to_string())?;
    let text = STANDARD.encode(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap_or_default()).collect();
    Ok(format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n")))
}

/// How many seconds a certificate lasts.
fn duration(wanted: Option<i64>, max: i64) -> i64 {
    match wanted {
        Some(wanted) if wanted <= max => wanted.max(MIN),
        _ => max,
    }
}

fn terms(issuer: &Issuer, usages: &[&str], duration: i64, now: i64) -> Result<Terms, String> {
    let ends = if duration < SHORT { now + duration } else { now + duration - BACKDATE };
    let authority = issuer.not_after();
    if now >= authority {
        return Err(format!("refusing to sign a certificate that expired in the past: NotAfter={authority}"));
    }
    let (key_usage, extended) = key_usages(usages)?;
    Ok(Terms { not_before: now - BACKDATE, not_after: ends.min(authority), key_usage, extended })
}

/// The bits of KeyUsage by their words.
const KEY_USAGES: [(&str, u16); 10] = [
    ("signing", 0),
    ("digital signature", 0),
    ("content commitment", 1),
    ("key encipherment", 2),
    ("data encipherment", 3),
    ("key agreement", 4),
    ("cert sign", 5),
    ("crl sign", 6),
    ("encipher only", 7),
    ("decipher only", 8),
];

/// Extended usages by their words, in the order in which they are written.
const EXTENDED: [(&[&str], &[u64]); 12] = [
    (&["any"], &[2, 5, 29, 37, 0]),
    (&["server auth"], &[1, 3, 6, 1, 5, 5, 7, 3, 1]),
    (&["client auth"], &[1, 3, 6, 1, 5, 5, 7, 3, 2]),
    (&["code signing"], &[1, 3, 6, 1, 5, 5, 7, 3, 3]),
    (&["email protection", "s/mime"], &[1, 3, 6, 1, 5, 5, 7, 3, 4]),
    (&["ipsec end system"], &[1, 3, 6, 1, 5, 5, 7, 3, 5]),
    (&["ipsec tunnel"], &[1, 3, 6, 1, 5, 5, 7, 3, 6]),
    (&["ipsec user"], &[1, 3, 6, 1, 5, 5, 7, 3, 7]),
    (&["timestamping"], &[1, 3, 6, 1, 5, 5, 7, 3, 8]),
    (&["ocsp signing"], &[1, 3, 6, 1, 5, 5, 7, 3, 9]),
    (&["microsoft sgc"], &[1, 3, 6, 1, 4, 1, 311, 10, 3, 3]),
    (&["netscape sgc"], &[2, 16, 840, 1, 113_730, 4, 1]),
];

fn key_usages(usages: &[&str]) -> Result<(u16, Vec<&'static [u64]>), String> {
    let bit = |word: &str| KEY_USAGES.iter().find(|(known, _)| *known == word).map(|(_, bit)| 1 << bit);
    let is_extended = |word: &str| EXTENDED.iter().any(|(words, _)| words.contains(&word));
    let unknown: Vec<String> = usages
        .iter()
        .filter(|word| bit(word).is_none() && !is_extended(word))
        .map(|word| format!("{word:?}"))
        .collect();
    if !unknown.is_empty() {
        return Err(format!("unrecognized usage values: [{}]", unknown.join(" ")));
    }
    let bits = usages.iter().filter_map(|word| bit(word)).fold(0, |bits, bit: u16| bits | bit);
    let is_asked = |(words, _): &&(&[&str], &[u64])| words.iter().any(|word| usages.contains(word));
    Ok((bits, EXTENDED.iter().filter(is_asked).map(|(_, oid)| *oid).collect()))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

    use super::*;

    #[test]
    fn certificates_last_as_long_as_is_asked_within_bounds() {
        let check = |wanted: Option<i64>, expect: i64| assert_eq!(duration(wanted, 86_400), expect, "{wanted:?}");
        check(None, 86_400);
        check(Some(3600), 3600);
        check(Some(100), 600);
        check(Some(1_000_000), 86_400);
    }

    #[test]
    fn an_end_is_never_beyond_the_authority_s() {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.not_after = rcgen::date_time_ymd(2030, 1, 1);
        let certificate = params.self_signed(&key).expect("a certificate").pem();
        let issuer = Issuer::from_pem(certificate.as_bytes(), key.serialize_pem().as_bytes()).expect("an authority");
        let end = issuer.not_after();
        let ends = |duration: i64, now: i64| {
            terms(&issuer, &["client auth"], duration, now).map(|terms| terms.not_after - now)
        };
        assert_eq!(ends(3600, end - 100_000), Ok(3600), "short ones are not shortened");
        assert_eq!(ends(36_000, end - 100_000), Ok(35_700));
        assert_eq!(ends(200_000, end - 100_000), Ok(100_000));
        assert!(ends(3600, end).is_err());
    }

    #[test]
    fn usages_are_bits_and_identifiers_in_one_order() {
        let (bits, extended) =
            key_usages(&["client auth", "s/mime", "key encipherment", "signing", "server auth"]).expect("known");
        assert_eq!(bits, 0b101);
        assert_eq!(extended.iter().map(|oid| oid[oid.len() - 1]).collect::<Vec<_>>(), [1, 2, 4]);
        assert_eq!(key_usages(&["x", "any", "y"]), Err(r#"unrecognized usage values: ["x" "y"]"#.to_owned()));
    }

    #[test]
    fn each_signer_has_its_rules() {
        let request = |organization: &str, name: &str, alternatives: Vec<SanType>| {
            let mut params = CertificateParams::default();
            params.distinguished_name = DistinguishedName::new();
            params.distinguished_name.push(DnType::OrganizationName, organization);
            params.distinguished_name.push(DnType::CommonName, name);
            params.subject_alt_names = alternatives;
            let key = KeyPair::generate().expect("a key");
            let text = params.serialize_request(&key).expect("a request").pem().expect("PEM");
            let block = machinery::codec::pem::first(text.as_bytes()).expect("a block").0;
            CertificateRequest::parse(&block.der).expect("a request")
        };
        let dns = || vec![SanType::DnsName("a.example".try_into().expect("a name"))];
        let node = |alternatives| request("system:nodes", "system:node:a", alternatives);
        let client = ["digital signature", "key encipherment", "client auth"];
        let serving = ["server auth", "digital signature"];
        let check = |signer: &str, asked: CertificateRequest, usages: &[&str], expect: &str| {
            assert_eq!(judge(signer, &asked, usages).err().unwrap_or_default(), expect, "{signer} {usages:?}");
        };
        check(KUBELET_CLIENT, node(Vec::new()), &client, "");
        check(KUBELET_CLIENT, node(Vec::new()), &["digital signature", "client auth"], "");
        check(KUBELET_CLIENT, node(dns()), &client, "DNS subjectAltNames are not allowed");
        check(
            KUBELET_CLIENT,
            node(Vec::new()),
            &serving,
            "usages did not match [client auth digital signature key encipherment]",
        );
        check(
            KUBELET_CLIENT,
            request("other", "system:node:a", Vec::new()),
            &client,
            "subject organization is not system:nodes",
        );
        check(
            KUBELET_CLIENT,
            request("system:nodes", "a", Vec::new()),
            &client,
            "subject common name does not begin with system:node:",
        );
        check(KUBELET_SERVING, node(dns()), &serving, "");
        check(KUBELET_SERVING, node(Vec::new()), &serving, "DNS or IP subjectAltName is required");
        check(API_SERVER_CLIENT, request("dev", "jane", dns()), &client, "");
        check(API_SERVER_CLIENT, node(Vec::new()), &serving, "invalid usage for client certificate: server auth");
        check(API_SERVER_CLIENT, node(Vec::new()), &[], "missing required usage for client certificate: client auth");
        check(crate::authorities::LEGACY, request("dev", "jane", Vec::new()), &["any"], "");
    }
}
