//! Whether a version may work now.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

/// Whether a version may work now. Loading creates it and the version's monitor keeps it up to date. It is
/// checked before an object is shown to the plugin: while a right is missing, nothing is reconciled, observed
/// or indexed, and the cache cannot be read.
#[derive(Default)]
pub(crate) struct Permission {
    /// A copy of `AccessState::is_withheld`: the cache is read often, and mostly nothing is missing.
    held: AtomicBool,
    retired: AtomicBool,
    state: watch::Sender<State>,
}

/// A missing right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    /// The watch whose objects are withheld; `None` for all watches.
    pub(crate) watch: Option<Arc<str>>,
    /// What is missing, and what to do about it.
    pub(crate) text: String,
}

/// The state of an [`Access`]; public only so that its changes can be awaited.
#[derive(Default)]
pub(crate) struct State {
    /// The operator's terms have changed since this version was loaded, and its successor is not ready yet.
    operator: Option<Missing>,
    rights: Vec<Missing>,
    retired: bool,
}

impl State {
    fn missing(&self) -> impl Iterator<Item = &Missing> + Clone {
        self.operator.iter().chain(&self.rights)
    }

    fn is_held(&self) -> bool {
        self.missing().next().is_some()
    }
}

impl Permission {
    /// Why this watch's objects are withheld from the plugin; `None` if they are not.
    pub(crate) fn missing(&self, watch: &str) -> Option<String> {
        if !self.is_held() {
            return None;
        }
        let state = self.state.borrow();
        let missing =
            state.missing().find(|missing| missing.watch.as_deref().is_none_or(|of| of == watch))?;
        Some(missing.text.clone())
    }

    /// What the operator took away. The host must then refuse requests itself, because the API server would
    /// allow them.
    pub(crate) fn withdrawn(&self) -> Option<String> {
        if !self.is_held() {
            return None;
        }
        self.state.borrow().operator.as_ref().map(|missing| missing.text.clone())
    }

    /// Whether a right is missing, so that no work may start.
    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }

    /// All missing rights in one line; `None` if nothing is missing.
    pub(crate) fn why(&self) -> Option<String> {
        let state = self.state.borrow();
        state.is_held().then(|| list(state.missing()).to_string())
    }

    /// Waits until nothing is missing. Returns `false` if the version was retired meanwhile. Cancellation
    /// safe.
    pub(crate) async fn granted(&self) -> bool {
        if !self.is_held() && !self.retired.load(Ordering::Relaxed) {
            return true;
        }
        let mut state = self.state.subscribe();
        // `self` owns the sender, so the channel is not closed.
        let settled = state.wait_for(|state| state.retired || !state.is_held()).await;
        settled.is_ok_and(|state| !state.retired)
    }

    /// Waits until a right is missing; forever for a version that was retired. Cancellation safe.
    pub(crate) async fn lost(&self) {
        let mut state = self.state.subscribe();
        // Cannot fail: `self` owns the sender.
        let _ = state.wait_for(|state| !state.retired && state.is_held()).await;
    }

    /// Notified when the answer of [`reason`](Self::reason) changes.
    pub(crate) fn changes(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Sets the rights that the API server denies. Returns whether they have changed.
    pub(crate) fn set_rights(&self, rights: Vec<Missing>) -> bool {
        self.change(|state| {
            let changed = state.rights != rights;
            state.rights = rights;
            changed
        })
    }

    /// Withholds everything for a reason of the operator's, until it is called with `None`.
    pub(crate) fn set_operator(&self, reason: Option<String>) {
        let missing = reason.map(|text| Missing { watch: None, text });
        self.change(|state| {
            let changed = state.operator != missing;
            state.operator = missing;
            changed
        });
    }

    /// Retires a version that was replaced: nobody waits for its access any more.
    pub(crate) fn retire(&self) {
        self.change(|state| !std::mem::replace(&mut state.retired, true));
    }

    fn change(&self, change: impl FnOnce(&mut State) -> bool) -> bool {
        self.state.send_if_modified(|state| {
            let changed = change(state);
            // A retired version never gets back a right that it lacked.
            self.held.store(state.is_held(), Ordering::Relaxed);
            self.retired.store(state.retired, Ordering::Relaxed);
            changed
        })
    }
}

