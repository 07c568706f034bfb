//! The keys that the plugins want again later, and for which of them a run waits before it ends. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::reconciles::Subject;

/// The longest time that a run waits for a requeue after the last step, in virtual milliseconds.
pub(super) const MAX_WAIT: u64 = 10 * 60 * 1000;
/// The longest delay between the time of a requeue and the start of its reconcile, in virtual milliseconds.
const SLACK: u64 = 1000;

/// The requeues of one host.
#[derive(Default)]
pub(super) struct Requeues {
    /// When the pending ones are due.
    due: BTreeMap<Subject, u64>,
    /// What is known since the run waits for them.
    wait: Option<Wait>,
}

struct Wait {
    since: u64,
    /// How many steps the actors had taken.
    steps: usize,
    /// The keys that were requeued since.
    fired: BTreeSet<Subject>,
}

impl Requeues {
    /// Notes that a reconcile of the key begins.
    pub(super) fn begin(&mut self, subject: &Subject, now: u64) {
        let is_due = self.due.remove(subject).is_some_and(|due| due <= now);
        if let Some(wait) = self.wait.as_mut().filter(|_| is_due) {
            wait.fired.insert(subject.clone());
        }
    }

    /// Notes that the plugin wants the key again at `due`.
    pub(super) fn add(&mut self, subject: Subject, due: u64) {
        self.due.insert(subject, due);
    }

    /// Forgets all, because a new host or version starts.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Returns the time by which each pending requeue has fired once; `None` if the run need not wait.
    ///
    /// Counts requeues that are due within [`MAX_WAIT`] after the wait began, or before `awaited_until`, if that is later. A key that is requeued
    /// again meanwhile counts once. `steps` is the number of steps that were taken: a further step begins a new wait.
    pub(super) fn fired_by(&mut self, now: u64, steps: usize, awaited_until: u64) -> Option<u64> {
        let wait = match self.wait.take().filter(|wait| wait.steps == steps) {
            Some(wait) => wait,
            None => Wait { since: now, steps, fired: BTreeSet::new() },
        };
        let end = wait.since.saturating_add(MAX_WAIT).max(awaited_until);
        let awaited = self.due.iter().filter(|(subject, due)| **due <= end && !wait.fired.contains(*subject));
        let last = awaited.map(|(_, due)| due.saturating_add(SLACK)).filter(|by| *by > now).max();
        self.wait = Some(wait);
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(key: &str) -> Subject {
        ("p".to_owned(), "zoos".to_owned(), key.to_owned())
    }

    /// The timer of a key fires at `now`, and begins anew.
    fn fire(requeues: &mut Requeues, key: &str, now: u64, delay: u64) {
        requeues.begin(&subject(key), now);
        requeues.add(subject(key), now + delay);
    }

    #[test]
    fn each_key_is_awaited_once_however_often_its_timer_begins_anew() {
        let mut requeues = Requeues::default();
        requeues.add(subject("a"), 10_000);
        requeues.add(subject("b"), 45_000);
        assert_eq!(requeues.fired_by(5_000, 1, 0), Some(46_000));
        fire(&mut requeues, "a", 10_000, 10_000);
        fire(&mut requeues, "b", 45_000, 45_000);
        assert_eq!(requeues.fired_by(46_000, 1, 0), None);
        assert_eq!(requeues.fired_by(46_000, 2, 0), Some(91_000), "a step begins the wait anew");
    }

    #[test]
    fn a_requeue_that_an_event_replaces_is_still_awaited() {
        let mut requeues = Requeues::default();
        requeues.add(subject("a"), 10_000);
        assert_eq!(requeues.fired_by(0, 1, 0), Some(11_000));
        requeues.begin(&subject("a"), 8_000);
        assert_eq!(requeues.fired_by(8_000, 1, 0), None, "the key is not wanted any more");
        requeues.add(subject("a"), 18_000);
        assert_eq!(requeues.fired_by(8_000, 1, 0), Some(19_000));
    }

    #[test]
    fn no_run_waits_for_long() {
        let mut requeues = Requeues::default();
        requeues.add(subject("a"), MAX_WAIT + 1);
        assert_eq!(requeues.fired_by(0, 1, 0), None);
        requeues.add(subject("a"), MAX_WAIT);
        assert_eq!(requeues.fired_by(0, 1, 0), Some(MAX_WAIT + SLACK));
        requeues.forget();
        assert_eq!(requeues.fired_by(0, 1, 0), None);
    }

    #[test]
    fn a_later_requeue_is_awaited_if_an_actor_may_wait_for_what_it_does() {
        let mut requeues = Requeues::default();
        requeues.add(subject("a"), 2 * MAX_WAIT);
        assert_eq!(requeues.fired_by(0, 1, 2 * MAX_WAIT - 1), None);
        assert_eq!(requeues.fired_by(0, 1, 2 * MAX_WAIT), Some(2 * MAX_WAIT + SLACK));
    }
}
