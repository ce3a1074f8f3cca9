//! `authorizer`: asks whether somebody may do something.

use std::sync::Arc;

use machinery::Str;

use super::{Library, args};
use crate::types::Type;
use crate::value::{Error, Opaque, Result, Value};

const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
const PATH: &str = "kubernetes.authorization.PathCheck";
const GROUP: &str = "kubernetes.authorization.GroupCheck";
const RESOURCE: &str = "kubernetes.authorization.ResourceCheck";
const DECISION: &str = "kubernetes.authorization.Decision";

/// Who answers what expressions ask.
pub trait Authorize: Send + Sync + std::fmt::Debug {
    /// Whether the question's user may do what it says.
    ///
    /// # Errors
    /// It could not be found out.
    fn authorize(&self, question: &Question) -> Result<AuthorizerVerdict, AuthorizerError>;
}

/// What an expression is told of who may do something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizerVerdict {
    /// Whether it is allowed.
    pub allowed: bool,
    /// The reason that the authorizer gives.
    pub reason: Str,
}

/// Why it could not be found out who may do something, as `error()` tells it to the expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AuthorizerError(pub String);

/// What is asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Question {
    /// A service account to ask for, in place of who makes the request: its namespace and name.
    pub service_account: Option<(Str, Str)>,
    /// A path that is no resource's; what follows is empty then.
    pub path: Option<Str>,
    /// The API group.
    pub group: Str,
    /// The resource.
    pub resource: Str,
    /// The subresource.
    pub subresource: Str,
    /// The namespace.
    pub namespace: Str,
    /// The object's name.
    pub name: Str,
    /// The field selector.
    pub field_selector: Str,
    /// The label selector.
    pub label_selector: Str,
    /// The verb.
    pub verb: Str,
}

/// A question that is being put together.
#[derive(Clone, Debug)]
struct Asking {
    kind: &'static str,
    who: Arc<dyn Authorize>,
    question: Question,
}

impl Opaque for Asking {
    fn type_name(&self) -> &'static str {
        self.kind
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        let other = (other as &dyn std::any::Any).downcast_ref::<Asking>();
        other.is_some_and(|o| o.kind == self.kind && o.question == self.question)
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
struct Decision(Result<AuthorizerVerdict, AuthorizerError>);

impl Opaque for Decision {
    fn type_name(&self) -> &'static str {
        DECISION
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        (other as &dyn std::any::Any).downcast_ref::<Decision>() == Some(self)
    }
}

/// The type of the variable `authorizer`.
pub fn authorizer_type() -> Type {
    Type::opaque(AUTHORIZER)
}

/// The type of a variable that asks for a certain resource.
pub fn resource_check_type() -> Type {
    Type::opaque(RESOURCE)
}

/// The value of the variable `authorizer`.
pub fn authorizer(who: Arc<dyn Authorize>) -> Value {
    Value::Opaque(Arc::new(Asking { kind: AUTHORIZER, who, question: Question::default() }))
}

/// The value of a variable that asks for a certain resource.
pub fn resource_check(who: Arc<dyn Authorize>, question: Question) -> Value {
    Value::Opaque(Arc::new(Asking { kind: RESOURCE, who, question }))
}

/// What the text of a step adds to a question.
type Step = fn(&mut Question, Str) -> Result<(), String>;

