//! Certificates as people make them. Those in `testdata` are of kinds that rcgen does not make: they are of version 1, have
//! short keys, old hashes or old strings. `openssl x509 -text` shows them; they are valid for a hundred years.

use std::time::{SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa,
    KeyPair, KeyUsagePurpose, NameConstraints,
};
use rustls_pki_types::{CertificateDer, pem::PemObject};

use super::{Certificate, Purpose, Roots, RootsError};

const CA: &[u8] = include_bytes!("testdata/ca.crt");

fn read(pem: &[u8]) -> Certificate {
    Certificate::parse(&CertificateDer::from_pem_slice(pem).expect("PEM")).expect("a certificate")
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs().cast_signed()
}

type Issuer = CertifiedIssuer<'static, KeyPair>;

/// The parameters of a certificate with this common name and these names.
fn params(name: &str, names: &[&str]) -> CertificateParams {
    let mut params =
        CertificateParams::new(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()).expect("names");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn authority(name: &str) -> CertificateParams {
    let mut params = params(name, &[]);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

fn root(params: CertificateParams) -> Issuer {
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority")
}

fn below(params: CertificateParams, issuer: &Issuer) -> Issuer {
    CertifiedIssuer::signed_by(params, KeyPair::generate().expect("a key"), issuer).expect("an authority")
}

fn leaf(params: CertificateParams, issuer: &Issuer) -> Certificate {
    let key = KeyPair::generate().expect("a key");
    Certificate::parse(params.signed_by(&key, issuer).expect("a certificate").der()).expect("a certificate")
}

fn parsed(issuer: &Issuer) -> Certificate {
    read(issuer.pem().as_bytes())
}

fn trusting(issuers: &[&Issuer]) -> Roots {
    let pem: String = issuers.iter().map(|issuer| issuer.pem()).collect();
    Roots::from_pem(pem.as_bytes()).expect("roots")
}

fn check(roots: &Roots, leaf: &Certificate, others: &[Certificate], purpose: Purpose<'_>, expect: Result<(), &str>) {
    let found = roots.verify(leaf, others, purpose, now()).map(|_| ()).map_err(|why| why.to_string());
    assert_eq!(found, expect.map_err(|why| format!("x509: {why}")));
}

const SERVER: Purpose<'static> = Purpose::Server("a.svc");

#[test]
fn a_self_signed_certificate_is_its_own_bundle() {
    for is_authority in [true, false] {
        let mut own = params("webhook", &["a.svc"]);
        own.is_ca = if is_authority { IsCa::Ca(BasicConstraints::Unconstrained) } else { IsCa::NoCa };
        let own = root(own);
        let (roots, shown) = (trusting(&[&own]), parsed(&own));
        check(&roots, &shown, &[], SERVER, Ok(()));
        check(&roots, &shown, &[], Purpose::Client, Ok(()));
        check(&roots, &shown, &[], Purpose::Server("b.svc"), Err("certificate is valid for a.svc, not b.svc"));
        let other = root(authority("webhook"));
        check(
            &trusting(&[&other]),
            &shown,
            &[],
            Purpose::Client,
            Err(
                "certificate signed by unknown authority (possibly because of \"x509: ECDSA verification failure\" while trying \
             to verify candidate authority certificate \"webhook\")",
            ),
        );
    }
}

#[test]
fn authorities_may_show_themselves() {
    let ca = root(authority("ca"));
    let mut shown = params("jane", &["a.svc"]);
    shown.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let shown = leaf(shown, &ca);
    check(&trusting(&[&ca]), &shown, &[], Purpose::Client, Ok(()));
    check(&trusting(&[&ca]), &shown, &[], SERVER, Ok(()));
}

#[test]
fn certificates_of_version_1_are_certificates() {
    let (client, server) = (include_bytes!("testdata/v1.crt"), include_bytes!("testdata/v1-server.crt"));
    let roots = Roots::from_pem(CA).expect("roots");
    let client = read(client);
    assert_eq!((client.version, client.subject.common_name.as_str()), (1, "jane"));
    check(&roots, &client, &[], Purpose::Client, Ok(()));
    let own = Roots::from_pem(server).expect("roots");
    check(&own, &read(server), &[], Purpose::Client, Ok(()));
    let legacy = "certificate relies on legacy Common Name field, use SANs instead";
    check(&own, &read(server), &[], Purpose::Server("localhost"), Err(legacy));
    // A root of version 1 may sign; an intermediate one may not.
    check(
        &roots,
        &read(include_bytes!("testdata/rsa1024.crt")),
        &[client],
        Purpose::Client,
        Err("certificate signed by unknown authority"),
    );
}

#[test]
fn short_keys_count_and_old_hashes_do_not() {
    let roots = Roots::from_pem(include_bytes!("testdata/rsa1024-ca.crt")).expect("roots");
    check(&roots, &read(include_bytes!("testdata/rsa1024.crt")), &[], Purpose::Client, Ok(()));
    let roots = Roots::from_pem(CA).expect("roots");
    check(
        &roots,
        &read(include_bytes!("testdata/sha1.crt")),
        &[],
        Purpose::Client,
        Err(
            "certificate signed by unknown authority (possibly because of \"x509: cannot verify signature: insecure algorithm \
         ECDSA-SHA1\" while trying to verify candidate authority certificate \"test-ca\")",
        ),
    );
}

#[test]
fn every_string_of_a_subject_is_read() {
    let bmp = read(include_bytes!("testdata/bmp.crt")).subject;
    let t61 = read(include_bytes!("testdata/t61.crt")).subject;
    assert_eq!(bmp, t61);
    assert_eq!(
        (bmp.common_name.as_str(), bmp.organizations),
        ("j\u{fc}rgen", vec!["system:masters".into(), "j\u{fc}rgens".into()])
    );
}

#[test]
fn a_chain_is_found_whatever_comes_along() {
    let (ca, other) = (root(authority("ca")), root(authority("ca")));
    let middle = below(authority("middle"), &ca);
    let lower = below(authority("lower"), &middle);
    let shown = leaf(params("jane", &["a.svc"]), &lower);
    let roots = trusting(&[&other, &ca]);
    let others = [parsed(&other), parsed(&lower), parsed(&middle), parsed(&ca), shown.clone()];
    check(&roots, &shown, &others, SERVER, Ok(()));
    check(&roots, &shown, &others[1..2], SERVER, Err("certificate signed by unknown authority"));
    check(&roots, &shown, &[], SERVER, Err("certificate signed by unknown authority"));
    let mut many = vec![parsed(&lower); 99];
    many.push(parsed(&middle));
    let limit = "signature check attempts limit reached while verifying certificate chain";
    check(&trusting(&[&other]), &shown, &many, SERVER, Err(limit));
}

#[test]
fn who_may_not_sign_has_not_signed() {
    let refused = |name: &str| {
        format!(
            "certificate signed by unknown authority (possibly because of \"x509: invalid signature: parent certificate cannot \
             sign this kind of certificate\" while trying to verify candidate authority certificate {name:?})"
        )
    };
    let ca = root(authority("ca"));
    let plain = below(params("plain", &["a.svc"]), &ca);
    let mut other_use = authority("other-use");
    other_use.key_usages = vec![KeyUsagePurpose::CrlSign];
    let other_use = below(other_use, &ca);
    for issuer in [&plain, &other_use] {
        let own = parsed(issuer);
        let shown = leaf(params("jane", &["a.svc"]), issuer);
        check(&trusting(&[&ca]), &shown, std::slice::from_ref(&own), SERVER, Err(&refused(&own.subject.common_name)));
        check(&trusting(&[issuer]), &shown, &[], SERVER, Err(&refused(&own.subject.common_name)));
    }
    let mut short = authority("short");
    short.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let short = root(short);
    let middle = below(authority("middle"), &short);
    let shown = leaf(params("jane", &["a.svc"]), &middle);
    check(
        &trusting(&[&short]),
        &shown,
        &[parsed(&middle)],
        SERVER,
        Err("too many intermediates for path length constraint"),
    );
    check(&trusting(&[&short]), &leaf(params("jane", &["a.svc"]), &short), &[], SERVER, Ok(()));
}

#[test]
fn a_purpose_holds_for_the_whole_chain() {
    let incompatible = "certificate specifies an incompatible key usage";
    let ca = root(authority("ca"));
    let with = |usages: &[ExtendedKeyUsagePurpose]| {
        let mut params = params("jane", &["a.svc"]);
        params.extended_key_usages = usages.to_vec();
        params
    };
    let roots = trusting(&[&ca]);
    let client = leaf(with(&[ExtendedKeyUsagePurpose::ClientAuth]), &ca);
    check(&roots, &client, &[], Purpose::Client, Ok(()));
    check(&roots, &client, &[], SERVER, Err(incompatible));
    check(&roots, &leaf(with(&[ExtendedKeyUsagePurpose::Any]), &ca), &[], SERVER, Ok(()));
    check(&roots, &leaf(with(&[ExtendedKeyUsagePurpose::CodeSigning]), &ca), &[], Purpose::Client, Err(incompatible));
    let mut servers = authority("servers");
    servers.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let servers = below(servers, &ca);
    let client = leaf(with(&[ExtendedKeyUsagePurpose::ClientAuth]), &servers);
    check(&roots, &client, &[parsed(&servers)], Purpose::Client, Err(incompatible));
}

#[test]
fn names_that_an_authority_may_not_sign_do_not_count() {
    let mut constrained = authority("constrained");
    constrained.name_constraints = Some(NameConstraints {
        permitted_subtrees: vec![GeneralSubtree::DnsName("svc".into())],
        excluded_subtrees: Vec::new(),
    });
    let constrained = root(constrained);
    let roots = trusting(&[&constrained]);
    check(&roots, &leaf(params("x", &["a.svc"]), &constrained), &[], SERVER, Ok(()));
    check(
        &roots,
        &leaf(params("x", &["a.svc", "example.com"]), &constrained),
        &[],
        SERVER,
        Err(
            "a root or intermediate certificate is not authorized to sign for this name: DNS name \"example.com\" is not permitted \
         by any constraint",
        ),
    );
}

#[test]
fn time_counts_for_every_certificate() {
    let mut old = authority("old");
    old.not_before = rcgen::date_time_ymd(2000, 1, 1);
    old.not_after = rcgen::date_time_ymd(2001, 1, 1);
    let old = root(old);
    let shown = leaf(params("jane", &["a.svc"]), &old);
    let why = trusting(&[&old]).verify(&shown, &[], SERVER, now()).expect_err("it is over").to_string();
    assert!(why.starts_with("x509: certificate has expired or is not yet valid: current time 20"), "{why}");
    assert!(why.ends_with(" is after 2001-01-01T00:00:00Z"), "{why}");
    let then = trusting(&[&old]).verify(&shown, &[], SERVER, 978_000_000);
    assert_eq!(then, Ok(978_307_200), "the root ends first");
    let why = trusting(&[&old]).verify(&shown, &[], SERVER, 0).expect_err("it is to come").to_string();
    assert!(why.starts_with(
        "x509: certificate has expired or is not yet valid: current time 1970-01-01T00:00:00Z is before "
    ));
}

#[test]
fn addresses_are_names_of_their_own() {
    let ca = root(authority("ca"));
    let shown = leaf(params("x", &["192.0.2.1", "2001:db8::1", "*.svc"]), &ca);
    let check = |host: &str, expect: Result<(), &str>| {
        check(&trusting(&[&ca]), &shown, &[], Purpose::Server(host), expect);
    };
    check("192.0.2.1", Ok(()));
    check("2001:db8::1", Ok(()));
    check("::ffff:192.0.2.1", Ok(()));
    check("A.svc", Ok(()));
    check("a.svc.", Ok(()));
    check("a.b.svc", Err("certificate is valid for *.svc, not a.b.svc"));
    check("192.0.2.2", Err("certificate is valid for 192.0.2.1, 2001:db8::1, not 192.0.2.2"));
    let without = leaf(params("x", &["a.svc"]), &ca);
    let none = "cannot validate certificate for 192.0.2.1 because it doesn't contain any IP SANs";
    super::tests::check(&trusting(&[&ca]), &without, &[], Purpose::Server("192.0.2.1"), Err(none));
}

#[test]
fn what_cannot_be_read_in_a_bundle_does_not_count() {
    let mut bundle = b"text\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_vec();
    let why = Roots::from_bundle(&bundle).expect_err("none can be read");
    assert_eq!(
        why.to_string(),
        "unable to load root certificates: failed to parse certificate: x509: malformed certificate"
    );
    let why = Roots::from_bundle(b"text").expect_err("there is none");
    assert_eq!(why.to_string(), "unable to load root certificates: unable to parse bytes as PEM block");
    bundle.extend_from_slice(CA);
    let roots = Roots::from_bundle(&bundle).expect("one can be read");
    check(&roots, &read(include_bytes!("testdata/v1.crt")), &[], Purpose::Client, Ok(()));
    let why = Roots::from_pem(&bundle).expect_err("a file of the server's own is whole");
    assert!(matches!(why, RootsError::Certificate(_)), "{why}");
    let why = Roots::from_pem(b"").expect_err("there is none");
    assert!(matches!(why, RootsError::NoCertificate), "{why}");
}

#[test]
fn bytes_from_anywhere_are_no_certificate() {
    let good = CertificateDer::from_pem_slice(CA).expect("PEM");
    for end in 0..good.len() {
        assert!(Certificate::parse(&good[..end]).is_err(), "{end}");
    }
    assert!(Certificate::parse(&[&good[..], b"x"].concat()).is_err());
}
