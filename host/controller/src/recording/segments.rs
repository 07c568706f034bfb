//! Decides which file of a plugin's recording a reconcile is written to, and which files are deleted after that. Does no I/O.

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
    /// The number of the next file. A number is used once, also if its file cannot be written.
    next: u64,
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
}

impl Ring {
    /// Creates a ring of at least `last` reconciles from the files that exist already, in any order.
    pub(super) fn new(last: u64, mut existing: Vec<Segment>) -> Self {
        existing.sort_unstable_by_key(|segment| segment.number);
        let next = existing.last().map_or(1, |newest| newest.number.saturating_add(1));
        Self { segments: existing.into(), next, last: last.max(1) }
    }

    /// Places a reconcile of this many bytes. `current` is the file of this run of the host and of the same version, if there is one; it is
    /// continued unless it is full or deleted. A new file begins with a head of `head` bytes.
    pub(super) fn place(&mut self, bytes: u64, head: u64, current: Option<u64>) -> Placement {
        let capacity = self.last.div_ceil(SEGMENTS);
        let continued = self.segments.iter_mut().find(|segment| {
            Some(segment.number) == current
                && segment.reconciles < capacity
                && segment.bytes.saturating_add(bytes) <= MAX_SEGMENT_BYTES
        });
        if let Some(segment) = continued {
            segment.reconciles += 1;
            segment.bytes += bytes;
            let segment = segment.number;
            return Placement { segment, is_new: false };
        }
        let number = self.next;
        self.next = number.saturating_add(1);
        self.segments.push_back(Segment { number, reconciles: 1, bytes: head.saturating_add(bytes) });
        Placement { segment: number, is_new: true }
    }

    /// Takes back a new file that cannot be written, so that no older file is deleted in its favour.
    pub(super) fn forget(&mut self, number: u64) {
        self.segments.retain(|segment| segment.number != number);
    }

    /// Takes the oldest files out that are not needed, up to the one that was written to. The caller deletes them.
    pub(super) fn expire(&mut self, written: u64) -> Vec<Segment> {
        let (mut reconciles, mut bytes) = self
            .segments
            .iter()
            .fold((0, 0), |(reconciles, bytes), one| (reconciles + one.reconciles, bytes + one.bytes));
        let mut expired = Vec::new();
        while self.segments.len() > 1 {
            let oldest = self.segments[0];
            let is_needed = reconciles - oldest.reconciles < self.last && bytes <= MAX_TOTAL_BYTES;
            if is_needed || oldest.number == written {
                break;
            }
            reconciles -= oldest.reconciles;
            bytes -= oldest.bytes;
            expired.push(oldest);
            self.segments.pop_front();
        }
        expired
    }

