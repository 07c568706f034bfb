//! Timers of the plugin: what they do before the end of a run, and which of them keep a world from being at rest.

use super::stage::{Stage, change_map, create_map_with, creates, secret};
use crate::plan::{Deviation, Fault, Moment};
use crate::run::{End, EventKind, ReconcileResult, Run};

/// Creates a ConfigMap whose reconciles use timers in this way. See the guest.
fn timed(name: &str, wish: &str) -> crate::actor::ActorWrite {
    create_map_with(name, &[("wish", wish), ("first", &secret("name", &format!("first-{name}")))])
}

fn reconciles(run: &Run) -> usize {
    run.events.iter().filter(|event| matches!(event.kind, EventKind::ReconcileStarted { .. })).count()
}

/// Returns the times of the rests.
fn rests(run: &Run) -> Vec<u64> {
    let rests = run.events.iter().filter(|event| matches!(event.kind, EventKind::Rest { .. }));
    rests.map(|event| event.time).collect()
}

fn steps_taken(run: &Run) -> Vec<u32> {
    run.steps.iter().map(|step| step.step).collect()
}

#[test]
fn a_timer_that_is_longer_than_a_rest_fires_before_the_run_ends() {
    let run = Stage::new(vec![timed("a", "due")]).run(vec![]);
    assert_eq!(run.end, End::AtRest);
    assert_eq!(creates(&run), ["secrets/first-a"]);
    let rests = rests(&run);
    // Before the step, before the timer, and 30 seconds after what the timer did.
    assert_eq!(rests.len(), 3, "{rests:?}");
    assert!((74_000..76_000).contains(&(rests[2] - rests[0])), "{rests:?}");
}

#[test]
fn a_timer_fires_after_a_restart_at_the_last_rest_too() {
    let at = Moment::Rest { occurrence: 2 };
    let run = Stage::new(vec![timed("a", "due")])
        .run(vec![Deviation { at, fault: Fault::Restart { past: vec![] } }]);
    assert_eq!((run.end.clone(), creates(&run)), (End::AtRest, vec!["secrets/first-a".to_owned()]));
}

#[test]
fn a_timer_that_begins_anew_for_ever_fires_once_more_before_the_run_ends() {
    let run = Stage::new(vec![timed("a", "equal")]).run(vec![]);
    assert_eq!(run.end, End::AtRest);
    // For 30 seconds until the world is at rest, and once more.
    assert!((4..=6).contains(&reconciles(&run)), "{}", reconciles(&run));
}

#[test]
fn writes_without_effect_do_not_keep_the_world_awake() {
    let steps = vec![timed("a", "equal"), change_map("b", "x", "1")];
    let mut steps = steps;
    steps.insert(1, timed("b", "due"));
    let run = Stage::new(steps).run(vec![]);
    assert_eq!((run.end.clone(), steps_taken(&run)), (End::AtRest, vec![1, 2, 3]));
}

#[test]
fn the_steps_go_on_although_a_timer_writes_for_ever() {
    let beat = create_map_with("a", &[("wish", "often"), ("first", &secret("generateName", "beat-"))]);
    let run = Stage::new(vec![beat, timed("b", "none"), change_map("b", "x", "1")]).run(vec![]);
    assert_eq!(steps_taken(&run), [1, 2, 3]);
    assert!(run.events.iter().any(|event| event.kind == EventKind::FaultsOver));
    assert!(run.events.iter().any(|event| event.kind == EventKind::BusyTimeout));
    assert_eq!(run.end, End::NotAtRest, "the objects never stay as they are");
    let minutes = run.events.last().map(|event| event.time / 60_000).expect("events");
    assert!(minutes < 20, "the run ends after {minutes} minutes");
}

#[test]
fn a_timer_that_is_too_short_fills_the_record() {
    let run = Stage::new(vec![timed("a", "poll")]).run(vec![]);
    assert_eq!(run.end, End::NotAtRest);
    let is_timer = |event: &&crate::run::Event| {
        matches!(event.kind, EventKind::ReconcileEnded { result: ReconcileResult::Requeue(5), .. })
    };
    assert!(run.events.iter().filter(is_timer).count() > 1_000);
}
