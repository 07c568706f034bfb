use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

/// Whether a version may work now. Loading makes it, its guard keeps it up to date, and whatever shows the plugin an object
/// asks it first: while a right is missing, nothing is reconciled, observed or indexed, and the cache cannot be read.
#[derive(Default)]
pub(crate) struct Permission {
    /// The same as in `state`: reads of the cache are many, and mostly nothing is missing.
    held: AtomicBool,
    retired: AtomicBool,
    state: watch::Sender<State>,
}

/// A right that is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    /// The watch whose objects it keeps back; none, where it is all of them.
    pub(crate) watch: Option<Arc<str>>,
    /// What is missing, and what to do about it.
    pub(crate) text: String,
}

/// What a [`Permission`] knows; only to be told of its changes.
#[derive(Default)]
pub(crate) struct State {
    /// The operator's word for this version is another now, and its successor waits.
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
    /// What keeps this watch's objects from the plugin.
    pub(crate) fn missing(&self, watch: &str) -> Option<String> {
        if !self.is_held() {
            return None;
        }
        let state = self.state.borrow();
        let missing =
            state.missing().find(|missing| missing.watch.as_deref().is_none_or(|of| of == watch))?;
        Some(missing.text.clone())
    }

    /// What the operator took away: then requests are not for the API server alone to judge.
    pub(crate) fn withdrawn(&self) -> Option<String> {
        if !self.is_held() {
            return None;
        }
        self.state.borrow().operator.as_ref().map(|missing| missing.text.clone())
    }

    /// Whether anything is missing, so that no work may start.
    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }

    /// All that is missing, in one line.
    pub(crate) fn why(&self) -> Option<String> {
        let state = self.state.borrow();
        state.is_held().then(|| list(state.missing()).to_string())
    }

    /// Waits until nothing is missing. `false` when the version was retired meanwhile. Cancellation safe.
    pub(crate) async fn granted(&self) -> bool {
        if !self.is_held() && !self.retired.load(Ordering::Relaxed) {
            return true;
        }
        let mut state = self.state.subscribe();
        // The sender is this one's own: it is there for as long as this runs.
        let settled = state.wait_for(|state| state.retired || !state.is_held()).await;
        settled.is_ok_and(|state| !state.retired)
    }

    /// Waits until something is missing; not for a version that was retired. Cancellation safe.
    pub(crate) async fn lost(&self) {
        let mut state = self.state.subscribe();
        // An error cannot be: the sender is this one's own.
        let _ = state.wait_for(|state| !state.retired && state.is_held()).await;
    }

    /// Tells of each change of what [`why`](Self::why) answers.
    pub(crate) fn changes(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// What the API server says. Returns whether that is another than before.
    pub(crate) fn set_rights(&self, rights: Vec<Missing>) -> bool {
        self.change(|state| {
            let changed = state.rights != rights;
            state.rights = rights;
            changed
        })
    }

    /// What the operator says: with a reason, the version is held until it is called again without.
    pub(crate) fn set_operator(&self, reason: Option<String>) {
        let missing = reason.map(|text| Missing { watch: None, text });
        self.change(|state| {
            let changed = state.operator != missing;
            state.operator = missing;
            changed
        });
    }

    /// Another version has taken the place of this one: nobody waits for it any more.
    pub(crate) fn retire(&self) {
        self.change(|state| !std::mem::replace(&mut state.retired, true));
    }

    fn change(&self, change: impl FnOnce(&mut State) -> bool) -> bool {
        self.state.send_if_modified(|state| {
            let changed = change(state);
            // Nobody waits for a version that was retired; what it lacked stays out of its reach.
            self.held.store(state.is_held(), Ordering::Relaxed);
            self.retired.store(state.retired, Ordering::Relaxed);
            changed
        })
    }
}

/// Several missing rights in one line, of which only the first are told.
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
