//! Table columns of pods: what state they are in, in one word.

use std::collections::HashSet;

use machinery::{Value, array, object};

use generic_server::printer::{
    AGE, Doc, Heading, NAME, NONE, Table, age, condition, flag, holds, int, is_deleting, items, name,
};
use generic_server::printer::{seconds, since, text, text_or};

const HEADINGS: &[Heading] = &[
    NAME,
    text("Ready", Doc::Text("The aggregate readiness state of this pod for accepting traffic.")),
    text("Status", Doc::Text("The aggregate status of the containers in this pod.")),
    text(
        "Restarts",
        Doc::Text(
            "The number of times the containers in this pod have been restarted and when the last container in this pod has \
             restarted.",
        ),
    ),
    AGE,
    text("IP", Doc::Of("core.v1.PodStatus", "podIP")).wide(),
    text("Node", Doc::Of("core.v1.PodSpec", "nodeName")).wide(),
    text("Nominated Node", Doc::Of("core.v1.PodStatus", "nominatedNodeName")).wide(),
    text("Readiness Gates", Doc::Of("core.v1.PodSpec", "readinessGates")).wide(),
];

/// The pods' table.
pub(crate) const fn table() -> Table {
    Table::new(HEADINGS, cells).conditions(conditions)
}

fn conditions(pod: &Value) -> Option<Value> {
    let (reason, message) = match pod.str_at(&["status", "phase"])? {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(array![object! { "type" => "Completed", "status" => "True", "reason" => reason, "message" => message }])
}

fn cells(pod: &Value, now: i64) -> Vec<Value> {
    let state = state(pod);
    let restarts = match state.restarts {
        Restarts { count, last: Some(last) } if count != 0 => format!("{count} ({} ago)", since(Some(last), now)),
        Restarts { count, .. } => count.to_string(),
    };
    let gates = items(pod, &["spec", "readinessGates"]);
    let gates = if gates.is_empty() {
        NONE.to_owned()
    } else {
        let open = gates.iter().filter_map(|gate| gate.str_at(&["conditionType"])).filter(|kind| holds(pod, kind));
        format!("{}/{}", open.count(), gates.len())
    };
    let ips = items(pod, &["status", "podIPs"]);
    let ip = ips.first().map_or_else(|| NONE.into(), |ip| text_or(ip, &["ip"], NONE));
    vec![
        name(pod),
        format!("{}/{}", state.ready, state.total).into(),
        state.reason.into(),
        restarts.into(),
        age(pod, now),
        ip,
        text_or(pod, &["spec", "nodeName"], NONE),
        text_or(pod, &["status", "nominatedNodeName"], NONE),
        gates.into(),
    ]
}

/// What the statuses of a pod's containers come to.
struct State<'a> {
    reason: String,
    ready: usize,
    total: usize,
    restarts: Restarts<'a>,
}

/// How often containers were restarted, and when the last of them ended.
#[derive(Clone, Copy, Default)]
struct Restarts<'a> {
    count: i64,
    last: Option<&'a str>,
}

impl<'a> Restarts<'a> {
    fn add(&mut self, container: &'a Value) {
        self.count += int(container, &["restartCount"]);
        let last = container.str_at(&["lastState", "terminated", "finishedAt"]);
        if last.and_then(seconds) > self.last.and_then(seconds) {
            self.last = last;
        }
    }
}

fn state(pod: &Value) -> State<'_> {
    let status = |name: &str| pod.str_at(&["status", name]).unwrap_or_default();
    let phase = status("phase");
    let mut reason = if status("reason").is_empty() { phase } else { status("reason") }.to_owned();
    if condition(pod, "PodScheduled").and_then(|c| c.str_at(&["reason"])) == Some("SchedulingGated") {
        reason = "SchedulingGated".to_owned();
    }
    let sidecars = items(pod, &["spec", "initContainers"]).iter().filter(|c| is_sidecar(c)).count();
    let total = items(pod, &["spec", "containers"]).len() + sidecars;
    let mut state = State { reason, ready: 0, total, restarts: Restarts::default() };
    let mut of_sidecars = Restarts::default();
    let initializing = initialize(pod, &mut state, &mut of_sidecars);
    if !initializing || holds(pod, "Initialized") {
        state.restarts = of_sidecars; // of the restarts before, only those of sidecars still count
        run(pod, &mut state);
    }
    if is_deleting(pod) {
        if status("reason") == "NodeLost" {
            state.reason = "Unknown".to_owned();
        } else if !matches!(phase, "Failed" | "Succeeded") {
            state.reason = "Terminating".to_owned();
        }
    }
    state
}

fn is_sidecar(container: &Value) -> bool {
    container.str_at(&["restartPolicy"]) == Some("Always")
}

