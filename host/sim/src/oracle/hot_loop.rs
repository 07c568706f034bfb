//! *hot loop*: the plugin's writes trigger its own reconciles again and again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::{Description, Judgement, Oracle, ReferenceRuns, Violation};
use crate::analysis::canonical::canonical_object;
use crate::analysis::{ObjectId, RunView};
use crate::plan::Fault;
use crate::run::{Author, Event, EventKind, PAST_LAG, RELIST_BACKOFF, RequestEvent};

pub(super) const DESCRIPTION: Description = Description {
    name: "hot loop",
    reports: "a key writes the same object in 10 rounds in a row and returns it to a state that it had before, or in 40 rounds whatever it writes; \
              100 and 200 rounds for objects with generated names together, and for rounds between which stand-ins write",
    premise: "Progress towards a goal has an end. A round is a reconcile that no actor, timer, retry or restart caused. Times, UIDs and \
              versions do not count as progress. Creating or deleting one child of many in each round is progress, and so is a status that follows what \
              other controllers do, such as a rolling restart. Not judged: rounds after which a built-in controller deletes the object while a view is late \
              or old, because the garbage collector knows of an owner's deletion before the plugin does.",
};

/// The number of rounds after which a repeated state is a loop, as in the host's own detection.
///
/// The host also wants the rounds to have gone on for 60 seconds, because it must not delay the keys of a plugin that is only busy for a
/// moment: progress of many small steps looks the same at first, and the host cannot wait for its end. A simulation can. Its rounds are counted
/// from the last step, timer, fault and restart on, so that nothing but the plugin's own writes goes on; in virtual time they follow each other
/// within milliseconds, and a loop of plugin and server has usually filled the run's record ([`WorldLimits::events`](crate::world::WorldLimits))
/// long before 60 seconds. The bound would hide loops and show no others.
///
/// The second number is that of the rounds after which anything is a loop.
const OF_OBJECT: Bounds = Bounds { repeated: 10, any: 40, cause: "their own writes" };
/// The same for all objects of a generated name together, and for rounds of plugins and stand-ins after a step.
const OF_FAMILY: Bounds = Bounds { repeated: 100, any: 200, cause: "their own writes and what answers them" };
/// The number of different states that are remembered per object.
const MAX_STATES: usize = 8;

/// How long after the start of a host its first lists are sent at the latest, in virtual milliseconds.
const FIRST_LISTS: u64 = 1_000;

/// The oracle.
#[derive(Debug)]
pub(super) struct HotLoop;

/// The number of rounds from which a sequence of writes is a loop.
#[derive(Clone, Copy)]
struct Bounds {
    /// The number if at least half of the rounds return to an earlier state.
    repeated: usize,
    /// The number for any rounds.
    any: usize,
    /// What causes the rounds.
    cause: &'static str,
}

/// The rounds of each key and object.
#[derive(Default)]
struct AllRounds(BTreeMap<(String, ObjectId), Rounds>);

/// The rounds of one object, written by one key.
#[derive(Default)]
struct Rounds {
    count: usize,
    /// The reconcile that wrote last.
    last: Option<u64>,
    /// The reconciles that wrote and what they wrote, without those writes that were compared. They are compared only once there are enough rounds
    /// for a loop, which is rare.
    pending: Vec<(u64, Option<Arc<Value>>)>,
    /// The reconcile whose write was compared last.
    compared: Option<u64>,
    /// The canonical states that were compared, in the order in which they were written.
    states: Vec<Value>,
    /// Rounds in which the state had been written before.
    repeated: usize,
}

