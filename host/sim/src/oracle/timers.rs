//! Writes that are due because time has passed. A run with faults takes longer than one without, so it has more of them, whatever the plugin does.

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::canonical::changes_only_times;
use crate::analysis::{Reconcile, RunView};
use crate::run::{EventKind, ReconcileResult, RequestEvent};

/// How long nothing happens before a world is at rest, in virtual milliseconds.
const REST: u64 = 30_000;

/// Returns the numbers of the reconciles that nothing but a timer of the plugin caused. A restart, a reload or a resync at the moment at which
/// a timer is due is no other cause: rests come at intervals that timers often have, too.
pub(super) fn reconciles_by_timers(run: &RunView<'_>) -> BTreeSet<u64> {
    fired(run).into_iter().map(|fired| fired.number).collect()
}

/// What is known of a key.
#[derive(Default)]
struct Timer {
    /// Which instance of the plugin has reconciled it last.
    instance: usize,
    /// The delay after which the plugin wanted the key again.
    delay: u64,
    /// When the timer of the last reconcile is due, if it has one.
    due: Option<u64>,
    /// When an event caused a reconcile last.
    caused: u64,
}

/// Returns the numbers of the reconciles that wrote because of a timer that is as long as a rest, or of several that are together. A timer that goes
/// on after a restart or reload is as long as it was before.
pub(super) fn late_timer_writes(run: &RunView<'_>) -> BTreeSet<u64> {
    late_timers(run).into_keys().collect()
}

/// Returns how many of them changed more than times. How often a plugin writes a time depends on the length of the run, and no end on it.
pub(super) fn late_timer_changes(run: &RunView<'_>) -> usize {
    late_timers(run).into_values().filter(|late| late.is_change).count()
}

/// Returns how many reconciles wrote because of timers that are as long as a rest only together. A run waits for the next one before it ends, but
/// not for a whole series.
pub(super) fn late_poll_writes(run: &RunView<'_>) -> usize {
    late_timers(run).into_values().filter(|late| late.is_change && late.delay < REST).count()
}

/// A reconcile that wrote because time had passed.
struct LateTimer {
    delay: u64,
    is_change: bool,
}

/// Returns these reconciles by their number.
fn late_timers(run: &RunView<'_>) -> BTreeMap<u64, LateTimer> {
    let mut late = BTreeMap::new();
    for Fired { number, delay, is_late } in fired(run) {
        let reconcile = &run.reconciles[&number];
        if is_late && writes(run, reconcile, |_| true) {
            let is_change = writes(run, reconcile, |request| !changes_only_times(request));
            late.insert(number, LateTimer { delay, is_change });
        }
    }
    late
}

/// A reconcile that a timer caused.
struct Fired {
    number: u64,
    /// The delay of the timer.
    delay: u64,
    /// Whether the timer, or the series of timers that it belongs to, is as long as a rest.
    is_late: bool,
}

/// Returns the reconciles that timers caused, in their order.
fn fired(run: &RunView<'_>) -> Vec<Fired> {
    let events = &run.run.events;
    let is_start = |kind: &EventKind| matches!(kind, EventKind::HostStarted { .. } | EventKind::Reloaded);
    let starts: Vec<_> = (0..events.len()).filter(|index| is_start(&events[*index].kind)).collect();
    let mut timers: BTreeMap<_, Timer> = BTreeMap::new();
    let mut fired = Vec::new();
    for (number, reconcile) in &run.reconciles {
        let key = (reconcile.plugin, reconcile.watch, reconcile.key);
        let now = events[reconcile.start].time;
        let instance = starts.partition_point(|start| *start < reconcile.start);
        let timer = timers.entry(key).or_insert_with(|| Timer { caused: now, ..Timer::default() });
        let is_event = |reason: &String| matches!(reason.as_str(), "created" | "updated" | "deleted");
        let has_event = reconcile.reasons.iter().any(is_event);
        if has_event {
            timer.caused = now;
        }
        let is_requeue =
            !reconcile.reasons.is_empty() && reconcile.reasons.iter().all(|reason| reason == "requeue");
        let is_due = !has_event && timer.due.is_some_and(|due| due <= now);
        if is_requeue || is_due {
            let is_late = timer.delay >= REST || now.saturating_sub(timer.caused) >= REST;
            fired.push(Fired { number: *number, delay: timer.delay, is_late });
        }
        let (delay, due) = match reconcile.end {
            Some((end, ReconcileResult::Requeue(delay))) => {
                (*delay, Some(events[end].time.saturating_add(*delay)))
            }
            _ => (0, None),
        };
        timer.delay = if instance > timer.instance { delay.max(timer.delay) } else { delay };
        timer.due = due;
        timer.instance = instance;
    }
    fired
}

