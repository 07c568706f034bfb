//! What the host sees of each resource, and how late or old it is because of faults. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::run::{PAST_LAG, RELIST_BACKOFF};

/// The views of one host. Times are virtual milliseconds. A clock is read only while a fault concerns a view: most runs have no such fault, and these
/// questions are asked at each wake of a task.
#[derive(Default)]
pub(super) struct Views {
    /// The resources whose first lists are answered from the past.
    past: BTreeMap<String, PastLists>,
    /// Until when the watches of a resource deliver nothing.
    holds: BTreeMap<String, u64>,
    /// The resources whose watch has ended, and when the host may list them again.
    relists: BTreeMap<String, u64>,
    /// The resources that the host has not listed again since, and until when it will have at the latest.
    unlisted: BTreeMap<String, u64>,
    /// The UIDs of the objects in the host's caches, by resource and key.
    cached_uids: BTreeMap<(String, String), String>,
}

/// How the first lists of a resource are answered after a restart into the past.
struct PastLists {
    /// How many changes the past lacks.
    changes: u32,
    /// The version, and until when the API server that answers is behind; `None` before the first list.
    version: Option<(u64, u64)>,
    /// The lists that were answered, as paths with selectors. A later list of the same informer is not its first one.
    listed: BTreeSet<String>,
}

impl Views {
    /// Returns the views of a host that starts at `now`, whose first lists of some resources lack some changes.
    pub(super) fn of_new_host(past: &[(String, u32)], now: u64) -> Self {
        let lists = |changes| PastLists { changes, version: None, listed: BTreeSet::new() };
        // The fault is not over before the first lists were answered.
        let until = now.saturating_add(PAST_LAG);
        Self {
            past: past.iter().map(|(resource, changes)| (resource.clone(), lists(*changes))).collect(),
            holds: past.iter().map(|(resource, _)| (resource.clone(), until)).collect(),
            ..Self::default()
        }
    }

    /// Whether one of them is late or old because of a fault.
    pub(super) fn is_held(&self, clock: impl Fn() -> u64) -> bool {
        self.holds.values().chain(self.unlisted.values()).any(|until| *until > clock())
            || !self.relists.is_empty()
    }

    /// Returns when a delay ended last.
    pub(super) fn last_hold_before(&self, clock: impl Fn() -> u64) -> Option<u64> {
        self.holds.values().copied().filter(|until| *until <= clock()).max()
    }

    /// Returns until when the watches of a resource deliver nothing, if they do not.
    pub(super) fn held_until(&self, resource: &str, clock: impl Fn() -> u64) -> Option<u64> {
        self.holds.get(resource).copied().filter(|until| *until > clock())
    }

    /// Holds the watches of a resource back, or longer than they are.
    pub(super) fn hold(&mut self, resource: &str, until: u64) {
        let hold = self.holds.entry(resource.to_owned()).or_default();
        *hold = until.max(*hold);
    }

    /// Ends the watches of a resource. The host may list it again at this time.
    pub(super) fn drop_watch(&mut self, resource: &str, relist_at: u64) {
        self.relists.insert(resource.to_owned(), relist_at);
    }

    /// Returns when the host may list a resource again whose watch has ended.
    pub(super) fn relist_at(&self, resource: &str) -> Option<u64> {
        self.relists.get(resource).copied()
    }

    /// Lets the host list a resource again whose watch has ended.
    pub(super) fn allow_relist(&mut self, resource: &str, now: u64) {
        self.relists.remove(resource);
        self.unlisted.insert(resource.to_owned(), now.saturating_add(RELIST_BACKOFF));
    }

    /// Notes that the host has listed a resource. What it had in its cache is replaced.
    pub(super) fn listed(&mut self, resource: &str, namespace: &str) {
        self.unlisted.remove(resource);
        let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        self.cached_uids.retain(|(of, key), _| of != resource || !key.starts_with(&prefix));
    }

