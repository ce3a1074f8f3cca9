//! ValidatingAdmissionPolicy: writes are refused, or warned of, where expressions say so.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use cel::Value as CelValue;
use generic_server::{
    admission::{Admission, Attributes, Steps},
    audit,
};
use machinery::{
    Str, Value,
    codec::json,
    meta::status::{Cause, Status},
};

use crate::{
    activation::{Activation, BUDGET, Expression, Scene},
    compile::{Compiler, ExpectedType},
    conditions::Verdict,
    engine::{Engine, Invocation, MatchedWrite, Seen, Step},
    metrics::Metrics,
    source::{Binding, Policy, PolicySource, Work},
    write::Request,
};

/// The longest message that an expression can make, in bytes.
const LONGEST_MESSAGE: usize = 5 * 1024;
/// The annotation of a check that does not hold: of the first one.
const FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";
/// The longest audit annotation, in bytes.
const LONGEST_NOTE: usize = 10 * 1024;

/// What a policy checks.
pub(crate) struct Validations {
    validations: Vec<Validation>,
    /// Values for the audit log, by key.
    annotations: Vec<(Str, Expression)>,
}

/// One check.
struct Validation {
    expression: Expression,
    message_expression: Option<Expression>,
    message: Str,
    /// The Status' reason; empty for the usual one.
    reason: Str,
}

impl Work for Validations {
    fn of(spec: &Value, compiler: &mut Compiler) -> Self {
        let list = |key: &str| spec.get(key).and_then(Value::as_array).unwrap_or_default();
        let validations = list("validations").iter().map(|validation| {
            let text = |key: &str| validation.str_at(&[key]).unwrap_or_default();
            let message = text("messageExpression");
            Validation {
                expression: Expression::new(text("expression"), ExpectedType::Condition, compiler),
                message_expression: (!message.is_empty())
                    .then(|| Expression::new(message, ExpectedType::Message, compiler)),
                message: text("message").trim().into(),
                reason: text("reason").into(),
            }
        });
        let validations = validations.collect();
        let annotations = list("auditAnnotations").iter().map(|annotation| {
            let text = annotation.str_at(&["valueExpression"]).unwrap_or_default();
            let key = annotation.str_at(&["key"]).unwrap_or_default();
            (key.into(), Expression::new(text, ExpectedType::Annotation, compiler))
        });
        Validations { validations, annotations: annotations.collect() }
    }
}

/// What one check has come to, where it does not hold.
#[derive(Clone, Debug, PartialEq)]
struct Finding {
    /// The place of the check among the policy's.
    index: usize,
    message: String,
    reason: Str,
    /// It could not be evaluated.
    is_error: bool,
    /// A failure that is ignored, which is only counted.
    is_ignored: bool,
}

/// Audit annotations by key, and what is wrong with others.
type Annotated = (Vec<(Str, String)>, Vec<String>);

/// What a policy has found about a write.
#[derive(Clone, Debug, Default, PartialEq)]
struct Findings {
    /// Of validations and conditions: what the binding's actions are for.
    findings: Vec<Finding>,
    /// Of audit annotations that could not be evaluated: refusals, whatever the actions are.
    annotations: Vec<String>,
    /// The others, by key.
    notes: Vec<(Str, String)>,
}

impl Findings {
    fn failure(message: String, fail: bool) -> Self {
        let finding = Finding { index: 0, message, reason: Str::default(), is_error: true, is_ignored: !fail };
        Findings { findings: vec![finding], ..Findings::default() }
    }
}

impl Policy<Validations> {
    fn check(&self, found: &MatchedWrite<'_>, invocation: &Invocation<'_, Validations>, seen: &Seen<'_>) -> Findings {
        let matched = &invocation.matched;
        let request = Request::new(&found.subject, &matched.kind, &matched.resource);
        match seen.judge(found, invocation) {
            Verdict::Matches => {}
            Verdict::Differs => return Findings::default(),
            Verdict::Fails(why) => return Findings::failure(why, self.fail),
        }
        let scene = seen.scene(&request, invocation);
        let mut findings = self.validate(&Activation::new(scene, &self.variables));
        if !self.work.annotations.is_empty() {
            // They cannot ask the authorizer, though they may name it.
            let scene = Scene { asker: None, ..scene };
            match self.annotate(&Activation::new(scene, &self.variables)) {
                Ok((notes, errors)) => {
                    findings.notes = notes;
                    findings.annotations = if self.fail { errors } else { Vec::new() };
                }
                Err(why) => return Findings::failure(why, self.fail),
            }
        }
        findings
    }

