//! Runs the tasks: in order of what they wait for, each in its own tokio task so that a panic stays inside.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Restart, State, Task, TaskContext, TaskResult, TaskStatus};

/// How long a task may take to end after it was cancelled.
const END_WITHIN: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A task that ran for so long before it failed is treated as if it failed for the first time.
const LONG_RUN: Duration = Duration::from_secs(300);

/// A list of tasks that cannot be run.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TasksError {
    /// Two tasks of one name.
    #[error("two tasks are named {0:?}")]
    Twice(String),
    /// A task waits for one that does not exist.
    #[error("task {task:?} waits for {missing:?}, which does not exist")]
    Missing {
        /// The task.
        task: String,
        /// What it waits for.
        missing: String,
    },
    /// Tasks that wait for each other.
    #[error("these tasks wait for each other: {0:?}")]
    Cycle(Vec<String>),
}

/// The running tasks. Clones are handles to the same list.
#[derive(Clone, Debug)]
pub struct Tasks(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    states: Vec<(String, watch::Receiver<State>)>,
    cancel: CancellationToken,
    running: TaskTracker,
}

impl Tasks {
    /// Starts all of them; must be called inside the runtime.
    ///
    /// # Errors
    /// When names repeat, are missing, or wait in a circle; then nothing was started.
    pub fn start(tasks: Vec<Task>) -> Result<Self, TasksError> {
        check(&tasks)?;
        let cancel = CancellationToken::new();
        let running = TaskTracker::new();
        let mut states = BTreeMap::new();
        let mut senders = Vec::new();
        for task in &tasks {
            let (sender, receiver) = watch::channel(State::Starting);
            states.insert(task.name.clone(), receiver);
            senders.push(sender);
        }
        // The order in which they were declared is the order that readyz shows.
        let shown = tasks.iter().map(|task| (task.name.clone(), states[&task.name].clone())).collect();
        for (task, state) in tasks.into_iter().zip(senders) {
            let after = task.after.iter().map(|name| states[name].clone()).collect();
            let context = TaskContext { state, cancel: cancel.clone() };
            running.spawn(supervise(task, after, context));
        }
        running.close();
        Ok(Self(Arc::new(Inner { states: shown, cancel, running })))
    }

    /// Where every task stands, in the order of declaration.
    pub fn status(&self) -> Vec<TaskStatus> {
        let line = |(name, state): &(String, watch::Receiver<State>)| TaskStatus {
            name: name.clone(),
            state: state.borrow().clone(),
        };
        self.0.states.iter().map(line).collect()
    }

    /// Where one task stands; `None` when there is no such task.
    pub fn state(&self, name: &str) -> Option<State> {
        self.0.states.iter().find(|(known, _)| known == name).map(|(_, state)| state.borrow().clone())
    }

    /// Whether all are ready.
    pub fn all_ready(&self) -> bool {
        self.0.states.iter().all(|(_, state)| *state.borrow() == State::Ready)
    }

    /// Returns when all are ready.
    pub async fn wait_ready(&self) {
        for (_, state) in &self.0.states {
            wait_ready(state.clone()).await;
        }
    }

    /// Cancels all and waits for them; those that do not end within five seconds are named in the log and left.
    pub async fn stop(&self) {
        self.0.cancel.cancel();
        if tokio::time::timeout(END_WITHIN, self.0.running.wait()).await.is_err() {
            tracing::warn!(tasks = self.0.running.len(), "tasks did not end in time");
        }
    }
}

async fn wait_ready(mut state: watch::Receiver<State>) {
    if state.wait_for(|state| *state == State::Ready).await.is_err() {
        // Its supervisor is gone without having made it ready (cancelled): nobody may go on because of it.
        std::future::pending::<()>().await;
    }
}

fn check(tasks: &[Task]) -> Result<(), TasksError> {
    let mut names = BTreeSet::new();
    for task in tasks {
        if !names.insert(task.name.as_str()) {
            return Err(TasksError::Twice(task.name.clone()));
        }
    }
    for task in tasks {
        if let Some(missing) = task.after.iter().find(|name| !names.contains(name.as_str())) {
            return Err(TasksError::Missing { task: task.name.clone(), missing: missing.clone() });
        }
    }
    // Takes away what waits for nothing that is left, until nothing is left or nothing can be taken.
    let mut left: Vec<&Task> = tasks.iter().collect();
    loop {
        let waiting: BTreeSet<&str> = left.iter().map(|task| task.name.as_str()).collect();
        let before = left.len();
        left.retain(|task| task.after.iter().any(|name| waiting.contains(name.as_str())));
        if left.is_empty() {
            return Ok(());
        }
        if left.len() == before {
            return Err(TasksError::Cycle(left.iter().map(|task| task.name.clone()).collect()));
        }
    }
}

