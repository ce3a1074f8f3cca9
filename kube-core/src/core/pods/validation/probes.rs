//! Probes, and what runs after a container's start and before its end.

use machinery::{Value, meta::names};

use super::scope::Scope;
use crate::validation::{Errors, Field};

/// A container's probes, in upstream's order.
pub(super) fn all(container: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    liveness_or_startup(&container.at("livenessProbe"), scope, errors);
    readiness(&container.at("readinessProbe"), scope, errors);
    liveness_or_startup(&container.at("startupProbe"), scope, errors);
}

fn liveness_or_startup(probe: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    if !probe.is_set() {
        return;
    }
    common(probe, scope, errors);
    let threshold = probe.at("successThreshold");
    if threshold.int_or_zero() != 1 {
        threshold.invalid_as(threshold.int_or_zero(), "must be 1", errors);
    }
}

fn readiness(probe: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    if !probe.is_set() {
        return;
    }
    common(probe, scope, errors);
    let grace = probe.at("terminationGracePeriodSeconds");
    if grace.is_set() {
        grace.invalid("must not be set for readinessProbes", errors);
    }
}

fn common(probe: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    handler(probe, &["exec", "httpGet", "tcpSocket", "grpc"], scope, errors);
    for member in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        probe.at(member).non_negative(errors);
    }
    let grace = probe.at("terminationGracePeriodSeconds");
    if grace.int().is_some_and(|seconds| seconds <= 0) {
        grace.invalid("must be greater than 0", errors);
    }
}

/// What runs beside a container's life.
pub(super) fn lifecycle(lifecycle: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    if !lifecycle.is_set() {
        return;
    }
    for member in ["postStart", "preStop"] {
        let hook = lifecycle.at(member);
        if hook.is_set() {
            handler(&hook, &["exec", "httpGet", "tcpSocket", "sleep"], scope, errors);
        }
    }
    let signal = lifecycle.at("stopSignal");
    if signal.is_set() {
        stop_signal(&signal, scope.os(), errors);
    }
}

fn handler(holder: &Field<'_>, kinds: &[&str], scope: &Scope<'_>, errors: &mut Errors) {
    let mut found = false;
    for kind in kinds {
        let action = holder.at(kind);
        if !action.is_set() {
            continue;
        }
        if found {
            action.forbidden("may not specify more than 1 handler type", errors);
            continue;
        }
        found = true;
        match *kind {
            "exec" => {
                action.at("command").is_given(errors);
            }
            "httpGet" => http_get(&action, errors),
            "tcpSocket" => port(&action.at("port"), errors),
            "grpc" => action.at("port").check_int(names::port_number, errors),
            _ => sleep(&action, scope, errors),
        }
    }
    if !found {
        holder.required("must specify a handler type", errors);
    }
}

fn http_get(action: &Field<'_>, errors: &mut Errors) {
    action.at("path").is_given(errors);
    port(&action.at("port"), errors);
    action.at("scheme").one_of(&["HTTP", "HTTPS"], errors);
    let headers = action.at("httpHeaders");
    headers.each(|header| {
        let name = header.at("name");
        for message in names::http_header_name(name.text()) {
            headers.invalid_as(name.text(), message, errors);
        }
    });
}

/// A port's number or name.
fn port(port: &Field<'_>, errors: &mut Errors) {
    match port.value() {
        Value::String(_) => port.check(names::port_name, errors),
        _ => port.check_int(names::port_number, errors),
    }
}

fn sleep(action: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    let seconds = action.at("seconds").int_or_zero();
    if let Some(grace) = scope.grace_period()
        && (seconds < 0 || seconds > grace)
    {
        let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        action.invalid_as(seconds, detail, errors);
    }
}

/// The signals of Linux, in the order of their names.
const LINUX_SIGNALS: &[&str] = &[
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGRTMAX",
    "SIGRTMAX-1",
    "SIGRTMAX-10",
    "SIGRTMAX-11",
    "SIGRTMAX-12",
    "SIGRTMAX-13",
    "SIGRTMAX-14",
    "SIGRTMAX-2",
    "SIGRTMAX-3",
    "SIGRTMAX-4",
    "SIGRTMAX-5",
    "SIGRTMAX-6",
    "SIGRTMAX-7",
    "SIGRTMAX-8",
    "SIGRTMAX-9",
    "SIGRTMIN",
    "SIGRTMIN+1",
    "SIGRTMIN+10",
    "SIGRTMIN+11",
    "SIGRTMIN+12",
    "SIGRTMIN+13",
    "SIGRTMIN+14",
    "SIGRTMIN+15",
    "SIGRTMIN+2",
    "SIGRTMIN+3",
    "SIGRTMIN+4",
    "SIGRTMIN+5",
    "SIGRTMIN+6",
    "SIGRTMIN+7",
    "SIGRTMIN+8",
    "SIGRTMIN+9",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
];

fn stop_signal(signal: &Field<'_>, os: Option<&str>, errors: &mut Errors) {
    match os {
        None => signal.forbidden("may not be set for containers with empty `spec.os.name`", errors),
        Some("windows") => signal.one_of(&["SIGKILL", "SIGTERM"], errors),
        Some("linux") => signal.one_of(LINUX_SIGNALS, errors),
        Some(_) => {}
    }
}
