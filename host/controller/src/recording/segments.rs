//! Decides which file of a plugin's recording a reconcile is written to, and which files are deleted. Does no I/O.

use std::collections::VecDeque;

/// The maximum size of a file, in bytes. A single reconcile may exceed it.
const MAX_SEGMENT_BYTES: u64 = 16 << 20;
/// The size of a plugin's recording from which on old files are deleted, in bytes.
const MAX_TOTAL_BYTES: u64 = 128 << 20;
/// A recording of N reconciles consists of files with at most a fourth of N.
const SEGMENTS: u64 = 4;

/// A file of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Its number, which is in its name.
    pub(super) number: u64,
    /// The number of its reconciles.
    pub(super) reconciles: u64,
    /// Its size.
    pub(super) bytes: u64,
}

/// The files of one plugin's recording, the oldest first.
#[derive(Debug)]
pub(super) struct Ring {
    segments: VecDeque<Segment>,
    /// How many reconciles are kept.
    last: u64,
}

/// Where a reconcile is written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Placement {
    /// The number of the file.
    pub(super) segment: u64,
    /// Whether the file is new, so that it needs a head.
    pub(super) is_new: bool,
    /// Files to delete.
    pub(super) expired: Vec<u64>,
}

impl Ring {
    /// Creates a ring of at least `last` reconciles from the files that exist already, in any order.
    pub(super) fn new(last: u64, mut existing: Vec<Segment>) -> Self {
        existing.sort_unstable_by_key(|segment| segment.number);
        Self { segments: existing.into(), last: last.max(1) }
    }

    /// Places a reconcile of this many bytes. `continues` says whether the newest file may be continued: it is of this run of the host and of
    /// the same version. A new file begins with a head of `head` bytes.
    pub(super) fn place(&mut self, bytes: u64, head: u64, continues: bool) -> Placement {
        let is_full = |segment: &Segment| {
            segment.reconciles >= self.last.div_ceil(SEGMENTS)
                || segment.bytes.saturating_add(bytes) > MAX_SEGMENT_BYTES
        };
        let newest = self.segments.back().copied();
        let is_new = !continues || newest.as_ref().is_none_or(is_full);
        if is_new {
            let number = newest.map_or(1, |segment| segment.number + 1);
            self.segments.push_back(Segment { number, reconciles: 0, bytes: head });
        }
        let mut number = 1;
        if let Some(newest) = self.segments.back_mut() {
            newest.reconciles += 1;
            newest.bytes += bytes;
            number = newest.number;
        }
        Placement { segment: number, is_new, expired: self.expire() }
    }

    /// Removes the oldest files that are not needed.
    fn expire(&mut self) -> Vec<u64> {
        let (mut reconciles, mut bytes) = self
            .segments
            .iter()
            .fold((0, 0), |(reconciles, bytes), one| (reconciles + one.reconciles, bytes + one.bytes));
        let mut expired = Vec::new();
        while self.segments.len() > 1 {
            let oldest = self.segments[0];
            if reconciles - oldest.reconciles < self.last && bytes <= MAX_TOTAL_BYTES {
                break;
            }
            reconciles -= oldest.reconciles;
            bytes -= oldest.bytes;
            expired.push(oldest.number);
            self.segments.pop_front();
        }
        expired
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn placed(segment: u64, is_new: bool, expired: &[u64]) -> Placement {
        Placement { segment, is_new, expired: expired.to_vec() }
    }

    #[test]
    fn a_file_is_continued_until_it_is_full() {
        let mut ring = Ring::new(8, Vec::new());
        let placements: Vec<_> = (0..5).map(|_| ring.place(10, 1, true)).collect();
        let expected = [
            placed(1, true, &[]),
            placed(1, false, &[]),
            placed(2, true, &[]),
            placed(2, false, &[]),
            placed(3, true, &[]),
        ];
        assert_eq!(placements, expected);
    }

    #[test]
    fn a_new_version_begins_a_new_file() {
        let mut ring = Ring::new(100, Vec::new());
        assert_eq!(ring.place(10, 1, true), placed(1, true, &[]));
        assert_eq!(ring.place(10, 1, false), placed(2, true, &[]));
        assert_eq!(ring.place(10, 1, true), placed(2, false, &[]));
    }

    #[test]
    fn files_of_an_earlier_run_count_and_are_not_continued() {
        let existing = vec![
            Segment { number: 7, reconciles: 2, bytes: 20 },
            Segment { number: 5, reconciles: 3, bytes: 30 },
        ];
        let mut ring = Ring::new(3, existing);
        assert_eq!(ring.place(10, 1, false), placed(8, true, &[5]));
    }

    #[test]
    fn a_large_recording_loses_its_oldest_files() {
        let mut ring = Ring::new(1_000_000, Vec::new());
        let large = MAX_SEGMENT_BYTES;
        let expired: Vec<u64> = (0..10).flat_map(|_| ring.place(large, 1, true).expired).collect();
        // Ten files with their heads are more than eight times the size of one.
        assert_eq!(expired, [1, 2, 3]);
    }

    proptest! {
        #[test]
        fn the_last_reconciles_are_kept_and_not_many_more(last in 1u64..50, count in 1u64..300) {
            let mut ring = Ring::new(last, Vec::new());
            let mut kept = std::collections::BTreeMap::new();
            for _ in 0..count {
                let placement = ring.place(10, 1, true);
                *kept.entry(placement.segment).or_insert(0) += 1;
                for number in placement.expired {
                    prop_assert!(kept.remove(&number).is_some());
                }
            }
            let kept: u64 = kept.values().sum();
            prop_assert!(kept >= last.min(count));
            prop_assert!(kept <= last + last.div_ceil(SEGMENTS));
        }
    }
}
