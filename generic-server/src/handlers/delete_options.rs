//! The body of a delete. Clients send it as a kind of whatever group version they deal with: a typed client of Go's names the
//! resource's, a dynamic one `v1`, one of metadata `meta.k8s.io/v1`.

use bytes::Bytes;
use machinery::{
    Value,
    codec::{cbor, json, protobuf, yaml},
    meta::{GroupVersion, go_text::no_type_in, status::Status},
    schema::{self, Schema, builtin},
};

use super::body;
use crate::options::DeleteOptions;
use crate::{negotiate::Media, registry::RegistrySettings, request::Request};

/// The kind that is expected, and what a body is that does not say.
const KIND: &str = "DeleteOptions";
/// Where upstream's decoder of options registers its kinds.
const SCHEME: &str = "pkg/apis/meta/internalversion/scheme/register.go:27";

/// The options in the body, or else in the query.
pub(super) async fn read_options(request: &mut Request, settings: &RegistrySettings) -> Result<DeleteOptions, Status> {
    let bytes = body::read_body(request).await?;
    if bytes.is_empty() {
        return DeleteOptions::read(request, None, settings.deletes_unreadable);
    }
    let media = body::media_of(request)?;
    let value = decode(&bytes, media).map_err(Status::bad_request)?;
    request.audit.options(|| {
        let mut document = value.clone();
        document.set(&["kind"], KIND);
        // Upstream records the version that it has decoded the options to.
        document.set(&["apiVersion"], "meta.k8s.io/__internal");
        document
    });
    DeleteOptions::read(request, Some(value), settings.deletes_unreadable)
}

/// The options in a body, or what the decoder says of it.
fn decode(bytes: &Bytes, media: Media) -> Result<Value, String> {
    let value = match media {
        Media::Json => json::decode(bytes).map_err(|e| format!("couldn't get version/kind; json parse error: {e}"))?,
        Media::Yaml => yaml::decode(bytes).map_err(|e| e.to_string())?,
        Media::Protobuf => {
            let envelope = protobuf::envelope(bytes).map_err(|e| e.to_string())?;
            // Here a group version that is none counts as not said.
            let version = GroupVersion::parse(envelope.api_version).unwrap_or_default();
            if envelope.kind == "Table" && is_known(&version, envelope.kind) {
                return Err(crate::decode::no_message("v1.Table"));
            }
            check_kind(&version, envelope.kind)?;
            let id = builtin::by_gvk("", "v1", KIND).expect("the table has DeleteOptions");
            return protobuf::decode_raw(id, envelope.raw).map_err(|e| e.to_string());
        }
        Media::Cbor => {
            let (api_version, kind) = crate::decode::cbor_type(bytes)?;
            check_kind(&GroupVersion::parse(&api_version).unwrap_or_default(), &kind)?;
            cbor::decode_as(options_schema(), bytes).map_err(|e| e.to_string())?.0
        }
    };
    if !matches!(value, Value::Object(_) | Value::Null) {
        return Err(no_type_in(&value));
    }
    let text = matches!(media, Media::Json).then_some(&**bytes);
    let api_version = crate::decode::type_text(&value, "apiVersion", text)?;
    let kind = crate::decode::type_text(&value, "kind", text)?;
    check_kind(&GroupVersion::parse(&api_version).map_err(|e| e.to_string())?, &kind)?;
    schema::decode(options_schema(), value).map(|(value, _)| value).map_err(|e| e.to_string())
}

fn options_schema() -> &'static Schema {
    builtin::schema_of("", "v1", KIND).expect("the table has DeleteOptions")
}

/// Refuses what is not the kind, whatever its group version.
fn check_kind(version: &GroupVersion, kind: &str) -> Result<(), String> {
    if matches!(kind, "" | KIND) {
        return Ok(());
    }
    if is_known(version, kind) {
        return Err(format!("converting (v1.{kind}) to (v1.{KIND}): unknown conversion"));
    }
    // What says no version is of that of the options.
    let version = if version.version.is_empty() { "meta.k8s.io/v1".to_owned() } else { version.to_string() };
    Err(format!("no kind {kind:?} is registered for version {version:?} in scheme {SCHEME:?}"))
}

/// Whether upstream's decoder of options knows a kind: some in every group version, others in that of the meta API.
fn is_known(version: &GroupVersion, kind: &str) -> bool {
    const EVERYWHERE: [&str; 7] =
        ["APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "CreateOptions", "Status", "UpdateOptions"];
    const META: [&str; 8] = [
        "GetOptions",
        "ListOptions",
        "PatchOptions",
        "WatchEvent",
        "PartialObjectMetadata",
        "PartialObjectMetadataList",
        "Table",
        "TableOptions",
    ];
    let versioned = match (version.group.as_str(), version.version.as_str()) {
        ("" | "meta.k8s.io", "") | ("meta.k8s.io", "v1") => &META[..],
        ("meta.k8s.io", "v1beta1") => &META[4..],
        _ => &[],
    };
    EVERYWHERE.contains(&kind) || versioned.contains(&kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn varint_field(number: u8, content: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(content.len()).expect("short")], content].concat()
    }

    fn message(api_version: &str, kind: &str, raw: &[u8]) -> Bytes {
        let mut type_meta = varint_field(1, api_version.as_bytes());
        type_meta.extend(varint_field(2, kind.as_bytes()));
        [b"k8s\0".to_vec(), varint_field(1, &type_meta), varint_field(2, raw)].concat().into()
    }

    #[test]
    fn options_of_any_group_version_are_read() {
        for version in ["", "v1", "meta.k8s.io/v1", "apiextensions.k8s.io/v1", "networking.k8s.io/v1", "example.com/v7"]
        {
            let value = decode(&message(version, KIND, &[8, 5]), Media::Protobuf).expect(version);
            assert_eq!(value.get("gracePeriodSeconds"), Some(&Value::Int(5)), "{version}");
            let text = format!(r#"{{"kind":"DeleteOptions","apiVersion":"{version}","gracePeriodSeconds":5}}"#);
            let value = decode(&text.into(), Media::Json).expect(version);
            assert_eq!(value.get("gracePeriodSeconds"), Some(&Value::Int(5)), "{version}");
        }
        assert!(decode(&message("", "", &[8, 5]), Media::Protobuf).is_ok());
    }

    #[test]
    fn other_kinds_are_refused() {
        for (version, kind, why) in [
            (
                "v1",
                "Pod",
                "no kind \"Pod\" is registered for version \"v1\" in scheme \"pkg/apis/meta/internalversion/scheme/register.go:27\"",
            ),
            ("apps/v1", "Status", "converting (v1.Status) to (v1.DeleteOptions): unknown conversion"),
            ("meta.k8s.io/v1", "ListOptions", "converting (v1.ListOptions) to (v1.DeleteOptions): unknown conversion"),
        ] {
            let found = decode(&message(version, kind, &[]), Media::Protobuf);
            assert_eq!(found, Err(why.to_owned()));
            let text = format!(r#"{{"kind":"{kind}","apiVersion":"{version}"}}"#);
            assert_eq!(decode(&text.into(), Media::Json), Err(why.to_owned()));
        }
    }
}
