//! Whose controllers work: those of a kube-controller-manager that holds its lease, else those of one server.

mod lease;

use std::{sync::Arc, time::Duration};

use generic_server::{
    registry::Lister,
    tasks::{Task, TaskContext, TaskResult},
};
use machinery::{Str, meta::Timestamp};
use storage::cache::{Everything, Scope};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::client::{Client, Door};
use lease::{Lease, Seen};

const NAMESPACE: &str = "kube-system";
const MANAGER: &str = "kube-controller-manager";
/// Several servers on one store take turns by this lease.
const OWN: &str = "kube-apiserver-controllers";
/// kube-controller-manager's times: a lease is good for so long,
const DURATION: Duration = Duration::from_secs(15);
/// who cannot renew it for so long gives up,
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// and it is renewed so often.
const RENEW_EVERY: Duration = Duration::from_secs(5);
const RETRY_EVERY: Duration = Duration::from_secs(2);

/// What this server's controllers are to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It is not known yet.
    Undecided,
    /// They work.
    Leads,
    /// Others' work.
    StandsDown,
}

/// The decision, as it is now.
#[derive(Clone)]
pub(crate) struct Leadership(watch::Receiver<Role>);

impl Leadership {
    /// The role once it is known.
    pub(crate) async fn decided(&mut self) -> Role {
        self.0.wait_for(|role| *role != Role::Undecided).await.map_or(Role::Undecided, |role| *role)
    }

    /// Returns when the role is this one.
    pub(crate) async fn until(&mut self, wanted: Role) {
        if self.0.wait_for(|role| *role == wanted).await.is_err() {
            std::future::pending::<()>().await; // nobody decides any more: the server ends
        }
    }
}

/// Who decides.
pub(crate) struct Election {
    pub(crate) leases: Arc<Lister>,
    pub(crate) door: Door,
    /// Whether there is no other server on this store, so that none needs a lease.
    pub(crate) single: bool,
    /// Who this server is.
    pub(crate) identity: Str,
}

/// The task that decides.
pub(crate) fn task(election: Election) -> (Task, Leadership) {
    let (role, leadership) = watch::channel(Role::Undecided);
    let election = Arc::new(election);
    let run = move |context: TaskContext| {
        let (election, role) = (election.clone(), role.clone());
        async move { election.run(&context, &role).await }
    };
    let task = Task::new("controllers-leader-election", run);
    (task.after("start-system-namespaces-controller").after("storage-readiness"), Leadership(leadership))
}

/// What is known of the leases.
#[derive(Default)]
struct View {
    manager: Seen,
    own: Seen,
    /// When this server renewed its lease last, if it holds it.
    renewed: Option<Instant>,
}

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Wait for a change of a lease, or for this time.
    Wait(Role, Option<Instant>),
    /// Take the lease, or renew it.
    Acquire,
}

impl View {
    fn next(&self, now: Instant, single: bool, identity: &str) -> Step {
        if let Some(until) = self.manager.held_until().filter(|until| *until > now) {
            return Step::Wait(Role::StandsDown, Some(until));
        }
        if single {
            return Step::Wait(Role::Leads, None);
        }
        let foreign = self.own.holder() != identity;
        if let Some(until) = self.own.held_until().filter(|until| foreign && *until > now) {
            return Step::Wait(Role::StandsDown, Some(until));
        }
        match self.renewed.filter(|_| !foreign) {
            Some(renewed) if now < renewed + RENEW_EVERY => Step::Wait(Role::Leads, Some(renewed + RENEW_EVERY)),
            _ => Step::Acquire,
        }
    }
}

