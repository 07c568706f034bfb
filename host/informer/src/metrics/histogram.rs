//! A histogram of atomics: an observation increments one bucket and adds to the sum.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds for the durations of lists and watches in seconds, from a fast list to a watch of ten minutes.
const DURATIONS: &[f64] = &[0.005, 0.025, 0.1, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0, 600.0];
/// Upper bounds for numbers of objects and events.
const ITEMS: &[f64] = &[0.0, 1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0];

/// A histogram at one point in time.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct HistogramSnapshot {
    /// The sum of all observations.
    pub sum: f64,
    /// The number of observations.
    pub count: u64,
    /// The inclusive upper bound of each bucket and the number of observations in it, not cumulated. The last bound is infinite.
    pub buckets: Vec<(f64, u64)>,
}

#[derive(Debug)]
pub(crate) struct Histogram {
    bounds: &'static [f64],
    /// One bucket for each bound, and one for observations above all bounds.
    counts: Box<[AtomicU64]>,
    /// The sum in `unit`s, because atomics hold no fractions.
    sum: AtomicU64,
    unit: f64,
}

impl Histogram {
    /// Creates a histogram of durations in seconds, which are summed in microseconds.
    pub(super) fn of_durations() -> Self {
        Self::new(DURATIONS, 1e-6)
    }

    /// Creates a histogram of numbers of items.
    pub(super) fn of_items() -> Self {
        Self::new(ITEMS, 1.0)
    }

    fn new(bounds: &'static [f64], unit: f64) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum: AtomicU64::new(0), unit }
    }

    pub(crate) fn observe_duration(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.observe(duration.as_secs_f64(), micros);
    }

    pub(crate) fn observe_items(&self, items: u64) {
        #[expect(clippy::cast_precision_loss, reason = "nobody has 2^53 objects")]
        self.observe(items as f64, items);
    }

    fn observe(&self, value: f64, units: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(units, Ordering::Relaxed);
    }

    pub(super) fn snapshot(&self) -> HistogramSnapshot {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<_> =
            bounds.zip(&self.counts).map(|(bound, count)| (bound, count.load(Ordering::Relaxed))).collect();
        #[expect(clippy::cast_precision_loss, reason = "a sum is for rates and means")]
        let sum = self.sum.load(Ordering::Relaxed) as f64 * self.unit;
        HistogramSnapshot { sum, count: buckets.iter().map(|(_, count)| count).sum(), buckets }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_observation_is_in_the_bucket_whose_bound_it_does_not_exceed() {
        let histogram = Histogram::of_items();
        for items in [0, 1, 2, 10, 11, 1_000_000] {
            histogram.observe_items(items);
        }
        let snapshot = histogram.snapshot();
        let counts: Vec<_> = snapshot.buckets.iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [1, 1, 2, 1, 0, 0, 0, 1]);
        assert_eq!(snapshot.buckets.last().map(|(bound, _)| *bound), Some(f64::INFINITY));
        assert!(snapshot.count == 6 && (snapshot.sum - 1_000_024.0).abs() < 1e-9, "{snapshot:?}");
    }

    #[test]
    fn durations_are_summed_in_seconds() {
        let histogram = Histogram::of_durations();
        histogram.observe_duration(Duration::from_millis(1500));
        histogram.observe_duration(Duration::from_secs(2));
        let snapshot = histogram.snapshot();
        assert!(snapshot.count == 2 && (snapshot.sum - 3.5).abs() < 1e-9, "{snapshot:?}");
        assert!(snapshot.buckets.contains(&(5.0, 2)), "{snapshot:?}");
    }
}
