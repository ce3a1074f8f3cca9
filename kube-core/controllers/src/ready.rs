//! How a controller tells that it does its work.

use generic_server::tasks::TaskContext;

/// Tells readyz.
#[derive(Clone)]
pub(crate) struct Ready(TaskContext);

impl Ready {
    pub(crate) fn new(context: TaskContext) -> Self {
        Ready(context)
    }

    /// It knows all that it looks after.
    pub(crate) fn synced(&self) {
        self.0.ready();
    }
}
