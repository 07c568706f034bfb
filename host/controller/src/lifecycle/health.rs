//! The health of a version, shared by all callers of its guests.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::access::Access;
use crate::environment::Randomness;

use super::fault_counter::{Activity, CallKind, DynHash, FaultCounter};

/// Counts a version's faults and stops the calls while it backs off. A caller acquires a permit before each
/// call of a guest and reports the outcome. No permits are given while the version is suspended or the plugin is
/// paused. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Health(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Whether there are no faults to remember; then no caller takes the lock.
    is_clean: AtomicBool,
    changed: watch::Sender<()>,
    access: Arc<Access>,
    /// The source of the jitter of backoffs.
    randomness: Randomness,
}

#[derive(Default)]
struct State {
    fault_counter: FaultCounter,
    /// The last fault's activity and message.
    fault: Option<(Activity, String)>,
    /// The version no longer runs, so nobody must wait for it.
    retired: bool,
}

/// Permission to make one call. Dropping it without an outcome leaves the fault counter unchanged.
pub(crate) struct CallPermit<'a> {
    health: &'a Health,
    kind: CallKind,
    is_reported: bool,
}

/// Why a version backs off, and until when.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BackingOff {
    pub(crate) problem: String,
    pub(crate) faults: u32,
    pub(crate) until: Instant,
}

impl Default for Health {
    fn default() -> Self {
        Self::new(Arc::default(), Randomness::default())
    }
}

impl Health {
    /// The health of a new version that works only while it has this access.
    pub(crate) fn new(access: Arc<Access>, randomness: Randomness) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::default(),
            is_clean: AtomicBool::new(true),
            changed: watch::Sender::default(),
            access,
            randomness,
        }))
    }

    /// Returns a permit to call a guest now; `None` while the version backs off or another call is the probe.
    pub(crate) fn try_acquire(&self) -> Option<CallPermit<'_>> {
        if self.0.access.is_blocked() {
            return None;
        }
        let kind = match self.0.is_clean.load(Ordering::Acquire) {
            true => CallKind::Normal,
            false => self.change(|state| match state.retired {
                true => Some(CallKind::Normal),
                false => state.fault_counter.try_acquire(Instant::now()),
            })?,
        };
        Some(CallPermit { health: self, kind, is_reported: false })
    }

    /// Whether [`try_acquire`](Self::try_acquire) returns no permit now.
    pub(crate) fn is_blocked(&self) -> bool {
        self.0.access.is_blocked()
            || (!self.0.is_clean.load(Ordering::Acquire) && self.check_allowed().is_err())
    }

    /// Waits until [`try_acquire`](Self::try_acquire) may return a permit. Cancellation safe.
    pub(crate) async fn wait_until_allowed(&self) {
        while self.0.access.wait_until_unblocked().await {
            self.wait_until_recovered().await;
            if !self.0.access.is_blocked() {
                return;
            }
        }
    }

    async fn wait_until_recovered(&self) {
        while !self.0.is_clean.load(Ordering::Acquire) {
            let mut changed = self.0.changed.subscribe();
            let until = match self.check_allowed() {
                Ok(()) => return,
                Err(until) => until,
            };
            let backoff_ends = async {
                match until {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // `biased` keeps simulations repeatable. The order of the branches has no effect.
                biased;
                _ = changed.changed() => {}
                () = backoff_ends => {}
            }
        }
    }

    /// Waits until [`try_acquire`](Self::try_acquire) returns no permit. Cancellation safe.
    pub(crate) async fn wait_until_blocked(&self) {
        tokio::select! {
            // `biased` keeps simulations repeatable. The order of the branches has no effect.
            biased;
            () = self.wait_until_backing_off() => {}
            () = self.0.access.wait_until_blocked() => {}
        }
    }

    async fn wait_until_backing_off(&self) {
        let mut changed = self.0.changed.subscribe();
        while self.check_allowed().is_ok() {
            // Cannot fail: `self` owns the sender.
            let _ = changed.changed().await;
        }
    }

    /// Returns how long calls are blocked for certain; `None` if they are allowed, and if their end is not known, because the version lacks a
    /// permission or another call is the probe.
    pub(crate) fn blocked_for(&self) -> Option<Duration> {
        let until = self.check_allowed().err().flatten()?;
        Some(until.saturating_duration_since(Instant::now()))
    }

    /// Notified when the result of [`backing_off`](Self::backing_off) changes, and sometimes when it does
    /// not.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.0.changed.subscribe()
    }

    pub(crate) fn backing_off(&self) -> Option<BackingOff> {
        let state = self.0.state.lock();
        let until = state.fault_counter.backs_off_until().filter(|_| !state.retired)?;
        let (activity, problem) = state.fault.clone()?;
        Some(BackingOff { problem, faults: state.fault_counter.faults(activity), until })
    }

    /// Records a fault of an instance that is called without a permit: it computes index values, which
    /// everything waits for.
    pub(crate) fn record_fault(&self, activity: Activity, object: Option<&dyn DynHash>, fault: &dyn Display) {
        self.failed(activity, object, CallKind::Normal, fault);
    }

    /// Records a success of an instance that is called without a permit.
    pub(crate) fn record_success(&self, activity: Activity) {
        if !self.0.is_clean.load(Ordering::Acquire) {
            self.change(|state| {
                state.fault_counter.record_success(activity, CallKind::Normal, Instant::now());
            });
        }
    }

    /// Retires a version that no longer runs: its waiters stop waiting.
    pub(crate) fn retire(&self) {
        // `change` notifies the waiters of a retired version in any case.
        self.change(|state| state.retired = true);
    }

    fn check_allowed(&self) -> Result<(), Option<Instant>> {
        let state = self.0.state.lock();
        if state.retired { Ok(()) } else { state.fault_counter.check_allowed(Instant::now()) }
    }

    fn failed(&self, activity: Activity, object: Option<&dyn DynHash>, kind: CallKind, fault: &dyn Display) {
        let jitter = self.0.randomness.fraction();
        self.change(|state| {
            state.fault = Some((activity, fault.to_string()));
            state.fault_counter.record_fault(activity, object, kind, Instant::now(), jitter);
        });
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let (result, should_notify) = {
            let mut state = self.0.state.lock();
            let before =
                (state.fault_counter.backs_off_until(), state.fault_counter.check_allowed(Instant::now()));
            let result = change(&mut state);
            self.0.is_clean.store(state.fault_counter.is_clean(), Ordering::Release);
            let after =
                (state.fault_counter.backs_off_until(), state.fault_counter.check_allowed(Instant::now()));
            (result, before != after || state.retired)
        };
        if should_notify {
            self.0.changed.send_replace(());
        }
        result
    }
}

