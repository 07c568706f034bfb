//! *convergence*: after the last step and the last fault, the plugin comes to rest and every key succeeds.

use std::collections::BTreeMap;

use super::hot_loop::HotLoop;
use super::timers::reconciles_by_timers;
use super::{Description, Judgement, Oracle, ReferenceRuns, Violation};
use crate::analysis::{ObjectId, RunView};
use crate::run::{Author, End, EventKind, ReconcileResult};

pub(super) const DESCRIPTION: Description = Description {
    name: "convergence",
    reports: "the plugin never comes to rest: for 10 minutes nothing but its own timers changes objects; or it still writes when the run's time is up \
              after the last step and the last fault, or asks for a key again more often than once in a second until the run is full; or a key fails for \
              ever that succeeds in the reference",
    premise: "Once the world is quiet, a controller finishes its work (eventually stable reconciliation). Timers are rest if they write nothing, \
              write what is there already, or write Events and Leases. A time in a status that is written more often than every 30 s is reported: it \
              changes the object for all who watch it, and a Lease does not. If that is meant, switch the oracle off. \
              Not judged: loops that *hot loop* reports.",
};

/// How many reconciles of a key must fail in a row after the faults.
const MIN_FAILURES: usize = 3;
/// How many reconciles of a key must follow each other within [`MIN_INTERVAL`] on average.
const MIN_POLLS: usize = 100;
/// The shortest interval at which a plugin may ask for a key again all the time, in virtual milliseconds.
const MIN_INTERVAL: u64 = 1000;

/// The oracle.
#[derive(Debug)]
pub(super) struct Convergence;

impl Oracle for Convergence {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn judge(&self, run: &RunView<'_>, reference: Option<&ReferenceRuns>) -> Judgement {
        let busy_timeout = run.run.events.iter().position(|event| event.kind == EventKind::BusyTimeout);
        let polled = self.polls(run);
        let ends = run.faults_over < run.run.events.len() && !matches!(run.run.end, End::PluginStopped(_));
        if busy_timeout.is_none() && polled.is_none() && !ends {
            return Judgement::without_subject();
        }
        let mut violations: Vec<_> = match busy_timeout {
            Some(index) => self.never_rests(run, index).into_iter().collect(),
            None if ends => self.still_writes(run).into_iter().collect(),
            None => Vec::new(),
        };
        if violations.is_empty() {
            violations.extend(polled);
        }
        if let Some(reference) = reference.filter(|_| ends) {
            violations.extend(self.still_fails(run, reference));
        }
        Judgement::of(violations)
    }
}

impl Convergence {
    /// Returns a violation for what the plugin wrote since the last step or fault, if the world went on at `index` although it was not at rest.
    fn never_rests(&self, run: &RunView<'_>, index: usize) -> Option<Violation> {
        let events = &run.run.events;
        let is_external = |kind: &EventKind| match kind {
            EventKind::Request(request) => matches!(request.author, Author::Actor(_)),
            EventKind::Deviated { .. } | EventKind::HostStarted { .. } | EventKind::Reloaded => true,
            _ => false,
        };
        let start = events[..index].iter().rposition(|event| is_external(&event.kind))?;
        let late = events[index].time - (events[index].time - events[start].time) / 3;
        let mut written: BTreeMap<ObjectId, (usize, usize)> = BTreeMap::new();
        let writes = run.effective_writes().filter(|(at, _)| (start..index).contains(at));
        for (at, request) in writes.filter(|(at, _)| events[*at].time >= late) {
            let (count, last) = written.entry(run.names.canonical_id(&request.object_id())).or_default();
            (*count, *last) = (*count + 1, at);
        }
        let (id, (count, last)) = written.into_iter().next()?;
        if is_hot_loop(run) {
            return None;
        }
        let explanation = format!(
            "{:.0} s after the last step or fault, the plugin still writes {id}, {} in the last {:.0} s",
            seconds(events[index].time - events[start].time),
            if count == 1 { "once".to_owned() } else { format!("{count} times") },
            seconds(events[index].time - late),
        );
        Some(Violation::new(self, &id, Some(last), explanation))
    }

