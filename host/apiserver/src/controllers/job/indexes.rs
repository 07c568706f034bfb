//! Sets of completion indexes as text, such as `0-3,7`.

use std::collections::BTreeMap;
use std::fmt;

/// A set of indexes: the first index of each interval, and its last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes(BTreeMap<i64, i64>);

impl Indexes {
    /// Parses the text of a status. What is malformed or not in ascending order is ignored.
    pub(super) fn parse(text: &str) -> Self {
        let mut intervals = Self::default();
        for item in text.split(',') {
            let (first, last) = item.split_once('-').unwrap_or((item, item));
            if let (Ok(first), Ok(last)) = (first.parse::<i64>(), last.parse::<i64>())
                && (0..=last).contains(&first)
            {
                let previous = intervals.0.last_entry();
                match previous.as_ref().map(|entry| first.checked_sub(*entry.get())) {
                    Some(Some(1)) => drop(previous.map(|mut entry| entry.insert(last))),
                    Some(Some(..=0) | None) => {}
                    _ => drop(intervals.0.insert(first, last)),
                }
            }
        }
        intervals
    }

    /// Parses text as [`Self::parse`] does, and leaves out the indexes from `end` on.
    pub(super) fn parse_below(text: &str, end: i64) -> Self {
        let Self(mut intervals) = Self::parse(text);
        intervals.retain(|first, last| {
            *last = (*last).min(end.saturating_sub(1));
            *first < end
        });
        Self(intervals)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of indexes.
    pub(super) fn len(&self) -> i64 {
        self.0.iter().map(|(first, last)| (last - first).saturating_add(1)).fold(0, i64::saturating_add)
    }

    pub(super) fn contains(&self, index: i64) -> bool {
        self.0.range(..=index).next_back().is_some_and(|(_, last)| index <= *last)
    }

    /// Returns the number of indexes that both sets have.
    pub(super) fn overlap(&self, other: &Self) -> i64 {
        let (mut own, mut others) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut overlap = 0_i64;
        while let (Some((first, last)), Some((other_first, other_last))) = (own.peek(), others.peek()) {
            let common = (*last.min(other_last) - *first.max(other_first)).saturating_add(1);
            overlap = overlap.saturating_add(common.max(0));
            if last <= other_last {
                own.next();
            } else {
                others.next();
            }
        }
        overlap
    }

    pub(super) fn insert(&mut self, index: i64) {
        if self.contains(index) {
            return;
        }
        let before = self.0.range(..index).next_back().filter(|(_, last)| **last + 1 == index);
        let first = before.map_or(index, |(first, _)| *first);
        let last = self.0.remove(&(index + 1)).unwrap_or(index);
        self.0.insert(first, last);
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (first, last)) in self.0.iter().enumerate() {
            let separator = if position == 0 { "" } else { "," };
            match last - first {
                0 => write!(f, "{separator}{first}")?,
                1 => write!(f, "{separator}{first},{last}")?,
                _ => write!(f, "{separator}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_indexes_form_intervals() {
        let mut indexes = Indexes::default();
        for index in [7, 0, 2, 1, 3, 7, 6] {
            indexes.insert(index);
        }
        assert_eq!((indexes.to_string().as_str(), indexes.len()), ("0-3,6,7", 6));
        assert_eq!(Indexes::parse("0-3,6-7"), indexes);
        assert!(indexes.contains(2) && !indexes.contains(5) && !indexes.contains(8));
        assert_eq!(Indexes::parse("0,1,2,3-3,6,7,7,1-9"), indexes);
        assert_eq!(Indexes::parse("x,3-1,-2"), Indexes::default());
    }

    #[test]
    fn indexes_from_an_end_on_are_left_out() {
        assert_eq!(Indexes::parse_below("0-3,6-9,12", 8), Indexes::parse("0-3,6-7"));
        assert_eq!(Indexes::parse_below("3-5", 3), Indexes::default());
    }

    #[test]
    fn overlap_counts_common_indexes() {
        let overlap = |one: &str, other: &str| {
            let (one, other) = (Indexes::parse(one), Indexes::parse(other));
            assert_eq!(one.overlap(&other), other.overlap(&one));
            one.overlap(&other)
        };
        assert_eq!(overlap("0-9", "2,4-5,8-12"), 5);
        assert_eq!(overlap("0-1,3,5-7", "1-6"), 4);
        assert_eq!(overlap("0-3", "4-7"), 0);
        assert_eq!(overlap("0-3", ""), 0);
    }
}
