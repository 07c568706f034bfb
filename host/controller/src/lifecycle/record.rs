//! Counts the faults of one version and decides whether it may be called. Pure.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use tokio::time::Instant;

use super::backoff;

/// Faults in a row after which a plugin backs off: as many as a batch of the observer has attempts, and as
/// many as the per-key backoff lets happen within 0.1 s.
const FAULTS: u32 = 5;
/// The longest backoff if all faults are of one object. Its own per-key backoff delays it already, and the
/// other objects must not wait long because of it.
const ONE_OBJECT: Duration = Duration::from_secs(15);
/// After running this long since it recovered, a version starts again with the shortest backoff.
const FORGIVEN: Duration = Duration::from_secs(120);

/// What a guest is called for. Faults are counted per activity: the success of one does not hide that another
/// always fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// `reconcile`.
    Reconcile,
    /// `observe`.
    Observe,
    /// `index.values`.
    Index,
}

/// Counts the faults of one version, like a circuit breaker.
///
/// ```text
/// allowed ──5 faults in a row──▶ blocked ──the backoff ends, one call──▶ probing ──success──▶ allowed
///                                  ▲  └◀────────── abandoned ────────────────┤
///                                  └◀──────── fault: twice the backoff ──────┘
/// ```
#[derive(Debug, Default)]
pub(super) struct Record {
    streaks: [Streak; 3],
    door: Door,
    /// Backoffs since the last long healthy period.
    waits: u32,
    /// When the version last recovered.
    recovered: Option<Instant>,
}

#[derive(Debug, Default)]
struct Streak {
    faults: u32,
    object: Option<u64>,
    several: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Door {
    #[default]
    Open,
    Closed {
        until: Instant,
    },
    /// One call probes whether the guest works again.
    Probing {
        until: Instant,
    },
}

/// How a call was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Free,
    /// The outcome of this call decides whether the others are allowed again.
    Probe,
}

impl Record {
    /// Admits a call of the guest now, if possible.
    pub(super) fn enter(&mut self, now: Instant) -> Option<Entry> {
        match self.door {
            Door::Open => Some(Entry::Free),
            Door::Closed { until } if now >= until => {
                self.door = Door::Probing { until };
                Some(Entry::Probe)
            }
            Door::Closed { .. } | Door::Probing { .. } => None,
        }
    }

    /// Whether [`try_acquire`](Self::try_acquire) would admit a call. The error is when that will be the
    /// case, if known.
    pub(super) fn is_open(&self, now: Instant) -> Result<(), Option<Instant>> {
        match self.door {
            Door::Open => Ok(()),
            Door::Closed { until } if now >= until => Ok(()),
            Door::Closed { until } => Err(Some(until)),
            Door::Probing { .. } => Err(None),
        }
    }

    /// The end of the backoff; `None` if the version does not back off.
    pub(super) fn backs_off_until(&self) -> Option<Instant> {
        match self.door {
            Door::Open => None,
            Door::Closed { until } | Door::Probing { until } => Some(until),
        }
    }

    /// Whether there are no faults to remember. Then a success changes nothing, and every call is admitted.
    pub(super) fn is_clean(&self) -> bool {
        self.door == Door::Open && self.streaks.iter().all(|streak| streak.faults == 0)
    }

    /// Faults of this activity since its last success.
    pub(super) fn faults(&self, activity: Activity) -> u32 {
        self.streaks[activity as usize].faults
    }

    /// The guest answered, possibly with an error of its own.
    pub(super) fn success(&mut self, activity: Activity, entry: Entry, now: Instant) {
        self.streaks[activity as usize] = Streak::default();
        if entry == Entry::Probe {
            self.door = Door::Open;
            self.recovered = Some(now);
        }
    }

    /// The instance failed, at `object` if that is known. `chance` is the jitter of the backoff that this
    /// fault may start.
    pub(super) fn fault(
        &mut self,
        activity: Activity,
        object: Option<&dyn DynHash>,
        entry: Entry,
        now: Instant,
        chance: f64,
    ) {
        let streak = &mut self.streaks[activity as usize];
        let object = object.map(DynHash::digest);
        streak.several |= object.is_none() || (streak.faults > 0 && streak.object != object);
        streak.object = object;
        streak.faults = streak.faults.saturating_add(1);
        let closes = match self.door {
            Door::Open => streak.faults >= FAULTS,
            Door::Probing { .. } => entry == Entry::Probe,
            // The call was admitted before the faults.
            Door::Closed { .. } => false,
        };
        if !closes {
            return;
        }
        let one_object = !streak.several;
        if self.door == Door::Open {
            let forgiven =
                self.recovered.is_none_or(|since| now.saturating_duration_since(since) >= FORGIVEN);
            if forgiven {
                self.waits = 0;
            }
        }
        let mut wait = backoff::wait(self.waits, chance);
        if one_object {
            wait = wait.min(ONE_OBJECT);
        }
        self.waits = self.waits.saturating_add(1);
        self.door = Door::Closed { until: now + wait };
    }

    /// The probe was given up before it had an outcome.
    pub(super) fn abandon(&mut self, entry: Entry) {
        if let (Door::Probing { until }, Entry::Probe) = (self.door, entry) {
            self.door = Door::Closed { until };
        }
    }
}

/// A hashable object of any type.
pub(crate) trait DynHash {
    /// A hash that is equal for equal objects.
    fn digest(&self) -> u64;
}