    /// Returns the version of the past as of which a list is answered, or `None` for now. `list` is the path with its selectors, and `version_before`
    /// returns the version that lacks so many changes. The first lists of all informers of a resource show the same past, until the API server that
    /// answers them has caught up.
    pub(super) fn version_of_first_list(
        &mut self,
        resource: &str,
        list: &str,
        now: u64,
        version_before: impl FnOnce(u32) -> Option<u64>,
    ) -> Option<u64> {
        let past = self.past.get_mut(resource)?;
        if !past.listed.insert(list.to_owned()) {
            return None;
        }
        if past.version.is_none() {
            let until = now.saturating_add(PAST_LAG);
            past.version = Some((version_before(past.changes)?, until));
            self.holds.insert(resource.to_owned(), until);
        }
        past.version.filter(|(_, until)| now < *until).map(|(version, _)| version)
    }

    /// Returns the UID under which the host's cache knows an object.
    pub(super) fn cached_uid(&self, resource: &str, key: &str) -> Option<&str> {
        self.cached_uids.get(&(resource.to_owned(), key.to_owned())).map(String::as_str)
    }

    /// Notes that the host's cache has an object.
    pub(super) fn cache(&mut self, resource: &str, key: &str, uid: &str) {
        self.cached_uids.insert((resource.to_owned(), key.to_owned()), uid.to_owned());
    }

    /// Notes that the host's cache has an object no more.
    pub(super) fn forget(&mut self, resource: &str, key: &str) {
        self.cached_uids.remove(&(resource.to_owned(), key.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_list_of_each_informer_shows_the_same_past_until_the_server_has_caught_up() {
        let mut views = Views::of_new_host(&[("pods".to_owned(), 2)], 0);
        assert!(views.is_held(|| 0));
        let before = |changes: u32| Some(100 - u64::from(changes));
        assert_eq!(views.version_of_first_list("pods", "/a", 10, before), Some(98));
        assert_eq!(views.version_of_first_list("pods", "/a", 10, before), None, "it is not the first");
        assert_eq!(views.version_of_first_list("pods", "/b", 20, |_| Some(1)), Some(98), "the same past");
        assert_eq!(views.version_of_first_list("nodes", "/a", 20, before), None);
        let end = views.held_until("pods", || 20).expect("held");
        assert_eq!(views.version_of_first_list("pods", "/c", end, before), None);
        assert!(!views.is_held(|| end));
        assert_eq!(views.last_hold_before(|| end), Some(end));
    }

    #[test]
    fn a_watch_that_has_ended_is_held_until_the_host_has_listed_again() {
        let mut views = Views::default();
        views.drop_watch("pods", 50);
        assert_eq!((views.is_held(|| 60), views.relist_at("pods")), (true, Some(50)));
        views.allow_relist("pods", 60);
        assert_eq!((views.is_held(|| 60), views.relist_at("pods")), (true, None));
        views.listed("pods", "");
        assert!(!views.is_held(|| 60));
    }

    #[test]
    fn a_list_replaces_what_the_cache_has_of_its_namespace() {
        let mut views = Views::default();
        for key in ["a/x", "b/x"] {
            views.cache("pods", key, "1");
        }
        views.listed("pods", "a");
        assert_eq!((views.cached_uid("pods", "a/x"), views.cached_uid("pods", "b/x")), (None, Some("1")));
        views.forget("pods", "b/x");
        assert_eq!(views.cached_uid("pods", "b/x"), None);
    }

    #[test]
    fn no_clock_is_read_while_no_fault_concerns_a_view() {
        let views = Views::default();
        let clock = || -> u64 { panic!("the clock is read") };
        assert!(!views.is_held(clock));
        assert_eq!((views.held_until("pods", clock), views.last_hold_before(clock)), (None, None));
    }

    #[test]
    fn the_longest_hold_counts() {
        let mut views = Views::default();
        views.hold("pods", 50);
        views.hold("pods", 20);
        assert_eq!((views.held_until("pods", || 20), views.held_until("pods", || 50)), (Some(50), None));
    }
}