async fn supervise(task: Task, after: Vec<watch::Receiver<State>>, context: TaskContext) {
    let cancel = context.cancel.clone();
    let prerequisites = async {
        for state in after {
            wait_ready(state).await;
        }
    };
    if cancel.run_until_cancelled(prerequisites).await.is_none() {
        return;
    }
    let mut pause = FIRST_PAUSE;
    loop {
        let started = tokio::time::Instant::now();
        let Err(reason) = run_once(&task, &context).await else {
            context.ready();
            return;
        };
        if cancel.is_cancelled() {
            return;
        }
        context.state.send_if_modified(|state| {
            let is_ready = *state == State::Ready;
            if !is_ready {
                *state = State::Failed(reason.clone());
            }
            !is_ready
        });
        if task.restart == Restart::Never {
            tracing::error!(task = task.name, reason, "task failed");
            return;
        }
        if started.elapsed() >= LONG_RUN {
            pause = FIRST_PAUSE;
        }
        tracing::warn!(task = task.name, reason, again_in = ?pause, "task failed");
        if cancel.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return;
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Returns when all are cancelled while this one has not begun its work: what it waits for (a store that does not answer) may
/// never come, and there is nothing that it would have to bring to an end.
async fn given_up(context: &TaskContext) {
    context.cancel.cancelled().await;
    if *context.state.borrow() == State::Ready {
        std::future::pending::<()>().await;
    }
}

async fn run_once(task: &Task, context: &TaskContext) -> Result<(), String> {
    let mut run: tokio::task::JoinHandle<TaskResult> = tokio::spawn((task.run)(context.clone()));
    let ended = tokio::select! {
        ended = &mut run => ended,
        () = given_up(context) => {
            run.abort();
            run.await
        }
    };
    match ended {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(error) if error.is_panic() => {
            let panic = error.into_panic();
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Err(format!("panic: {text}"))
        }
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    async fn until_cancelled(context: TaskContext) -> TaskResult {
        context.ready();
        context.cancelled().await;
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_starts_when_those_it_waits_for_are_ready() {
        let (go, wait) = watch::channel(false);
        let first = Task::new("first", move |context| {
            let mut wait = wait.clone();
            async move {
                wait.wait_for(|go| *go).await?;
                until_cancelled(context).await
            }
        });
        let tasks = Tasks::start(vec![Task::new("second", until_cancelled).after("first"), first]).expect("starts");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(tasks.state("second"), Some(State::Starting));
        assert!(!tasks.all_ready());
        go.send_replace(true);
        tasks.wait_ready().await;
        assert!(tasks.all_ready());
        let names: Vec<_> = tasks.status().into_iter().map(|status| status.name).collect();
        assert_eq!(names, ["second", "first"]);
        tasks.stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_is_run_again_and_harms_no_other() {
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let shaky = Task::new("shaky", move |context| {
            let run = counted.fetch_add(1, Ordering::SeqCst);
            async move {
                assert!(run >= 2, "run {run}");
                until_cancelled(context).await
            }
        });
        let tasks = Tasks::start(vec![shaky, Task::new("steady", until_cancelled)]).expect("starts");
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(tasks.state("shaky"), Some(State::Failed("panic: run 0".to_owned())));
        assert_eq!(tasks.state("steady"), Some(State::Ready));
        tasks.wait_ready().await;
        assert_eq!(runs.load(Ordering::SeqCst), 3);
        tasks.stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_is_done_is_ready_and_one_that_must_not_restart_stays_failed() {
        let hook = Task::new("hook", |_| async { Ok(()) });
        let broken = Task::new("broken", |_| async { Err("no luck".into()) }).restart(Restart::Never);
        let tasks = Tasks::start(vec![hook, broken]).expect("starts");
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(tasks.state("hook"), Some(State::Ready));
        assert_eq!(tasks.state("broken"), Some(State::Failed("no luck".to_owned())));
        assert_eq!(tasks.state("nosuch"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_does_not_wait_for_a_task_that_has_not_begun_its_work() {
        let stuck = Task::new("stuck", |_| std::future::pending::<TaskResult>());
        let (ended, end) = watch::channel(false);
        let tidy = Task::new("tidy", move |context| {
            let ended = ended.clone();
            async move {
                until_cancelled(context).await?;
                tokio::time::sleep(Duration::from_secs(1)).await;
                ended.send_replace(true);
                Ok(())
            }
        });
        let tasks = Tasks::start(vec![stuck, tidy]).expect("starts");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let asked = tokio::time::Instant::now();
        tasks.stop().await;
        assert!(*end.borrow(), "who works has the time to end its work");
        assert_eq!(asked.elapsed(), Duration::from_secs(1), "on a clock that stands still meanwhile");
    }

    #[test]
    fn a_list_that_cannot_run_is_refused() {
        let check = |list: &[(&str, &[&str])], expect: TasksError| {
            let task = |(name, after): &(&str, &[&str])| {
                after.iter().fold(Task::new(*name, until_cancelled), |task, name| task.after(*name))
            };
            assert_eq!(Tasks::start(list.iter().map(task).collect()).expect_err("is refused"), expect);
        };
        check(&[("a", &[]), ("a", &[])], TasksError::Twice("a".into()));
        check(&[("a", &["b"])], TasksError::Missing { task: "a".into(), missing: "b".into() });
        check(
            &[("a", &["b"]), ("b", &["c"]), ("c", &["a"]), ("d", &[])],
            TasksError::Cycle(vec!["a".into(), "b".into(), "c".into()]),
        );
    }
}