impl CallPermit<'_> {
    /// The guest answered, possibly with an error of its own.
    pub(crate) fn succeeded(mut self, activity: Activity) {
        self.is_reported = true;
        let (health, kind) = (self.health, self.kind);
        if kind == CallKind::Probe || !health.0.is_clean.load(Ordering::Acquire) {
            health.change(|state| state.fault_counter.record_success(activity, kind, Instant::now()));
        }
    }

    /// The instance failed.
    pub(crate) fn failed(mut self, activity: Activity, object: Option<&dyn DynHash>, fault: &dyn Display) {
        self.is_reported = true;
        self.health.failed(activity, object, self.kind, fault);
    }
}

impl Drop for CallPermit<'_> {
    fn drop(&mut self) {
        if !self.is_reported && self.kind == CallKind::Probe {
            self.health.change(|state| state.fault_counter.abandon(CallKind::Probe));
        }
    }
}

impl std::fmt::Display for BackingOff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} faults in a row, the last: {}", self.faults, self.problem)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio_test::{assert_pending, assert_ready, task};

    use super::*;

    fn broken() -> Health {
        let health = Health::default();
        for object in 0..5 {
            let permit = health.try_acquire().expect("open");
            permit.failed(Activity::Reconcile, Some(&object), &"it trapped");
        }
        health
    }

    #[tokio::test(start_paused = true)]
    async fn waiters_wake_after_the_backoff_and_after_a_successful_probe() {
        let health = broken();
        assert!(health.is_blocked());
        let text = health.backing_off().expect("it backs off").to_string();
        assert_eq!(text, "5 faults in a row, the last: it trapped");
        let start = Instant::now();
        health.wait_until_allowed().await;
        assert!(start.elapsed() >= Duration::from_millis(800) && !health.is_blocked());
        let probe = health.try_acquire().expect("the probe");
        let mut second = task::spawn(health.wait_until_allowed());
        assert_pending!(second.poll());
        assert!(health.try_acquire().is_none() && health.is_blocked());
        probe.succeeded(Activity::Reconcile);
        assert!(second.is_woken());
        assert_ready!(second.poll());
        assert_eq!(health.backing_off(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_waits_for_a_key_is_notified_when_calls_are_blocked() {
        let health = Health::default();
        let mut closed = task::spawn(health.wait_until_blocked());
        assert_pending!(closed.poll());
        for _ in 0..5 {
            health.record_fault(Activity::Index, None, &"it trapped");
        }
        assert!(closed.is_woken());
        assert_ready!(closed.poll());
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_probe_admits_another_and_a_retired_version_blocks_nobody() {
        let health = broken();
        health.wait_until_allowed().await;
        drop(health.try_acquire().expect("the probe"));
        let probe = health.try_acquire().expect("another");
        let mut waiter = task::spawn(health.wait_until_allowed());
        assert_pending!(waiter.poll());
        health.retire();
        assert!(waiter.is_woken());
        assert_ready!(waiter.poll());
        assert_eq!(health.backing_off(), None);
        drop(probe);
        assert!(health.try_acquire().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_success_ends_the_streak_of_its_activity() {
        let health = Health::default();
        for round in 0..20 {
            health.try_acquire().expect("open").failed(Activity::Reconcile, Some(&round), &"it trapped");
            health.try_acquire().expect("open").succeeded(Activity::Reconcile);
        }
        assert_eq!(health.backing_off(), None);
    }
}
