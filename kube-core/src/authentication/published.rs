//! What aggregated servers need to authenticate clients as this server does: the authorities of client certificates and
//! of front proxies, and the headers that name users. It stands in the config map
//! `kube-system/extension-apiserver-authentication`, which all API servers of the cluster add to: each keeps what others
//! wrote, except certificates that have expired.

use std::{collections::HashSet, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use generic_server::{
    registry::Registry,
    tasks::{Task, TaskContext, TaskResult},
};
use machinery::{
    Str, Value,
    codec::json,
    meta::{Status, Timestamp},
    object,
};
use storage::cache::{Everything, Scope};
use x509_parser::pem::Pem;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
/// For how many seconds after its end a certificate is still published: clocks differ.
const SLACK: i64 = 300;
const CLIENT_CA: &str = "client-ca-file";
const PROXY_CA: &str = "requestheader-client-ca-file";

/// Whom this server believes.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// Authorities of client certificates, as PEM.
    pub client_ca: String,
    /// Authorities of front proxies, as PEM; empty: nobody may name users in headers.
    pub proxy_ca: String,
    /// Common names of front proxies; empty: any that an authority signed.
    pub allowed_names: Vec<Str>,
    /// Headers that name the user.
    pub username_headers: Vec<Str>,
    /// Headers that name the user's UID; `None`: nobody is told of any (RemoteRequestHeaderUID is off).
    pub uid_headers: Option<Vec<Str>>,
    /// Headers that name groups.
    pub group_headers: Vec<Str>,
    /// Prefixes of headers with more about the user.
    pub extra_prefixes: Vec<Str>,
}

/// Keeps the config map up to date.
pub(crate) fn task(config_maps: &Arc<Registry>, trust: Trust) -> Task {
    let (config_maps, trust) = (config_maps.clone(), Arc::new(trust));
    let run = move |cx| keep(config_maps.clone(), trust.clone(), cx);
    Task::new("start-cluster-authentication-info-controller", run).after("start-system-namespaces-controller")
}

async fn keep(config_maps: Arc<Registry>, trust: Arc<Trust>, cx: TaskContext) -> TaskResult {
    let place = Scope::Object { namespace: Some(Str::new_static(NAMESPACE)), name: Str::new_static(NAME) };
    let mut changes = config_maps.cache().follow(place, Arc::new(Everything));
    loop {
        let next = tokio::select! {
            () = cx.cancelled() => return Ok(()),
            next = changes.next() => next,
        };
        if next.is_none() {
            return Ok(());
        }
        publish(&config_maps, &trust).await?;
        cx.ready();
    }
}

async fn publish(config_maps: &Arc<Registry>, trust: &Trust) -> TaskResult {
    let now = Timestamp::now().seconds();
    let snapshot = config_maps.cache().latest();
    let current = snapshot.get(&config_maps.key(NAMESPACE, NAME)).and_then(|entry| entry.object());
    let Some(current) = current else {
        let config_map = object! {
            "kind" => "ConfigMap", "apiVersion" => "v1",
            "metadata" => object! { "name" => NAME, "namespace" => NAMESPACE },
            "data" => trust.joined(&Value::Null, now)?,
        };
        return match config_maps.create_as_server(config_map).await {
            Ok(_) => Ok(()),
            Err(status) if status.is_already_exists() => Ok(()), // another server was faster: its event comes
            Err(status) => Err(status.into()),
        };
    };
    let current = config_maps.decode(current.bytes())?;
    let data = current.at(&["data"]).unwrap_or(&Value::Null);
    if trust.joined(data, now)? == *data {
        return Ok(());
    }
    let edit = |config_map: &Value| {
        let mut config_map = config_map.clone();
        let data = trust.joined(config_map.at(&["data"]).unwrap_or(&Value::Null), now);
        config_map.set(&["data"], data.map_err(Status::internal_error)?);
        Ok(config_map)
    };
    match config_maps.edit(NAMESPACE, NAME, "", edit).await {
        Ok(_) => Ok(()),
        Err(status) if status.is_not_found() => Ok(()), // deleted meanwhile: that event comes, too
        Err(status) => Err(status.into()),
    }
}

impl Trust {
    /// The config map's data when this server's trust is added to what `data` says.
    fn joined(&self, data: &Value, now: i64) -> Result<Value, String> {
        let text = |key: &str| data.str_at(&[key]).unwrap_or_default();
        let lists = [
            ("requestheader-username-headers", Some(&self.username_headers)),
            ("requestheader-uid-headers", self.uid_headers.as_ref()),
            ("requestheader-group-headers", Some(&self.group_headers)),
            ("requestheader-extra-headers-prefix", Some(&self.extra_prefixes)),
            ("requestheader-allowed-names", Some(&self.allowed_names)),
        ];
        let mut joined = Value::object();
        let client_ca = bundle(CLIENT_CA, text(CLIENT_CA), &self.client_ca, now)?;
        if !client_ca.is_empty() {
            joined.set(&[CLIENT_CA], client_ca);
        }
        let proxy_ca = bundle(PROXY_CA, text(PROXY_CA), &self.proxy_ca, now)?;
        if proxy_ca.is_empty() {
            return Ok(joined);
        }
        joined.set(&[PROXY_CA], proxy_ca);
        for (key, own) in lists.into_iter().filter_map(|(key, own)| Some((key, own?))) {
            let all = list(key, text(key), own)?;
            if !all.is_empty() || key != "requestheader-uid-headers" {
                joined.set(&[key], String::from_utf8_lossy(&json::encode(&Value::from(all))).into_owned());
            }
        }
        Ok(joined)
    }
}

