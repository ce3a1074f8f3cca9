//! The authorizer that asks a webhook: what it answers counts for a while.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use machinery::{Str, Value, codec::json};
use outbound::{
    AnswerError, Backoff, Call, CallError, KnownKinds, KubeconfigWebhook, MemberType, ReviewKind, check_members,
    read_review_by,
};

use super::{
    answers::ExpiringCache,
    conditions::Conditions,
    metrics::WebhookMetrics,
    review::{GROUP, KIND, ReviewVersion, review, spec},
};
use crate::{Attributes, Authorizer, Decision, User, UserRules, Verdict};

/// So many answers are kept.
const MAX_ANSWERS: usize = 8192;
/// Questions whose parts that the client chooses are longer, in bytes, are asked each time: they would fill the memory.
const MAX_KEPT: usize = 10_000;
/// The largest answer that is read, in bytes.
const MAX_ANSWER: usize = 1 << 20;
/// Where upstream registers the kinds of answers, as its errors say.
const REGISTRY: &str = "k8s.io/client-go/kubernetes/scheme/register.go:82";
/// The pause before the second attempt.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// How a webhook is asked.
#[derive(Clone, Debug)]
pub struct WebhookSettings {
    /// What the authorizer is called.
    pub name: Str,
    /// How long a permission counts; zero: for one request.
    pub authorized_ttl: Duration,
    /// How long the lack of one does.
    pub unauthorized_ttl: Duration,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// The version of the questions.
    pub version: ReviewVersion,
    /// What counts when there is no answer.
    pub on_failure: Verdict,
    /// Which requests it is asked about.
    pub conditions: Conditions,
}

/// The authorizer.
pub struct WebhookAuthorizer {
    settings: WebhookSettings,
    webhook: KubeconfigWebhook,
    answers: ExpiringCache<Answer>,
    metrics: WebhookMetrics,
}

/// The status of an answer.
#[derive(Clone, Debug, PartialEq)]
struct Answer {
    allowed: bool,
    denied: bool,
    reason: Str,
}

impl WebhookAuthorizer {
    /// An authorizer that asks this webhook.
    pub fn new(settings: WebhookSettings, webhook: KubeconfigWebhook, metrics: &super::AuthorizerMetrics) -> Self {
        let metrics = metrics.webhook(&settings.name);
        WebhookAuthorizer { settings, webhook, answers: ExpiringCache::new(MAX_ANSWERS), metrics }
    }

    fn matches(&self, spec: &Value) -> Result<bool, String> {
        if self.settings.conditions.is_empty() {
            return Ok(true);
        }
        let begun = Instant::now();
        let found = self.settings.conditions.hold(spec);
        self.metrics.matched(&found, begun.elapsed());
        found
    }

    async fn ask(&self, spec: Value) -> Result<Answer, CallError> {
        let document = json::encode(&review(self.settings.version, spec));
        let backoff = Backoff::for_webhooks(RETRY_AFTER);
        let answer = backoff.retry(|| self.attempt(&document), CallError::is_transient).await;
        if let Err(error) = &answer {
            tracing::error!(name = %self.settings.name, %error, "an authorization webhook cannot be asked");
            if self.settings.on_failure == Verdict::NoOpinion {
                self.metrics.failed_open(result_of(error));
            }
        }
        answer
    }

    async fn attempt(&self, document: &[u8]) -> Result<Answer, CallError> {
        let mut attempt = Attempt { metrics: &self.metrics, begun: Instant::now(), result: "canceled" };
        let call = Call { timeout: self.settings.timeout, limit: MAX_ANSWER };
        let answer = match self.webhook.call(document.to_vec(), call).await {
            Ok(body) => read(&body, self.settings.version).map_err(CallError::of_answer),
            Err(error) => Err(error),
        };
        attempt.result = answer.as_ref().map_or_else(result_of, |_| "success");
        answer
    }
}

/// One call, which is counted also when the client does not wait for its end.
struct Attempt<'a> {
    metrics: &'a WebhookMetrics,
    begun: Instant,
    result: &'static str,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.metrics.called(self.result, self.begun.elapsed());
    }
}