    fn validate(&self, activation: &Activation<'_>) -> Findings {
        let mut left = BUDGET;
        let mut results = Vec::with_capacity(self.work.validations.len());
        for validation in &self.work.validations {
            match activation.evaluate(&validation.expression, &mut left) {
                Ok(result) => results.push(result.map(|value| matches!(value, CelValue::Bool(true)))),
                Err(spent) => return Findings::failure(spent.to_string(), self.fail),
            }
        }
        if results.iter().all(|result| *result == Ok(true)) {
            return Findings::default();
        }
        let (messages, spent) = self.messages(activation, left);
        let mut findings = Vec::new();
        for (i, (validation, result)) in self.work.validations.iter().zip(results).enumerate() {
            let error = match (result, &spent) {
                (Err(why), _) => why,
                (Ok(_), Some(spent)) => format!("failed messageExpression: {spent}"),
                (Ok(true), None) => continue,
                (Ok(false), None) => {
                    let message = messages[i].clone().unwrap_or_else(|| validation.plain_message());
                    let reason = validation.reason.clone();
                    findings.push(Finding { index: i, message, reason, is_error: false, is_ignored: false });
                    continue;
                }
            };
            let ignored = !self.fail;
            let reason = Str::default();
            findings.push(Finding { index: i, message: error, reason, is_error: true, is_ignored: ignored });
        }
        Findings { findings, ..Findings::default() }
    }

    /// What message expressions say, in the order of the validations, and whether that has cost too much.
    fn messages(&self, activation: &Activation<'_>, mut left: u64) -> (Vec<Option<String>>, Option<String>) {
        // They cannot ask the authorizer, but the variables that they name can.
        let mut messages = Vec::with_capacity(self.work.validations.len());
        for validation in &self.work.validations {
            let Some(expression) = &validation.message_expression else {
                messages.push(None);
                continue;
            };
            match activation.evaluate(expression, &mut left) {
                Ok(Ok(CelValue::String(text))) => messages.push(usable(&text)),
                Ok(_) => messages.push(None),
                Err(spent) => return (Vec::new(), Some(spent.to_string())),
            }
        }
        (messages, None)
    }

    /// Audit annotations, and what is wrong with others.
    fn annotate(&self, activation: &Activation<'_>) -> Result<Annotated, String> {
        let mut left = BUDGET;
        let (mut notes, mut errors) = (Vec::new(), Vec::new());
        for (key, expression) in &self.work.annotations {
            match activation.evaluate(expression, &mut left) {
                Ok(Ok(CelValue::String(text))) if !text.trim().is_empty() => {
                    notes.push((key.clone(), cut(text.trim()).to_owned()));
                }
                Ok(Ok(_)) => {}
                Ok(Err(why)) => errors.push(why),
                Err(spent) => return Err(spent.to_string()),
            }
        }
        Ok((notes, errors))
    }
}

impl Validation {
    fn plain_message(&self) -> String {
        match self.message.as_str() {
            "" => format!("failed expression: {}", self.expression.text.trim()),
            message => message.to_owned(),
        }
    }
}

/// A message that can be told: one line, neither empty nor too long.
fn usable(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty() && text.len() <= LONGEST_MESSAGE && !text.contains('\n')).then(|| text.to_owned())
}

/// As much of an audit annotation as is recorded.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST_NOTE)]
}

/// What a policy's bindings have to say in the audit log: each value of a key once, in order.
#[derive(Default)]
struct Notes(Vec<(String, Vec<String>)>);

impl Notes {
    fn add(&mut self, policy: &str, key: &str, value: String) {
        let key = format!("{policy}/{key}");
        match self.0.iter_mut().find(|(own, _)| *own == key) {
            None => self.0.push((key, vec![value])),
            Some((_, values)) if values.contains(&value) => {}
            Some((_, values)) => values.push(value),
        }
    }

    fn publish(self, a: &Attributes<'_>) {
        for (key, values) in self.0 {
            a.annotate(audit::Level::Metadata, key, values.join(", "));
        }
    }
}

/// A check that does not hold, as the audit log shows it.
fn failure_note(policy: &str, binding: &Binding, finding: &Finding) -> String {
    let mut out = Vec::new();
    for (key, value) in
        [("[{\"message\":", finding.message.as_str()), (",\"policy\":", policy), (",\"binding\":", &binding.name)]
    {
        out.extend_from_slice(key.as_bytes());
        json::write_string(&mut out, value);
    }
    out.extend_from_slice(format!(",\"expressionIndex\":{},\"validationActions\":[", finding.index).as_bytes());
    for (i, action) in binding.actions.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        json::write_string(&mut out, action);
    }
    out.extend_from_slice(b"]}]");
    String::from_utf8_lossy(&out).into_owned()
}

/// The plugin.
pub(crate) struct Validating {
    pub(crate) source: PolicySource<Validations>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) metrics: Metrics,
}

/// The first refusal decides about the answer.
#[derive(Default)]
struct Refusal(Option<(String, Str)>);