/// The texts of a list written as JSON, then those of `own` that it lacks.
fn list(key: &str, written: &str, own: &[Str]) -> Result<Vec<Value>, String> {
    let before = match written {
        "" => Value::Null,
        written => json::decode(written.as_bytes()).map_err(|error| format!("{key}: {error}"))?,
    };
    let (mut all, mut seen): (Vec<Value>, HashSet<Vec<u8>>) = Default::default();
    let before = before.as_array().unwrap_or_default().iter().cloned();
    for text in before.chain(own.iter().map(|text| Value::from(text.clone()))) {
        if seen.insert(json::encode(&text)) {
            all.push(text);
        }
    }
    Ok(all)
}

/// The certificates of two bundles, each once, without those that have expired.
fn bundle(key: &str, before: &str, own: &str, now: i64) -> Result<String, String> {
    let (mut all, mut seen): (Vec<Vec<u8>>, HashSet<Vec<u8>>) = Default::default();
    for pem in Pem::iter_from_buffer(before.as_bytes()).chain(Pem::iter_from_buffer(own.as_bytes())) {
        let pem = pem.map_err(|error| format!("{key}: {error}"))?;
        if pem.label != "CERTIFICATE" || seen.contains(&pem.contents) {
            continue;
        }
        let certificate = pem.parse_x509().map_err(|error| format!("{key}: {error}"))?;
        if certificate.validity().not_after.timestamp() + SLACK > now {
            seen.insert(pem.contents.clone());
            all.push(pem.contents);
        }
    }
    Ok(all.iter().map(|certificate| encode(certificate)).collect())
}

/// A certificate as PEM (RFC 7468).
fn encode(certificate: &[u8]) -> String {
    let text = BASE64.encode(certificate);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in text.as_bytes().chunks(64) {
        pem.extend(line.iter().map(|byte| char::from(*byte)));
        pem.push('\n');
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(name: &str, end: i32) -> String {
        let mut params = rcgen::CertificateParams::new([name.to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(end, 1, 1);
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem().replace("\r\n", "\n")
    }

    const NOW: i64 = 1_800_000_000; // in 2027

    #[test]
    fn each_server_adds_to_what_others_wrote() {
        let (a, b, old) = (certificate("a", 2040), certificate("b", 2040), certificate("old", 2020));
        let text = |text: &str| Str::from(text);
        let trust = Trust {
            client_ca: a.clone(),
            proxy_ca: b.clone(),
            allowed_names: vec![text("front"), text("proxy")],
            username_headers: vec![text("X-Remote-User")],
            group_headers: vec![text("X-Remote-Group")],
            extra_prefixes: vec![text("X-Remote-Extra-")],
            uid_headers: Some(Vec::new()),
        };
        let first = trust.joined(&Value::Null, NOW).unwrap();
        let expect = object! {
            "client-ca-file" => a.as_str(), "requestheader-client-ca-file" => b.as_str(),
            "requestheader-allowed-names" => r#"["front","proxy"]"#,
            "requestheader-username-headers" => r#"["X-Remote-User"]"#,
            "requestheader-group-headers" => r#"["X-Remote-Group"]"#,
            "requestheader-extra-headers-prefix" => r#"["X-Remote-Extra-"]"#,
        };
        assert_eq!(first, expect);
        assert_eq!(trust.joined(&first, NOW).unwrap(), first, "it settles");

        let other =
            Trust { client_ca: format!("{old}{b}{a}"), uid_headers: Some(vec![text("X-Remote-Uid")]), ..trust.clone() };
        let second = other.joined(&first, NOW).unwrap();
        assert_eq!(second.str_at(&["client-ca-file"]), Some(format!("{a}{b}").as_str()));
        assert_eq!(second.str_at(&["requestheader-uid-headers"]), Some(r#"["X-Remote-Uid"]"#));
        assert_eq!(trust.joined(&second, NOW).unwrap(), second, "what the other wrote stays");

        let untold = Trust { uid_headers: None, ..trust.clone() };
        assert_eq!(untold.joined(&second, NOW).unwrap().get("requestheader-uid-headers"), None);

        let nobody = Trust { proxy_ca: String::new(), ..trust };
        assert_eq!(nobody.joined(&Value::Null, NOW).unwrap(), object! { "client-ca-file" => a.as_str() });
    }

    #[test]
    fn what_cannot_be_read_is_not_overwritten() {
        let check = |key: &str, text: &str| {
            let trust = Trust { proxy_ca: certificate("a", 2040), ..Trust::default() };
            let why = trust.joined(&object! { key => text }, NOW).unwrap_err();
            assert!(why.starts_with(key), "{why}");
        };
        check("requestheader-allowed-names", "[");
        check("client-ca-file", "-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n");
    }
}
