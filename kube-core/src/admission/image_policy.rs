//! ImagePolicyWebhook: somebody else says whether the images of a pod may run.

use std::{fmt, path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use auth::authz::ExpiringCache;
use generic_server::{
    admission::{Admission, Attributes, Operation, Steps},
    audit::Level,
};
use machinery::{
    Str, Value,
    codec::json,
    meta::{duration::GoDuration, status::Status},
    object,
};
use outbound::{
    AnswerError, Backoff, Call, CallError, KnownKinds, KubeconfigWebhook, MemberType, ReviewKind, check_members,
    read_review_by,
};

use super::PluginConfigError;

/// How long one attempt may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The largest answer that is read, in bytes.
const MAX_ANSWER: usize = 1 << 20;
/// So many answers are kept.
const MAX_ANSWERS: usize = 1024;

const GROUP: &str = "imagepolicy.k8s.io";
const VERSION: &str = "v1alpha1";
const KIND: &str = "ImageReview";
/// What the keys of audit annotations begin with.
const AUDIT_PREFIX: &str = "imagepolicywebhook.image-policy.k8s.io/";
/// What marks the annotations that the webhook sees.
const ANNOTATIONS: &str = ".image-policy.k8s.io/";

/// Who is asked, and how long answers count.
#[derive(Clone)]
pub struct ImagePolicySettings {
    webhook: Arc<KubeconfigWebhook>,
    allow_ttl: Duration,
    deny_ttl: Duration,
    backoff: Duration,
    /// Whether images may run that nobody says anything of.
    default_allow: bool,
}

impl fmt::Debug for ImagePolicySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImagePolicySettings").field("default_allow", &self.default_allow).finish_non_exhaustive()
    }
}

impl ImagePolicySettings {
    /// Reads the configuration, and the kubeconfig file that it names.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn read(config: &Value) -> Result<Self, PluginConfigError> {
        let policy = config.get("imagePolicy").unwrap_or(&Value::Null);
        const MINUTE: Duration = Duration::from_secs(60);
        const SECOND: Duration = Duration::from_secs(1);
        let ttl = |member, usual| duration(policy, member, SECOND, SECOND..=30 * MINUTE, usual);
        let nothing = Duration::from_nanos(1);
        let kubeconfig = Path::new(policy.str_at(&["kubeConfigFile"]).unwrap_or_default());
        let webhook = KubeconfigWebhook::load(kubeconfig);
        Ok(ImagePolicySettings {
            backoff: duration(policy, "retryBackoff", Duration::from_millis(1), nothing..=5 * MINUTE, SECOND / 2)?,
            allow_ttl: ttl("allowTTL", 5 * MINUTE)?,
            deny_ttl: ttl("denyTTL", MINUTE / 2)?,
            default_allow: match policy.get("defaultAllow") {
                None | Some(Value::Null) => false,
                Some(Value::Bool(allow)) => *allow,
                Some(_) => return Err(of_type("defaultAllow", "boolean")),
            },
            webhook: Arc::new(webhook?),
        })
    }
}

fn of_type(member: &str, expected: &'static str) -> PluginConfigError {
    PluginConfigError::Type { member: format!("imagePolicy.{member}"), expected }
}

/// A number of `unit`s: 0 for what is usual, -1 for nothing.
fn duration(
    policy: &Value,
    member: &str,
    unit: Duration,
    range: std::ops::RangeInclusive<Duration>,
    usual: Duration,
) -> Result<Duration, PluginConfigError> {
    let given = match policy.get(member) {
        None | Some(Value::Null) => 0,
        Some(value) => value.as_i64().ok_or_else(|| of_type(member, "integer"))?,
    };
    match given {
        -1 => return Ok(Duration::ZERO),
        0 => return Ok(usual),
        _ => {}
    }
    let shown =
        |nanoseconds: i128| GoDuration { nanoseconds: nanoseconds.clamp(i64::MIN.into(), i64::MAX.into()) as i64 };
    let nanoseconds = i128::from(given) * unit.as_nanos().cast_signed();
    let found = u64::try_from(nanoseconds).ok().map(Duration::from_nanos).filter(|found| range.contains(found));
    found.ok_or_else(|| {
        let bound = |bound: &Duration| shown(bound.as_nanos().cast_signed());
        PluginConfigError::Duration { min: bound(range.start()), max: bound(range.end()), found: shown(nanoseconds) }
    })
}

