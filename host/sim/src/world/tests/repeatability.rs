//! Equal plans give equal runs: in two processes, whatever the order of hash maps, and in each version of the host.

use std::process::Command;

use super::stage::{Stage, create_map, delete_map};
use crate::Simulator;
use crate::call_log::CallLog;
use crate::plan::{Deviation, Fault, Moment, Plan};
use crate::search::FaultSelection;
use crate::search::repetition::{RepeatedRuns, repeated_runs};
use crate::world::{fix_hash_order, fix_other_hash_order};

/// The variable that selects the order of hash maps in the process that is started.
const ORDER: &str = "PILOTHOUSE_TEST_HASH_ORDER";
/// The lines between which the calls are printed.
const MARKERS: [&str; 2] = ["\n<calls>\n", "</calls>"];

/// The hash of the run in [`the_canary_run_has_a_known_hash`]. It depends on everything that the host, the server and the world do. If a change of
/// one of them is meant to change that, copy the value from the failed assertion; otherwise the change has a side effect.
const CANARY: u64 = 0x3a28_9c9a_9186_a19e;

fn stage() -> Stage {
    Stage::new(vec![create_map("a"), create_map("b"), delete_map("a")])
}

#[test]
fn the_canary_run_has_a_known_hash() {
    let resource = "leases.coordination.k8s.io".to_owned();
    let at = Moment::Request { verb: "create".to_owned(), resource, occurrence: 2 };
    let plan = Plan::new(0, vec![Deviation { at, fault: Fault::CrashAfter }]);
    let run = stage().world.run(&plan).expect("a run");
    assert_eq!(run.hash, CANARY, "the canary is {:#018x} after {} draws", run.hash, run.draws);
}

/// Runs in the processes that the next test starts.
#[test]
#[ignore = "started by runs_with_faults_do_not_depend_on_the_process_or_on_the_order_of_hash_maps"]
fn prints_the_calls_of_runs() {
    let fixed = if std::env::var(ORDER).is_ok_and(|order| order == "other") {
        fix_other_hash_order()
    } else {
        fix_hash_order()
    };
    fixed.expect("no map exists yet");
    let mut stage = stage();
    let made =
        repeated_runs(9, &FaultSelection::default(), |plan, calls| stage.world.run_with_calls(plan, calls));
    let RepeatedRuns { calls, runs, deviations, draws } = made.expect("runs");
    assert!(runs >= 20 && deviations >= 20 && draws > 100, "{runs} runs, {deviations} faults, {draws} draws");
    let mut bytes = Vec::new();
    calls.write(&mut bytes).expect("written");
    print!("{}{}{}", MARKERS[0], String::from_utf8_lossy(&bytes), MARKERS[1]);
}

/// Returns the calls of a process with this order of hash maps.
fn calls(order: &str) -> CallLog {
    let program = std::env::current_exe().expect("the test program");
    let test = "world::tests::repeatability::prints_the_calls_of_runs";
    let output = Command::new(program)
        .args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"])
        .env(ORDER, order)
        .output()
        .expect("a process");
    let text = String::from_utf8_lossy(&output.stdout);
    let calls = text.split_once(MARKERS[0]).and_then(|(_, rest)| rest.split_once(MARKERS[1]));
    let (calls, _) = calls.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
    CallLog::read(calls.as_bytes()).expect("a log")
}

#[test]
fn runs_with_faults_do_not_depend_on_the_process_or_on_the_order_of_hash_maps() {
    let usual = calls("usual");
    assert_eq!(usual.difference(&calls("other")), None);
}
