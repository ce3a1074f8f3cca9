use std::{ffi::OsString, fs, os::unix::fs::PermissionsExt as _, path::Path};

use generic_server::serve::Tls;
use x509_parser::pem::Pem;

use super::*;
use crate::flags;

fn config(folder: &Path, more: &[&str]) -> Config {
    let data_dir = format!("--data-dir={}", folder.display());
    let arguments = std::iter::once(data_dir.as_str()).chain(more.iter().copied());
    let flags = flags::parse(arguments.map(OsString::from)).expect("parses");
    Config::from_flags(&flags).expect("is valid")
}

/// Every file below the folder, with its content.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            let content = fs::read(&path).expect("a file");
            all.push((path, content));
        }
    }
    all.sort();
    all
}

fn alternative_names(path: &Path) -> Vec<String> {
    let pem = fs::read(path).expect("a file");
    let pem = Pem::iter_from_buffer(&pem).next().expect("a block").expect("PEM");
    let certificate = pem.parse_x509().expect("a certificate");
    let names = certificate.subject_alternative_name().expect("parses").expect("has names");
    names.value.general_names.iter().map(ToString::to_string).collect()
}

#[test]
fn everything_is_made_once_for_the_owner_alone_and_reused() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let config = config(&data, &[]);
    let pki = Pki::ensure(&config).expect("is made");
    Pki::make_service_account_key(&config).expect("is made");
    let kubeconfig =
        pki.write_kubeconfig(config.serving.bind.address, 6443).expect("is written").expect("there is one");
    assert!(kubeconfig.is_absolute());
    Tls::load(pki.tls.clone()).expect("can be served with");
    let first = files(&data);
    assert_eq!(first.len(), 15, "{:?}", first.iter().map(|(path, _)| path).collect::<Vec<_>>());
    for (path, _) in &first {
        let mode = fs::metadata(path).expect("is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", path.display());
    }
    for path in [data.clone(), data.join("pki")] {
        assert_eq!(fs::metadata(&path).expect("is there").permissions().mode() & 0o777, 0o700, "{}", path.display());
    }

    let pki = Pki::ensure(&config).expect("is found");
    Pki::make_service_account_key(&config).expect("is found");
    pki.write_kubeconfig(config.serving.bind.address, 6443).expect("is written");
    assert!(files(&data) == first, "a second start changes nothing");
}

#[test]
fn the_serving_certificate_has_the_names_that_clients_use() {
    let folder = tempfile::tempdir().expect("a folder");
    let pki = Pki::ensure(&config(folder.path(), &["--advertise-address=192.0.2.7"])).expect("is made");
    let names = alternative_names(&pki.tls.default.certificate).join("\n");
    for name in [
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ] {
        assert!(names.contains(&format!("DNSName({name})")), "{name}: {names}");
    }
    assert!(host_name().is_none_or(|host| names.contains(&format!("DNSName({host})"))), "{names}");
    assert_eq!(names.matches("IPAddress(").count(), 4, "loopback twice, the service, the advertised one: {names}");
}

#[test]
fn a_certificate_that_no_longer_fits_is_made_anew_by_the_same_authority() {
    let folder = tempfile::tempdir().expect("a folder");
    let before = Pki::ensure(&config(folder.path(), &[])).expect("is made");
    let authority = fs::read(&before.client_ca).expect("a file");
    let serving = fs::read(&before.tls.default.certificate).expect("a file");
    let other_network = config(folder.path(), &["--service-cluster-ip-range=10.96.0.0/16"]);
    let after = Pki::ensure(&other_network).expect("is renewed");
    assert_eq!(fs::read(&after.client_ca).expect("a file"), authority);
    assert_ne!(fs::read(&after.tls.default.certificate).expect("a file"), serving);

    // A key that is not its certificate's, as a crash between two writes may leave it.
    fs::copy(&after.proxy_client.key, &after.tls.default.key).expect("copies");
    let mended = Pki::ensure(&other_network).expect("is mended");
    Tls::load(mended.tls).expect("can be served with");

    // A new authority issues everything anew.
    fs::remove_file(folder.path().join("pki/ca.crt")).expect("removes");
    let admin = fs::read(folder.path().join("pki/admin.crt")).expect("a file");
    Pki::ensure(&other_network).expect("is made");
    assert_ne!(fs::read(folder.path().join("pki/admin.crt")).expect("a file"), admin);
}