impl<T: Hash> DynHash for T {
    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::Activity::{Index, Observe, Reconcile};
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Reports faults of as many different objects.
    fn fail(record: &mut Record, activity: Activity, times: u32, now: Instant) {
        for object in 0..times {
            record.fault(activity, Some(&object), Entry::Free, now, 0.5);
        }
    }

    /// Lets the probe fail, and returns the backoff that follows.
    fn probe(record: &mut Record, now: &mut Instant) -> Duration {
        *now = record.backs_off_until().expect("it backs off");
        assert_eq!(record.enter(*now), Some(Entry::Probe));
        record.fault(Reconcile, Some(&"another"), Entry::Probe, *now, 0.5);
        record.backs_off_until().expect("again") - *now
    }

    #[tokio::test(start_paused = true)]
    async fn it_closes_after_five_faults_in_a_row() {
        let (mut record, now) = (Record::default(), Instant::now());
        assert!(record.is_clean());
        fail(&mut record, Reconcile, 4, now);
        assert_eq!((record.enter(now), record.is_clean()), (Some(Entry::Free), false));
        record.success(Reconcile, Entry::Free, now);
        assert!(record.is_clean());
        fail(&mut record, Reconcile, 5, now);
        assert_eq!(record.enter(now), None);
        assert_eq!(record.is_open(now), Err(Some(now + SECOND)));
        assert_eq!((record.backs_off_until(), record.faults(Reconcile)), (Some(now + SECOND), 5));
    }

    #[tokio::test(start_paused = true)]
    async fn one_call_finds_out_whether_it_goes_again() {
        let (mut record, now) = (Record::default(), Instant::now());
        fail(&mut record, Reconcile, 5, now);
        let later = now + SECOND;
        assert_eq!(record.is_open(later), Ok(()));
        assert_eq!(record.enter(later), Some(Entry::Probe));
        assert_eq!((record.enter(later), record.is_open(later)), (None, Err(None)), "only one");
        record.success(Reconcile, Entry::Probe, later);
        assert_eq!(record.enter(later), Some(Entry::Free));
        assert!(record.is_clean());
    }

    #[tokio::test(start_paused = true)]
    async fn each_failed_probe_doubles_the_wait_up_to_five_minutes() {
        let (mut record, mut now) = (Record::default(), Instant::now());
        fail(&mut record, Reconcile, 5, now);
        let waits: Vec<_> = (0..10).map(|_| probe(&mut record, &mut now).as_secs()).collect();
        assert_eq!(waits, [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_object_does_not_keep_the_others_waiting_for_long() {
        let (mut record, mut now) = (Record::default(), Instant::now());
        for _ in 0..5 {
            record.fault(Reconcile, Some(&"poison"), Entry::Free, now, 0.5);
        }
        for _ in 0..8 {
            now = record.backs_off_until().expect("it backs off");
            assert_eq!(record.enter(now), Some(Entry::Probe));
            record.fault(Reconcile, Some(&"poison"), Entry::Probe, now, 0.5);
        }
        assert_eq!(record.backs_off_until(), Some(now + ONE_OBJECT));
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_that_was_given_up_makes_way_for_another() {
        let (mut record, now) = (Record::default(), Instant::now());
        fail(&mut record, Reconcile, 5, now);
        let later = now + SECOND;
        let entry = record.enter(later).expect("the probe");
        record.abandon(entry);
        assert_eq!(record.enter(later), Some(Entry::Probe));
        // A call that is not the probe decides nothing.
        record.abandon(Entry::Free);
        record.success(Reconcile, Entry::Free, later);
        record.fault(Reconcile, None, Entry::Free, later, 0.5);
        assert_eq!(record.enter(later), None);
    }

    #[tokio::test(start_paused = true)]
    async fn faults_of_calls_that_were_under_way_do_not_prolong_the_wait() {
        let (mut record, now) = (Record::default(), Instant::now());
        fail(&mut record, Reconcile, 9, now);
        assert_eq!(record.backs_off_until(), Some(now + SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn the_success_of_one_activity_does_not_hide_that_another_fails() {
        let (mut record, now) = (Record::default(), Instant::now());
        for _ in 0..4 {
            fail(&mut record, Observe, 1, now);
            record.success(Reconcile, Entry::Free, now);
            record.success(Index, Entry::Free, now);
        }
        assert_eq!(record.enter(now), Some(Entry::Free));
        fail(&mut record, Observe, 1, now);
        assert_eq!(record.enter(now), None);
        // A reconcile may be the probe. The observer's next failure blocks again, and for longer.
        let later = now + SECOND;
        let entry = record.enter(later).expect("the probe");
        record.success(Reconcile, entry, later);
        fail(&mut record, Observe, 1, later);
        assert_eq!(record.backs_off_until(), Some(later + 2 * SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn two_minutes_of_health_are_forgiven() {
        let (mut record, mut now) = (Record::default(), Instant::now());
        fail(&mut record, Reconcile, 5, now);
        for _ in 0..3 {
            probe(&mut record, &mut now);
        }
        now = record.backs_off_until().expect("it backs off");
        let entry = record.enter(now).expect("the probe");
        record.success(Reconcile, entry, now);
        let soon = now + FORGIVEN / 2;
        fail(&mut record, Reconcile, 5, soon);
        assert_eq!(record.backs_off_until(), Some(soon + 16 * SECOND));
        now = soon + 16 * SECOND;
        let entry = record.enter(now).expect("the probe");
        record.success(Reconcile, entry, now);
        fail(&mut record, Reconcile, 5, now + FORGIVEN);
        assert_eq!(record.backs_off_until(), Some(now + FORGIVEN + SECOND));
    }
}
