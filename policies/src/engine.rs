//! From a write to what is to be evaluated about it: matching policies with their bindings, parameters and documents.

use std::sync::Arc;

use auth::Authorizer;
use generic_server::{
    admission::Attributes,
    handlers::scale,
    registry::Lister,
    resource::{Resource, SubresourceKind},
};
use machinery::{
    Value,
    codec::json,
    meta::{Meta, status::Status},
};

use crate::{
    activation::{Activation, Scene},
    conditions::Verdict,
    matching::{Labelled, Matched, brings_namespace, is_exempt},
    questions::Asker,
    source::{Binding, Hook, Policy},
    tables::Tables,
    write::{Request, WriteAttributes},
};

/// What policies of both kinds need of the server.
pub(crate) struct Engine {
    pub(crate) tables: Tables,
    pub(crate) namespaces: Arc<Lister>,
    pub(crate) authorizer: Arc<dyn Authorizer>,
}

/// Something to do about a write, in order.
pub(crate) enum Step<'h, W> {
    /// A policy is evaluated for a binding and one of its parameters.
    Evaluate(Invocation<'h, W>),
    /// A policy or its binding cannot be evaluated: why.
    Misconfigured(&'h Policy<W>, Option<&'h Binding>, String),
}

/// A policy, for a binding and one of its parameters.
pub(crate) struct Invocation<'h, W> {
    pub(crate) policy: &'h Policy<W>,
    pub(crate) binding: &'h Binding,
    pub(crate) matched: Matched,
    /// Null if there is none.
    pub(crate) param: Value,
}

/// The objects of a write, in one version.
#[derive(Clone, Debug, Default)]
pub(crate) struct Documents {
    /// Null where there is none.
    pub(crate) object: Value,
    /// Null where there is none.
    pub(crate) old: Value,
}

/// What the expressions of one invocation see.
pub(crate) struct Seen<'a> {
    pub(crate) documents: &'a Documents,
    pub(crate) namespace: &'a Value,
    pub(crate) asker: &'a Arc<Asker>,
}

impl<'a> Seen<'a> {
    /// The same, as it is evaluated.
    pub(crate) fn scene<W>(&self, request: &'a Request<'a>, invocation: &'a Invocation<'_, W>) -> Scene<'a> {
        Scene {
            object: &self.documents.object,
            old: &self.documents.old,
            namespace: self.namespace,
            params: &invocation.param,
            asker: Some(self.asker),
            request,
        }
    }

    /// What the policy's conditions say. They see no namespace, and the resource as it was asked for.
    pub(crate) fn judge<W>(&self, found: &MatchedWrite<'_>, invocation: &Invocation<'_, W>) -> Verdict {
        let policy = invocation.policy;
        if policy.conditions.is_empty() {
            return Verdict::Matches;
        }
        let request = Request::new(&found.subject, &invocation.matched.kind, &found.subject.resource);
        let scene = Scene { namespace: &Value::Null, ..self.scene(&request, invocation) };
        policy.conditions.judge(&Activation::new(scene, &policy.variables), policy.fail)
    }
}

/// A write with what was found out about it so far.
pub(crate) struct MatchedWrite<'a> {
    pub(crate) subject: WriteAttributes<'a>,
    /// The objects as the request has them.
    pub(crate) documents: Documents,
    /// The namespace, once it was looked up; null if the write is in none.
    namespace: Option<Result<Value, Status>>,
    asker: Option<Arc<Asker>>,
}

impl MatchedWrite<'_> {
    /// Brings what plugins have made of the document into the object that the registry has; `before`: what it was.
    pub(crate) fn write_back(self, before: &Value, object: &mut Value) {
        let (a, after) = (self.subject.a, self.documents.object);
        if after != *before {
            match is_scale(a.row, a.subresource) {
                true => scale::rescale(a.row, &after, object),
                false => *object = after,
            }
        }
    }

    /// Why nothing is known of the write's namespace.
    pub(crate) fn no_namespace(&self) -> Status {
        let status = self.namespace.as_ref().and_then(|namespace| namespace.as_ref().err());
        status.cloned().unwrap_or_else(|| Status::internal_error("the namespace is not known"))
    }
}

