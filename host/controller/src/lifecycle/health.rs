//! The health of a version, shared by all callers of its guests.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::access::Permission;

use super::record::{Activity, DynHash, Entry, Record};

/// Counts a version's faults and stops the calls while it backs off. A caller acquires a permit before each
/// call of a guest and reports the outcome. No permits are given while the version's access is withheld.
/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Health(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Whether there are no faults to remember; then no caller takes the lock.
    clean: AtomicBool,
    changed: watch::Sender<()>,
    permission: Arc<Permission>,
}

#[derive(Default)]
struct State {
    record: Record,
    /// The last fault's activity and message.
    fault: Option<(Activity, String)>,
    /// The version no longer runs, so nobody must wait for it.
    retired: bool,
}

/// Permission to make one call. Dropping it without an outcome leaves the fault counter unchanged.
pub(crate) struct Pass<'a> {
    health: &'a Health,
    entry: Entry,
    is_told: bool,
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
        Self::under(Arc::default())
    }
}

impl Health {
    /// The health of a new version that works only while it has this access.
    pub(crate) fn under(permission: Arc<Permission>) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::default(),
            clean: AtomicBool::new(true),
            changed: watch::Sender::default(),
            permission,
        }))
    }

    /// Returns a permit to call a guest now; `None` while the version backs off or another call is the probe.
    pub(crate) fn enter(&self) -> Option<Pass<'_>> {
        if self.0.permission.is_held() {
            return None;
        }
        let entry = match self.0.clean.load(Ordering::Acquire) {
            true => Entry::Free,
            false => self.change(|state| match state.retired {
                true => Some(Entry::Free),
                false => state.record.enter(Instant::now()),
            })?,
        };
        Some(Pass { health: self, entry, is_told: false })
    }

    /// Waits until [`try_acquire`](Self::try_acquire) may return a permit. Cancellation safe.
    pub(crate) async fn opens(&self) {
        while self.0.permission.granted().await {
            self.recovers().await;
            if !self.0.permission.is_held() {
                return;
            }
        }
    }

    async fn recovers(&self) {
        while !self.0.clean.load(Ordering::Acquire) {
            let mut changed = self.0.changed.subscribe();
            let until = match self.look() {
                Ok(()) => return,
                Err(until) => until,
            };
            let waited = async {
                match until {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = changed.changed() => {}
                () = waited => {}
            }
        }
    }

    /// Waits until [`try_acquire`](Self::try_acquire) returns no permit. Cancellation safe.
    pub(crate) async fn closes(&self) {
        tokio::select! {
            () = self.fails() => {}
            () = self.0.permission.lost() => {}
        }
    }

    async fn fails(&self) {
        let mut changed = self.0.changed.subscribe();
        while self.look().is_ok() {
            // Cannot fail: `self` owns the sender.
            let _ = changed.changed().await;
        }
    }

    /// Notified when the answer of [`backing_off`](Self::backing_off) changes, and sometimes when it does
    /// not.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.0.changed.subscribe()
    }

    pub(crate) fn backing_off(&self) -> Option<BackingOff> {
        let state = self.0.state.lock();
        let until = state.record.backs_off_until().filter(|_| !state.retired)?;
        let (activity, problem) = state.fault.clone()?;
        Some(BackingOff { problem, faults: state.record.faults(activity), until })
    }

    /// Records a fault of an instance that is called without a permit: it computes index values, which
    /// everything waits for.
    pub(crate) fn fault(&self, activity: Activity, object: Option<&dyn DynHash>, fault: &dyn Display) {
        self.failed(activity, object, Entry::Free, fault);
    }

    /// Records a success of an instance that is called without a permit.
    pub(crate) fn success(&self, activity: Activity) {
        if !self.0.clean.load(Ordering::Acquire) {
            self.change(|state| state.record.success(activity, Entry::Free, Instant::now()));
        }
    }

    /// Retires a version that no longer runs: its waiters stop waiting.
    pub(crate) fn retire(&self) {
        // A retired version is never clean, so that later calls take the lock.
        self.change(|state| state.retired = true);
    }

    fn look(&self) -> Result<(), Option<Instant>> {
        let state = self.0.state.lock();
        if state.retired { Ok(()) } else { state.record.is_open(Instant::now()) }
    }

    fn failed(&self, activity: Activity, object: Option<&dyn DynHash>, entry: Entry, fault: &dyn Display) {
        let chance = rand::random();
        self.change(|state| {
            state.fault = Some((activity, fault.to_string()));
            state.record.fault(activity, object, entry, Instant::now(), chance);
        });
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let (answer, is_told) = {
            let mut state = self.0.state.lock();
            let before = (state.record.backs_off_until(), state.record.is_open(Instant::now()));
            let answer = change(&mut state);
            self.0.clean.store(state.record.is_clean(), Ordering::Release);
            let after = (state.record.backs_off_until(), state.record.is_open(Instant::now()));
            (answer, before != after || state.retired)
        };
        if is_told {
            self.0.changed.send_replace(());
        }
        answer
    }
}

