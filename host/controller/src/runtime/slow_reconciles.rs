//! The keys whose reconciles took longest.
//!
//! Every reconcile is compared with one number without a lock. Only a reconcile that is slow enough for the list takes its lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::queue::ReconcileKey;
use crate::timestamp::rfc_3339;

/// The number of keys that are kept.
const MAX_KEYS: usize = 8;
/// A reconcile that takes no longer is not slow, in microseconds.
const FAST: u64 = 100_000;

/// A key whose reconcile took long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SlowReconcile {
    /// The target watch.
    pub watch: String,
    /// `namespace/name`, or `name` for a cluster-scoped object.
    pub key: String,
    /// The time of the key's slowest reconcile, in milliseconds.
    pub milliseconds: u64,
    /// When that reconcile ended, in RFC 3339.
    pub time: String,
}

/// The slowest reconciles of one plugin since the host started, at most one for each key. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct SlowReconciles(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// A reconcile that takes no more microseconds is not added; 0 until the list is full.
    threshold: AtomicU64,
    /// The slowest first.
    slowest: Mutex<Vec<Entry>>,
}

struct Entry {
    item: ReconcileKey,
    microseconds: u64,
    time: Timestamp,
}

impl SlowReconciles {
    /// Records a reconcile. Reads the clock only for a slow one.
    pub(crate) fn record(&self, item: &ReconcileKey, time: Duration, now: impl FnOnce() -> Timestamp) {
        let microseconds = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        if microseconds <= FAST.max(self.0.threshold.load(Ordering::Relaxed)) {
            return;
        }
        let mut slowest = self.0.slowest.lock();
        let known = slowest.iter().position(|entry| entry.item == *item);
        if known.is_some_and(|position| slowest[position].microseconds >= microseconds) {
            return;
        }
        if let Some(position) = known {
            slowest.remove(position);
        }
        let position = slowest.partition_point(|entry| entry.microseconds >= microseconds);
        slowest.insert(position, Entry { item: item.clone(), microseconds, time: now() });
        slowest.truncate(MAX_KEYS);
        if let (MAX_KEYS, Some(last)) = (slowest.len(), slowest.last()) {
            self.0.threshold.store(last.microseconds, Ordering::Relaxed);
        }
    }

    /// Returns the slowest reconciles, the slowest first.
    pub(crate) fn list(&self) -> Vec<SlowReconcile> {
        let public = |entry: &Entry| SlowReconcile {
            watch: entry.item.watch.to_string(),
            key: entry.item.key.to_string(),
            milliseconds: entry.microseconds / 1000,
            time: rfc_3339(entry.time),
        };
        self.0.slowest.lock().iter().map(public).collect()
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_model::ObjectKey;

    use super::*;

    fn record(slow: &SlowReconciles, name: &str, milliseconds: u64) {
        let item = ReconcileKey { watch: "foos".into(), key: ObjectKey::new("shop", name) };
        slow.record(&item, Duration::from_millis(milliseconds), || Timestamp::UNIX_EPOCH);
    }

    fn keys(slow: &SlowReconciles) -> Vec<(String, u64)> {
        slow.list().into_iter().map(|slow| (slow.key, slow.milliseconds)).collect()
    }

    #[test]
    fn a_fast_reconcile_reads_no_clock_and_is_not_kept() {
        let slow = SlowReconciles::default();
        let item = ReconcileKey { watch: "foos".into(), key: ObjectKey::new("shop", "a") };
        slow.record(&item, Duration::from_micros(FAST), || panic!("the clock was read"));
        assert_eq!(slow.list(), []);
    }

    #[test]
    fn a_key_is_kept_once_with_its_slowest_reconcile() {
        let slow = SlowReconciles::default();
        for (name, milliseconds) in [("a", 200), ("b", 300), ("a", 500), ("a", 400)] {
            record(&slow, name, milliseconds);
        }
        assert_eq!(keys(&slow), [("shop/a".to_owned(), 500), ("shop/b".to_owned(), 300)]);
        assert_eq!(slow.list()[0].time, "1970-01-01T00:00:00Z");
    }

    #[test]
    fn only_the_slowest_keys_are_kept() {
        let slow = SlowReconciles::default();
        for number in 0..100 {
            record(&slow, &number.to_string(), 1000 + number);
        }
        record(&slow, "late", 1000);
        let kept = keys(&slow);
        assert_eq!((kept.len(), kept[0].1, kept[MAX_KEYS - 1].1), (MAX_KEYS, 1099, 1092));
    }
}
