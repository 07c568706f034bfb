//! What the server does to its client, counted, so that a test can tell that it happened.

use std::collections::BTreeMap;

/// Everything that it does.
pub(crate) const FAULTS: [&str; 33] = [
    "list: cut",
    "list: 410 of a token",
    "list: 410",
    "list: too large resource version",
    "list: version of a time that was lost",
    "list: slow body",
    "streaming list: not supported",
    "streaming list: cut half way",
    "request: 429",
    "request: 500",
    "request: 503",
    "request: connection refused",
    "request: connection reset",
    "watch: body in pieces",
    "watch: slow body",
    "watch: ends",
    "watch: cut within a line",
    "watch: connection fails",
    "watch: event twice",
    "watch: event 410",
    "watch: event 429",
    "watch: event 500",
    "watch: malformed line",
    "watch: version compacted",
    "watch: never says anything",
    "restart: state kept",
    "restart: from a backup",
    "restart: state lost",
    "watch of a lost time: 504",
    "watch of a lost time: event 410",
    "watch of a lost time: never says anything",
    "watch of a lost time: earlier bookmark",
    "watch of a lost time: earlier event",
];

/// How often each happened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts(BTreeMap<&'static str, u64>);

impl Counts {
    pub(super) fn note(&mut self, fault: &'static str) {
        assert!(FAULTS.contains(&fault), "{fault:?} is missing in the list");
        *self.0.entry(fault).or_default() += 1;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (fault, count) in &other.0 {
            *self.0.entry(fault).or_default() += count;
        }
    }

    pub(crate) fn of(&self, fault: &str) -> u64 {
        self.0.get(fault).copied().unwrap_or_default()
    }
}
