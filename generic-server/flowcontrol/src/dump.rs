//! What operators see of levels, queues and requests: tables of text, as upstream prints them.

use std::{fmt::Write as _, time::SystemTime};

use crate::{
    Levels, Work,
    level::{Arriving, Level},
    queue::SeatNanos,
};

impl Levels {
    /// A line a level.
    pub fn dump_levels(&self) -> String {
        let mut table = Table::new(&[
            "PriorityLevelName",
            "ActiveQueues",
            "IsIdle",
            "IsQuiescing",
            "WaitingRequests",
            "ExecutingRequests",
            "DispatchedRequests",
            "RejectedRequests",
            "TimedoutRequests",
            "CancelledRequests",
        ]);
        for (level, quiescing) in self.all() {
            let inner = level.lock();
            let set = &inner.set;
            let counts = set.counts;
            table.row([
                level.name().to_owned(),
                set.queues().iter().filter(|queue| queue.len() > 0).count().to_string(),
                (set.waiting() == 0 && set.executing() == 0).to_string(),
                quiescing.to_string(),
                set.waiting().to_string(),
                set.executing().to_string(),
                counts.dispatched.to_string(),
                counts.rejected.to_string(),
                counts.timed_out.to_string(),
                counts.cancelled.to_string(),
            ]);
        }
        table.text()
    }

    /// A line a queue.
    pub fn dump_queues(&self) -> String {
        let mut table = Table::new(&[
            "PriorityLevelName",
            "Index",
            "PendingRequests",
            "ExecutingRequests",
            "SeatsInUse",
            "NextDispatchR",
            "InitialSeatsSum",
            "MaxSeatsSum",
            "TotalWorkSum",
        ]);
        for (level, _) in self.all() {
            let inner = level.lock();
            for (index, queue) in inner.set.queues().iter().enumerate() {
                let initial: u64 = queue.requests().map(|request| request.work.initial_seats).sum();
                table.row([
                    level.name().to_owned(),
                    index.to_string(),
                    queue.len().to_string(),
                    queue.executing.to_string(),
                    queue.seats_in_use.to_string(),
                    seat_seconds(queue.next_dispatch),
                    initial.to_string(),
                    queue.seats_waiting.to_string(),
                    seat_seconds(queue.work),
                ]);
            }
        }
        table.text()
    }

    /// A line a request; `details`: with its user and what it asks.
    pub fn dump_requests(&self, details: bool, time: impl Fn(Option<SystemTime>) -> String) -> String {
        let mut columns = vec![
            "PriorityLevelName",
            "FlowSchemaName",
            "QueueIndex",
            "RequestIndexInQueue",
            "FlowDistingsher", // so spelled by upstream
            "ArriveTime",
            "InitialSeats",
            "FinalSeats",
            "AdditionalLatency",
            "StartTime",
        ];
        if details {
            columns.extend([
                "UserName",
                "Verb",
                "APIPath",
                "Namespace",
                "Name",
                "APIVersion",
                "Resource",
                "SubResource",
            ]);
        }
        let mut table = Table::new(&columns);
        for (level, _) in self.all() {
            for line in requests(&level) {
                let Line { request, queue, place, arrived, started } = line;
                let Work { initial_seats, final_seats, additional_latency } = request.work;
                let mut row = vec![
                    level.name().to_owned(),
                    request.metrics.schema().to_owned(),
                    queue.map_or_else(|| "-1".to_owned(), |queue| queue.to_string()),
                    place.map_or_else(|| "-1".to_owned(), |place| place.to_string()),
                    request.description.distinguisher().to_owned(),
                    time(Some(arrived)),
                    initial_seats.to_string(),
                    final_seats.to_string(),
                    format!("{additional_latency:?}").replace("0ns", "0s"),
                    time(started),
                ];
                if details {
                    row.extend(request.description.details());
                }
                table.row(row);
            }
        }
        table.text()
    }
}

struct Line {
    request: Arriving,
    queue: Option<usize>,
    place: Option<usize>,
    arrived: SystemTime,
    started: Option<SystemTime>,
}

/// The requests of a level, queue by queue: those that wait, in order, then those that run.
fn requests(level: &Level) -> Vec<Line> {
    let inner = level.lock();
    let mut lines = Vec::new();
    for (index, queue) in inner.set.queues().iter().enumerate() {
        for (place, waiting) in queue.requests().enumerate() {
            if let Some(waiter) = inner.waiting.get(&waiting.ticket) {
                let (request, arrived) = (waiter.request.clone(), waiter.arrived);
                lines.push(Line { request, queue: Some(index), place: Some(place), arrived, started: None });
            }
        }
    }
    for running in inner.running.values() {
        let (request, queue, arrived) = (running.request.clone(), running.queue, running.arrived);
        lines.push(Line { request, queue, place: None, arrived, started: Some(running.started) });
    }
    lines.sort_by_key(|line| (line.queue.map_or(usize::MAX, |q| q), line.place.unwrap_or(usize::MAX)));
    lines
}

fn seat_seconds(work: SeatNanos) -> String {
    format!("{:.8}ss", work as f64 / 1e9)
}

/// Columns of text, as wide as their widest cell (Go's tabwriter with cells of 8 or more, padded by one space).
struct Table(Vec<Vec<String>>);

const NARROWEST: usize = 8;

impl Table {
    fn new(columns: &[&str]) -> Self {
        let mut table = Table(Vec::new());
        table.row(columns.iter().map(|column| (*column).to_owned()));
        table
    }

    fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.0.push(cells.into_iter().collect());
    }

    fn text(self) -> String {
        let columns = self.0.first().map_or(0, Vec::len);
        // Of every cell but the last a comma is part; one space follows.
        let width = |column: usize| self.0.iter().map(|row| row[column].chars().count() + 2).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(|column| width(column).max(NARROWEST)).collect();
        let mut text = String::new();
        for row in &self.0 {
            for (column, cell) in row.iter().enumerate() {
                if column + 1 == row.len() {
                    text.push_str(cell);
                } else {
                    let cell = format!("{cell},");
                    let _ = write!(text, "{cell:0$}", widths[column]);
                }
            }
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other() {
        let mut table = Table::new(&["Name", "IsIdle", "Waiting"]);
        table.row(["catch-all".to_owned(), "true".to_owned(), "0".to_owned()]);
        table.row(["x".to_owned(), "false".to_owned(), "12".to_owned()]);
        let want = "Name,      IsIdle, Waiting\ncatch-all, true,   0\nx,         false,  12\n";
        assert_eq!(table.text(), want);
    }
}