fn result_of(error: &CallError) -> &'static str {
    if error.is_timeout() { "timeout" } else { "error" }
}

/// The status of a review that was answered.
fn read(body: &[u8], version: ReviewVersion) -> Result<Answer, AnswerError> {
    let asked = ReviewKind { group: GROUP, version: version.name(), kind: KIND };
    let review = read_review_by(body, asked, KnownKinds::All(REGISTRY))?;
    let members = [
        ("allowed", MemberType::Bool),
        ("denied", MemberType::Bool),
        ("reason", MemberType::Text("string")),
        ("evaluationError", MemberType::Text("string")),
    ];
    let go_type = format!("{}.SubjectAccessReviewStatus", version.name());
    check_members(&review, "status", &go_type, &members)?;
    let flag = |name: &str| review.at(&["status", name]) == Some(&Value::Bool(true));
    let reason = review.str_at(&["status", "reason"]).unwrap_or_default().into();
    Ok(Answer { allowed: flag("allowed"), denied: flag("denied"), reason })
}

impl Answer {
    fn decision(self) -> Decision {
        match (self.denied, self.allowed) {
            (true, true) => Decision {
                error: Some("webhook subject access review returned both allow and deny response".into()),
                ..Decision::deny(self.reason)
            },
            (true, false) => Decision::deny(self.reason),
            (false, true) => Decision::allow(self.reason),
            (false, false) => Decision::no_opinion(self.reason),
        }
    }
}

#[async_trait]
impl Authorizer for WebhookAuthorizer {
    async fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        let spec = spec(attributes);
        match self.matches(&spec) {
            Err(why) => return Decision::failed(self.settings.on_failure, why),
            Ok(false) => return Decision::no_opinion(""),
            Ok(true) => {}
        }
        let key = json::encode(&spec);
        if let Some(answer) = self.answers.get(&key) {
            return answer.decision();
        }
        let answer = match self.ask(spec).await {
            Ok(answer) => answer,
            Err(error) => return Decision::failed(self.settings.on_failure, error.to_string()),
        };
        if is_kept(attributes) {
            let ttl = if answer.allowed { self.settings.authorized_ttl } else { self.settings.unauthorized_ttl };
            self.answers.insert(&key, answer.clone(), ttl);
        }
        answer.decision()
    }

    async fn rules_of(&self, _user: &User, _namespace: &str) -> UserRules {
        UserRules {
            incomplete: true,
            errors: vec!["webhook authorizer does not support user rule resolution".to_owned()],
            ..UserRules::default()
        }
    }
}