/// The plugin.
pub(super) struct ImagePolicy {
    settings: ImagePolicySettings,
    answers: ExpiringCache<Answer>,
}

/// What the webhook said of images.
#[derive(Clone, Debug, PartialEq)]
struct Answer {
    allowed: bool,
    reason: Str,
    /// For those who read the audit log.
    annotations: Arc<[(Str, Str)]>,
}

impl ImagePolicy {
    pub(super) fn new(settings: ImagePolicySettings) -> Self {
        ImagePolicy { settings, answers: ExpiringCache::new(MAX_ANSWERS) }
    }

    async fn ask(&self, spec: Value) -> Result<Answer, CallError> {
        let review = object! {
            "kind" => KIND, "apiVersion" => format!("{GROUP}/{VERSION}"), "metadata" => Value::object(), "spec" => spec,
            "status" => object! { "allowed" => false },
        };
        let document = json::encode(&review);
        let call = Call { timeout: TIMEOUT, limit: MAX_ANSWER };
        let attempt = || self.settings.webhook.call(document.clone(), call);
        let body = Backoff::for_webhooks(self.settings.backoff).retry(attempt, CallError::is_transient).await?;
        read(&body).map_err(CallError::of_answer)
    }
}

#[async_trait]
impl Admission for ImagePolicy {
    fn steps(&self) -> Steps {
        Steps::Validate
    }

    async fn validate(&self, a: &Attributes<'_>, pod: &Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        let writes = matches!(a.operation, Operation::Create | Operation::Update);
        if !writes || !a.is_of("", "pods") || !matches!(a.subresource, "" | "ephemeralcontainers") {
            return Ok(());
        }
        let spec = spec_of(pod, a.subresource, a.namespace);
        let key = json::encode(&spec);
        let answer = match self.answers.get(&key) {
            Some(answer) => answer,
            None => match self.ask(spec).await {
                Ok(answer) => {
                    let ttl = if answer.allowed { self.settings.allow_ttl } else { self.settings.deny_ttl };
                    self.answers.insert(&key, answer.clone(), ttl);
                    answer
                }
                Err(error) if self.settings.default_allow => {
                    a.annotate(Level::Metadata, format!("{AUDIT_PREFIX}failed-open"), "true");
                    tracing::info!(%error, "images are allowed though the image policy webhook cannot be asked");
                    return Ok(());
                }
                Err(error) => return Err(a.forbidden(pod, error)),
            },
        };
        for (key, value) in answer.annotations.iter() {
            a.annotate(Level::Metadata, format!("{AUDIT_PREFIX}{key}"), value.clone());
        }
        match answer.allowed {
            true => Ok(()),
            false if answer.reason.is_empty() => {
                Err(a.forbidden(pod, "one or more images rejected by webhook backend"))
            }
            false => {
                let why = format!("image policy webhook backend denied one or more images: {}", answer.reason);
                Err(a.forbidden(pod, why))
            }
        }
    }
}

/// What the webhook is asked about a pod.
fn spec_of(pod: &Value, subresource: &str, namespace: &str) -> Value {
    let lists: &[&str] =
        if subresource.is_empty() { &["containers", "initContainers"] } else { &["ephemeralContainers"] };
    let containers =
        lists.iter().flat_map(|list| pod.at(&["spec", list]).and_then(Value::as_array).unwrap_or_default());
    let images: Vec<Value> = containers
        .map(|container| match container.str_at(&["image"]).filter(|image| !image.is_empty()) {
            Some(image) => object! { "image" => image },
            None => Value::object(),
        })
        .collect();
    let mut annotations = Value::object();
    let given = pod.at(&["metadata", "annotations"]).and_then(Value::as_object).into_iter().flatten();
    let mut given: Vec<_> = given.filter(|(key, _)| key.contains(ANNOTATIONS)).collect();
    given.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (key, value) in &given {
        annotations.set(&[key.as_str()], (*value).clone());
    }
    let mut spec = Value::object();
    if !images.is_empty() {
        spec.set(&["containers"], images);
    }
    if !given.is_empty() {
        spec.set(&["annotations"], annotations);
    }
    if !namespace.is_empty() {
        spec.set(&["namespace"], namespace);
    }
    spec
}

