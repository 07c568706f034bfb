//! Decides when the deviations of a plan take effect. Pure.

use std::collections::BTreeMap;

use crate::plan::{Deviation, Fault, Moment};

/// The deviations of a plan, with the counts of what has happened so far.
pub(super) struct Schedule {
    deviations: Vec<Deviation>,
    /// Which deviations have taken effect, in the plan's order.
    applied: Vec<bool>,
    requests: BTreeMap<(String, String), u32>,
    http: BTreeMap<(String, String), u32>,
    events: BTreeMap<String, u32>,
    rests: u32,
}

impl Schedule {
    pub(super) fn new(deviations: Vec<Deviation>) -> Self {
        let applied = vec![false; deviations.len()];
        Self {
            deviations,
            applied,
            requests: BTreeMap::new(),
            http: BTreeMap::new(),
            events: BTreeMap::new(),
            rests: 0,
        }
    }

    /// Counts a request of the plugin. Returns the deviations whose moment this is.
    pub(super) fn on_request(&mut self, verb: &str, resource: &str) -> Vec<usize> {
        let count = self.requests.entry((verb.to_owned(), resource.to_owned())).or_default();
        *count += 1;
        let count = *count;
        self.take(|moment| match moment {
            Moment::Request { verb: wanted, resource: of, occurrence } => {
                wanted == verb && of == resource && *occurrence == count
            }
            _ => false,
        })
    }

    /// Counts an HTTP request of the plugin. Returns the deviations whose moment this is.
    pub(super) fn on_http(&mut self, method: &str, host: &str) -> Vec<usize> {
        let count = self.http.entry((method.to_owned(), host.to_owned())).or_default();
        *count += 1;
        let count = *count;
        self.take(|moment| match moment {
            Moment::Http { method: wanted, host: of, occurrence } => {
                wanted == method && of == host && *occurrence == count
            }
            _ => false,
        })
    }

    /// Counts an event of a watch. Returns the deviations whose moment this is.
    pub(super) fn on_event(&mut self, resource: &str) -> Vec<usize> {
        let count = self.events.entry(resource.to_owned()).or_default();
        *count += 1;
        let count = *count;
        self.take(|moment| match moment {
            Moment::Event { resource: of, occurrence } => of == resource && *occurrence == count,
            _ => false,
        })
    }

    /// Counts a rest. Returns its number and the deviations whose moment this is.
    pub(super) fn on_rest(&mut self) -> (u32, Vec<usize>) {
        self.rests += 1;
        let count = self.rests;
        let due = self.take(|moment| matches!(moment, Moment::Rest { occurrence } if *occurrence == count));
        (count, due)
    }

    /// Returns the deviations whose moment is this step.
    pub(super) fn on_step(&mut self, actor: &str, step: u32) -> Vec<usize> {
        self.take(|moment| match moment {
            Moment::Step { actor: name, step: number } => name == actor && *number == step,
            _ => false,
        })
    }

    /// Returns the deviations whose time has come.
    pub(super) fn on_time(&mut self, now_ms: u64) -> Vec<usize> {
        self.take(|moment| matches!(moment, Moment::Time(time) if *time <= now_ms))
    }

    /// Returns when the next deviation with a time is due.
    pub(super) fn next_time(&self) -> Option<u64> {
        let pending = self.deviations.iter().zip(&self.applied).filter(|(_, applied)| !**applied);
        pending
            .filter_map(|(deviation, _)| match deviation.at {
                Moment::Time(time) => Some(time),
                _ => None,
            })
            .min()
    }

    /// Marks a deviation that had no effect after all.
    pub(super) fn skip(&mut self, index: usize) {
        self.applied[index] = false;
    }

    /// Returns whether all deviations have taken effect.
    pub(super) fn is_over(&self) -> bool {
        self.applied.iter().all(|applied| *applied)
    }

    /// Returns the indexes of the deviations that have not taken effect.
    pub(super) fn skipped(&self) -> Vec<usize> {
        (0..self.applied.len()).filter(|index| !self.applied[*index]).collect()
    }

    pub(super) fn deviation(&self, index: usize) -> &Deviation {
        &self.deviations[index]
    }

    pub(super) fn fault(&self, index: usize) -> &Fault {
        &self.deviations[index].fault
    }

    fn take(&mut self, is_now: impl Fn(&Moment) -> bool) -> Vec<usize> {
        let due = |index: &usize| !self.applied[*index] && is_now(&self.deviations[*index].at);
        let due: Vec<_> = (0..self.deviations.len()).filter(due).collect();
        due.iter().for_each(|index| self.applied[*index] = true);
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn schedule(moments: Vec<Moment>) -> Schedule {
        Schedule::new(moments.into_iter().map(|at| Deviation { at, fault: Fault::Reload }).collect())
    }

    #[test]
    fn occurrences_are_counted_for_each_verb_and_resource() {
        let second = Moment::Request { verb: "create".into(), resource: "pods".into(), occurrence: 2 };
        let mut schedule = schedule(vec![second, Moment::Event { resource: "pods".into(), occurrence: 1 }]);
        assert_eq!(schedule.on_request("create", "pods"), NONE);
        assert_eq!(schedule.on_request("delete", "pods"), NONE);
        assert_eq!(schedule.on_request("create", "pods/status"), NONE);
        assert_eq!(schedule.skipped(), [0, 1]);
        assert_eq!(schedule.on_request("create", "pods"), [0]);
        assert_eq!(schedule.on_event("services"), NONE);
        assert_eq!(schedule.on_event("pods"), [1]);
        assert!(schedule.is_over());
        assert_eq!(schedule.on_event("pods"), NONE, "each takes effect once");
    }

    #[test]
    fn http_requests_are_counted_for_each_method_and_host() {
        let second = Moment::Http { method: "POST".into(), host: "cloud".into(), occurrence: 2 };
        let mut schedule = schedule(vec![second]);
        assert_eq!(schedule.on_http("POST", "cloud"), NONE);
        assert_eq!(schedule.on_http("GET", "cloud"), NONE);
        assert_eq!(schedule.on_http("POST", "elsewhere"), NONE);
        assert_eq!(schedule.on_http("POST", "cloud"), [0]);
    }

    #[test]
    fn times_rests_and_steps_come_once() {
        let step = Moment::Step { actor: "user".into(), step: 2 };
        let mut schedule = schedule(vec![Moment::Time(500), Moment::Rest { occurrence: 2 }, step]);
        assert_eq!(schedule.next_time(), Some(500));
        assert_eq!(schedule.on_time(499), NONE);
        assert_eq!(schedule.on_time(700), [0]);
        assert_eq!(schedule.next_time(), None);
        assert_eq!(schedule.on_rest(), (1, vec![]));
        assert_eq!(schedule.on_rest(), (2, vec![1]));
        assert_eq!(schedule.on_step("user", 1), NONE);
        assert_eq!(schedule.on_step("user", 2), [2]);
        schedule.skip(2);
        assert_eq!(schedule.skipped(), [2]);
    }
}
