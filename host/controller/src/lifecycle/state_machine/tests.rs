//! A test per row of the tables.

use super::*;

const WAIT: Duration = Duration::from_secs(2);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

fn step(state: PluginState) -> Input<'static> {
    let waiting_for = if state == Waiting { "the CRD foos" } else { "" };
    Input::Step { load: 1, state, waiting_for }
}

const INSTALLED: Input<'_> = Input::Installed { version: "1.0", digest: "abc" };
const REFUSED: Input<'_> = Input::Refused { problem: "not wasm" };
const POSTPONED: Input<'_> = Input::Postponed { problem: "no server", wait: WAIT };
const FAULTY: Input<'_> = Input::Faulty { problem: "it traps", wait: WAIT };
const SUSPENDED: Input<'_> = Input::Suspended { why: "no permission" };
const STOPPED: Input<'_> = Input::Stopped { why: "its file was removed", with_host: false };

/// A plugin to which all this happened.
fn machine(inputs: &[Input<'_>]) -> StateMachine {
    let mut machine = StateMachine::found(at(0));
    for (second, input) in inputs.iter().enumerate() {
        let second = i64::try_from(second).expect("few");
        machine.apply(input, at(second)).unwrap_or_else(|error| panic!("{error} after {machine:?}"));
    }
    machine
}

/// One plugin in each state in which it can be, by name, without and with a version.
fn in_every_state() -> Vec<(&'static str, StateMachine)> {
    let (compiling, describing, waiting) = (step(Compiling), step(Describing), step(Waiting));
    let running = [Input::Found, compiling.clone(), describing.clone(), INSTALLED];
    let with = |more: &[Input<'static>]| machine(&[&running, more].concat());
    vec![
        ("found", machine(&[Input::Found])),
        ("compiling", machine(&[Input::Found, compiling.clone()])),
        ("describing", machine(&[Input::Found, compiling.clone(), describing.clone()])),
        ("waiting", machine(&[Input::Found, compiling.clone(), describing.clone(), waiting])),
        ("failed", machine(&[Input::Found, compiling, REFUSED])),
        ("backing-off", machine(&[Input::Found, POSTPONED])),
        ("running", with(&[])),
        ("running+faults", with(&[FAULTY])),
        ("running-suspended", with(&[SUSPENDED])),
        ("draining", with(&[Input::Draining])),
        ("stopped", with(&[Input::Draining, STOPPED])),
    ]
}

/// Where each leads from those in which it is possible; from all others it is refused.
fn check(input: impl Fn(&StateMachine) -> Input<'static>, transitions: &[(&str, PluginState)]) {
    for (name, before) in in_every_state() {
        let mut after = before.clone();
        let input = input(&before);
        let outcome = after.apply(&input, at(99));
        match transitions.iter().find(|(from, _)| *from == name) {
            Some((_, to)) => {
                assert_eq!(outcome, Ok(()), "{name}: {input:?}");
                assert_eq!(after.state, *to, "{name}: {input:?}");
                let since = if before.state == *to { before.since } else { at(99) };
                assert_eq!(after.since, since, "{name}: {input:?}");
            }
            None => {
                assert!(outcome.is_err(), "{name}: {input:?} led to {:?}", after.state);
                assert_eq!(after, before, "what is refused changes nothing");
            }
        }
    }
}

#[test]
fn a_changed_file_starts_a_load_and_leaves_the_running_version() {
    let all = ["found", "compiling", "describing", "waiting", "failed", "backing-off", "stopped"];
    let mut transitions: Vec<_> = all.map(|from| (from, Found)).into();
    transitions.extend([
        ("running", Running),
        ("running+faults", BackingOff),
        ("running-suspended", Waiting),
    ]);
    check(|_| Input::Found, &transitions);
}

#[test]
fn only_a_plugin_that_backs_off_or_runs_is_retried() {
    check(
        |_| Input::Retry,
        &[
            ("backing-off", BackingOff),
            ("running", Running),
            ("running+faults", BackingOff),
            ("running-suspended", Waiting),
        ],
    );
}

#[test]
fn compiling_comes_before_describing() {
    let now = |state| {
        move |machine: &StateMachine| Input::Step { load: machine.load_number(), state, waiting_for: "" }
    };
    let stay = [
        ("backing-off", BackingOff),
        ("running", Running),
        ("running+faults", BackingOff),
        ("running-suspended", Waiting),
    ];
    let from =
        |names: &[&'static str], to| names.iter().map(|name| (*name, to)).chain(stay).collect::<Vec<_>>();
    check(now(Compiling), &from(&["found", "compiling", "waiting"], Compiling));
    check(now(Describing), &from(&["found", "compiling", "describing", "waiting"], Describing));
}

#[test]
fn a_load_can_wait_in_every_loading_state() {
    let from = ["found", "compiling", "describing", "waiting", "backing-off"];
    let mut transitions: Vec<_> = from.map(|from| (from, Waiting)).into();
    transitions.extend([
        ("running", Running),
        ("running+faults", BackingOff),
        ("running-suspended", Waiting),
    ]);
    check(
        |machine| Input::Step { load: machine.load_number(), state: Waiting, waiting_for: "a list" },
        &transitions,
    );
}

#[test]
fn a_load_step_reaches_only_loading_states() {
    for state in [Found, Running, Draining, Stopped, Failed, BackingOff] {
        let mut machine = machine(&[Input::Found]);
        assert!(machine.apply(&step(state), at(1)).is_err(), "{state:?}");
    }
}

#[test]
fn a_version_is_installed_when_it_is_described() {
    let from = ["describing", "waiting", "backing-off", "running", "running+faults", "running-suspended"];
    check(|_| INSTALLED, &from.map(|from| (from, Running)));
}

#[test]
fn files_are_refused_permanently_or_temporarily() {
    let from = ["found", "compiling", "describing", "waiting", "backing-off"];
    let installed = [("running", Running), ("running+faults", BackingOff), ("running-suspended", Waiting)];
    let transitions = |to| from.map(|from| (from, to)).into_iter().chain(installed).collect::<Vec<_>>();
    check(|_| REFUSED, &transitions(Failed));
    check(|_| POSTPONED, &transitions(BackingOff));
}

#[test]
fn only_an_installed_version_is_faulty_recovers_or_is_unchanged() {
    check(|_| FAULTY, &[("running", BackingOff), ("running+faults", BackingOff)]);
    check(|_| Input::Recovered, &[("running", Running), ("running+faults", Running)]);
    let stay = [("running", Running), ("running+faults", BackingOff), ("running-suspended", Waiting)];
    check(|_| Input::Unchanged, &stay);
}

#[test]
fn only_an_installed_version_waits_for_a_right() {
    let all = ["running", "running+faults", "running-suspended"];
    check(|_| SUSPENDED, &all.map(|from| (from, Waiting)));
    let transitions = [("running", Running), ("running+faults", BackingOff), ("running-suspended", Running)];
    check(|_| Input::Resumed, &transitions);
    let running = [Input::Found, step(Compiling), step(Describing), INSTALLED];
    let with = |more: &[Input<'static>]| machine(&[&running, more].concat()).error(at(4));
    assert_eq!(with(&[SUSPENDED]), "no permission");
    assert_eq!(with(&[SUSPENDED, Input::Resumed]), "");
    // What it backs off for is not the permission.
    assert!(with(&[FAULTY, Input::Resumed]).starts_with("it traps"));
}

#[test]
fn everything_can_be_stopped_and_stops_after_draining() {
    let all = in_every_state().into_iter().map(|(name, _)| name).filter(|name| *name != "draining");
    check(|_| Input::Draining, &all.map(|from| (from, Draining)).collect::<Vec<_>>());
    check(|_| STOPPED, &[("draining", Stopped)]);
}

#[test]
fn steps_of_a_cancelled_load_are_ignored() {
    let mut machine = machine(&[Input::Found, step(Compiling), Input::Found]);
    let before = machine.clone();
    assert_eq!(machine.apply(&step(Waiting), at(9)), Ok(()));
    assert_eq!(machine, before);
    let mut stopped = self::machine(&[Input::Found, Input::Draining, STOPPED]);
    assert_eq!(stopped.apply(&step(Describing), at(9)), Ok(()));
    assert_eq!(stopped.state, Stopped);
}

#[test]
fn the_error_states_the_problem_and_the_next_retry() {
    let backing_off = machine(&[Input::Found, POSTPONED]);
    assert_eq!(backing_off.error(at(1)), "no server; tried again at 1970-01-01T00:00:03Z");
    assert_eq!(backing_off.next_try(), Some(at(3)));
    assert_eq!(backing_off.error(at(3)), "no server; tried again with the next change");
    let waiting = machine(&[Input::Found, step(Compiling), step(Describing), step(Waiting)]);
    assert_eq!((waiting.error(at(9)).as_str(), waiting.next_try()), ("the CRD foos", None));
    assert_eq!(machine(&[Input::Found, REFUSED]).error(at(9)), "not wasm");
    assert_eq!(
        machine(&[Input::Found, REFUSED, Input::Found]).error(at(9)),
        "",
        "another file, another chance"
    );
}

#[test]
fn the_outcome_of_a_newer_file_is_reported_beside_the_running_version() {
    let running = [Input::Found, step(Compiling), step(Describing), INSTALLED];
    let with = |more: &[Input<'static>]| machine(&[&running, more].concat());
    let refused = with(&[Input::Found, REFUSED]);
    assert_eq!(refused.error(at(9)), "the changed file was refused: not wasm; generation 1 keeps running");
    assert_eq!((refused.version.as_str(), refused.generation), ("1.0", 1));
    assert_eq!(with(&[Input::Found, REFUSED, Input::Unchanged]).error(at(9)), "");
    let waits = with(&[Input::Found, Input::Step { load: 2, state: Waiting, waiting_for: "a list" }]);
    assert_eq!(waits.error(at(9)), "the new version waits: a list; generation 1 keeps running");
    let postponed = with(&[Input::Found, POSTPONED]);
    let text = "the changed file cannot be loaded yet: no server; tried again at 1970-01-01T00:00:07Z; \
                generation 1 keeps running";
    assert_eq!((postponed.error(at(6)).as_str(), postponed.next_try()), (text, Some(at(7))));
    let both = with(&[FAULTY, REFUSED]);
    assert!(both.error(at(5)).starts_with("it traps; tried again at 1970-01-01T00:00:06Z; the changed file"));
    let held = with(&[Input::Suspended { why: "not wasm" }, REFUSED]);
    assert_eq!(held.error(at(5)), "the changed file was refused: not wasm; generation 1 is suspended");
    let next = with(&[FAULTY, REFUSED, INSTALLED]);
    assert_eq!((next.error(at(9)).as_str(), next.generation), ("", 2));
}
