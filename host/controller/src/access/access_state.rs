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
    /// A copy of `AccessState::is_withheld`: the cache is read often, and mostly nothing is missing.
    withheld: AtomicBool,
    /// A copy of `AccessState::is_blocked`, for the same reason.
    blocked: AtomicBool,
    retired: AtomicBool,
    state: watch::Sender<AccessState>,
}

/// A reason for which a version is suspended, such as a missing permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    /// The watch whose objects are not shown to the plugin; `None` for all watches.
    pub(crate) watch: Option<Arc<str>>,
    /// What is missing, and what to do about it; the version waits for it.
    pub(crate) reason: WaitingFor,
}

/// The state of an [`Access`]; public only so that its changes can be awaited.
#[derive(Default)]
pub(crate) struct AccessState {
    /// The grants of the sidecar have changed since this version was loaded, and the new version is not ready yet.
    operator: Option<Missing>,
    rights: Vec<Missing>,
    /// Whether an operator has paused the plugin. Work in progress may then still read.
    paused: bool,
    retired: bool,
}

impl AccessState {
    fn missing(&self) -> impl Iterator<Item = &Missing> + Clone {
        self.operator.iter().chain(&self.rights)
    }

    fn is_withheld(&self) -> bool {
        self.missing().next().is_some()
    }

    fn is_blocked(&self) -> bool {
        self.paused || self.is_withheld()
    }
}

impl Access {
    /// Why this watch's objects are not shown to the plugin; `None` if they are.
    pub(crate) fn missing(&self, watch: &str) -> Option<String> {
        if !self.is_withheld() {
            return None;
        }
        let state = self.state.borrow();
        let missing =
            state.missing().find(|missing| missing.watch.as_deref().is_none_or(|of| of == watch))?;
        Some(missing.reason.to_string())
    }

    /// The operator's reason to suspend the version. The host must then refuse requests itself, because the API
    /// server would allow them.
    pub(crate) fn withdrawn(&self) -> Option<String> {
        if !self.is_withheld() {
            return None;
        }
        self.state.borrow().operator.as_ref().map(|missing| missing.reason.to_string())
    }

    /// Whether no work may start: a grant or a permission is missing, or the plugin is paused.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Relaxed)
    }

    /// Whether a grant or a permission is missing.
    pub(crate) fn is_withheld(&self) -> bool {
        self.withheld.load(Ordering::Relaxed)
    }

    /// All reasons in one line; `None` if nothing is missing.
    pub(crate) fn reason(&self) -> Option<String> {
        let state = self.state.borrow();
        state.is_withheld().then(|| summary(state.missing()).to_string())
    }

    /// Waits until nothing is missing. Returns `false` if the version was retired meanwhile. Cancellation
    /// safe.
    pub(crate) async fn wait_until_granted(&self) -> bool {
        if !self.is_withheld() && !self.retired.load(Ordering::Relaxed) {
            return true;
        }
        let mut state = self.state.subscribe();
        // `self` owns the sender, so the channel is not closed.
        let settled = state.wait_for(|state| state.retired || !state.is_withheld()).await;
        settled.is_ok_and(|state| !state.retired)
    }

    /// Waits until work may start. Returns `false` if the version was retired meanwhile. Cancellation safe.
    pub(crate) async fn wait_until_unblocked(&self) -> bool {
        if !self.is_blocked() && !self.retired.load(Ordering::Relaxed) {
            return true;
        }
        let mut state = self.state.subscribe();
        // `self` owns the sender, so the channel is not closed.
        let settled = state.wait_for(|state| state.retired || !state.is_blocked()).await;
        settled.is_ok_and(|state| !state.retired)
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
    pub(crate) fn set_rights(&self, rights: Vec<Missing>) -> bool {
        self.change(|state| {
            let changed = state.rights != rights;
            state.rights = rights;
            changed
        })
    }

    /// Suspends the version for a reason of the operator's, until this is called with `None`.
    pub(crate) fn set_operator_reason(&self, reason: Option<WaitingFor>) {
        let missing = reason.map(|reason| Missing { watch: None, reason });
        self.change(|state| {
            let changed = state.operator != missing;
            state.operator = missing;
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
            self.withheld.store(state.is_withheld(), Ordering::Relaxed);
            self.blocked.store(state.is_blocked(), Ordering::Relaxed);
            self.retired.store(state.retired, Ordering::Relaxed);
            changed
        })
    }
}

