//! Whether a version may work now.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use crate::lifecycle::WaitingFor;

/// Whether a version may work now. Loading creates it and the version's monitor keeps it up to date. It is
/// checked before an object is shown to the plugin: while the version is suspended, nothing is reconciled,
/// observed or indexed, and the cache cannot be read.
#[derive(Default)]
pub(crate) struct Access {
    /// A copy of `AccessState::is_suspended`: the cache is read often, and mostly nothing is missing.
    suspended: AtomicBool,
    /// A copy of `AccessState::is_blocked`, for the same reason.
    blocked: AtomicBool,
    retired: AtomicBool,
    state: watch::Sender<AccessState>,
}

/// A reason for which a version is suspended, such as a missing permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Suspension {
    /// The watch whose objects are not shown to the plugin; `None` for all watches.
    pub(crate) watch: Option<Arc<str>>,
    /// What is missing, and what to do about it; the version waits for it.
    pub(crate) reason: WaitingFor,
}

/// The state of an [`Access`]; public only so that its changes can be awaited.
#[derive(Default)]
pub(crate) struct AccessState {
    /// The grants of the sidecar have changed since this version was loaded, and the new version is not ready yet.
    operator_suspension: Option<Suspension>,
    missing_permissions: Vec<Suspension>,
    /// Whether an operator has paused the plugin. Work in progress may then still read.
    paused: bool,
    retired: bool,
}

impl AccessState {
    fn suspensions(&self) -> impl Iterator<Item = &Suspension> + Clone {
        self.operator_suspension.iter().chain(&self.missing_permissions)
    }

    fn is_suspended(&self) -> bool {
        self.suspensions().next().is_some()
    }

    fn is_blocked(&self) -> bool {
        self.paused || self.is_suspended()
    }
}

impl Access {
    /// Why this watch's objects are not shown to the plugin; `None` if they are.
    pub(crate) fn suspension(&self, watch: &str) -> Option<String> {
        if !self.is_suspended() {
            return None;
        }
        let state = self.state.borrow();
        let suspension = state
            .suspensions()
            .find(|suspension| suspension.watch.as_deref().is_none_or(|of| of == watch))?;
        Some(suspension.reason.to_string())
    }

    /// The operator's reason to suspend the version. The host must then refuse requests itself, because the API
    /// server would allow them.
    pub(crate) fn operator_suspension(&self) -> Option<String> {
        if !self.is_suspended() {
            return None;
        }
        self.state.borrow().operator_suspension.as_ref().map(|suspension| suspension.reason.to_string())
    }

    /// Whether no work may start: a grant or a permission is missing, or the plugin is paused.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Relaxed)
    }

    /// Whether a grant or a permission is missing.
    pub(crate) fn is_suspended(&self) -> bool {
        self.suspended.load(Ordering::Relaxed)
    }

    /// All reasons in one line; `None` if nothing is missing.
    pub(crate) fn reason(&self) -> Option<String> {
        let state = self.state.borrow();
        state.is_suspended().then(|| summary(state.suspensions()).to_string())
    }

    /// Waits until nothing is missing. Returns `false` if the version was retired meanwhile. Cancellation
    /// safe.
    pub(crate) async fn wait_until_resumed(&self) -> bool {
        if !self.is_suspended() && !self.retired.load(Ordering::Relaxed) {
            return true;
        }
        let mut state = self.state.subscribe();
        // `self` owns the sender, so the channel is not closed.
        let resumed = state.wait_for(|state| state.retired || !state.is_suspended()).await;
        resumed.is_ok_and(|state| !state.retired)
    }

    /// Waits until work may start. Returns `false` if the version was retired meanwhile. Cancellation safe.
    pub(crate) async fn wait_until_unblocked(&self) -> bool {
        if !self.is_blocked() && !self.retired.load(Ordering::Relaxed) {
            return true;
        }
        let mut state = self.state.subscribe();
        // `self` owns the sender, so the channel is not closed.
        let resumed = state.wait_for(|state| state.retired || !state.is_blocked()).await;
        resumed.is_ok_and(|state| !state.retired)
    }

    /// Waits until a grant or a permission is missing; forever for a version that was retired. Cancellation safe.
    pub(crate) async fn wait_until_suspended(&self) {
        let mut state = self.state.subscribe();
        // Cannot fail: `self` owns the sender.
        let _ = state.wait_for(|state| !state.retired && state.is_suspended()).await;
    }

    /// Waits until no work may start; forever for a version that was retired. Cancellation safe.
    pub(crate) async fn wait_until_blocked(&self) {
        let mut state = self.state.subscribe();
        // Cannot fail: `self` owns the sender.
        let _ = state.wait_for(|state| !state.retired && state.is_blocked()).await;
    }

    /// Notified when the result of [`reason`](Self::reason) changes.
    pub(crate) fn changes(&self) -> watch::Receiver<AccessState> {
        self.state.subscribe()
    }

    /// Sets the permissions that the API server denies. Returns whether they have changed.
    pub(crate) fn set_missing_permissions(&self, missing_permissions: Vec<Suspension>) -> bool {
        self.change(|state| {
            let changed = state.missing_permissions != missing_permissions;
            state.missing_permissions = missing_permissions;
            changed
        })
    }

    /// Suspends the version for a reason of the operator's, until this is called with `None`.
    pub(crate) fn set_operator_suspension(&self, reason: Option<WaitingFor>) {
        let suspension = reason.map(|reason| Suspension { watch: None, reason });
        self.change(|state| {
            let changed = state.operator_suspension != suspension;
            state.operator_suspension = suspension;
            changed
        });
    }

    /// Lets no work start while an operator has paused the plugin.
    pub(crate) fn set_paused(&self, paused: bool) {
        self.change(|state| std::mem::replace(&mut state.paused, paused) != paused);
    }

    /// Retires a version that was replaced: nobody waits for its access any more.
    pub(crate) fn retire(&self) {
        self.change(|state| !std::mem::replace(&mut state.retired, true));
    }

    fn change(&self, change: impl FnOnce(&mut AccessState) -> bool) -> bool {
        self.state.send_if_modified(|state| {
            let changed = change(state);
            // A retired version is never resumed.
            self.suspended.store(state.is_suspended(), Ordering::Relaxed);
            self.blocked.store(state.is_blocked(), Ordering::Relaxed);
            self.retired.store(state.retired, Ordering::Relaxed);
            changed
        })
    }
}