impl Pass<'_> {
    /// The guest answered, possibly with an error of its own.
    pub(crate) fn answered(mut self, activity: Activity) {
        self.is_told = true;
        let (health, entry) = (self.health, self.entry);
        if entry == Entry::Probe || !health.0.clean.load(Ordering::Acquire) {
            health.change(|state| state.record.success(activity, entry, Instant::now()));
        }
    }

    /// The instance failed.
    pub(crate) fn failed(mut self, activity: Activity, object: Option<&dyn DynHash>, fault: &dyn Display) {
        self.is_told = true;
        self.health.failed(activity, object, self.entry, fault);
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if !self.is_told && self.entry == Entry::Probe {
            self.health.change(|state| state.record.abandon(Entry::Probe));
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
            let pass = health.enter().expect("open");
            pass.failed(Activity::Reconcile, Some(&object), &"it trapped");
        }
        health
    }

    #[tokio::test(start_paused = true)]
    async fn waiters_wake_when_the_wait_is_over_and_when_the_probe_has_succeeded() {
        let health = broken();
        let text = health.backing_off().expect("it backs off").to_string();
        assert_eq!(text, "5 faults in a row, the last: it trapped");
        let start = Instant::now();
        health.opens().await;
        assert!(start.elapsed() >= Duration::from_millis(800));
        let probe = health.enter().expect("the probe");
        let mut second = task::spawn(health.opens());
        assert_pending!(second.poll());
        assert!(health.enter().is_none());
        probe.answered(Activity::Reconcile);
        assert!(second.is_woken());
        assert_ready!(second.poll());
        assert_eq!(health.backing_off(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_work_learns_that_the_door_is_closed() {
        let health = Health::default();
        let mut closes = task::spawn(health.closes());
        assert_pending!(closes.poll());
        for _ in 0..5 {
            health.fault(Activity::Index, None, &"it trapped");
        }
        assert!(closes.is_woken());
        assert_ready!(closes.poll());
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_probe_makes_way_and_a_retired_version_holds_nobody() {
        let health = broken();
        health.opens().await;
        drop(health.enter().expect("the probe"));
        let probe = health.enter().expect("another");
        let mut waiter = task::spawn(health.opens());
        assert_pending!(waiter.poll());
        health.retire();
        assert!(waiter.is_woken());
        assert_ready!(waiter.poll());
        assert_eq!(health.backing_off(), None);
        drop(probe);
        assert!(health.enter().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_success_ends_the_row_of_its_activity() {
        let health = Health::default();
        for round in 0..20 {
            health.enter().expect("open").failed(Activity::Reconcile, Some(&round), &"it trapped");
            health.enter().expect("open").answered(Activity::Reconcile);
        }
        assert_eq!(health.backing_off(), None);
    }
}