    /// Takes back expired files that cannot be deleted, in their order, so that they expire again.
    pub(super) fn put_back(&mut self, expired: Vec<Segment>) {
        expired.into_iter().rev().for_each(|segment| self.segments.push_front(segment));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Where a reconcile was written, and which files were deleted then.
    #[derive(Debug, PartialEq)]
    struct Placed {
        segment: u64,
        is_new: bool,
        expired: Vec<u64>,
    }

    fn placed(segment: u64, is_new: bool, expired: &[u64]) -> Placed {
        Placed { segment, is_new, expired: expired.to_vec() }
    }

    fn place(ring: &mut Ring, bytes: u64, current: Option<u64>) -> Placed {
        let Placement { segment, is_new } = ring.place(bytes, 1, current);
        Placed { segment, is_new, expired: numbers_of(&ring.expire(segment)) }
    }

    fn numbers_of(segments: &[Segment]) -> Vec<u64> {
        segments.iter().map(|segment| segment.number).collect()
    }

    /// Places reconciles of one version, which continues its own file.
    struct Version {
        current: Option<u64>,
        bytes: u64,
    }

    impl Version {
        fn new() -> Self {
            Self { current: None, bytes: 10 }
        }

        fn place(&mut self, ring: &mut Ring) -> Placed {
            let placement = place(ring, self.bytes, self.current);
            self.current = Some(placement.segment);
            placement
        }
    }

    #[test]
    fn a_file_is_continued_until_it_is_full() {
        let (mut ring, mut version) = (Ring::new(8, Vec::new()), Version::new());
        let placements: Vec<_> = (0..5).map(|_| version.place(&mut ring)).collect();
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
    fn each_version_has_a_file_of_its_own() {
        let mut ring = Ring::new(100, Vec::new());
        let (mut stable, mut canary) = (Version::new(), Version::new());
        assert_eq!(stable.place(&mut ring), placed(1, true, &[]));
        assert_eq!(canary.place(&mut ring), placed(2, true, &[]));
        assert_eq!(stable.place(&mut ring), placed(1, false, &[]));
        assert_eq!(canary.place(&mut ring), placed(2, false, &[]));
    }

    #[test]
    fn files_of_an_earlier_run_count_and_are_not_continued() {
        let existing = vec![
            Segment { number: 7, reconciles: 2, bytes: 20 },
            Segment { number: 5, reconciles: 3, bytes: 30 },
        ];
        let mut ring = Ring::new(3, existing);
        assert_eq!(place(&mut ring, 10, None), placed(8, true, &[5]));
    }

    #[test]
    fn files_that_cannot_be_written_replace_no_others() {
        let existing = vec![Segment { number: 1, reconciles: 4, bytes: 40 }];
        let mut ring = Ring::new(4, existing);
        for number in 2..20 {
            assert_eq!(ring.place(10, 1, None), Placement { segment: number, is_new: true });
            ring.forget(number);
        }
        let mut version = Version::new();
        let expired: Vec<u64> = (0..4).flat_map(|_| version.place(&mut ring).expired).collect();
        assert_eq!((version.current, expired), (Some(23), vec![1]));
        // A file of someone else with the largest number.
        let existing = vec![Segment { number: u64::MAX, reconciles: 1, bytes: 1 }];
        assert_eq!(Ring::new(4, existing).place(10, 1, None).segment, u64::MAX);
    }

    #[test]
    fn a_file_that_cannot_be_deleted_expires_again_and_keeps_no_other() {
        let existing: Vec<_> = (1..=4).map(|number| Segment { number, reconciles: 1, bytes: 10 }).collect();
        let mut ring = Ring::new(1, existing);
        let Placement { segment, .. } = ring.place(10, 1, None);
        let mut expired = ring.expire(segment);
        assert_eq!(numbers_of(&expired), [1, 2, 3, 4]);
        expired.truncate(2);
        ring.put_back(expired);
        assert_eq!(place(&mut ring, 10, None), placed(6, true, &[1, 2, 5]));
    }

    #[test]
    fn a_deleted_file_is_not_continued() {
        let mut ring = Ring::new(1, Vec::new());
        let (mut stable, mut canary) = (Version::new(), Version::new());
        assert_eq!(stable.place(&mut ring), placed(1, true, &[]));
        assert_eq!(canary.place(&mut ring), placed(2, true, &[1]));
        assert_eq!(stable.place(&mut ring), placed(3, true, &[2]));
    }

    #[test]
    fn the_file_that_is_written_to_is_not_deleted() {
        let mut ring = Ring::new(8, Vec::new());
        let (mut stable, mut canary) = (Version::new(), Version::new());
        assert_eq!(stable.place(&mut ring), placed(1, true, &[]));
        for _ in 0..7 {
            canary.place(&mut ring);
        }
        assert_eq!(stable.place(&mut ring), placed(1, false, &[]));
        assert_eq!(canary.place(&mut ring), placed(5, false, &[1]));
    }

    #[test]
    fn a_large_recording_loses_its_oldest_files() {
        let mut ring = Ring::new(1_000_000, Vec::new());
        let mut version = Version { current: None, bytes: MAX_SEGMENT_BYTES };
        let expired: Vec<u64> = (0..10).flat_map(|_| version.place(&mut ring).expired).collect();
        // Ten files with their heads are more than eight times the size of one.
        assert_eq!(expired, [1, 2, 3]);
    }

    proptest! {
        #[test]
        fn the_last_reconciles_are_kept_and_not_many_more(last in 1u64..50, count in 1u64..300) {
            let (mut ring, mut version) = (Ring::new(last, Vec::new()), Version::new());
            let mut kept = std::collections::BTreeMap::new();
            for _ in 0..count {
                let placement = version.place(&mut ring);
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
