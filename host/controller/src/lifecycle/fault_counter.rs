//! Counts the faults of one version and decides whether it may be called. Pure.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use tokio::time::Instant;

use super::backoff;

/// Faults in a row after which a plugin backs off. Equals the observer's attempts per batch. A failing key
/// reaches it within 0.1 s.
const MAX_FAULTS: u32 = 5;
/// The longest backoff if all faults are of one object. Its own per-key backoff delays it already, and the
/// other objects must not wait long because of it.
const MAX_DELAY_FOR_ONE_OBJECT: Duration = Duration::from_secs(15);
/// After running this long since it recovered, a version starts again with the shortest backoff.
const FORGIVE_AFTER: Duration = Duration::from_secs(120);

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

/// Counts the faults of one version.
///
/// ```text
/// allowed ──5 faults in a row──▶ blocked ──the backoff ends, one call──▶ probing ──success──▶ allowed
///                                  ▲  └◀────────── abandoned ────────────────┤
///                                  └◀──────── fault: twice the backoff ──────┘
/// ```
#[derive(Debug, Default)]
pub(super) struct FaultCounter {
    streaks: [Streak; 3],
    call_state: CallState,
    /// Backoffs since the last long healthy period.
    backoffs: u32,
    /// When the version last recovered.
    recovered: Option<Instant>,
}

#[derive(Debug, Default)]
struct Streak {
    faults: u32,
    object: Option<u64>,
    has_several_objects: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CallState {
    #[default]
    Allowed,
    Blocked {
        until: Instant,
    },
    /// One call probes whether the guest works again.
    Probing {
        until: Instant,
    },
}

/// How a call was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    Normal,
    /// The outcome of this call decides whether the others are allowed again.
    Probe,
}

impl FaultCounter {
    /// Admits a call of the guest now, if possible.
    pub(super) fn try_acquire(&mut self, now: Instant) -> Option<CallKind> {
        match self.call_state {
            CallState::Allowed => Some(CallKind::Normal),
            CallState::Blocked { until } if now >= until => {
                self.call_state = CallState::Probing { until };
                Some(CallKind::Probe)
            }
            CallState::Blocked { .. } | CallState::Probing { .. } => None,
        }
    }

    /// Whether [`try_acquire`](Self::try_acquire) would admit a call. The error is when that will be the
    /// case, if known.
    pub(super) fn check_allowed(&self, now: Instant) -> Result<(), Option<Instant>> {
        match self.call_state {
            CallState::Allowed => Ok(()),
            CallState::Blocked { until } if now >= until => Ok(()),
            CallState::Blocked { until } => Err(Some(until)),
            CallState::Probing { .. } => Err(None),
        }
    }

    /// The end of the backoff; `None` if the version does not back off.
    pub(super) fn backs_off_until(&self) -> Option<Instant> {
        match self.call_state {
            CallState::Allowed => None,
            CallState::Blocked { until } | CallState::Probing { until } => Some(until),
        }
    }

    /// Whether there are no faults to remember. Then a success changes nothing, and every call is admitted.
    pub(super) fn is_clean(&self) -> bool {
        self.call_state == CallState::Allowed && self.streaks.iter().all(|streak| streak.faults == 0)
    }

    /// Faults of this activity since its last success.
    pub(super) fn faults(&self, activity: Activity) -> u32 {
        self.streaks[activity as usize].faults
    }

    /// The guest answered, possibly with an error of its own.
    pub(super) fn record_success(&mut self, activity: Activity, kind: CallKind, now: Instant) {
        self.streaks[activity as usize] = Streak::default();
        if kind == CallKind::Probe {
            self.call_state = CallState::Allowed;
            self.recovered = Some(now);
        }
    }