impl Election {
    async fn run(&self, context: &TaskContext, role: &watch::Sender<Role>) -> TaskResult {
        let scope = Scope::Namespace(Str::new_static(NAMESPACE));
        let mut follower = self.leases.cache().follow(scope, Arc::new(Everything));
        self.leases.cache().ready().await?;
        let client = Client::of_server(self.door.clone());
        let mut view = View::default();
        loop {
            self.look(&mut view);
            let until = match view.next(Instant::now(), self.single, &self.identity) {
                Step::Wait(next, until) => {
                    set(role, next);
                    context.ready();
                    until
                }
                Step::Acquire => {
                    let own = self.read(OWN);
                    match lease::acquire(&client, own.as_ref().map(|lease| &lease.value), &self.identity).await {
                        Ok(()) => {
                            view.renewed = Some(Instant::now());
                            set(role, Role::Leads);
                            context.ready();
                            Some(Instant::now() + RENEW_EVERY)
                        }
                        Err(status) => {
                            tracing::debug!(error = status.message, "cannot get the lease of the controllers");
                            if view.renewed.is_none_or(|renewed| renewed.elapsed() >= RENEW_DEADLINE) {
                                view.renewed = None;
                                set(role, Role::StandsDown);
                            }
                            Some(Instant::now() + RETRY_EVERY)
                        }
                    }
                }
            };
            let due = async {
                match until {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                next = follower.next() => if next.is_none() { return Err("the cache of leases has stopped".into()) },
                () = due => {}
                () = context.cancelled() => return Ok(()),
            }
        }
    }

    fn look(&self, view: &mut View) {
        let (now, clock) = (Instant::now(), Timestamp::now());
        view.manager.look(self.read(MANAGER).as_ref(), now, clock);
        view.own.look(self.read(OWN).as_ref(), now, clock);
    }

    fn read(&self, name: &str) -> Option<Lease> {
        let snapshot = self.leases.cache().latest();
        let object = snapshot.get(&self.leases.key(NAMESPACE, name))?.object()?;
        Lease::read(object)
    }
}

fn set(role: &watch::Sender<Role>, next: Role) {
    role.send_if_modified(|role| {
        let changes = *role != next;
        if changes {
            match next {
                Role::Leads => tracing::info!("the controllers of this server work"),
                Role::StandsDown => tracing::info!("the controllers of this server stand down: others' hold the lease"),
                Role::Undecided => {}
            }
            *role = next;
        }
        changes
    });
}

#[cfg(test)]
mod tests {
    use machinery::object;

    use super::*;

    const CLOCK: i64 = 1_000;

    fn lease(holder: &str, revision: u64) -> Lease {
        let renewed = Timestamp::new(CLOCK, 0).text(machinery::meta::TimeForm::Micros);
        let value = object! {
            "spec" => object! { "holderIdentity" => holder, "leaseDurationSeconds" => 15, "renewTime" => renewed },
        };
        Lease { value, revision }
    }

    fn look(seen: &mut Seen, lease: Option<Lease>, now: Instant) {
        seen.look(lease.as_ref(), now, Timestamp::new(CLOCK, 0));
    }

    #[test]
    fn they_stand_down_while_the_manager_renews_its_lease() {
        let (mut view, now) = (View::default(), Instant::now());
        let at = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(view.next(now, true, "me"), Step::Wait(Role::Leads, None));
        look(&mut view.manager, Some(lease("kcm", 1)), now);
        assert_eq!(view.next(at(1), true, "me"), Step::Wait(Role::StandsDown, Some(at(15))));
        look(&mut view.manager, Some(lease("kcm", 2)), at(10));
        assert_eq!(view.next(at(20), true, "me"), Step::Wait(Role::StandsDown, Some(at(25))));
        assert_eq!(view.next(at(25), true, "me"), Step::Wait(Role::Leads, None), "it is gone");
        look(&mut view.manager, Some(lease("", 3)), at(26));
        assert_eq!(view.next(at(26), true, "me"), Step::Wait(Role::Leads, None), "it has given the lease back");
    }

    #[test]
    fn several_servers_take_turns() {
        let (mut view, now) = (View::default(), Instant::now());
        let at = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(view.next(now, false, "me"), Step::Acquire);
        look(&mut view.own, Some(lease("other", 1)), now);
        assert_eq!(view.next(at(3), false, "me"), Step::Wait(Role::StandsDown, Some(at(15))));
        assert_eq!(view.next(at(15), false, "me"), Step::Acquire);
        look(&mut view.own, Some(lease("me", 2)), at(16));
        assert_eq!(view.next(at(16), false, "me"), Step::Acquire, "one of an earlier life is renewed first");
        view.renewed = Some(at(16));
        assert_eq!(view.next(at(17), false, "me"), Step::Wait(Role::Leads, Some(at(21))));
        assert_eq!(view.next(at(21), false, "me"), Step::Acquire);
        look(&mut view.own, Some(lease("other", 3)), at(22));
        assert_eq!(view.next(at(22), false, "me"), Step::Wait(Role::StandsDown, Some(at(37))));
        look(&mut view.manager, Some(lease("kcm", 4)), at(23));
        assert_eq!(view.next(at(23), false, "me"), Step::Wait(Role::StandsDown, Some(at(38))));
    }
}
