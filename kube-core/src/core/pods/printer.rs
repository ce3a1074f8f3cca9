//! How pods look in a table: what state they are in, in one word.

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
    let restarts = match state.restarted {
        Some(last) if state.restarts != 0 => format!("{} ({} ago)", state.restarts, since(Some(last), now)),
        _ => state.restarts.to_string(),
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
    restarts: i64,
    restarted: Option<&'a str>,
}

impl<'a> State<'a> {
    fn count_restarts(&mut self, container: &'a Value) {
        self.restarts += int(container, &["restartCount"]);
        let last = container.str_at(&["lastState", "terminated", "finishedAt"]);
        if last.and_then(seconds) > self.restarted.and_then(seconds) {
            self.restarted = last;
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
    let mut state = State { reason, ready: 0, total, restarts: 0, restarted: None };
    let initializing = initialize(pod, &mut state);
    if !initializing || holds(pod, "Initialized") {
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
fn initialize<'a>(pod: &'a Value, state: &mut State<'a>) -> bool {
    let specs = items(pod, &["spec", "initContainers"]);
    for (i, container) in items(pod, &["status", "initContainerStatuses"]).iter().enumerate() {
        state.count_restarts(container);
        let end = container.at(&["state", "terminated"]).filter(|t| !t.is_null());
        let waiting = container.str_at(&["state", "waiting", "reason"]).unwrap_or_default();
        match end {
            Some(end) if int(end, &["exitCode"]) == 0 => continue,
            _ if is_started_sidecar(specs, container) => {
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

fn sidecar_of<'a>(specs: &'a [Value], status: &Value) -> Option<&'a Value> {
    specs.iter().find(|spec| spec.get("name") == status.get("name") && is_sidecar(spec))
}

fn is_started_sidecar(specs: &[Value], status: &Value) -> bool {
    sidecar_of(specs, status).is_some() && flag(status, &["started"])
}

/// Looks at the containers proper, last first, so that the first one's reason stands. Of the restarts before, only those
/// of sidecars still count.
fn run<'a>(pod: &'a Value, state: &mut State<'a>) {
    (state.restarts, state.restarted) = (0, None);
    let specs = items(pod, &["spec", "initContainers"]);
    for sidecar in items(pod, &["status", "initContainerStatuses"]).iter().filter(|s| sidecar_of(specs, s).is_some()) {
        state.count_restarts(sidecar);
    }
    let mut is_running = false;
    for container in items(pod, &["status", "containerStatuses"]).iter().rev() {
        state.count_restarts(container);
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