/// Whether the answer to such a question is kept.
fn is_kept(attributes: &Attributes<'_>) -> bool {
    let info = attributes.info;
    let chosen: [&str; 8] = [
        &info.namespace,
        info.verb_name(),
        &info.group,
        &info.version,
        &info.resource,
        &info.subresource,
        &info.name,
        &info.path,
    ];
    let selected = info.field_selector.iter().map(|term| term.field.len() + term.value.len()).sum::<usize>()
        + info.label_selector.iter().flat_map(|r| r.values().iter().chain([r.key()])).map(|t| t.len()).sum::<usize>();
    chosen.iter().map(|text| text.len()).sum::<usize>() + selected < MAX_KEPT
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use machinery::request::resource_info;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    /// Answers each request of a connection with a code and a status, and counts them.
    async fn serve(mut stream: TcpStream, code: u16, status: &'static str, served: Arc<AtomicUsize>) {
        let mut read = Vec::new();
        while let Ok(1..) = stream.read_buf(&mut read).await {
            let text = String::from_utf8_lossy(&read).to_lowercase();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
            if length.is_none_or(|length| length.parse() != Ok(body.len())) {
                continue;
            }
            served.fetch_add(1, Ordering::Relaxed);
            let answer =
                format!(r#"{{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{status}}}"#);
            let head = format!(
                "HTTP/1.1 {code} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                answer.len()
            );
            stream.write_all((head + &answer).as_bytes()).await.expect("sent");
            read.clear();
        }
    }

    /// An authorizer whose webhook answers so, and the number of its questions.
    async fn asking(code: u16, status: &'static str, ttl: Duration) -> (WebhookAuthorizer, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let served = Arc::new(AtomicUsize::new(0));
        let counted = served.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, code, status, counted.clone()));
            }
        });
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("kubeconfig");
        let text = format!(
            "clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}]\n\
             contexts: [{{name: x, context: {{cluster: c}}}}]\ncurrent-context: x\n"
        );
        std::fs::write(&file, text).expect("written");
        let settings = WebhookSettings {
            name: "w".into(),
            authorized_ttl: ttl,
            unauthorized_ttl: Duration::ZERO,
            timeout: Duration::from_secs(20),
            version: ReviewVersion::V1,
            on_failure: Verdict::Deny,
            conditions: Conditions::compile(&["request.resourceAttributes.resource != 'pods'".into()], "")
                .expect("valid"),
        };
        let metrics = super::super::AuthorizerMetrics::new(&prometheus::Registry::new());
        let webhook = KubeconfigWebhook::load(&file).expect("valid");
        (WebhookAuthorizer::new(settings, webhook, &metrics), served)
    }

    async fn ask(authorizer: &WebhookAuthorizer, resource: &str) -> Decision {
        let info = resource_info("get", "", "v1", resource);
        authorizer.authorize(&Attributes { user: &User::anonymous(), info: &info }).await
    }

    #[tokio::test]
    async fn answers_are_kept_by_what_they_say() {
        let (kept, served) = asking(200, r#"{"allowed":true,"reason":"r"}"#, Duration::from_secs(600)).await;
        for _ in 0..3 {
            assert_eq!(ask(&kept, "secrets").await, Decision::allow("r"));
        }
        assert_eq!(ask(&kept, "pods").await, Decision::no_opinion(""), "the condition does not hold");
        assert_eq!(served.load(Ordering::Relaxed), 1);
        let (asked, served) = asking(200, r#"{"allowed":false}"#, Duration::from_secs(600)).await;
        for _ in 0..3 {
            assert_eq!(ask(&asked, "secrets").await, Decision::no_opinion(""));
        }
        assert_eq!(served.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn what_fails_for_good_counts_at_once_as_the_policy_says() {
        let (denied, served) = asking(503, "{}", Duration::ZERO).await;
        let why = "the server is currently unable to handle the request";
        assert_eq!(ask(&denied, "secrets").await, Decision::failed(Verdict::Deny, why));
        assert_eq!(served.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn an_answer_says_yes_no_or_nothing() {
        let check = |status: &str, expect: Result<Decision, &str>| {
            let body =
                format!(r#"{{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{status}}}"#);
            let found = read(body.as_bytes(), ReviewVersion::V1).map(Answer::decision);
            assert_eq!(found.map_err(|why| why.to_string()), expect.map_err(str::to_owned), "{status}");
        };
        check(r#"{"allowed":true,"reason":"r"}"#, Ok(Decision::allow("r")));
        check(r#"{"allowed":false,"reason":"r","evaluationError":"e"}"#, Ok(Decision::no_opinion("r")));
        check(r#"{"allowed":false,"denied":true}"#, Ok(Decision::deny("")));
        let both = "webhook subject access review returned both allow and deny response";
        let both = Decision { error: Some(both.into()), ..Decision::deny("r") };
        check(r#"{"allowed":true,"denied":true,"reason":"r"}"#, Ok(both));
        check("null", Ok(Decision::no_opinion("")));
        check(
            r#"{"allowed":"yes"}"#,
            Err(
                "json: cannot unmarshal string into Go struct field SubjectAccessReviewStatus.status.allowed of type bool",
            ),
        );
        assert_eq!(read(b"{}", ReviewVersion::V1Beta1).map(Answer::decision), Ok(Decision::no_opinion("")));
        let other =
            r#"{"apiVersion":"authorization.k8s.io/v1beta1","kind":"SubjectAccessReview","status":{"allowed":true}}"#;
        assert!(read(other.as_bytes(), ReviewVersion::V1).is_err());
    }
}
