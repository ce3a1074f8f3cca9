//! How a controller runs: as a supervised task, while this server is the one whose controllers work.

use std::sync::Arc;

use generic_server::tasks::{Task, TaskContext};

use crate::{
    leadership::{Leadership, Role},
    names::Name,
    ready::Ready,
    shared::Shared,
};

/// The task of a controller. One that stands down is ready, too.
pub(crate) fn task(controller: &'static Name, shared: Arc<Shared>, leadership: Leadership) -> Task {
    let run = move |context: TaskContext| {
        let (shared, mut leadership) = (shared.clone(), leadership.clone());
        async move {
            loop {
                let role = tokio::select! {
                    role = leadership.decided() => role,
                    () = context.cancelled() => return Ok(()),
                };
                if role == Role::StandsDown {
                    context.ready();
                    tokio::select! {
                        () = leadership.until(Role::Leads) => continue,
                        () = context.cancelled() => return Ok(()),
                    }
                }
                tracing::debug!(controller = controller.name, "a controller takes over");
                tokio::select! {
                    () = (controller.work)(shared.clone(), Ready::new(context.clone())) => {
                        return Err("a watch cache that it follows has stopped".into());
                    }
                    () = leadership.until(Role::StandsDown) => {}
                    () = context.cancelled() => return Ok(()),
                }
                tracing::debug!(controller = controller.name, "a controller stands down");
            }
        }
    };
    Task::new(controller.name, run).after("storage-readiness").after("rbac/bootstrap-roles")
}
