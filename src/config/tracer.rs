//! Configuration of traces (`--tracing-config-file`).

use std::path::Path;

use machinery::{
    config::{APISERVER_CONFIG_SIBLINGS, ConfigKind, pointer, root},
    meta::{
        field_error::{FieldError, aggregate},
        go_text,
        go_url::GoUrl,
    },
    schema::{IntFormat, Schema, Shape},
};
use traces::Destination;

use super::Findings;
use crate::flags::Parsed;

/// OpenTelemetry's own place, where none is named.
const USUAL: &str = "localhost:4317";
const MILLION: i64 = 1_000_000;

const KIND: ConfigKind = ConfigKind {
    group: "apiserver.config.k8s.io",
    kind: "TracingConfiguration",
    versions: &["v1", "v1beta1", "v1alpha1"],
    siblings: APISERVER_CONFIG_SIBLINGS,
    registry: "pkg/server/options/tracing.go:49",
    schema,
};

fn schema(version: &str) -> Schema {
    let number = Schema::of(Shape::Integer(IntFormat::Int32));
    let text = Schema::of(Shape::String(Default::default()));
    root(
        format!("{version}.TracingConfiguration"),
        [pointer("endpoint", text), pointer("samplingRatePerMillion", number)],
    )
}

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracing {
    /// Of traces that nobody else has decided about so many of a million are kept.
    pub per_million: u32,
    /// Where they go.
    pub destination: Destination,
}

impl Tracing {
    pub(super) fn from_flags(flags: &Parsed, findings: &mut Findings) -> Option<Self> {
        let path = flags.text("tracing-config-file");
        if path.is_empty() {
            return None;
        }
        if !Path::new(&path).exists() {
            findings.error(format!("tracing-config-file {path} does not exist"));
            return None;
        }
        let content = std::fs::read(&path).map_err(|error| {
            let why = crate::plain_io_error(&error).to_lowercase();
            format!(
                "failed to read tracing config: unable to read tracing configuration from {path:?}: open {path}: {why}"
            )
        });
        content.and_then(|content| read(&content)).map_err(|why| findings.error(why)).ok()
    }
}

fn read(content: &[u8]) -> Result<Tracing, String> {
    if content.is_empty() {
        return Ok(Tracing { per_million: 0, destination: Destination::Tcp(USUAL.to_owned()) }); // upstream: the same
    }
    let config = KIND
        .read(content)
        .map_err(|why| format!("failed to read tracing config: unable to decode tracing configuration data: {why}"))?;
    let rate = config.document.get("samplingRatePerMillion").and_then(|rate| rate.as_i64()).unwrap_or(0);
    let mut errors = Vec::new();
    let mut refuse = |why| errors.push(FieldError::invalid("samplingRatePerMillion", rate, why));
    if rate < 0 {
        refuse("sampling rate must be positive");
    }
    if rate > MILLION {
        refuse("sampling rate per million must be less than or equal to one million");
    }
    let destination = destination(config.document.str_at(&["endpoint"]));
    let destination = destination.map_err(|error| errors.push(error)).ok();
    match (aggregate(&errors), destination) {
        (None, Some(destination)) => Ok(Tracing { per_million: u32::try_from(rate).unwrap_or(0), destination }),
        (why, _) => Err(format!("failed to validate tracing configuration: {}", why.unwrap_or_default())),
    }
}

/// `host:port`, `dns:///host:port`, `unix:///path` or `unix-abstract://name`.
fn destination(endpoint: Option<&str>) -> Result<Destination, FieldError> {
    let Some(endpoint) = endpoint.filter(|text| !text.is_empty()) else {
        return Ok(Destination::Tcp(USUAL.to_owned()));
    };
    let url = if endpoint.contains("//") { endpoint.to_owned() } else { format!("dns://{endpoint}") };
    let invalid = |why: String| FieldError::invalid("endpoint", url.as_str(), why);
    let parsed = GoUrl::parse(&url).map_err(|why| invalid(format!("parse {}: {why}", go_text::quote(&url))))?;
    let rest = endpoint.split_once("//").map_or(endpoint, |(_, rest)| rest);
    match parsed.scheme.as_str() {
        // What stands between the slashes of a name is the DNS server that is asked for it.
        "dns" => Ok(Destination::Tcp(rest.split_once('/').map_or(rest, |(_, name)| name).to_owned())),
        "unix" => Ok(Destination::Unix(rest.into())),
        "unix-abstract" => Ok(Destination::Unix(format!("\0{rest}").into())),
        other => Err(invalid(format!(
            "unsupported scheme: {other}.  Options are none, dns, unix, or unix-abstract.  \
             See https://github.com/grpc/grpc/blob/master/doc/naming.md"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(version: &str, text: &str) -> Result<Tracing, String> {
        read(format!("apiVersion: apiserver.config.k8s.io/{version}\nkind: TracingConfiguration\n{text}").as_bytes())
    }

    #[test]
    fn where_traces_go_and_how_many_are_kept_is_read() {
        let check = |text: &str, per_million: u32, destination: Destination| {
            for version in ["v1", "v1beta1", "v1alpha1"] {
                let expect = Tracing { per_million, destination: destination.clone() };
                assert_eq!(read_text(version, text), Ok(expect), "{text}");
            }
        };
        let tcp = |address: &str| Destination::Tcp(address.to_owned());
        check("", 0, tcp("localhost:4317"));
        check("samplingRatePerMillion: 100\nendpoint: collector:4317", 100, tcp("collector:4317"));
        check("endpoint: dns:///collector:4317\nsamplingRatePerMillion: 1000000", 1_000_000, tcp("collector:4317"));
        check("endpoint: unix:///run/otel.sock", 0, Destination::Unix("/run/otel.sock".into()));
        check("endpoint: unix-abstract://otel", 0, Destination::Unix("\0otel".into()));
    }

    #[test]
    fn what_does_not_hold_is_refused_in_upstreams_words() {
        let check = |text: &str, expect: &str| {
            let found = read_text("v1", text);
            assert_eq!(found, Err(format!("failed to validate tracing configuration: {expect}")), "{text}");
        };
        let scheme = "endpoint: Invalid value: \"http://x\": unsupported scheme: http.  Options are none, dns, unix, or \
                      unix-abstract.  See https://github.com/grpc/grpc/blob/master/doc/naming.md";
        check(
            "samplingRatePerMillion: -1",
            "samplingRatePerMillion: Invalid value: -1: sampling rate must be positive",
        );
        check("endpoint: http://x", scheme);
        let parse = |why: &str| format!("endpoint: Invalid value: \"a b://x\": parse \"a b://x\": {why}");
        check("endpoint: a b://x", &parse("first path segment in URL cannot contain colon"));
        check(
            "endpoint: http://x\nsamplingRatePerMillion: 1000001",
            &format!(
                "[samplingRatePerMillion: Invalid value: 1000001: sampling rate per million must be less than or equal to \
                 one million, {scheme}]"
            ),
        );
        let undecoded = |version: &str, text: &str| read_text(version, text).expect_err("it is no configuration");
        let before = "failed to read tracing config: unable to decode tracing configuration data: ";
        assert_eq!(undecoded("v1", "other: 1"), format!("{before}strict decoding error: unknown field \"other\""));
        assert_eq!(
            undecoded("v2", ""),
            format!(
                "{before}no kind \"TracingConfiguration\" is registered for version \"apiserver.config.k8s.io/v2\" in scheme \
                 \"pkg/server/options/tracing.go:49\""
            )
        );
    }
}
