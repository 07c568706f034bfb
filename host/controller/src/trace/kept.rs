//! Short numbers of exported traces, for the journal, whose records have no room for an identifier. Pure.

use std::collections::VecDeque;

use super::ids::TraceId;

/// The number of traces that are remembered.
const MAX_KEPT: usize = 4096;
/// The number of different numbers. A number is reused long after its trace was forgotten.
const NUMBERS: u64 = 1 << 20;

/// The latest exported traces of all plugins.
#[derive(Default)]
pub(super) struct KeptTraces {
    ids: VecDeque<TraceId>,
    /// How many traces were forgotten.
    forgotten: u64,
}

impl KeptTraces {
    /// Remembers a trace. Returns its number, from 1 to 2²⁰.
    pub(super) fn add(&mut self, trace: TraceId) -> u32 {
        let position = self.forgotten + self.ids.len() as u64;
        self.ids.push_back(trace);
        if self.ids.len() > MAX_KEPT {
            self.ids.pop_front();
            self.forgotten += 1;
        }
        u32::try_from(position % NUMBERS).unwrap_or_default() + 1
    }

    /// Returns the trace with this number; `None` if it was forgotten, and for 0.
    pub(super) fn find(&self, number: u32) -> Option<TraceId> {
        let number = u64::from(number.checked_sub(1)?);
        let offset = (number + NUMBERS - self.forgotten % NUMBERS) % NUMBERS;
        self.ids.get(usize::try_from(offset).ok()?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_traces_are_found_by_their_numbers() {
        let mut kept = KeptTraces::default();
        let id = |number: u64| TraceId((u128::from(number) + 1).to_be_bytes());
        assert_eq!((kept.find(0), kept.find(1)), (None, None));
        let total = NUMBERS + 10;
        let numbers: Vec<u32> = (0..total).map(|number| kept.add(id(number))).collect();
        assert_eq!((numbers[0], numbers[9], numbers[1 << 20]), (1, 10, 1));
        assert!(numbers.iter().all(|number| (1..=1 << 20).contains(number)));
        assert_eq!(kept.find(1), Some(id(NUMBERS)), "the number is used for the second time");
        let oldest = numbers.len() - MAX_KEPT;
        assert_eq!(kept.find(numbers[oldest]), Some(id(oldest as u64)));
        assert_eq!(kept.find(numbers[oldest - 1]), None);
        assert_eq!(kept.find(11), None, "not used again yet");
    }
}