    /// The instance failed, at `object` if that is known. `jitter` is the jitter of the backoff that this
    /// fault may start.
    pub(super) fn record_fault(
        &mut self,
        activity: Activity,
        object: Option<&dyn DynHash>,
        kind: CallKind,
        now: Instant,
        jitter: f64,
    ) {
        let streak = &mut self.streaks[activity as usize];
        let object = object.map(DynHash::digest);
        streak.has_several_objects |= object.is_none() || (streak.faults > 0 && streak.object != object);
        streak.object = object;
        streak.faults = streak.faults.saturating_add(1);
        let blocks = match self.call_state {
            CallState::Allowed => streak.faults >= MAX_FAULTS,
            CallState::Probing { .. } => kind == CallKind::Probe,
            // The call was admitted before the faults.
            CallState::Blocked { .. } => false,
        };
        if !blocks {
            return;
        }
        let is_one_object = !streak.has_several_objects;
        if self.call_state == CallState::Allowed {
            let is_forgiven =
                self.recovered.is_none_or(|since| now.saturating_duration_since(since) >= FORGIVE_AFTER);
            if is_forgiven {
                self.backoffs = 0;
            }
        }
        let mut delay = backoff::delay(self.backoffs, jitter);
        if is_one_object {
            delay = delay.min(MAX_DELAY_FOR_ONE_OBJECT);
        }
        self.backoffs = self.backoffs.saturating_add(1);
        self.call_state = CallState::Blocked { until: now + delay };
    }

