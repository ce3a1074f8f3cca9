//! Configuration of auditing. Nothing is audited without a policy.

use std::{path::PathBuf, time::Duration};

use audit::backend::{Batching, Format, Limits, LogFile, Mode};

use super::Findings;
use crate::flags::Parsed;

/// What is audited.
#[derive(Clone, Debug)]
pub struct Audit {
    /// `--audit-policy-file`.
    pub policy_file: Option<PathBuf>,
    /// `--audit-log-*`.
    pub log: Option<AuditLog>,
    /// `--audit-webhook-*`.
    pub webhook: Option<AuditWebhook>,
}

/// Events that go to a file, or to standard output.
#[derive(Clone, Debug)]
pub struct AuditLog {
    /// The file; none: standard output.
    pub file: Option<LogFile>,
    /// How a line looks.
    pub format: Format,
    /// How the log is fed.
    pub mode: Mode,
    /// What is cut.
    pub limits: Option<Limits>,
}

/// Events that go to somebody else's server.
#[derive(Clone, Debug)]
pub struct AuditWebhook {
    /// Its kubeconfig.
    pub file: PathBuf,
    /// The first pause after a failure.
    pub backoff: Duration,
    /// How the webhook is fed.
    pub mode: Mode,
    /// What is cut.
    pub limits: Option<Limits>,
}

/// The one version of events.
const VERSION: &str = "audit.k8s.io/v1";
const MEGABYTE: u64 = 1 << 20;

impl Audit {
    pub(super) fn from_flags(flags: &Parsed, findings: &mut Findings) -> Self {
        let policy_file = findings.file(flags, "audit-policy-file");
        let path = flags.text("audit-log-path");
        let log = (!path.is_empty()).then(|| AuditLog::from_flags(flags, &path, findings));
        let webhook = findings.file(flags, "audit-webhook-config-file").map(|file| {
            let mode = mode(flags, "webhook", findings);
            let limits = limits(flags, "webhook", findings);
            check_version(&flags.text("audit-webhook-version"), findings);
            let backoff = flags.duration("audit-webhook-initial-backoff").positive();
            AuditWebhook { file, backoff, mode, limits }
        });
        Audit { policy_file, log, webhook }
    }
}

impl AuditLog {
    fn from_flags(flags: &Parsed, path: &str, findings: &mut Findings) -> Self {
        let mode = mode(flags, "log", findings);
        let limits = limits(flags, "log", findings);
        check_version(&flags.text("audit-log-version"), findings);
        let format = match flags.text("audit-log-format").as_str() {
            "json" => Format::Json,
            "legacy" => Format::Legacy,
            other => {
                findings.error(format!("invalid audit log format {other}, allowed formats are \"legacy,json\""));
                Format::Json
            }
        };
        let mut count = |name: &str| {
            let count = flags.int(name);
            u64::try_from(count).unwrap_or_else(|_| {
                findings.error(format!("--{name} {count} can't be a negative number"));
                0
            })
        };
        let max_age_days = count("audit-log-maxage");
        let max_backups = usize::try_from(count("audit-log-maxbackup")).unwrap_or(usize::MAX);
        let max_bytes = count("audit-log-maxsize").saturating_mul(MEGABYTE);
        let file = (path != "-").then(|| LogFile {
            path: path.into(),
            max_bytes: (max_bytes > 0).then_some(max_bytes),
            max_age_days,
            max_backups,
            compress: flags.bool("audit-log-compress"),
        });
        AuditLog { file, format, mode, limits }
    }
}

/// How a backend is fed.
fn mode(flags: &Parsed, backend: &str, findings: &mut Findings) -> Mode {
    match flags.text(&format!("audit-{backend}-mode")).as_str() {
        "blocking" => Mode::Blocking,
        "blocking-strict" => Mode::BlockingStrict,
        "batch" => Mode::Batch(batching(flags, backend, findings)),
        other => {
            findings.error(format!(
                "invalid audit {backend} mode {other}, allowed modes are \"batch,blocking,blocking-strict\""
            ));
            Mode::Blocking
        }
    }
}

/// How batches are gathered. The first thing that is wrong is told, as upstream does.
fn batching(flags: &Parsed, backend: &str, findings: &mut Findings) -> Batching {
    let name = |what: &str| format!("audit-{backend}-batch-{what}");
    let mut wrong = None;
    let mut positive = |what: &str, value: f64| {
        if value <= 0.0 {
            wrong.get_or_insert_with(|| {
                format!("invalid audit batch {backend} {what} {value}, must be a positive number")
            });
        }
    };
    let count = |what: &str| flags.int(&name(what));
    let (buffer, max_size) = (count("buffer-size"), count("max-size"));
    positive("buffer size", buffer as f64);
    positive("max batch size", max_size as f64);
    let throttle = flags.bool(&name("throttle-enable")).then(|| {
        let (per_second, burst) = (flags.float(&name("throttle-qps")), count("throttle-burst"));
        positive("throttle QPS", per_second);
        positive("throttle burst", burst as f64);
        (per_second, u64::try_from(burst).unwrap_or_default())
    });
    if let Some(wrong) = wrong {
        findings.error(wrong);
    }
    Batching {
        buffer: usize::try_from(buffer).unwrap_or_default(),
        max_size: usize::try_from(max_size).unwrap_or_default(),
        max_wait: flags.duration(&name("max-wait")).positive(),
        throttle,
    }
}