/// Several missing rights in one line, of which only the first few are listed.
pub(super) fn list<'a>(missing: impl Iterator<Item = &'a Missing> + Clone) -> impl fmt::Display {
    const TOLD: usize = 3;
    let told: Vec<_> = missing.clone().take(TOLD).map(|missing| missing.text.as_str()).collect();
    let more = missing.count().saturating_sub(TOLD);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    told.join("; ") + &more
}

#[cfg(test)]
mod tests {
    use tokio_test::{assert_pending, assert_ready, task};

    use super::*;

    fn missing(watch: Option<&str>, text: &str) -> Missing {
        Missing { watch: watch.map(Arc::from), text: text.into() }
    }

    #[test]
    fn a_missing_right_keeps_its_watch_back_and_all_work() {
        let permission = Permission::default();
        assert_eq!((permission.is_held(), permission.missing("pods"), permission.why()), (false, None, None));
        assert!(permission.set_rights(vec![missing(Some("pods"), "no pods")]));
        assert!(!permission.set_rights(vec![missing(Some("pods"), "no pods")]), "nothing new");
        assert_eq!(permission.missing("pods").as_deref(), Some("no pods"));
        assert_eq!(permission.missing("nodes"), None);
        assert_eq!(permission.why().as_deref(), Some("no pods"));
        assert!(permission.set_rights(vec![]));
        assert_eq!((permission.is_held(), permission.missing("pods")), (false, None));
    }

    #[test]
    fn what_the_operator_takes_away_is_everything_until_it_is_given_back() {
        let permission = Permission::default();
        permission.set_operator(Some("another account".into()));
        permission.set_rights(vec![missing(Some("pods"), "no pods")]);
        assert_eq!(permission.missing("nodes").as_deref(), Some("another account"));
        assert_eq!(permission.withdrawn().as_deref(), Some("another account"));
        assert_eq!(permission.why().as_deref(), Some("another account; no pods"));
        permission.set_rights(vec![]);
        assert!(permission.is_held());
        permission.set_operator(None);
        assert!(!permission.is_held());
        permission.set_rights(vec![missing(Some("pods"), "no pods")]);
        assert_eq!(permission.withdrawn(), None, "that is for the server to judge");
    }

    #[test]
    fn work_waits_and_goes_on() {
        let permission = Permission::default();
        assert!(assert_ready!(task::spawn(permission.granted()).poll()));
        permission.set_rights(vec![missing(None, "gone")]);
        let mut waiting = task::spawn(permission.granted());
        assert_pending!(waiting.poll());
        permission.set_rights(vec![missing(None, "still gone")]);
        assert_pending!(waiting.poll());
        permission.set_rights(vec![]);
        assert!(waiting.is_woken());
        assert!(assert_ready!(waiting.poll()));
    }

    #[test]
    fn nobody_waits_for_a_version_that_was_replaced() {
        let permission = Permission::default();
        permission.set_rights(vec![missing(None, "gone")]);
        let mut waiting = task::spawn(permission.granted());
        assert_pending!(waiting.poll());
        permission.retire();
        assert!(!assert_ready!(waiting.poll()));
        assert!(!assert_ready!(task::spawn(permission.granted()).poll()));
    }

    #[test]
    fn a_long_list_is_cut() {
        let all: Vec<_> = ["a", "b", "c", "d", "e"].iter().map(|text| missing(None, text)).collect();
        assert_eq!(list(all[..2].iter()).to_string(), "a; b");
        assert_eq!(list(all.iter()).to_string(), "a; b; c; and 2 more");
    }
}
