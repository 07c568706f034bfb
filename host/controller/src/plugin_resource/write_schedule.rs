//! Decides when the status of an object is written. Pure: the time is passed in.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::object_status::Change;
use crate::client::quota::QuotaBucket;
use crate::lifecycle::backoff;

/// The shortest interval between two writes of one object.
const STATE_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest interval between two writes of one object that change messages only. An error may contain a time or a count.
const MESSAGE_INTERVAL: Duration = Duration::from_secs(30);
/// Writes per second of all objects.
const WRITES_PER_SECOND: u32 = 5;
/// Writes that may be made at once.
const BURST: u32 = 20;

/// What was written, by the object's UID.
#[derive(Debug)]
pub(crate) struct WriteSchedule {
    bucket: QuotaBucket,
    objects: BTreeMap<String, LastWrite>,
}

#[derive(Clone, Copy, Debug)]
struct LastWrite {
    at: Instant,
    /// Failures since the last success.
    failures: u32,
    /// The wait after a failure.
    wait: Duration,
}

impl WriteSchedule {
    pub(crate) fn new(now: Instant) -> Self {
        Self { bucket: QuotaBucket::new(WRITES_PER_SECOND, BURST, now), objects: BTreeMap::new() }
    }

    /// Whether a changed status may be written now. If so, the write counts for the limit of all objects.
    pub(crate) fn allows(&mut self, uid: &str, change: Change, now: Instant) -> bool {
        let interval = match change {
            Change::None => return false,
            Change::Messages => MESSAGE_INTERVAL,
            Change::State => STATE_INTERVAL,
        };
        let is_due = self
            .objects
            .get(uid)
            .is_none_or(|last| now.saturating_duration_since(last.at) >= interval.max(last.wait));
        is_due && self.bucket.take(now).is_ok()
    }

    /// Records a write that succeeded.
    pub(crate) fn succeeded(&mut self, uid: &str, now: Instant) {
        self.objects.insert(uid.to_owned(), LastWrite { at: now, failures: 0, wait: Duration::ZERO });
    }

    /// Records a write that failed. `jitter` is in 0..1.
    pub(crate) fn failed(&mut self, uid: &str, now: Instant, jitter: f64) {
        let failures = self.objects.get(uid).map_or(0, |last| last.failures);
        let last = LastWrite {
            at: now,
            failures: failures.saturating_add(1),
            wait: backoff::delay(failures, jitter),
        };
        self.objects.insert(uid.to_owned(), last);
    }

    /// Forgets all other objects.
    pub(crate) fn retain(&mut self, uids: &BTreeSet<&str>) {
        self.objects.retain(|uid, _| uids.contains(uid.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn changed_messages_wait_longer_than_a_changed_state() {
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let mut schedule = WriteSchedule::new(start);
        assert!(!schedule.allows("a", Change::None, at(0)));
        assert!(schedule.allows("a", Change::State, at(0)));
        schedule.succeeded("a", at(0));
        assert!(!schedule.allows("a", Change::State, at(999)));
        assert!(!schedule.allows("a", Change::Messages, at(29_999)));
        assert!(schedule.allows("a", Change::State, at(1000)));
        assert!(schedule.allows("a", Change::Messages, at(30_000)));
        assert!(schedule.allows("b", Change::Messages, at(30_000)), "another object");
    }

    #[tokio::test]
    async fn failures_wait_longer_and_a_success_resets_them() {
        let start = Instant::now();
        let mut schedule = WriteSchedule::new(start);
        let mut now = start;
        for seconds in [1, 2, 4, 8] {
            schedule.failed("a", now, 0.5);
            assert!(!schedule.allows("a", Change::State, now + Duration::from_millis(seconds * 1000 - 1)));
            now += Duration::from_secs(seconds);
            assert!(schedule.allows("a", Change::State, now), "{seconds}");
        }
        schedule.succeeded("a", now);
        assert!(schedule.allows("a", Change::State, now + Duration::from_secs(1)));
    }

    #[tokio::test]
    async fn all_objects_share_a_rate_and_deleted_ones_are_forgotten() {
        let now = Instant::now();
        let mut schedule = WriteSchedule::new(now);
        let allowed = |schedule: &mut WriteSchedule, now| {
            (0..100).filter(|number| schedule.allows(&number.to_string(), Change::State, now)).count()
        };
        assert_eq!(allowed(&mut schedule, now), BURST as usize);
        assert_eq!(allowed(&mut schedule, now + Duration::from_secs(1)), WRITES_PER_SECOND as usize);
        schedule.succeeded("a", now);
        schedule.retain(&BTreeSet::from(["b"]));
        assert!(schedule.objects.is_empty());
    }
}
