//! All priority levels: what the server's seats are divided among.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{Bounds, Level, LimitResponse, Metrics, SeatDemand, allocate};

/// The name of the one level that nothing limits.
pub const EXEMPT: &str = "exempt";

/// The part of a level's nominal seats that one request takes at most.
const MAX_PART: f64 = 0.15;

/// What is configured of a level.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelConfig {
    /// Its name.
    pub name: String,
    /// What happens to requests that find no seat.
    pub response: LimitResponse,
    /// Its share of the server's seats, compared with those of the others.
    pub shares: u32,
    /// How much of its seats others may use, in percent.
    pub lendable_percent: u32,
    /// How much it may use of others' seats, in percent of its own; `None`: as much as there is.
    pub borrowing_percent: Option<u32>,
}

/// The levels.
pub struct Levels {
    total: u64,
    metrics: Metrics,
    states: Mutex<BTreeMap<String, State>>,
}

struct State {
    level: Arc<Level>,
    config: LevelConfig,
    /// It is no longer configured, and ends when nothing waits or runs on it.
    quiescing: bool,
    nominal: u64,
    min: u64,
    max: u64,
    current: u64,
    demand: SeatDemand,
}

impl Levels {
    /// For a server that runs `total` requests of one seat at once.
    pub fn new(total: u64, metrics: Metrics) -> Self {
        Levels { total, metrics, states: Mutex::default() }
    }

    /// The families of metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// A level, and how many seats one request takes on it at most (0: no limit of its own).
    pub fn get(&self, name: &str) -> Option<(Arc<Level>, u64)> {
        let states = self.lock();
        let state = states.get(name).filter(|state| !state.quiescing)?;
        Some((state.level.clone(), state.max_request()))
    }

    /// Takes over what is configured. Levels that are gone stay until they are idle.
    pub fn configure(&self, configs: impl IntoIterator<Item = LevelConfig>) {
        let mut states = self.lock();
        for state in states.values_mut() {
            state.quiescing = true;
        }
        for config in configs {
            match states.get_mut(&config.name) {
                Some(state) => {
                    state.quiescing = false;
                    state.config = config;
                }
                None => {
                    let level = Level::new(&config.name, config.response, 0, self.metrics.level(&config.name));
                    states.insert(config.name.clone(), State::new(Arc::new(level), config));
                }
            }
        }
        states.retain(|_, state| !state.quiescing || !state.level.is_idle());
        self.divide(&mut states);
        self.borrow(&mut states);
    }

    /// Divides anew by what was wanted since the last time. To be called every [`PERIOD`](Self::PERIOD).
    pub fn rebalance(&self) {
        let mut states = self.lock();
        let before = states.len();
        states.retain(|_, state| !state.quiescing || !state.level.is_idle());
        if states.len() != before {
            self.divide(&mut states);
        }
        self.borrow(&mut states);
    }

    /// How often seats are lent anew.
    pub const PERIOD: std::time::Duration = std::time::Duration::from_secs(10);

    /// Nominal seats by shares, and the bounds of lending and borrowing.
    fn divide(&self, states: &mut BTreeMap<String, State>) {
        let shares: f64 = states.values().map(|state| f64::from(state.config.shares)).sum();
        let (mut places, mut seats) = (0, 0);
        for (name, state) in states.iter_mut() {
            let part = if shares > 0.0 { f64::from(state.config.shares) / shares } else { 0.0 };
            state.nominal = (self.total as f64 * part).ceil() as u64;
            let percent = |percent: u32| (state.nominal as f64 * f64::from(percent) / 100.0).round() as u64;
            let (lendable, borrowed) =
                (percent(state.config.lendable_percent), state.config.borrowing_percent.map(percent));
            state.min = state.nominal - lendable.min(state.nominal);
            state.max = state.nominal + borrowed.unwrap_or(self.total);
            if state.demand == SeatDemand::default() && state.current == 0 {
                state.current = state.nominal - lendable.min(state.nominal) / 2;
            }
            let labels = [name.as_str()];
            self.metrics.nominal.with_label_values(&labels).set(state.nominal as f64);
            self.metrics.lower.with_label_values(&labels).set(state.min as f64);
            self.metrics.upper.with_label_values(&labels).set(state.max as f64);
            state.level.note_limits(state.nominal.max(1), state.config.places());
            places += state.config.places();
            seats += state.nominal;
        }
        self.metrics.set_totals(places.max(1), seats.max(1));
    }