    /// Returns a violation for a key that the plugin asked for again and again until the record of the run was full.
    fn polls(&self, run: &RunView<'_>) -> Option<Violation> {
        if run.run.end != End::NotAtRest {
            return None;
        }
        let start = run.run.events.len() / 3 * 2;
        let by_timers = reconciles_by_timers(run);
        let mut polls: BTreeMap<(&str, &str, &str), Vec<usize>> = BTreeMap::new();
        for (_, reconcile) in run
            .reconciles
            .iter()
            .filter(|(number, reconcile)| reconcile.start >= start && by_timers.contains(number))
        {
            polls
                .entry((reconcile.plugin, reconcile.watch, reconcile.key))
                .or_default()
                .push(reconcile.start);
        }
        polls.into_iter().find_map(|((.., key), starts)| {
            let (first, last) = (*starts.first()?, *starts.last()?);
            let passed = run.run.events[last].time - run.run.events[first].time;
            let intervals = u64::try_from(starts.len() - 1).unwrap_or(u64::MAX);
            if starts.len() < MIN_POLLS || passed >= intervals.saturating_mul(MIN_INTERVAL) {
                return None;
            }
            let explanation = format!(
                "the plugin asks for {key} again every {} ms, {} times until the run is full",
                passed / intervals,
                starts.len()
            );
            Some(Violation::of_key(self, key, Some(last), explanation))
        })
    }

    /// Returns a violation if the plugin wrote in the last third of the time after the faults.
    fn still_writes(&self, run: &RunView<'_>) -> Option<Violation> {
        if run.run.end != End::NotAtRest || is_hot_loop(run) {
            return None;
        }
        let (start, end) = (run.run.events[run.faults_over].time, run.run.events.last()?.time);
        let late = end - (end - start) / 3;
        let (index, request) = run
            .effective_writes()
            .filter(|(index, _)| *index > run.faults_over && run.run.events[*index].time >= late)
            .last()?;
        let id = run.names.canonical_id(&request.object_id());
        let explanation = format!(
            "{:.1} s after the last step and the last fault, the plugin still writes {id}",
            seconds(run.run.events[index].time - start)
        );
        Some(Violation::new(self, &id, Some(index), explanation))
    }

    /// Returns a violation for each key whose last three or more reconciles after the faults returned errors. Traps are another oracle's.
    fn still_fails(&self, run: &RunView<'_>, reference: &ReferenceRuns) -> Vec<Violation> {
        if !reference.has_actor_writes_of(run) {
            return Vec::new();
        }
        let mut failures: BTreeMap<(&str, &str, &str), (usize, usize, &str)> = BTreeMap::new();
        for reconcile in run.reconciles.values().filter(|reconcile| reconcile.start > run.faults_over) {
            let key = (reconcile.plugin, reconcile.watch, reconcile.key);
            match reconcile.end {
                Some((index, ReconcileResult::Error(error))) => {
                    let entry = failures.entry(key).or_insert((0, index, error));
                    *entry = (entry.0 + 1, index, error);
                }
                Some((_, ReconcileResult::Ok | ReconcileResult::Requeue(_))) => {
                    failures.remove(&key);
                }
                _ => {}
            }
        }
        failures
            .into_iter()
            .filter(|((plugin, watch, key), (count, ..))| {
                *count >= MIN_FAILURES && reference.succeeds(plugin, watch, key)
            })
            .map(|((.., key), (count, index, error))| {
                let explanation = format!(
                    "{count} reconciles of {key} in a row failed after the last step and the last fault, the last with: {error}; \
                     without the faults the key succeeds"
                );
                Violation::of_key(self, key, Some(index), explanation)
            })
            .collect()
    }
}

fn is_hot_loop(run: &RunView<'_>) -> bool {
    !HotLoop.judge(run, None).violations.is_empty()
}

