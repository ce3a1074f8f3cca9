//! Queries of expressions to the authorizer.
//!
//! Evaluation does not wait, but an authorizer may have to ask somebody else. Then the expression is told that the answer is
//! not known yet, and the evaluation runs once more when it is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use auth::{Attributes, Authorizer, User, Verdict};
use cel::{Authorize, AuthorizerError, AuthorizerVerdict, Question};
use futures_util::FutureExt;
use machinery::request::{RequestInfo, field_terms, label_requirements, resource_info};

/// More often than this an evaluation is not repeated for answers.
const MAX_ROUNDS: usize = 64;

type Answer = Result<AuthorizerVerdict, AuthorizerError>;

/// Asks for one write; each question once.
pub(crate) struct Asker {
    user: User,
    authorizer: Arc<dyn Authorizer>,
    answers: Mutex<Answers>,
}

#[derive(Default)]
struct Answers {
    known: Vec<(Question, Answer)>,
    open: Vec<Question>,
}

impl std::fmt::Debug for Asker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Asker({})", self.user.name)
    }
}

impl Asker {
    pub(crate) fn new(user: &User, authorizer: &Arc<dyn Authorizer>) -> Arc<Self> {
        Arc::new(Asker { user: user.clone(), authorizer: authorizer.clone(), answers: Mutex::default() })
    }

    /// Evaluates with all answers that it needs.
    pub(crate) async fn with_answers<T>(&self, evaluate: impl Fn() -> T) -> T {
        for _ in 0..MAX_ROUNDS {
            let result = evaluate();
            let open = std::mem::take(&mut self.answers().open);
            if open.is_empty() {
                return result;
            }
            for question in open {
                let answer = self.ask(&question).await;
                self.answers().known.push((question, answer));
            }
        }
        evaluate()
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self, question: &Question) -> Answer {
        let other = question.service_account.as_ref().map(|(namespace, name)| service_account(namespace, name));
        let user = other.as_ref().unwrap_or(&self.user);
        let decision = self.authorizer.authorize(&Attributes { user, info: &info_of(question) }).await;
        match decision.error {
            Some(error) if decision.verdict != Verdict::Allow => Err(AuthorizerError(error.to_string())),
            _ => Ok(AuthorizerVerdict { allowed: decision.verdict == Verdict::Allow, reason: decision.reason }),
        }
    }
}

impl Authorize for Asker {
    fn authorize(&self, question: &Question) -> Answer {
        if let Some((_, answer)) = self.answers().known.iter().find(|(known, _)| known == question) {
            return answer.clone();
        }
        match self.ask(question).now_or_never() {
            Some(answer) => {
                self.answers().known.push((question.clone(), answer.clone()));
                answer
            }
            None => {
                self.answers().open.push(question.clone());
                Err(AuthorizerError("not known yet".into()))
            }
        }
    }
}

fn service_account(namespace: &str, name: &str) -> User {
    User {
        name: format!("system:serviceaccount:{namespace}:{name}").into(),
        groups: vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}").into()],
        ..User::default()
    }
}

fn info_of(question: &Question) -> RequestInfo {
    if let Some(path) = &question.path {
        return RequestInfo { path: path.clone(), method: question.verb.clone(), ..RequestInfo::default() };
    }
    RequestInfo {
        namespace: question.namespace.clone(),
        name: question.name.clone(),
        subresource: question.subresource.clone(),
        field_selector: field_terms(&question.field_selector),
        label_selector: label_requirements(&question.label_selector),
        ..resource_info(&question.verb, &question.group, "*", &question.resource)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;

    use auth::Decision;

    use super::*;

    /// Takes its time.
    struct Slow(AtomicUsize);

    #[async_trait]
    impl Authorizer for Slow {
        async fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
            self.0.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            match &*attributes.info.resource {
                "pods" => Decision::allow("because"),
                _ => Decision::no_opinion(""),
            }
        }
    }

    fn told(allowed: bool, reason: &'static str) -> Answer {
        Ok(AuthorizerVerdict { allowed, reason: reason.into() })
    }

    #[tokio::test]
    async fn an_evaluation_is_repeated_until_all_answers_are_there_and_nothing_is_asked_twice() {
        let slow = Arc::new(Slow(AtomicUsize::new(0)));
        let authorizer: Arc<dyn Authorizer> = slow.clone();
        let asker = Asker::new(&User::anonymous(), &authorizer);
        let question =
            |resource: &str| Question { resource: resource.into(), verb: "get".into(), ..Question::default() };
        let evaluate = || [asker.authorize(&question("pods")), asker.authorize(&question("secrets"))];
        let answers = asker.with_answers(evaluate).await;
        assert_eq!(answers, [told(true, "because"), told(false, "")]);
        // Each is begun when it is first asked, and once more when it is waited for.
        assert_eq!(slow.0.load(Ordering::Relaxed), 4);
        assert_eq!(evaluate()[0], told(true, "because"));
        assert_eq!(slow.0.load(Ordering::Relaxed), 4);
    }
}