/// Looks at the init containers up to the one that is not done; says whether there is one.
fn initialize<'a>(pod: &'a Value, state: &mut State<'a>, of_sidecars: &mut Restarts<'a>) -> bool {
    let specs = items(pod, &["spec", "initContainers"]);
    let sidecars: HashSet<Option<&str>> =
        specs.iter().filter(|spec| is_sidecar(spec)).map(|spec| spec.str_at(&["name"])).collect();
    for (i, container) in items(pod, &["status", "initContainerStatuses"]).iter().enumerate() {
        state.restarts.add(container);
        let is_sidecar = sidecars.contains(&container.str_at(&["name"]));
        if is_sidecar {
            of_sidecars.add(container);
        }
        let end = container.at(&["state", "terminated"]).filter(|t| !t.is_null());
        let waiting = container.str_at(&["state", "waiting", "reason"]).unwrap_or_default();
        match end {
            Some(end) if int(end, &["exitCode"]) == 0 => continue,
            _ if is_sidecar && flag(container, &["started"]) => {
                state.ready += usize::from(flag(container, &["ready"]));
                continue;
            }
            Some(end) => state.reason = format!("Init:{}", ended(end)),
            None if !waiting.is_empty() && waiting != "PodInitializing" => state.reason = format!("Init:{waiting}"),
            None => state.reason = format!("Init:{i}/{}", specs.len()),
        }
        return true;
    }
    false
}

/// Looks at the containers proper, last first, so that the first one's reason stands.
fn run<'a>(pod: &'a Value, state: &mut State<'a>) {
    let mut is_running = false;
    for container in items(pod, &["status", "containerStatuses"]).iter().rev() {
        state.restarts.add(container);
        let end = container.at(&["state", "terminated"]).filter(|t| !t.is_null());
        let waiting = container.str_at(&["state", "waiting", "reason"]).unwrap_or_default();
        if !waiting.is_empty() {
            state.reason = waiting.to_owned();
        } else if let Some(end) = end {
            state.reason = ended(end);
        } else if flag(container, &["ready"]) && container.at(&["state", "running"]).is_some_and(|r| !r.is_null()) {
            is_running = true;
            state.ready += 1;
        }
    }
    if state.reason == "Completed" && is_running {
        state.reason = if holds(pod, "Ready") { "Running" } else { "NotReady" }.to_owned();
    }
}