fn seconds(milliseconds: u64) -> f64 {
    std::time::Duration::from_millis(milliseconds).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{RunBuilder, judge};

    fn writes_until(end: End) -> crate::Run {
        let mut run = RunBuilder::new();
        run.actor("user", "create", "foos.example.com", "a", Some(json!({})));
        run.faults_over();
        for round in 0..6 {
            run.at(round * 60_000);
            run.start_for("a", "requeue");
            run.write("update", "foos.example.com", "a", Some(json!({"status": round})));
            run.end(ReconcileResult::Requeue(60_000));
        }
        run.finish_with(end)
    }

    fn fails(times: u32) -> crate::Run {
        let mut run = RunBuilder::new();
        run.start("a");
        run.end(ReconcileResult::Ok);
        run.faults_over();
        for _ in 0..times {
            run.start_for("a", "retry");
            run.end(ReconcileResult::Error("two requests".to_owned()));
        }
        run.finish()
    }

    #[test]
    fn a_plugin_that_never_stops_writing_is_reported() {
        assert_eq!(judge(&Convergence, &writes_until(End::NotAtRest), None).violations.len(), 1);
        assert_eq!(judge(&Convergence, &writes_until(End::AtRest), None).violations, []);
    }

    #[test]
    fn a_key_that_fails_for_ever_is_reported_if_the_reference_succeeds() {
        let (good, bad) = (fails(0), fails(3));
        let reference = ReferenceRuns::new(&good, &good);
        let judgement = judge(&Convergence, &bad, Some(&reference));
        assert!(judgement.violations[0].explanation.contains("two requests"));
        assert_eq!(judge(&Convergence, &fails(2), Some(&reference)).violations, []);
        let reference = ReferenceRuns::new(&bad, &bad);
        assert_eq!(judge(&Convergence, &bad, Some(&reference)).violations, []);
    }

    /// A run in which a timer writes every 10 seconds until the world goes on as if it were at rest. The last step is still to come.
    fn never_at_rest(writes: bool, acts: bool) -> crate::Run {
        let mut run = RunBuilder::new();
        run.actor("user", "create", "foos.example.com", "a", Some(json!({})));
        for round in 1..=60 {
            run.at(round * 10_000);
            run.start_for("a", "requeue");
            if writes {
                run.write("update", "foos.example.com", "a", Some(json!({"status": round})));
            }
            run.end(ReconcileResult::Requeue(10_000));
        }
        if acts {
            run.actor("stand-in", "update", "foos.example.com", "a", Some(json!({})));
        }
        run.push(EventKind::BusyTimeout);
        run.finish_with(End::NotAtRest)
    }

    #[test]
    fn a_plugin_that_never_rests_is_reported_before_the_last_step_too() {
        let judgement = judge(&Convergence, &never_at_rest(true, false), None);
        assert_eq!(judgement.violations.len(), 1);
        let text = &judgement.violations[0].explanation;
        assert!(
            text.contains("600 s after the last step") && text.contains("21 times in the last 200 s"),
            "{text}"
        );
        assert_eq!(judge(&Convergence, &never_at_rest(false, false), None).violations, []);
        assert_eq!(
            judge(&Convergence, &never_at_rest(true, true), None).violations,
            [],
            "another client has caused it"
        );
    }

    /// A run in which the plugin asks for a key again at this interval until the record is full.
    fn polls(interval: u64, end: End) -> crate::Run {
        let mut run = RunBuilder::new();
        for round in 0..300 {
            run.at(round * interval);
            run.start_for("a", "requeue");
            run.end(ReconcileResult::Requeue(interval));
        }
        run.finish_with(end)
    }

    #[test]
    fn a_plugin_that_asks_for_a_key_all_the_time_is_reported() {
        let violations = judge(&Convergence, &polls(5, End::NotAtRest), None).violations;
        assert!(violations[0].explanation.contains("asks for a again every 5 ms"), "{violations:?}");
        assert_eq!(judge(&Convergence, &polls(1000, End::NotAtRest), None).violations, []);
        assert_eq!(judge(&Convergence, &polls(5, End::AtRest), None).violations, []);
    }

    #[test]
    fn a_run_whose_faults_never_end_is_not_judged() {
        let mut run = RunBuilder::new();
        run.start("a");
        assert!(!judge(&Convergence, &run.finish_with(End::NotAtRest), None).had_subject);
    }
}
