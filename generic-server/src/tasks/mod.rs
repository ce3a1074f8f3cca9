//! Long-running work beside the requests (post-start hooks, controllers), under one supervisor: each has a name, what it
//! waits for, a ready signal, a cancel token and a restart policy. readyz is derived from the list.

mod supervisor;

pub use supervisor::{Tasks, TasksError};

use std::{future::Future, pin::Pin};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What a task ends with: done, or why not.
pub type TaskResult = Result<(), Box<dyn std::error::Error + Send + Sync>>;

type Run = Box<dyn Fn(TaskContext) -> Pin<Box<dyn Future<Output = TaskResult> + Send>> + Send + Sync>;

/// What happens when a task fails or panics. One that returns `Ok` is done and is not run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// It stays failed; readyz shows it if it never became ready.
    Never,
    /// It is run again after a pause that grows from a second to a minute.
    OnFailure,
}

/// A task to be supervised.
pub struct Task {
    name: String,
    after: Vec<String>,
    restart: Restart,
    run: Run,
}

impl Task {
    /// A task. `run` is called again for a restart. It calls [`TaskContext::ready`] when it does its work (returning `Ok`
    /// counts too) and returns soon after [`TaskContext::cancelled`].
    pub fn new<F, Fut>(name: impl Into<String>, run: F) -> Self
    where
        F: Fn(TaskContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = TaskResult> + Send + 'static,
    {
        Self {
            name: name.into(),
            after: Vec::new(),
            restart: Restart::OnFailure,
            run: Box::new(move |context| Box::pin(run(context))),
        }
    }

    /// Starts only when the task of this name is ready.
    #[must_use]
    pub fn after(mut self, name: impl Into<String>) -> Self {
        self.after.push(name.into());
        self
    }

    /// Another restart policy than `OnFailure`.
    #[must_use]
    pub fn restart(mut self, restart: Restart) -> Self {
        self.restart = restart;
        self
    }
}

/// Where a task stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Not ready yet: it waits for others, or works towards it.
    Starting,
    /// It has become ready (and stays so for readyz, even while it is being restarted).
    Ready,
    /// It failed before it was ready; the text says why.
    Failed(String),
}

/// One line of readyz.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskStatus {
    /// The task's name.
    pub name: String,
    /// Where it stands.
    pub state: State,
}

/// What a running task holds.
#[derive(Clone, Debug)]
pub struct TaskContext {
    state: watch::Sender<State>,
    cancel: CancellationToken,
}

impl TaskContext {
    /// The task does its work from now on.
    pub fn ready(&self) {
        self.state.send_replace(State::Ready);
    }

    /// Returns when the task should end.
    pub async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }

    /// The token itself, for what the task starts.
    pub fn cancel_token(&self) -> &CancellationToken {
        &self.cancel
    }
}