/// The status of a review that was answered.
fn read(body: &[u8]) -> Result<Answer, AnswerError> {
    let asked = ReviewKind { group: GROUP, version: VERSION, kind: KIND };
    let review = read_review_by(body, asked, KnownKinds::All("pkg/api/legacyscheme/scheme.go:30"))?;
    let members = [
        ("allowed", MemberType::Bool),
        ("reason", MemberType::Text("string")),
        ("auditAnnotations", MemberType::Texts("map[string]string")),
    ];
    check_members(&review, "status", "v1alpha1.ImageReviewStatus", &members)?;
    let annotations = review.at(&["status", "auditAnnotations"]).and_then(Value::as_object).into_iter().flatten();
    let annotations = annotations.filter_map(|(key, value)| Some((key.clone(), value.as_shared_str()?.clone())));
    Ok(Answer {
        annotations: annotations.collect(),
        allowed: review.at(&["status", "allowed"]) == Some(&Value::Bool(true)),
        reason: review.str_at(&["status", "reason"]).unwrap_or_default().into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_review_has_the_images_and_what_is_said_to_the_webhook() {
        let pod =
            br#"{"metadata":{"annotations":{"z.image-policy.k8s.io/a":"1","other":"2","a.image-policy.k8s.io/b":"3"}},
            "spec":{"initContainers":[{"image":"i"}],"containers":[{"image":"c"},{"name":"none"}],
            "ephemeralContainers":[{"image":"e"}]}}"#;
        let pod = json::decode(pod).expect("JSON");
        let check = |subresource: &str, namespace: &str, expect: &str| {
            let expect = json::decode(expect.as_bytes()).expect("JSON");
            assert_eq!(spec_of(&pod, subresource, namespace), expect);
        };
        let annotations = r#""annotations":{"a.image-policy.k8s.io/b":"3","z.image-policy.k8s.io/a":"1"}"#;
        check(
            "",
            "n",
            &format!(r#"{{"containers":[{{"image":"c"}},{{}},{{"image":"i"}}],{annotations},"namespace":"n"}}"#),
        );
        check("ephemeralcontainers", "", &format!(r#"{{"containers":[{{"image":"e"}}],{annotations}}}"#));
    }

    #[test]
    fn durations_have_bounds_and_signs() {
        let check = |given: i64, expect: Result<u64, &str>| {
            let policy = object! { "allowTTL" => given };
            let second = Duration::from_secs(1);
            let found = duration(&policy, "allowTTL", second, second..=1800 * second, 300 * second);
            let found = found.map(|found| found.as_secs()).map_err(|why| why.to_string());
            assert_eq!(found, expect.map_err(str::to_owned), "{given}");
        };
        check(0, Ok(300));
        check(-1, Ok(0));
        check(1800, Ok(1800));
        check(1801, Err("valid value is between 1s and 30m0s, got 30m1s"));
        check(-2, Err("valid value is between 1s and 30m0s, got -2s"));
    }

    #[test]
    fn an_answer_says_whether_and_why() {
        let review = |status: &str| {
            let head = r#"{"apiVersion":"imagepolicy.k8s.io/v1alpha1","kind":"ImageReview","status":"#;
            read(format!("{head}{status}}}").as_bytes()).map_err(|why| why.to_string())
        };
        let annotations = Arc::from([("a".into(), "b".into())]);
        let answer = Answer { allowed: true, reason: "r".into(), annotations };
        assert_eq!(review(r#"{"allowed":true,"reason":"r","auditAnnotations":{"a":"b"}}"#), Ok(answer));
        assert_eq!(review("null").map(|answer| answer.allowed), Ok(false));
        assert_eq!(
            review(r#"{"allowed":1}"#),
            Err("json: cannot unmarshal number into Go struct field ImageReviewStatus.status.allowed of type bool"
                .to_owned())
        );
    }
}
