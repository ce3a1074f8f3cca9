//! MutatingAdmissionPolicy: writes are changed by what expressions say.

use std::{sync::Arc, time::Instant};

use async_trait::async_trait;
use generic_server::admission::{Admission, Attributes, Steps};
use machinery::{
    Str, Value,
    meta::status::{Cause, Status},
};

use crate::{
    activation::{Activation, BUDGET, Expression},
    compile::{Compiler, ExpectedType},
    conditions::Verdict,
    engine::{Engine, Invocation, MatchedWrite, Seen, Step},
    metrics::Metrics,
    patch::{self, Failure},
    source::{Binding, Policy, PolicySource, Work},
    write::Request,
};

/// The plugin's name, by which it remembers what it has done.
const PLUGIN: &str = "MutatingAdmissionPolicy";

/// What a policy changes.
pub(crate) struct Mutations {
    mutations: Vec<Mutation>,
    /// It is called again if others change the object after it.
    again: bool,
}

/// One change.
struct Mutation {
    expression: Expression,
    wanted: ExpectedType,
}

impl Work for Mutations {
    fn of(spec: &Value, compiler: &mut Compiler) -> Self {
        let mutations = spec.get("mutations").and_then(Value::as_array).unwrap_or_default().iter();
        let mutations = mutations.map(|mutation| {
            let (wanted, member) = match mutation.str_at(&["patchType"]) {
                Some("JSONPatch") => (ExpectedType::JsonPatch, "jsonPatch"),
                _ => (ExpectedType::Apply, "applyConfiguration"),
            };
            let text = mutation.str_at(&[member, "expression"]).unwrap_or_default();
            Mutation { expression: Expression::new(text, wanted, compiler), wanted }
        });
        Mutations { mutations: mutations.collect(), again: spec.str_at(&["reinvocationPolicy"]) == Some("IfNeeded") }
    }
}

impl Mutation {
    /// What the object becomes.
    fn run(
        &self,
        found: &MatchedWrite<'_>,
        invocation: &Invocation<'_, Mutations>,
        seen: &Seen<'_>,
    ) -> Result<Value, Failure> {
        let (policy, matched) = (invocation.policy, &invocation.matched);
        if let Err(fault) = &self.expression.program {
            return Err(Failure::Refused(fault.to_string()));
        }
        let request = Request::new(&found.subject, &matched.kind, &matched.resource);
        let activation = Activation::new(seen.scene(&request, invocation), &policy.variables);
        let result = activation.evaluate(&self.expression, &mut BUDGET.clone());
        let value = result.map_err(|spent| Failure::Refused(spent.to_string()))?.map_err(Failure::Refused)?;
        let row = matched.entry.as_ref().map_or(found.subject.a.row, |entry| &entry.row);
        patch::patched(row, &matched.kind, &seen.documents.object, &value, self.wanted)
    }
}

/// The plugin.
pub(crate) struct Mutating {
    pub(crate) source: PolicySource<Mutations>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) metrics: Metrics,
}

/// The failures that count; the first decides about the answer.
#[derive(Default)]
struct Refusals(Vec<(String, Str)>);

impl Refusals {
    fn add(&mut self, policy: &Policy<Mutations>, binding: Option<&Binding>, why: &str, reason: &'static str) {
        if !policy.fail {
            return;
        }
        let text = match binding {
            Some(binding) => format!("policy '{}' with binding '{}' denied request: {why}", policy.name, binding.name),
            None => format!("policy \"{}\" denied request: {why}", policy.name),
        };
        self.0.push((text, Str::new_static(reason)));
    }

    fn into_result(self, a: &Attributes<'_>, object: &Value) -> Result<(), Status> {
        let Some((message, reason)) = self.0.first().cloned() else { return Ok(()) };
        let mut status = a.forbidden(object, "");
        for (message, _) in self.0 {
            status = status.with_cause(Cause { message, ..Cause::default() });
        }
        let reason = if reason.is_empty() { status.reason.clone() } else { reason };
        Err(Status { message, reason, ..status })
    }
}

#[async_trait]
impl Admission for Mutating {
    fn steps(&self) -> Steps {
        Steps::Mutate
    }

    async fn mutate(&self, a: &Attributes<'_>, object: &mut Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        let Some(hooks) = self.source.hooks(a.row).await? else { return Ok(()) };
        let Some(mut found) = self.engine.begin(a, object).await? else { return Ok(()) };
        let steps = self.engine.plan(&mut found, &hooks).await;
        if steps.is_empty() {
            return Ok(());
        }
        a.rounds.begin(PLUGIN, object);
        let mut refusals = Refusals::default();
        let before = found.documents.object.clone();
        for step in steps {
            match step {
                Step::Misconfigured(policy, binding, why) => {
                    let what = if binding.is_some() { "binding" } else { "policy" };
                    refusals.add(policy, binding, &format!("failed to configure {what}: {why}"), "");
                }
                Step::Evaluate(invocation) => self.invoke(&mut found, &invocation, &mut refusals).await?,
            }
        }
        refusals.into_result(a, object)?;
        found.write_back(&before, object);
        a.rounds.end(PLUGIN, object);
        Ok(())
    }
}

impl Mutating {
    /// Makes the changes of one policy.
    async fn invoke(
        &self,
        found: &mut MatchedWrite<'_>,
        invocation: &Invocation<'_, Mutations>,
        refusals: &mut Refusals,
    ) -> Result<(), Status> {
        let Invocation { policy, binding, matched, param } = invocation;
        let rounds = &found.subject.a.rounds;
        let mut documents = match self.engine.documents(found, matched).await {
            Ok(documents) => documents,
            Err(status) => {
                refusals.add(policy, None, &format!("failed to configure policy: {}", status.message), "");
                return Ok(());
            }
        };
        let namespace = self.engine.namespace_object(found).await?;
        let asker = self.engine.asker(found);
        let seen = Seen { documents: &documents, namespace: &namespace, asker: &asker };
        match asker.with_answers(|| seen.judge(found, invocation)).await {
            Verdict::Matches => {}
            Verdict::Differs => return Ok(()),
            Verdict::Fails(why) => {
                refusals.add(policy, Some(binding), &why, "Invalid");
                return Ok(());
            }
        }
        let param = [param.str_at(&["metadata", "namespace"]), param.str_at(&["metadata", "name"])];
        let key = format!("{}/{}/{}/{}", policy.name, binding.name, param[0].unwrap_or(""), param[1].unwrap_or(""));
        if !rounds.may_call(PLUGIN, &key) {
            return Ok(());
        }
        let mut changed = false;
        for mutation in &policy.work.mutations {
            if documents.object.is_null() {
                continue;
            }
            let begun = Instant::now();
            let seen = Seen { documents: &documents, namespace: &namespace, asker: &asker };
            let result = asker.with_answers(|| mutation.run(found, invocation, &seen)).await;
            let observe = |error| self.metrics.observe(&policy.name, binding, error, None, begun.elapsed());
            match result {
                Ok(object) => {
                    observe(None);
                    changed |= object != documents.object;
                    documents.object = object;
                }
                Err(Failure::Refused(why)) => {
                    observe(Some(&why));
                    refusals.add(policy, Some(binding), &why, "Invalid");
                }
                Err(Failure::Status(status)) => {
                    observe(Some(&status.message));
                    return Err(*status);
                }
            }
        }
        if changed {
            rounds.changed(PLUGIN);
            found.documents.object = self.engine.in_request(found, matched, documents.object).await?;
        }
        if policy.work.again {
            rounds.called(PLUGIN, key);
        }
        Ok(())
    }
}
