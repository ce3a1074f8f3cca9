//! Metrics of who asks, under upstream's names.

use std::time::Duration;

use auth::User;
use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry};

/// How a request was authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// Somebody is known, or may be anonymous.
    Success,
    /// Nobody is known.
    Failure,
    /// Credentials were objected to.
    Error,
}

/// The kinds of users that are told apart: names do not go into metrics.
const USERS: [&str; 7] =
    ["admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default", "email_id", "other"];

/// The metrics. Their members are looked up once.
pub struct AuthenticationMetrics {
    attempts: [(IntCounter, Histogram); 3],
    users: [IntCounter; USERS.len()],
}

impl AuthenticationMetrics {
    /// Metrics that count nothing yet.
    pub fn new(registry: &Registry) -> Self {
        let counter = |name: &str, help: &str, label: &str| {
            let counter = IntCounterVec::new(Opts::new(name, help), &[label]).expect("valid names");
            registry.register(Box::new(counter.clone())).expect("there is one authentication");
            counter
        };
        let attempts = counter("authentication_attempts", "Requests by how their authentication ended.", "result");
        let users = counter("authenticated_user_requests", "Authenticated requests by kind of user.", "username");
        let durations = HistogramOpts::new("authentication_duration_seconds", "Time that authentication took.")
            .buckets(prometheus::exponential_buckets(0.001, 2.0, 15).expect("constant arguments"));
        let durations = HistogramVec::new(durations, &["result"]).expect("valid names");
        registry.register(Box::new(durations.clone())).expect("there is one authentication");
        let of = |result| (attempts.with_label_values(&[result]), durations.with_label_values(&[result]));
        AuthenticationMetrics {
            attempts: ["success", "failure", "error"].map(of),
            users: USERS.map(|user| users.with_label_values(&[user])),
        }
    }

    /// Counts one request.
    pub(super) fn count(&self, attempt: Attempt, user: &User, took: Duration) {
        let (attempts, durations) = &self.attempts[attempt as usize];
        attempts.inc();
        durations.observe(took.as_secs_f64());
        if attempt == Attempt::Success {
            self.users[kind_of(&user.name)].inc();
        }
    }
}

/// The place of a user's kind.
fn kind_of(name: &str) -> usize {
    let known = USERS[..5].iter().position(|known| *known == name);
    known.unwrap_or(if name.contains('@') { 5 } else { 6 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_how_they_ended_and_users_by_their_kind() {
        let registry = Registry::new();
        let metrics = AuthenticationMetrics::new(&registry);
        let user = |name: &'static str| User { name: name.into(), ..User::default() };
        for (attempt, name) in [
            (Attempt::Success, "admin"),
            (Attempt::Success, "ann@example.com"),
            (Attempt::Success, "bob"),
            (Attempt::Failure, "admin"),
            (Attempt::Error, "admin"),
        ] {
            metrics.count(attempt, &user(name), Duration::from_millis(1));
        }
        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).expect("text");
        for line in [
            "authentication_attempts{result=\"success\"} 3",
            "authentication_attempts{result=\"failure\"} 1",
            "authentication_duration_seconds_count{result=\"error\"} 1",
            "authenticated_user_requests{username=\"admin\"} 1",
            "authenticated_user_requests{username=\"email_id\"} 1",
            "authenticated_user_requests{username=\"other\"} 1",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
