//! The last changes of a plugin's state. Bounded in number and size.

use std::collections::VecDeque;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::status::PluginState;
use crate::timestamp::rfc_3339;

/// The number of changes that are kept.
const MAX_CHANGES: usize = 32;
/// The maximum size of a reason in bytes.
const MAX_REASON_SIZE: usize = 512;

/// A change of a plugin's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StateChange {
    /// When the plugin entered the state, in RFC 3339.
    pub time: String,
    /// The state.
    pub state: PluginState,
    /// Why, of which at most 512 bytes are kept; "" if the state says it all.
    pub reason: String,
}

/// The last changes of a plugin's state.
#[derive(Debug, Default)]
pub(super) struct StateHistory(VecDeque<StateChange>);

impl StateHistory {
    pub(super) fn push(&mut self, time: Timestamp, state: PluginState, reason: &str) {
        if self.0.len() == MAX_CHANGES {
            self.0.pop_front();
        }
        let reason = reason[..reason.floor_char_boundary(MAX_REASON_SIZE)].to_owned();
        self.0.push_back(StateChange { time: rfc_3339(time), state, reason });
    }

    /// Returns the changes, the oldest first.
    pub(super) fn changes(&self) -> Vec<StateChange> {
        self.0.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_changes_are_kept_with_bounded_reasons() {
        let mut history = StateHistory::default();
        let at =
            |second: usize| Timestamp::from_second(i64::try_from(second).expect("small")).expect("a time");
        for second in 0..MAX_CHANGES + 3 {
            history.push(at(second), PluginState::Waiting, &"ä".repeat(MAX_REASON_SIZE));
        }
        let changes = history.changes();
        assert_eq!((changes.len(), changes[0].time.as_str()), (MAX_CHANGES, "1970-01-01T00:00:03Z"));
        assert!(changes.iter().all(|change| change.reason.len() <= MAX_REASON_SIZE));
    }
}
