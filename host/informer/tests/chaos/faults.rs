//! The faults of the server, counted, so that a test can check that each of them happened.

use std::collections::BTreeMap;

/// All faults.
pub(crate) const FAULTS: [&str; 33] = [
    "list: cut",
    "list: 410 of a token",
    "list: 410",
    "list: too large resource version",
    "list: version of a lost history",
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
    "watch: sends nothing",
    "restart: state kept",
    "restart: from a backup",
    "restart: state lost",
    "watch of a lost history: 504",
    "watch of a lost history: event 410",
    "watch of a lost history: sends nothing",
    "watch of a lost history: earlier bookmark",
    "watch of a lost history: earlier event",
];

/// How many times each fault happened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts(BTreeMap<&'static str, u64>);

impl Counts {
    pub(super) fn count(&mut self, fault: &'static str) {
        assert!(FAULTS.contains(&fault), "{fault:?} is missing in FAULTS");
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