    /// The probe was given up before it had an outcome.
    pub(super) fn abandon(&mut self, kind: CallKind) {
        if let (CallState::Probing { until }, CallKind::Probe) = (self.call_state, kind) {
            self.call_state = CallState::Blocked { until };
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
    fn fail(counter: &mut FaultCounter, activity: Activity, times: u32, now: Instant) {
        for object in 0..times {
            counter.record_fault(activity, Some(&object), CallKind::Normal, now, 0.5);
        }
    }

    /// Lets the probe fail, and returns the backoff that follows.
    fn probe(counter: &mut FaultCounter, now: &mut Instant) -> Duration {
        *now = counter.backs_off_until().expect("it backs off");
        assert_eq!(counter.try_acquire(*now), Some(CallKind::Probe));
        counter.record_fault(Reconcile, Some(&"another"), CallKind::Probe, *now, 0.5);
        counter.backs_off_until().expect("again") - *now
    }

    #[tokio::test(start_paused = true)]
    async fn calls_are_blocked_after_five_faults_in_a_row() {
        let (mut counter, now) = (FaultCounter::default(), Instant::now());
        assert!(counter.is_clean());
        fail(&mut counter, Reconcile, 4, now);
        assert_eq!((counter.try_acquire(now), counter.is_clean()), (Some(CallKind::Normal), false));
        counter.record_success(Reconcile, CallKind::Normal, now);
        assert!(counter.is_clean());
        fail(&mut counter, Reconcile, 5, now);
        assert_eq!(counter.try_acquire(now), None);
        assert_eq!(counter.check_allowed(now), Err(Some(now + SECOND)));
        assert_eq!((counter.backs_off_until(), counter.faults(Reconcile)), (Some(now + SECOND), 5));
    }

    #[tokio::test(start_paused = true)]
    async fn one_call_probes_after_the_backoff() {
        let (mut counter, now) = (FaultCounter::default(), Instant::now());
        fail(&mut counter, Reconcile, 5, now);
        let later = now + SECOND;
        assert_eq!(counter.check_allowed(later), Ok(()));
        assert_eq!(counter.try_acquire(later), Some(CallKind::Probe));
        assert_eq!((counter.try_acquire(later), counter.check_allowed(later)), (None, Err(None)), "only one");
        counter.record_success(Reconcile, CallKind::Probe, later);
        assert_eq!(counter.try_acquire(later), Some(CallKind::Normal));
        assert!(counter.is_clean());
    }

    #[tokio::test(start_paused = true)]
    async fn each_failed_probe_doubles_the_backoff_up_to_five_minutes() {
        let (mut counter, mut now) = (FaultCounter::default(), Instant::now());
        fail(&mut counter, Reconcile, 5, now);
        let backoffs: Vec<_> = (0..10).map(|_| probe(&mut counter, &mut now).as_secs()).collect();
        assert_eq!(backoffs, [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_failing_object_does_not_block_the_others_for_long() {
        let (mut counter, mut now) = (FaultCounter::default(), Instant::now());
        for _ in 0..5 {
            counter.record_fault(Reconcile, Some(&"poison"), CallKind::Normal, now, 0.5);
        }
        for _ in 0..8 {
            now = counter.backs_off_until().expect("it backs off");
            assert_eq!(counter.try_acquire(now), Some(CallKind::Probe));
            counter.record_fault(Reconcile, Some(&"poison"), CallKind::Probe, now, 0.5);
        }
        assert_eq!(counter.backs_off_until(), Some(now + MAX_DELAY_FOR_ONE_OBJECT));
    }

    #[tokio::test(start_paused = true)]
    async fn an_abandoned_probe_admits_another() {
        let (mut counter, now) = (FaultCounter::default(), Instant::now());
        fail(&mut counter, Reconcile, 5, now);
        let later = now + SECOND;
        let kind = counter.try_acquire(later).expect("the probe");
        counter.abandon(kind);
        assert_eq!(counter.try_acquire(later), Some(CallKind::Probe));
        // A call that is not the probe decides nothing.
        counter.abandon(CallKind::Normal);
        counter.record_success(Reconcile, CallKind::Normal, later);
        counter.record_fault(Reconcile, None, CallKind::Normal, later, 0.5);
        assert_eq!(counter.try_acquire(later), None);
    }

    #[tokio::test(start_paused = true)]
    async fn faults_of_calls_in_flight_do_not_extend_the_backoff() {
        let (mut counter, now) = (FaultCounter::default(), Instant::now());
        fail(&mut counter, Reconcile, 9, now);
        assert_eq!(counter.backs_off_until(), Some(now + SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn the_success_of_one_activity_does_not_hide_that_another_fails() {
        let (mut counter, now) = (FaultCounter::default(), Instant::now());
        for _ in 0..4 {
            fail(&mut counter, Observe, 1, now);
            counter.record_success(Reconcile, CallKind::Normal, now);
            counter.record_success(Index, CallKind::Normal, now);
        }
        assert_eq!(counter.try_acquire(now), Some(CallKind::Normal));
        fail(&mut counter, Observe, 1, now);
        assert_eq!(counter.try_acquire(now), None);
        // A reconcile may be the probe. The observer's next failure blocks again, and for longer.
        let later = now + SECOND;
        let kind = counter.try_acquire(later).expect("the probe");
        counter.record_success(Reconcile, kind, later);
        fail(&mut counter, Observe, 1, later);
        assert_eq!(counter.backs_off_until(), Some(later + 2 * SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn two_healthy_minutes_reset_the_backoff() {
        let (mut counter, mut now) = (FaultCounter::default(), Instant::now());
        fail(&mut counter, Reconcile, 5, now);
        for _ in 0..3 {
            probe(&mut counter, &mut now);
        }
        now = counter.backs_off_until().expect("it backs off");
        let kind = counter.try_acquire(now).expect("the probe");
        counter.record_success(Reconcile, kind, now);
        let soon = now + FORGIVE_AFTER / 2;
        fail(&mut counter, Reconcile, 5, soon);
        assert_eq!(counter.backs_off_until(), Some(soon + 16 * SECOND));
        now = soon + 16 * SECOND;
        let kind = counter.try_acquire(now).expect("the probe");
        counter.record_success(Reconcile, kind, now);
        fail(&mut counter, Reconcile, 5, now + FORGIVE_AFTER);
        assert_eq!(counter.backs_off_until(), Some(now + FORGIVE_AFTER + SECOND));
    }
}