fn limits(flags: &Parsed, backend: &str, findings: &mut Findings) -> Option<Limits> {
    let size = |what: &str| flags.int(&format!("audit-{backend}-truncate-{what}"));
    let (event, batch) = (size("max-event-size"), size("max-batch-size"));
    if event <= 0 {
        findings.error(format!("invalid audit truncate {backend} max event size {event}, must be a positive number"));
    } else if batch < event {
        findings.error(format!(
            "invalid audit truncate {backend} max batch size {batch}, must be greater than max event size ({event})"
        ));
    }
    let bytes = |size: i64| usize::try_from(size).unwrap_or_default();
    flags
        .bool(&format!("audit-{backend}-truncate-enabled"))
        .then(|| Limits { event: bytes(event), batch: bytes(batch) })
}

fn check_version(version: &str, findings: &mut Findings) {
    if version.matches('/').count() > 1 {
        findings.error(format!("unexpected GroupVersion string: {version}"));
    } else if version != VERSION {
        findings.error(format!("invalid group version, allowed versions are [{VERSION:?}]"));
    }
}

#[cfg(test)]
mod tests {
    use crate::{config::Config, flags};

    fn check(arguments: &[&str], expect: &str) {
        let given = arguments.iter().map(|argument| (*argument).into());
        let found = Config::from_flags(&flags::parse(given).expect("flags"));
        assert_eq!(found.map(drop).map_err(|e| e.to_string()), Err(expect.to_owned()), "{arguments:?}");
    }

    #[test]
    fn what_is_wrong_with_a_log_is_told_as_upstream_does() {
        check(
            &[
                "--audit-log-path=x",
                "--audit-log-mode=foo",
                "--audit-log-format=x",
                "--audit-log-version=audit.k8s.io/v1beta1",
                "--audit-log-maxage=-1",
                "--audit-log-maxbackup=-2",
                "--audit-log-maxsize=-3",
            ],
            "[invalid audit log mode foo, allowed modes are \"batch,blocking,blocking-strict\", \
             invalid group version, allowed versions are [\"audit.k8s.io/v1\"], \
             invalid audit log format x, allowed formats are \"legacy,json\", \
             --audit-log-maxage -1 can't be a negative number, --audit-log-maxbackup -2 can't be a negative number, \
             --audit-log-maxsize -3 can't be a negative number]",
        );
        let batch = |more: &[&str], expect: &str| {
            check(&[&["--audit-log-path=x", "--audit-log-mode=batch"], more].concat(), expect);
        };
        batch(
            &["--audit-log-batch-buffer-size=0", "--audit-log-truncate-max-event-size=0"],
            "[invalid audit batch log buffer size 0, must be a positive number, \
             invalid audit truncate log max event size 0, must be a positive number]",
        );
        batch(
            &["--audit-log-batch-max-size=0", "--audit-log-truncate-max-batch-size=5"],
            "[invalid audit batch log max batch size 0, must be a positive number, \
             invalid audit truncate log max batch size 5, must be greater than max event size (102400)]",
        );
        batch(
            &["--audit-log-batch-throttle-enable", "--audit-log-batch-throttle-qps=0"],
            "invalid audit batch log throttle QPS 0, must be a positive number",
        );
        batch(
            &["--audit-log-batch-throttle-enable", "--audit-log-batch-throttle-qps=1.5"],
            "invalid audit batch log throttle burst 0, must be a positive number",
        );
        check(&["--audit-log-path=x", "--audit-log-version=a/b/c"], "unexpected GroupVersion string: a/b/c");
    }

    #[test]
    fn what_is_wrong_with_a_webhook_is_told_as_upstream_does() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let given = format!("--audit-webhook-config-file={}", file.path().display());
        check(
            &[&given, "--audit-webhook-mode=x", "--audit-webhook-version=v1"],
            "[invalid audit webhook mode x, allowed modes are \"batch,blocking,blocking-strict\", \
             invalid group version, allowed versions are [\"audit.k8s.io/v1\"]]",
        );
        check(
            &[&given, "--audit-webhook-batch-throttle-qps=0", "--audit-webhook-truncate-max-event-size=-1"],
            "[invalid audit batch webhook throttle QPS 0, must be a positive number, \
             invalid audit truncate webhook max event size -1, must be a positive number]",
        );
    }
}
