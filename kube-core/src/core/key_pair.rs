//! Whether a certificate and a private key in PEM go together, in Go's words where they do not.

use x509_parser::pem::Pem;

/// The labels of the PEM blocks in a text, in order, with what they hold.
fn blocks(text: &[u8]) -> Vec<Pem> {
    Pem::iter_from_buffer(text).map_while(Result::ok).collect()
}

fn is_private_key(label: &str) -> bool {
    label == "PRIVATE KEY" || label.ends_with(" PRIVATE KEY")
}

/// What is wrong with the pair, if anything is. Differs: whether the key is the certificate's own is not looked at.
pub(super) fn problem(certificate: &[u8], key: &[u8]) -> Option<String> {
    let (certificates, keys) = (blocks(certificate), blocks(key));
    if !certificates.iter().any(|block| block.label == "CERTIFICATE") {
        return Some(match certificates.as_slice() {
            [] => "tls: failed to find any PEM data in certificate input".to_owned(),
            [only] if is_private_key(&only.label) => {
                "tls: failed to find certificate PEM data in certificate input, but \
                did find a private key; PEM inputs may have been switched"
                    .to_owned()
            }
            skipped => format!(
                "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the \
                 following types: [{}]",
                skipped.iter().map(|block| block.label.as_str()).collect::<Vec<_>>().join(" ")
            ),
        });
    }
    if keys.iter().any(|block| is_private_key(&block.label)) {
        return None;
    }
    Some(match keys.as_slice() {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [only] if only.label == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        skipped => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of \
             the following types: [{}]",
            skipped.iter().map(|block| block.label.as_str()).collect::<Vec<_>>().join(" ")
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::problem;

    const CERTIFICATE: &[u8] = b"-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n";
    const KEY: &[u8] = b"-----BEGIN EC PRIVATE KEY-----\nAQID\n-----END EC PRIVATE KEY-----\n";

    #[test]
    fn a_pair_is_a_certificate_and_a_private_key() {
        let check = |certificate: &[u8], key: &[u8], expect: Option<&str>| {
            assert_eq!(problem(certificate, key).as_deref(), expect);
        };
        check(CERTIFICATE, KEY, None);
        check(b"x", KEY, Some("tls: failed to find any PEM data in certificate input"));
        check(CERTIFICATE, b"", Some("tls: failed to find any PEM data in key input"));
        let switched = "tls: found a certificate rather than a key in the PEM for the private key";
        check(CERTIFICATE, CERTIFICATE, Some(switched));
        assert!(problem(KEY, KEY).is_some_and(|why| why.contains("may have been switched")));
    }
}