impl Engine {
    /// Begins with a write; `None` if policies have no say in it.
    ///
    /// # Errors
    /// What a webhook that converts answers.
    pub(crate) async fn begin<'a>(
        &self,
        a: &'a Attributes<'a>,
        object: &Value,
    ) -> Result<Option<MatchedWrite<'a>>, Status> {
        let subject = WriteAttributes::of(a);
        match is_exempt(&subject) {
            true => Ok(None),
            false => self.look_at(subject, object).await.map(Some),
        }
    }

    /// Begins with a write, whatever it asks.
    ///
    /// # Errors
    /// What a webhook that converts answers.
    pub(crate) async fn begin_any<'a>(
        &self,
        a: &'a Attributes<'a>,
        object: &Value,
    ) -> Result<MatchedWrite<'a>, Status> {
        self.look_at(WriteAttributes::of(a), object).await
    }

    async fn look_at<'a>(&self, subject: WriteAttributes<'a>, object: &Value) -> Result<MatchedWrite<'a>, Status> {
        let a = subject.a;
        let old = a.old.unwrap_or(&Value::Null);
        let documents = Documents {
            object: self.document(a.row, a.subresource, object).await?,
            old: self.document(a.row, a.subresource, old).await?,
        };
        Ok(MatchedWrite { subject, documents, namespace: None, asker: None })
    }

    /// The steps that `hooks` take, in order.
    pub(crate) async fn plan<'h, W>(&self, found: &mut MatchedWrite<'_>, hooks: &'h [Hook<W>]) -> Vec<Step<'h, W>> {
        let mut steps = Vec::new();
        for Hook { policy, bindings } in hooks {
            if !policy.matches.may_match(&found.subject) {
                continue;
            }
            let matched = match self.matched(&policy.matches, found).await {
                Ok(Some(matched)) => matched,
                Ok(None) => continue,
                Err(why) => {
                    steps.push(Step::Misconfigured(policy, None, why));
                    continue;
                }
            };
            let params = match policy.param_kind.as_ref().map(|kind| kind.find(&self.tables)).transpose() {
                Ok(params) => params,
                Err(why) => {
                    steps.push(Step::Misconfigured(policy, None, why));
                    continue;
                }
            };
            for binding in bindings {
                let is_bound = match &binding.matches {
                    None => Ok(true),
                    Some(matches) => self.matched(matches, found).await.map(|matched| matched.is_some()),
                };
                let found_params = match (is_bound, &params, &binding.param_ref) {
                    (Ok(false), ..) => continue,
                    (Err(why), ..) => Err(why),
                    (Ok(true), Some(entry), Some(param)) => param.collect(entry, found.subject.namespace).await,
                    (Ok(true), ..) => Ok(vec![Value::Null]),
                };
                match found_params {
                    Err(why) => steps.push(Step::Misconfigured(policy, Some(binding), why)),
                    Ok(params) => {
                        steps.extend(params.into_iter().map(|param| {
                            Step::Evaluate(Invocation { policy, binding, matched: matched.clone(), param })
                        }))
                    }
                }
            }
        }
        steps
    }

    /// Whether rules and selectors are about the write, and as what.
    ///
    /// # Errors
    /// What cannot be found out about the namespace, where all else matches.
    pub(crate) async fn matched(
        &self,
        matches: &crate::matching::Matches,
        found: &mut MatchedWrite<'_>,
    ) -> Result<Option<Matched>, String> {
        if matches.asks_namespaces() {
            self.look_up_namespace(found).await;
        }
        let Documents { object, old } = &found.documents;
        let namespace = match &found.namespace {
            _ if brings_namespace(&found.subject) => Ok(Meta::of(object).labels()),
            None => Ok(None),
            Some(Ok(namespace)) => Ok(Meta::of(namespace).labels()),
            Some(Err(status)) => Err(status.message.as_str()),
        };
        matches.matched(&found.subject, &Labelled { object, old, namespace }, &self.tables)
    }

    /// The objects in the version that has matched.
    ///
    /// # Errors
    /// What a webhook that converts answers.
    pub(crate) async fn documents(&self, found: &MatchedWrite<'_>, matched: &Matched) -> Result<Documents, Status> {
        let Some(entry) = &matched.entry else { return Ok(found.documents.clone()) };
        let sub = found.subject.a.subresource;
        Ok(Documents {
            object: self.document(&entry.row, sub, &found.documents.object).await?,
            old: self.document(&entry.row, sub, &found.documents.old).await?,
        })
    }

    /// An object in the version that has matched, as the request would have it.
    ///
    /// # Errors
    /// What a webhook that converts answers.
    pub(crate) async fn in_request(
        &self,
        found: &MatchedWrite<'_>,
        matched: &Matched,
        object: Value,
    ) -> Result<Value, Status> {
        match &matched.entry {
            Some(_) => self.document(found.subject.a.row, found.subject.a.subresource, &object).await,
            None => Ok(object),
        }
    }

    /// A document as a row has it through a subresource. The registry judges built-in kinds in their stored version, and of
    /// scales it knows only the objects that are scaled.
    async fn document(&self, row: &Resource, subresource: &str, document: &Value) -> Result<Value, Status> {
        if document.is_null() || document.str_at(&["kind"]) != Some(&row.kind) {
            return Ok(document.clone());
        }
        let registry = match document.str_at(&["apiVersion"]) == Some(&row.api_version()) {
            true => None,
            false => self.tables.resource(&row.group, &row.version, &row.plural).and_then(|e| e.registry.clone()),
        };
        let document = match registry {
            Some(registry) => registry.value_as(row, document.clone()).await?,
            None => document.clone(),
        };
        Ok(if is_scale(row, subresource) { scale::scale_of(row, &document) } else { document })
    }

    async fn look_up_namespace(&self, found: &mut MatchedWrite<'_>) {
        if found.namespace.is_none() {
            let name = found.subject.namespace;
            let namespace = if name.is_empty() { Ok(Value::Null) } else { self.namespace(name).await };
            found.namespace = Some(namespace);
        }
    }

    async fn namespace(&self, name: &str) -> Result<Value, Status> {
        let object = self.namespaces.find("", name).await?;
        let object = object.ok_or_else(|| Status::not_found(&self.namespaces.group_resource(), name))?;
        json::decode(object.bytes()).map_err(Status::internal_error)
    }

    /// The namespace as expressions see it: without owners and managers; null for what is in none, and for namespaces.
    ///
    /// # Errors
    /// 404 if it is not there.
    pub(crate) async fn namespace_object(&self, found: &mut MatchedWrite<'_>) -> Result<Value, Status> {
        if found.subject.is_of_namespaces() {
            return Ok(Value::Null);
        }
        self.look_up_namespace(found).await;
        let mut namespace = found.namespace.clone().expect("it was looked up")?;
        if let Some(object) = namespace.as_object_mut() {
            object.retain(|key, _| !matches!(key, "kind" | "apiVersion"));
            if let Some(metadata) = namespace.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.retain(|key, _| !matches!(key, "managedFields" | "ownerReferences"));
            }
        }
        Ok(namespace)
    }

    /// Whom the expressions about a write ask.
    pub(crate) fn asker(&self, found: &mut MatchedWrite<'_>) -> Arc<Asker> {
        found.asker.get_or_insert_with(|| Asker::new(found.subject.a.user, &self.authorizer)).clone()
    }
}

/// Whether documents of a subresource are scales.
pub(crate) fn is_scale(row: &Resource, subresource: &str) -> bool {
    row.subresource(subresource).is_some_and(|s| matches!(s.kind, SubresourceKind::Scale { .. }))
}