/// Why a container ended.
fn ended(end: &Value) -> String {
    match end.str_at(&["reason"]).filter(|r| !r.is_empty()) {
        Some(reason) => reason.to_owned(),
        None if int(end, &["signal"]) != 0 => format!("Signal:{}", int(end, &["signal"])),
        None => format!("ExitCode:{}", int(end, &["exitCode"])),
    }
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    /// Ready, Status and Restarts of a pod, a thousand seconds after the epoch.
    fn check(pod: &str, ready: &str, status: &str, restarts: &str) {
        let pod = json::decode(pod.as_bytes()).expect(pod);
        let cells = cells(&pod, 1000);
        let shown = [1, 2, 3].map(|i| cells[i].as_str().unwrap_or_default());
        assert_eq!(shown, [ready, status, restarts], "{}", String::from_utf8_lossy(&json::encode(&pod)));
    }

    /// A pod of two containers.
    fn pod(rest: &str) -> String {
        format!(
            r#"{{"metadata":{{"name":"p"}},"spec":{{"containers":[{{"name":"a"}},{{"name":"b"}}]}},"status":{{{rest}}}}}"#
        )
    }

    const RUNS: &str = r#"{"name":"a","ready":true,"restartCount":0,"state":{"running":{}}}"#;
    const COMPLETED: &str =
        r#"{"name":"b","restartCount":0,"state":{"terminated":{"exitCode":0,"reason":"Completed"}}}"#;

    #[test]
    fn a_pods_status_is_its_phase_its_reason_or_that_of_its_containers() {
        check(&pod(r#""phase":"Pending""#), "0/2", "Pending", "0");
        check(&pod(r#""phase":"Failed","reason":"Evicted""#), "0/2", "Evicted", "0");
        let gated =
            r#""phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"SchedulingGated"}]"#;
        check(&pod(gated), "0/2", "SchedulingGated", "0");
        let statuses = |phase: &str, list: &[&str], conditions: &str| {
            pod(&format!(r#""phase":"{phase}","containerStatuses":[{}],"conditions":[{conditions}]"#, list.join(",")))
        };
        check(&statuses("Running", &[RUNS, RUNS], ""), "2/2", "Running", "0");
        check(&statuses("Running", &[RUNS, COMPLETED], r#"{"type":"Ready","status":"True"}"#), "1/2", "Running", "0");
        check(&statuses("Running", &[RUNS, COMPLETED], ""), "1/2", "NotReady", "0");
        check(&statuses("Succeeded", &[COMPLETED, COMPLETED], ""), "0/2", "Completed", "0");
        for (state, status) in [
            (r#""waiting":{"reason":"ContainerCreating"}"#, "ContainerCreating"),
            (r#""waiting":{"reason":"CrashLoopBackOff"}"#, "CrashLoopBackOff"),
            (r#""waiting":{}"#, "Running"),
            (r#""terminated":{"exitCode":1,"reason":"Error"}"#, "Error"),
            (r#""terminated":{"exitCode":137,"signal":9}"#, "Signal:9"),
            (r#""terminated":{"exitCode":3}"#, "ExitCode:3"),
        ] {
            let container = format!(r#"{{"name":"a","restartCount":0,"state":{{{state}}}}}"#);
            check(&statuses("Running", &[&container], ""), "0/2", status, "0");
            // The first container's reason stands.
            let other = r#"{"name":"b","restartCount":0,"state":{"waiting":{"reason":"ErrImagePull"}}}"#;
            let expect = if status == "Running" { "ErrImagePull" } else { status };
            check(&statuses("Running", &[&container, other], ""), "0/2", expect, "0");
        }
    }

    #[test]
    fn restarts_say_when_the_last_one_was() {
        let container = |count: i64, ended: &str| {
            format!(
                r#"{{"name":"a","restartCount":{count},"state":{{"running":{{}}}},"lastState":{{"terminated":{{"finishedAt":{ended}}}}}}}"#
            )
        };
        let statuses = |list: &[String]| pod(&format!(r#""phase":"Running","containerStatuses":[{}]"#, list.join(",")));
        check(&statuses(&[container(2, r#""1970-01-01T00:11:40Z""#)]), "0/2", "Running", "2 (5m ago)");
        check(&statuses(&[container(2, "null")]), "0/2", "Running", "2");
        check(&statuses(&[container(0, r#""1970-01-01T00:11:40Z""#)]), "0/2", "Running", "0");
        let two = [container(1, r#""1970-01-01T00:15:00Z""#), container(3, r#""1970-01-01T00:11:40Z""#)];
        check(&statuses(&two), "0/2", "Running", "4 (100s ago)");
    }

    #[test]
    fn a_pod_that_is_deleted_terminates_unless_it_has_ended_or_its_node_is_lost() {
        for (rest, status) in [
            (r#""phase":"Running""#, "Terminating"),
            (r#""phase":"Succeeded""#, "Succeeded"),
            (r#""phase":"Failed""#, "Failed"),
            (r#""phase":"Running","reason":"NodeLost""#, "Unknown"),
            (r#""phase":"Failed","reason":"NodeLost""#, "Unknown"),
        ] {
            let deleted =
                pod(rest).replace(r#""name":"p""#, r#""name":"p","deletionTimestamp":"1970-01-01T00:00:00Z""#);
            check(&deleted, "0/2", status, "0");
        }
        check(&pod(r#""phase":"Running","reason":"NodeLost""#), "0/2", "NodeLost", "0");
    }

    /// A pod of one container, an init container and a sidecar, with their statuses.
    fn with_init(statuses: &str, rest: &str) -> String {
        format!(
            r#"{{"spec":{{"containers":[{{"name":"a"}}],"initContainers":[{{"name":"i"}},{{"name":"s","restartPolicy":"Always"}}]}},
            "status":{{"phase":"Pending","initContainerStatuses":[{statuses}]{rest}}}}}"#
        )
    }

    #[test]
    fn init_containers_come_first() {
        let done = r#"{"name":"i","restartCount":2,"state":{"terminated":{"exitCode":0}}}"#;
        for (state, status) in [
            (r#""running":{}"#, "Init:0/2"),
            (r#""waiting":{"reason":"PodInitializing"}"#, "Init:0/2"),
            (r#""waiting":{"reason":"CrashLoopBackOff"}"#, "Init:CrashLoopBackOff"),
            (r#""terminated":{"exitCode":1,"reason":"Error"}"#, "Init:Error"),
            (r#""terminated":{"exitCode":1}"#, "Init:ExitCode:1"),
            (r#""terminated":{"exitCode":1,"signal":15}"#, "Init:Signal:15"),
        ] {
            let first = format!(r#"{{"name":"i","restartCount":1,"state":{{{state}}}}}"#);
            check(&with_init(&first, ""), "0/2", status, "1");
        }
        let starting = r#"{"name":"s","restartCount":1,"started":false,"state":{"running":{}}}"#;
        check(&with_init(&format!("{done},{starting}"), ""), "0/2", "Init:1/2", "3");
        // Once all are done or started, only the sidecars' restarts count.
        let started = r#"{"name":"s","restartCount":1,"started":true,"ready":true,"state":{"running":{}}}"#;
        let waiting =
            r#","containerStatuses":[{"name":"a","restartCount":4,"state":{"waiting":{"reason":"PodInitializing"}}}]"#;
        check(&with_init(&format!("{done},{started}"), waiting), "1/2", "PodInitializing", "5");
        // A sidecar that starts again does not hide a pod that was initialized.
        let initialized = format!(r#"{waiting},"conditions":[{{"type":"Initialized","status":"True"}}]"#);
        check(&with_init(&format!("{done},{starting}"), &initialized), "0/2", "PodInitializing", "5");
    }
}