pub(super) fn add(library: &mut Library) {
    use Type::{Bool, String};
    library.member(
        "serviceAccount",
        "authorizer_serviceaccount",
        &[authorizer_type(), String, String],
        authorizer_type(),
        |a| {
            args!(a, of, Value::String(namespace), Value::String(name) => step(of, AUTHORIZER, |q| {
                q.service_account = Some((namespace.clone(), name.clone()));
                Ok(())
            }))
        },
    );
    let steps: [(&'static str, &'static str, &'static str, &'static str, super::Call); 8] =
        [
            ("path", "authorizer_path", AUTHORIZER, PATH, |a| {
                text(a, PATH, |q, s| {
                    if s.is_empty() { Err("path must not be empty".into()) } else { set(&mut q.path, Some(s)) }
                })
            }),
            ("group", "authorizer_group", AUTHORIZER, GROUP, |a| text(a, GROUP, |q, s| set(&mut q.group, s))),
            ("resource", "groupcheck_resource", GROUP, RESOURCE, |a| {
                text(a, RESOURCE, |q, s| {
                    if s.is_empty() { Err("resource must not be empty".into()) } else { set(&mut q.resource, s) }
                })
            }),
            ("subresource", "resourcecheck_subresource", RESOURCE, RESOURCE, |a| {
                text(a, RESOURCE, |q, s| set(&mut q.subresource, s))
            }),
            ("namespace", "resourcecheck_namespace", RESOURCE, RESOURCE, |a| {
                text(a, RESOURCE, |q, s| set(&mut q.namespace, s))
            }),
            ("name", "resourcecheck_name", RESOURCE, RESOURCE, |a| text(a, RESOURCE, |q, s| set(&mut q.name, s))),
            ("fieldSelector", "authorizer_fieldselector", RESOURCE, RESOURCE, |a| {
                text(a, RESOURCE, |q, s| set(&mut q.field_selector, s))
            }),
            ("labelSelector", "authorizer_labelselector", RESOURCE, RESOURCE, |a| {
                text(a, RESOURCE, |q, s| set(&mut q.label_selector, s))
            }),
        ];
    for (name, id, from, to, call) in steps {
        library.member(name, id, &[Type::opaque(from), String], Type::opaque(to), call);
    }
    for (id, of) in [("pathcheck_check", PATH), ("resourcecheck_check", RESOURCE)] {
        library.member("check", id, &[Type::opaque(of), String], Type::opaque(DECISION), |a| {
            args!(a, of, Value::String(verb) => {
                let asking = of.opaque::<Asking>().ok_or_else(Error::no_overload)?;
                let question = Question { verb: verb.clone(), ..asking.question.clone() };
                Ok(Value::Opaque(Arc::new(Decision(asking.who.authorize(&question)))))
            })
        });
    }
    let answers: [(&'static str, &'static str, Type, super::Call); 4] = [
        ("allowed", "decision_allowed", Bool, |a| answer(a, |d| Value::Bool(d.as_ref().is_ok_and(|d| d.allowed)))),
        ("reason", "decision_reason", String, |a| {
            answer(a, |d| Value::String(d.as_ref().map(|d| d.reason.clone()).unwrap_or_default()))
        }),
        ("errored", "decision_errored", Bool, |a| answer(a, |d| Value::Bool(d.is_err()))),
        ("error", "decision_error", String, |a| {
            answer(a, |d| Value::string(d.as_ref().err().map(|error| error.0.as_str()).unwrap_or_default()))
        }),
    ];
    for (name, id, result, call) in answers {
        library.member(name, id, &[Type::opaque(DECISION)], result, call);
    }
}

fn set<T>(field: &mut T, value: T) -> Result<(), String> {
    *field = value;
    Ok(())
}

fn step(of: &Value, kind: &'static str, change: impl FnOnce(&mut Question) -> Result<(), String>) -> Result {
    let mut asking = of.opaque::<Asking>().ok_or_else(Error::no_overload)?.clone();
    change(&mut asking.question).map_err(Error::Failed)?;
    Ok(Value::Opaque(Arc::new(Asking { kind, ..asking })))
}

fn text(args: &[Value], kind: &'static str, change: Step) -> Result {
    args!(args, of, Value::String(s) => step(of, kind, |question| change(question, s.clone())))
}

fn answer(args: &[Value], tell: fn(&Result<AuthorizerVerdict, AuthorizerError>) -> Value) -> Result {
    args!(args, of => of.opaque::<Decision>().map(|d| tell(&d.0)).ok_or_else(Error::no_overload))
}