impl Oracle for HotLoop {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn judge(&self, run: &RunView<'_>, _: Option<&ReferenceRuns>) -> Judgement {
        let (mut by_name, mut by_family) = (AllRounds::default(), AllRounds::default());
        let mut reported = BTreeSet::new();
        let mut violations = Vec::new();
        let mut had_subject = false;
        let mut behind_until = 0;
        for (index, event) in run.run.events.iter().enumerate() {
            behind_until = behind_until.max(behind_after(event));
            match &event.kind {
                EventKind::Request(request) if request.is_effective() => {
                    let id = run.names.canonical_id(&request.object_id());
                    if matches!(request.author, Author::Actor(_)) {
                        by_name.0.clear();
                        // With faults still to come, the plugin may act on what it cannot see. Without any, it fights the stand-in.
                        let has_faults = index < run.faults_over && !run.deviations.is_empty();
                        if request.step.is_some() || has_faults {
                            by_family.0.clear();
                        }
                    }
                    let is_deleted_by_controller =
                        request.author == Author::Controller && request.after.is_none();
                    if is_deleted_by_controller && event.time <= behind_until {
                        by_name.forget(&request.object_id());
                        by_family.forget(&id);
                    }
                    let Some((key, number)) = round_of(run, request) else { continue };
                    had_subject = true;
                    let loops = [
                        (
                            by_name.add((&key, request.object_id()), number, request, run, OF_OBJECT),
                            OF_OBJECT,
                        ),
                        (by_family.add((&key, id.clone()), number, request, run, OF_FAMILY), OF_FAMILY),
                    ];
                    if let Some((rounds, bounds)) =
                        loops.into_iter().find_map(|(rounds, bounds)| Some((rounds?, bounds)))
                        && reported.insert((key.clone(), id.clone()))
                    {
                        let explanation = format!(
                            "reconciles of {key} wrote {} {id} in {} rounds in a row, caused by nothing but {}",
                            if rounds.repeated > 0 { "the same states of" } else { "ever new states of" },
                            rounds.count,
                            bounds.cause,
                        );
                        violations.push(Violation::new(self, &id, Some(index), explanation));
                    }
                }
                EventKind::Deviated { .. } | EventKind::HostStarted { .. } | EventKind::Reloaded => {
                    by_name.0.clear();
                    by_family.0.clear();
                }
                _ => {}
            }
        }
        Judgement { had_subject, violations, problem: None }
    }
}

impl AllRounds {
    fn forget(&mut self, deleted: &ObjectId) {
        self.0.retain(|(_, id), _| id != deleted);
    }

    /// Adds a write of a round. Returns the rounds if they are a loop.
    fn add(
        &mut self,
        (key, id): (&str, ObjectId),
        reconcile: u64,
        request: &RequestEvent,
        run: &RunView<'_>,
        bounds: Bounds,
    ) -> Option<&Rounds> {
        let rounds = self.0.entry((key.to_owned(), id)).or_default();
        rounds.add(reconcile, request, run, bounds);
        rounds.is_loop(bounds).then_some(rounds)
    }
}

/// Returns until when a view is late or old because of the event; 0 if it is not.
fn behind_after(event: &Event) -> u64 {
    match &event.kind {
        EventKind::Deviated { deviation, .. } => match deviation.fault {
            Fault::HoldWatch(delay) => event.time.saturating_add(delay),
            Fault::DropWatch(delay) => event.time.saturating_add(delay).saturating_add(RELIST_BACKOFF),
            _ => 0,
        },
        EventKind::HostStarted { past } if !past.is_empty() => event.time + FIRST_LISTS + PAST_LAG,
        _ => 0,
    }
}

/// Returns the key and the number of the request's reconcile, if only watch events caused it.
fn round_of(run: &RunView<'_>, request: &RequestEvent) -> Option<(String, u64)> {
    let number = request.reconcile?;
    let reconcile = run.reconciles.get(&number)?;
    let is_event = |reason: &String| matches!(reason.as_str(), "created" | "updated" | "deleted");
    (!reconcile.reasons.is_empty() && reconcile.reasons.iter().all(is_event))
        .then(|| (reconcile.key.to_owned(), number))
}

impl Rounds {
    fn add(&mut self, reconcile: u64, request: &RequestEvent, run: &RunView<'_>, bounds: Bounds) {
        if self.last != Some(reconcile) {
            self.last = Some(reconcile);
            self.count += 1;
        }
        self.pending.push((reconcile, request.after.clone()));
        if self.count >= bounds.repeated {
            for (reconcile, after) in std::mem::take(&mut self.pending) {
                self.compare(reconcile, after.as_deref(), run);
            }
        }
    }