impl Refusal {
    fn add(&mut self, policy: &str, binding: Option<&Binding>, why: &str, reason: &str) {
        self.0.get_or_insert_with(|| {
            let of = match binding {
                Some(binding) => format!("'{policy}' with binding '{}'", binding.name),
                None => format!("'{policy}'"),
            };
            (format!("ValidatingAdmissionPolicy {of} denied request: {why}"), reason.into())
        });
    }

    fn into_result(self, a: &Attributes<'_>, object: &Value) -> Result<(), Status> {
        let Some((message, reason)) = self.0 else { return Ok(()) };
        let (code, reason) = match reason.as_str() {
            "Forbidden" => (403, reason),
            "Unauthorized" => (401, reason),
            "RequestEntityTooLarge" => (413, reason),
            "" => (422, Str::new_static("Invalid")),
            _ => (422, reason),
        };
        let cause = Cause { message: message.clone(), ..Cause::default() };
        let status = a.forbidden(object, message).with_cause(cause);
        Err(Status { code, reason, ..status })
    }
}

#[async_trait]
impl Admission for Validating {
    fn steps(&self) -> Steps {
        Steps::Validate
    }

    async fn validate(&self, a: &Attributes<'_>, object: &Value, warnings: &mut Vec<String>) -> Result<(), Status> {
        let Some(hooks) = self.source.hooks(a.row).await? else { return Ok(()) };
        let Some(mut found) = self.engine.begin(a, object).await? else { return Ok(()) };
        let (mut refusal, mut notes) = (Refusal::default(), Notes::default());
        for step in self.engine.plan(&mut found, &hooks).await {
            match step {
                Step::Misconfigured(policy, binding, why) if policy.fail => {
                    let what = if binding.is_some() { "binding" } else { "policy" };
                    refusal.add(&policy.name, binding, &format!("failed to configure {what}: {why}"), "");
                }
                Step::Misconfigured(..) => {}
                Step::Evaluate(invocation) => {
                    self.evaluate(&mut found, &invocation, warnings, (&mut refusal, &mut notes)).await?;
                }
            }
        }
        notes.publish(a);
        refusal.into_result(a, object)
    }
}

impl Validating {
    async fn evaluate(
        &self,
        found: &mut MatchedWrite<'_>,
        invocation: &Invocation<'_, Validations>,
        warnings: &mut Vec<String>,
        (refusal, notes): (&mut Refusal, &mut Notes),
    ) -> Result<(), Status> {
        let Invocation { policy, binding, .. } = invocation;
        let documents = match self.engine.documents(found, &invocation.matched).await {
            Ok(documents) => documents,
            Err(status) => {
                if policy.fail {
                    let why =
                        format!("failed to configure policy: failed to convert object version: {}", status.message);
                    refusal.add(&policy.name, None, &why, "");
                }
                return Ok(());
            }
        };
        let namespace = self.engine.namespace_object(found).await?;
        let asker = self.engine.asker(found);
        let seen = Seen { documents: &documents, namespace: &namespace, asker: &asker };
        let begun = Instant::now();
        let findings = asker.with_answers(|| policy.check(found, invocation, &seen)).await;
        let elapsed = begun.elapsed();
        for finding in &findings.findings {
            self.act((policy, binding), finding, elapsed, warnings, refusal);
            let is_noted = !finding.is_ignored && binding.actions.iter().any(|action| action == "Audit");
            if is_noted {
                let value = failure_note(&policy.name, binding, finding);
                found.subject.a.annotate(audit::Level::Metadata, FAILURE, value);
            }
        }
        for (key, value) in findings.notes {
            notes.add(&policy.name, &key, value);
        }
        for error in &findings.annotations {
            refusal.add(&policy.name, Some(binding), error, "");
            self.metrics.observe(&policy.name, binding, Some(error), Some("deny"), elapsed);
        }
        Ok(())
    }

    /// Does what a binding says about a finding.
    fn act(
        &self,
        (policy, binding): (&Policy<Validations>, &Binding),
        finding: &Finding,
        elapsed: Duration,
        warnings: &mut Vec<String>,
        refusal: &mut Refusal,
    ) {
        let error = finding.is_error.then_some(finding.message.as_str());
        let observe = |action: &str| self.metrics.observe(&policy.name, binding, error, Some(action), elapsed);
        if finding.is_ignored {
            return observe("allow");
        }
        for action in &binding.actions {
            match action.as_str() {
                "Deny" => {
                    refusal.add(&policy.name, Some(binding), &finding.message, &finding.reason);
                    observe("deny");
                }
                "Warn" => {
                    let of = format!("'{}' with binding '{}'", policy.name, binding.name);
                    warnings.push(format!("Validation failed for ValidatingAdmissionPolicy {of}: {}", finding.message));
                    observe("warn");
                }
                _ => observe("audit"),
            }
        }
    }
}