/// Several reasons in one line, of which only the first few are listed.
pub(super) fn summary<'a>(suspensions: impl Iterator<Item = &'a Suspension> + Clone) -> impl fmt::Display {
    const MAX_LISTED: usize = 3;
    let listed: Vec<_> =
        suspensions.clone().take(MAX_LISTED).map(|suspension| suspension.reason.to_string()).collect();
    let more = suspensions.count().saturating_sub(MAX_LISTED);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    listed.join("; ") + &more
}

#[cfg(test)]
mod tests {
    use tokio_test::{assert_pending, assert_ready, task};

    use super::*;

    fn suspension(watch: Option<&str>, text: &str) -> Suspension {
        Suspension { watch: watch.map(Arc::from), reason: WaitingFor::AccountPermission(text.into()) }
    }

    #[test]
    fn a_missing_permission_suspends_its_watch_and_all_work() {
        let access = Access::default();
        assert_eq!((access.is_suspended(), access.suspension("pods"), access.reason()), (false, None, None));
        assert!(access.set_missing_permissions(vec![suspension(Some("pods"), "no pods")]));
        assert!(!access.set_missing_permissions(vec![suspension(Some("pods"), "no pods")]), "nothing new");
        assert_eq!(access.suspension("pods").as_deref(), Some("no pods"));
        assert_eq!(access.suspension("nodes"), None);
        assert_eq!(access.reason().as_deref(), Some("no pods"));
        assert!(access.set_missing_permissions(vec![]));
        assert_eq!((access.is_suspended(), access.suspension("pods")), (false, None));
    }

    #[test]
    fn the_operator_suspends_everything_until_the_reason_ends() {
        let access = Access::default();
        access.set_operator_suspension(Some(WaitingFor::VersionForAccount("another account".into())));
        access.set_missing_permissions(vec![suspension(Some("pods"), "no pods")]);
        assert_eq!(access.suspension("nodes").as_deref(), Some("another account"));
        assert_eq!(access.operator_suspension().as_deref(), Some("another account"));
        assert_eq!(access.reason().as_deref(), Some("another account; no pods"));
        access.set_missing_permissions(vec![]);
        assert!(access.is_suspended());
        access.set_operator_suspension(None);
        assert!(!access.is_suspended());
        access.set_missing_permissions(vec![suspension(Some("pods"), "no pods")]);
        assert_eq!(access.operator_suspension(), None, "that is for the server to judge");
    }

    #[test]
    fn work_waits_until_access_is_granted() {
        let access = Access::default();
        assert!(assert_ready!(task::spawn(access.wait_until_resumed()).poll()));
        access.set_missing_permissions(vec![suspension(None, "gone")]);
        let mut waiting = task::spawn(access.wait_until_resumed());
        assert_pending!(waiting.poll());
        access.set_missing_permissions(vec![suspension(None, "still gone")]);
        assert_pending!(waiting.poll());
        access.set_missing_permissions(vec![]);
        assert!(waiting.is_woken());
        assert!(assert_ready!(waiting.poll()));
    }

    #[test]
    fn a_pause_blocks_new_work_but_no_reads() {
        let access = Access::default();
        let mut blocked = task::spawn(access.wait_until_blocked());
        let mut suspended = task::spawn(access.wait_until_suspended());
        assert_pending!(blocked.poll());
        assert_pending!(suspended.poll());
        access.set_paused(true);
        assert!(blocked.is_woken());
        assert_ready!(blocked.poll());
        assert_pending!(suspended.poll(), "HTTP requests under way end as usual");
        assert_eq!(
            (access.is_blocked(), access.is_suspended(), access.suspension("pods")),
            (true, false, None)
        );
        assert_eq!(access.reason(), None, "nothing is missing");
        access.set_missing_permissions(vec![suspension(None, "gone")]);
        assert_ready!(suspended.poll());
        access.set_paused(false);
        let mut waiting = task::spawn(access.wait_until_unblocked());
        assert_pending!(waiting.poll());
        access.set_missing_permissions(vec![]);
        assert!(assert_ready!(waiting.poll()));
        access.set_paused(true);
        access.retire();
        assert!(!assert_ready!(task::spawn(access.wait_until_unblocked()).poll()));
    }

    #[test]
    fn nobody_waits_for_a_version_that_was_replaced() {
        let access = Access::default();
        access.set_missing_permissions(vec![suspension(None, "gone")]);
        let mut waiting = task::spawn(access.wait_until_resumed());
        assert_pending!(waiting.poll());
        access.retire();
        assert!(!assert_ready!(waiting.poll()));
        assert!(!assert_ready!(task::spawn(access.wait_until_resumed()).poll()));
    }

    #[test]
    fn a_long_summary_is_truncated() {
        let all: Vec<_> = ["a", "b", "c", "d", "e"].iter().map(|text| suspension(None, text)).collect();
        assert_eq!(summary(all[..2].iter()).to_string(), "a; b");
        assert_eq!(summary(all.iter()).to_string(), "a; b; c; and 2 more");
    }
}