/// Whether the reconcile sent a write with an effect that is of this form.
fn writes(run: &RunView<'_>, reconcile: &Reconcile<'_>, is_form: impl Fn(&RequestEvent) -> bool) -> bool {
    let is_write = |request: &RequestEvent| request.is_effective() && is_form(request);
    reconcile.requests.iter().any(|index| run.request(*index).is_some_and(is_write))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::analysis::RandomPrefixes;
    use crate::testing::RunBuilder;

    fn late(run: RunBuilder) -> usize {
        late_timer_writes(&RunView::new(&run.finish(), &RandomPrefixes::default())).len()
    }

    /// Begins a run with a key that the plugin wants again after this delay.
    fn begun(delay: u64) -> RunBuilder {
        let mut run = RunBuilder::new();
        run.start("shop/a");
        run.end(ReconcileResult::Requeue(delay));
        run
    }

    fn fire(run: &mut RunBuilder, time: u64, writes: bool) {
        run.at(time);
        run.start_for("shop/a", "requeue");
        if writes {
            run.write("delete", "configmaps", "shop/a", None).changed = true;
        }
        run.end(ReconcileResult::Requeue(10_000));
    }

    #[test]
    fn long_timers_and_long_series_of_timers_are_late() {
        for (delay, writes, expected) in [(45_000, true, 1), (45_000, false, 0), (10_000, true, 0)] {
            let mut run = begun(delay);
            fire(&mut run, 10_000, writes);
            assert_eq!(late(run), expected, "{delay} {writes}");
        }
        let mut run = begun(10_000);
        for time in [10_000, 20_000] {
            fire(&mut run, time, false);
        }
        fire(&mut run, 30_000, true);
        let run = run.finish();
        let view = RunView::new(&run, &RandomPrefixes::default());
        assert_eq!((late_timer_changes(&view), late_poll_writes(&view)), (1, 1));
    }

    #[test]
    fn a_time_that_a_timer_writes_is_no_change() {
        let mut run = begun(45_000);
        run.actor("user", "create", "configmaps", "shop/a", Some(json!({"checked": "2026-01-01T00:00:00Z"})));
        run.at(45_000);
        run.start_for("shop/a", "requeue");
        run.write("update", "configmaps", "shop/a", Some(json!({"checked": "2026-01-01T00:00:45Z"})));
        run.end(ReconcileResult::Requeue(45_000));
        let run = run.finish();
        let view = RunView::new(&run, &RandomPrefixes::default());
        assert_eq!((late_timer_writes(&view).len(), late_timer_changes(&view)), (1, 0));
    }

    #[test]
    fn a_restart_does_not_make_a_timer_short() {
        let mut run = begun(45_000);
        run.at(30_000);
        run.restart(&[]);
        run.start_for("shop/a", "startup");
        run.end(ReconcileResult::Requeue(15_000));
        fire(&mut run, 45_000, true);
        assert_eq!(late(run), 1);
    }

    #[test]
    fn a_restart_at_the_moment_of_a_timer_is_not_the_cause() {
        for (time, reason, expected) in [
            (45_000, "startup", vec![2]),
            (45_000, "resync", vec![2]),
            (45_000, "updated", vec![]),
            (30_000, "startup", vec![]),
            (30_000, "requeue", vec![2]),
        ] {
            let mut run = begun(45_000);
            run.at(time);
            run.start_for("shop/a", reason);
            run.end(ReconcileResult::Ok);
            let run = run.finish();
            let view = RunView::new(&run, &RandomPrefixes::default());
            let expected: BTreeSet<u64> = expected.into_iter().collect();
            assert_eq!(reconciles_by_timers(&view), expected, "{reason} at {time}");
        }
    }

    #[test]
    fn an_event_begins_a_series_anew() {
        let mut run = begun(10_000);
        run.at(40_000);
        run.start_for("shop/a", "updated");
        run.end(ReconcileResult::Requeue(10_000));
        fire(&mut run, 50_000, true);
        assert_eq!(late(run), 0);
    }
}