#[test]
fn flags_replace_the_pieces_that_they_name() {
    let given = tempfile::tempdir().expect("a folder");
    let given = Pki::ensure(&config(given.path(), &[])).map(|pki| (given, pki)).expect("is made");
    let (certificate, key) = (&given.1.tls.default.certificate, &given.1.tls.default.key);
    let folder = tempfile::tempdir().expect("a folder");
    let pki = Pki::ensure(&config(
        folder.path(),
        &[
            &format!("--tls-cert-file={}", certificate.display()),
            &format!("--tls-private-key-file={}", key.display()),
            &format!("--client-ca-file={}", given.1.client_ca.display()),
            &format!("--service-account-key-file={}", key.display()),
        ],
    ))
    .expect("is made");
    assert_eq!(&pki.tls.default.certificate, certificate);
    assert_eq!(pki.client_ca, given.1.client_ca);
    assert_eq!(pki.service_account_keys, std::slice::from_ref(key));
    assert_eq!(pki.service_account_signing_key, None);
    assert_eq!(pki.write_kubeconfig([127, 0, 0, 1].into(), 1).expect("is no error"), None);
    let names = |name: &str| folder.path().join("pki").join(name).exists();
    assert!(!names("apiserver.crt") && !names("admin.crt") && !names("sa.key"));
    assert!(names("front-proxy-client.crt"));
}

#[test]
fn a_certificate_that_somebody_put_into_the_cert_dir_is_used_and_one_of_our_own_is_kept_there() {
    let theirs = tempfile::tempdir().expect("a folder");
    let made = Pki::ensure(&config(theirs.path(), &[])).expect("is made");
    let dir = tempfile::tempdir().expect("a folder");
    // Any certificate that is not one of ours for serving stands for a stranger's.
    fs::copy(&made.proxy_client.certificate, dir.path().join("apiserver.crt")).expect("copies");
    fs::copy(&made.proxy_client.key, dir.path().join("apiserver.key")).expect("copies");
    let before = files(dir.path());
    let folder = tempfile::tempdir().expect("a folder");
    let cert_dir = format!("--cert-dir={}", dir.path().display());
    let pki = Pki::ensure(&config(folder.path(), &[&cert_dir])).expect("is found");
    assert_eq!(pki.tls.default.certificate, dir.path().join("apiserver.crt"));
    assert!(files(dir.path()) == before);
    Tls::load(pki.tls).expect("can be served with");

    fs::remove_file(dir.path().join("apiserver.crt")).expect("removes");
    for _ in 0..2 {
        let pki = Pki::ensure(&config(folder.path(), &[&cert_dir])).expect("is made");
        assert_eq!(pki.tls.default.certificate, dir.path().join("apiserver.crt"));
        assert!(pki.server_ca.ends_with("ca.crt"));
    }
}

#[test]
fn a_folder_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "").expect("writes");
    let error = Pki::ensure(&config(&file, &[])).expect_err("is refused").to_string();
    assert!(error.starts_with(&format!("{}: ", file.join("pki").display())), "{error}");

    Pki::ensure(&config(folder.path(), &[])).expect("is made");
    fs::write(folder.path().join("pki/ca.crt"), "rubbish").expect("writes");
    let error = Pki::ensure(&config(folder.path(), &[])).expect_err("is refused").to_string();
    assert!(error.contains("pki/ca.crt: "), "an authority is never replaced silently: {error}");
}