    fn compare(&mut self, reconcile: u64, after: Option<&Value>, run: &RunView<'_>) {
        let state = after.map_or(Value::Null, |after| canonical_object(after, &run.names));
        let is_repeated = self.states.contains(&state);
        if !is_repeated {
            self.states.push(state);
            if self.states.len() > MAX_STATES {
                self.states.remove(0);
            }
        }
        if self.compared != Some(reconcile) {
            self.compared = Some(reconcile);
            self.repeated += usize::from(is_repeated);
        }
    }

    fn is_loop(&self, bounds: Bounds) -> bool {
        self.count >= bounds.any || (self.count >= bounds.repeated && self.repeated * 2 >= self.count)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::Moment;
    use crate::run::{End, ReconcileResult};
    use crate::testing::{RunBuilder, judge};

    fn rounds(count: u32, reason: &str, state: impl Fn(u32) -> Value) -> crate::Run {
        let mut run = RunBuilder::new();
        run.actor("user", "create", "foos.example.com", "shop/a", Some(json!({})));
        for round in 0..count {
            run.start_for("shop/a", reason);
            run.write("update", "foos.example.com", "shop/a", Some(state(round)));
            run.end(ReconcileResult::Ok);
        }
        run.finish()
    }

    #[test]
    fn a_status_with_a_fresh_time_is_a_loop() {
        let run = rounds(
            12,
            "updated",
            |round| json!({"status": {"checked": format!("2026-01-01T00:00:{round:02}Z")}}),
        );
        let judgement = judge(&HotLoop, &run, None);
        assert_eq!(judgement.violations.len(), 1);
        assert_eq!(judgement.violations[0].resource, "foos.example.com");
    }

    /// A run in which a Deployment is created and collected again in `rounds` rounds. They begin `after` milliseconds after a restart whose
    /// first list of the owner is old, if `is_old`, or after one whose lists are current.
    fn collected(is_old: bool, after: u64, rounds: u64) -> crate::Run {
        let mut run = RunBuilder::new();
        run.actor("user", "create", "foos.example.com", "shop/a", Some(json!({})));
        run.restart(if is_old { &[("foos.example.com", 2)] } else { &[] });
        for round in 0..rounds {
            run.at(after + round * 30);
            run.start_for("shop/a", "deleted");
            run.write("create", "deployments.apps", "shop/a", Some(json!({"spec": {"replicas": 1}})));
            run.end(ReconcileResult::Ok);
            run.controller("delete", "deployments.apps", "shop/a", None);
        }
        run.finish()
    }

    #[test]
    fn what_the_garbage_collector_undoes_is_a_loop_only_once_the_views_are_current() {
        assert_eq!(judge(&HotLoop, &collected(true, 0, 60), None).violations, []);
        let current = judge(&HotLoop, &collected(false, 0, 60), None).violations;
        assert_eq!(current.len(), 1);
        assert_eq!(current[0].resource, "deployments.apps");
        let later = judge(&HotLoop, &collected(true, PAST_LAG, 60), None).violations;
        assert_eq!(later.len(), 1, "the loop goes on after the view has caught up");
        assert_eq!(judge(&HotLoop, &collected(true, PAST_LAG, 20), None).violations, []);
    }

    #[test]
    fn the_view_is_late_until_the_host_has_listed_again() {
        let run = |is_dropped: bool| {
            let mut run = RunBuilder::new();
            run.actor("user", "create", "foos.example.com", "shop/a", Some(json!({})));
            if is_dropped {
                let at = Moment::Event { resource: "foos.example.com".to_owned(), occurrence: 2 };
                run.deviate(at, Fault::DropWatch(1));
            }
            for round in 0..20 {
                run.at(300 + round * 30);
                run.start_for("shop/a", "deleted");
                run.write("create", "deployments.apps", "shop/a", Some(json!({})));
                run.end(ReconcileResult::Ok);
                run.controller("delete", "deployments.apps", "shop/a", None);
            }
            run.finish()
        };
        assert_eq!(judge(&HotLoop, &run(true), None).violations, []);
        assert_eq!(judge(&HotLoop, &run(false), None).violations.len(), 1);
    }

    #[test]
    fn a_counter_is_a_loop_after_more_rounds() {
        let counter = |round| json!({"status": {"count": round}});
        assert_eq!(judge(&HotLoop, &rounds(39, "updated", counter), None).violations, []);
        assert_eq!(judge(&HotLoop, &rounds(40, "updated", counter), None).violations.len(), 1);
    }

    /// A run after whose last step the plugin writes a status in each of these rounds, and a stand-in answers.
    fn with_stand_in(rounds: u32) -> crate::Run {
        let mut run = RunBuilder::new();
        run.step("user", 1);
        run.actor("user", "create", "foos.example.com", "shop/a", Some(json!({})));
        run.faults_over();
        for round in 0..rounds {
            run.start_for("shop/a", "updated");
            let ready = 6 - round % 2;
            run.write("update", "foos.example.com", "shop/a", Some(json!({"status": {"ready": ready}})));
            run.end(ReconcileResult::Ok);
            run.actor("kubelet", "update", "pods", "shop/a-0", Some(json!({"restarts": round})));
        }
        run.finish()
    }

    /// A run in which the plugin and a stand-in undo each other's change until the record is full. The user's next step never comes.
    fn fight(deviates: bool) -> crate::Run {
        let mut run = RunBuilder::new();
        run.step("user", 1);
        run.actor("user", "create", "foos.example.com", "shop/a", Some(json!({})));
        if deviates {
            run.deviate(Moment::Rest { occurrence: 1 }, Fault::Reload);
        }
        for _ in 0..100 {
            run.start_for("shop/a", "updated");
            run.write("update", "deployments.apps", "shop/a", Some(json!({"spec": {"replicas": 1}})));
            run.end(ReconcileResult::Ok);
            run.actor(
                "autoscaler",
                "patch",
                "deployments.apps",
                "shop/a",
                Some(json!({"spec": {"replicas": 3}})),
            );
        }
        run.finish_with(End::NotAtRest)
    }

    #[test]
    fn a_fight_with_a_stand_in_is_a_loop_although_steps_are_left() {
        let violations = judge(&HotLoop, &fight(false), None).violations;
        assert_eq!(violations.len(), 1);
        assert!(violations[0].explanation.contains("in 100 rounds"), "{violations:?}");
        assert_eq!(judge(&HotLoop, &fight(true), None).violations, [], "faults may be left");
    }

    #[test]
    fn a_status_that_follows_a_rolling_restart_is_no_loop_unless_it_has_no_end() {
        assert_eq!(judge(&HotLoop, &with_stand_in(12), None).violations, []);
        let violations = judge(&HotLoop, &with_stand_in(100), None).violations;
        assert_eq!(violations.len(), 1);
        assert!(violations[0].explanation.contains("in 100 rounds"), "{violations:?}");
    }

    #[test]
    fn one_child_of_a_generated_name_in_each_round_is_progress_unless_it_has_no_end() {
        let run = |children: u32| {
            let mut run = RunBuilder::new();
            run.actor("user", "create", "foos.example.com", "shop/a", Some(json!({})));
            for child in 0..children {
                run.start_for("shop/a", "created");
                let pod = json!({"metadata": {"generateName": "a-"}});
                run.write("create", "pods", &format!("shop/a-{child:05}"), Some(pod));
                run.end(ReconcileResult::Ok);
            }
            run.finish()
        };
        assert_eq!(judge(&HotLoop, &run(30), None).violations, []);
        let violations = judge(&HotLoop, &run(120), None).violations;
        assert_eq!(violations.iter().map(|found| found.object.as_str()).collect::<Vec<_>>(), ["shop/a-*"]);
    }

    #[test]
    fn writes_of_a_timer_are_no_loop() {
        let judgement =
            judge(&HotLoop, &rounds(60, "requeue", |round| json!({"status": {"tick": round % 2}})), None);
        assert_eq!(judgement.violations, []);
    }
}