    /// Divides all nominal seats by what levels want, each within its bounds.
    fn borrow(&self, states: &mut BTreeMap<String, State>) {
        let total: u64 = states.values().map(|state| state.nominal).sum();
        let mut rest = i128::from(total);
        for state in states.values_mut() {
            state.demand.update(state.level.demand());
            if state.is_exempt() {
                state.current = state.min.max(state.demand.high_watermark);
                rest -= i128::from(state.current);
            }
        }
        let limited = |states: &BTreeMap<String, State>| -> (i128, i128) {
            let limited = states.values().filter(|state| !state.is_exempt());
            limited.fold((0, 0), |(min, least), s| (min + i128::from(s.min), least + i128::from(s.least())))
        };
        let (min, least) = limited(states);
        let bounds: Vec<Bounds> = states.values().filter(|s| !s.is_exempt()).map(State::bounds).collect();
        let (parts, fraction) = if rest <= min {
            (states.values().filter(|s| !s.is_exempt()).map(|s| s.min as f64).collect(), 0.0)
        } else if rest <= least {
            let part = (rest - min) as f64 / (least - min) as f64;
            let between = |s: &State| s.min as f64 + (s.least() - s.min) as f64 * part;
            (states.values().filter(|s| !s.is_exempt()).map(between).collect(), 0.0)
        } else {
            let current = || states.values().filter(|s| !s.is_exempt()).map(|s| s.current as f64).collect();
            allocate(total as f64, &bounds).unwrap_or_else(|| (current(), 0.0))
        };
        self.metrics.fair_fraction.set(fraction);
        let parts: Vec<f64> = parts;
        let mut parts = parts.into_iter();
        for (name, state) in states.iter_mut() {
            if !state.is_exempt()
                && let Some(part) = parts.next()
            {
                state.current = part.round() as u64;
            }
            self.note(name, state);
            state.level.configure(state.config.response, state.current);
        }
    }

    fn note(&self, name: &str, state: &State) {
        let labels = [name];
        let gauges = [
            (&self.metrics.current, state.current as f64),
            (&self.metrics.demand_high, state.demand.high_watermark as f64),
            (&self.metrics.demand_average, state.demand.average),
            (&self.metrics.demand_deviation, state.demand.deviation),
            (&self.metrics.demand_smoothed, state.demand.smoothed),
            (&self.metrics.target, state.bounds().target),
        ];
        for (gauge, value) in gauges {
            gauge.with_label_values(&labels).set(value);
        }
    }

    /// All levels, and whether each is about to end, by name.
    pub(crate) fn all(&self) -> Vec<(Arc<Level>, bool)> {
        self.lock().values().map(|state| (state.level.clone(), state.quiescing)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LevelConfig {
    /// How many requests can wait.
    fn places(&self) -> u64 {
        match self.response {
            LimitResponse::Queue(queuing) => queuing.queues as u64 * queuing.length_limit as u64,
            LimitResponse::Exempt | LimitResponse::Reject => 0,
        }
    }
}

impl State {
    fn new(level: Arc<Level>, config: LevelConfig) -> Self {
        let demand = SeatDemand::default();
        State { level, config, quiescing: false, nominal: 0, min: 0, max: 0, current: 0, demand }
    }

    fn is_exempt(&self) -> bool {
        self.config.response == LimitResponse::Exempt
    }

    /// What it keeps in any case: as much of its own as it has used.
    fn least(&self) -> u64 {
        self.min.max(self.nominal.min(self.demand.high_watermark))
    }

    fn bounds(&self) -> Bounds {
        let lower = self.least() as f64;
        Bounds { lower, upper: self.max as f64, target: lower.max(self.demand.smoothed) }
    }

    /// Wide requests must leave room for others, and for more than one flow of the same level.
    fn max_request(&self) -> u64 {
        let LimitResponse::Queue(queuing) = self.config.response else { return 0 };
        let part = (self.nominal as f64 * MAX_PART).ceil() as u64;
        part.min(self.nominal / queuing.hand_size.max(1) as u64).max(1)
    }
}