/// Several reasons in one line, of which only the first few are listed.
pub(super) fn summary<'a>(missing: impl Iterator<Item = &'a Missing> + Clone) -> impl fmt::Display {
    const MAX_LISTED: usize = 3;
    let listed: Vec<_> = missing.clone().take(MAX_LISTED).map(|missing| missing.reason.to_string()).collect();
    let more = missing.count().saturating_sub(MAX_LISTED);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    listed.join("; ") + &more
}

#[cfg(test)]
mod tests {
    use tokio_test::{assert_pending, assert_ready, task};

    use super::*;

    fn missing(watch: Option<&str>, text: &str) -> Missing {
        Missing { watch: watch.map(Arc::from), reason: WaitingFor::AccountPermission(text.into()) }
    }

    #[test]
    fn a_missing_permission_suspends_its_watch_and_all_work() {
        let access = Access::default();
        assert_eq!((access.is_withheld(), access.missing("pods"), access.reason()), (false, None, None));
        assert!(access.set_rights(vec![missing(Some("pods"), "no pods")]));
        assert!(!access.set_rights(vec![missing(Some("pods"), "no pods")]), "nothing new");
        assert_eq!(access.missing("pods").as_deref(), Some("no pods"));
        assert_eq!(access.missing("nodes"), None);
        assert_eq!(access.reason().as_deref(), Some("no pods"));
        assert!(access.set_rights(vec![]));
        assert_eq!((access.is_withheld(), access.missing("pods")), (false, None));
    }

    #[test]
    fn the_operator_suspends_everything_until_the_reason_ends() {
        let access = Access::default();
        access.set_operator_reason(Some(WaitingFor::VersionForAccount("another account".into())));
        access.set_rights(vec![missing(Some("pods"), "no pods")]);
        assert_eq!(access.missing("nodes").as_deref(), Some("another account"));
        assert_eq!(access.withdrawn().as_deref(), Some("another account"));
        assert_eq!(access.reason().as_deref(), Some("another account; no pods"));
        access.set_rights(vec![]);
        assert!(access.is_withheld());
        access.set_operator_reason(None);
        assert!(!access.is_withheld());
        access.set_rights(vec![missing(Some("pods"), "no pods")]);
        assert_eq!(access.withdrawn(), None, "that is for the server to judge");
    }

    #[test]
    fn work_waits_until_access_is_granted() {
        let access = Access::default();
        assert!(assert_ready!(task::spawn(access.wait_until_granted()).poll()));
        access.set_rights(vec![missing(None, "gone")]);
        let mut waiting = task::spawn(access.wait_until_granted());
        assert_pending!(waiting.poll());
        access.set_rights(vec![missing(None, "still gone")]);
        assert_pending!(waiting.poll());
        access.set_rights(vec![]);
        assert!(waiting.is_woken());
        assert!(assert_ready!(waiting.poll()));
    }

    #[test]
    fn a_pause_blocks_new_work_but_no_reads() {
        let access = Access::default();
        let mut blocked = task::spawn(access.wait_until_blocked());
        assert_pending!(blocked.poll());
        access.set_paused(true);
        assert!(blocked.is_woken());
        assert_ready!(blocked.poll());
        assert_eq!((access.is_blocked(), access.is_withheld(), access.missing("pods")), (true, false, None));
        assert_eq!(access.reason(), None, "nothing is missing");
        access.set_rights(vec![missing(None, "gone")]);
        access.set_paused(false);
        let mut waiting = task::spawn(access.wait_until_unblocked());
        assert_pending!(waiting.poll());
        access.set_rights(vec![]);
        assert!(assert_ready!(waiting.poll()));
        access.set_paused(true);
        access.retire();
        assert!(!assert_ready!(task::spawn(access.wait_until_unblocked()).poll()));
    }

    #[test]
    fn nobody_waits_for_a_version_that_was_replaced() {
        let access = Access::default();
        access.set_rights(vec![missing(None, "gone")]);
        let mut waiting = task::spawn(access.wait_until_granted());
        assert_pending!(waiting.poll());
        access.retire();
        assert!(!assert_ready!(waiting.poll()));
        assert!(!assert_ready!(task::spawn(access.wait_until_granted()).poll()));
    }

    #[test]
    fn a_long_summary_is_truncated() {
        let all: Vec<_> = ["a", "b", "c", "d", "e"].iter().map(|text| missing(None, text)).collect();
        assert_eq!(summary(all[..2].iter()).to_string(), "a; b");
        assert_eq!(summary(all.iter()).to_string(), "a; b; c; and 2 more");
    }
}
