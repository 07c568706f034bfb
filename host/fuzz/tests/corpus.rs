//! Replays the corpus and small mutations of it, without a fuzzer.

use pilothouse_controller::descriptor::Descriptor;
use pilothouse_controller::sidecar::Sidecar;
use pilothouse_fuzz::{Target, seeds};

/// Returns the number of mutations of each input.
fn mutations(target: Target) -> usize {
    match target {
        // A plugin in a whole host executes each script.
        Target::Imports => 100,
        // Each is a server of its own.
        Target::Requests => 20,
        // The loader compiles valid input.
        Target::Loader => 40,
        _ => 400,
    }
}

fn replay(target: Target) {
    let seeds = seeds(target);
    assert!(!seeds.is_empty(), "{} has no corpus", target.name());
    let mut random = Random(1);
    for (name, input) in &seeds {
        println!("{}: {name}", target.name());
        run(target, input);
        for _ in 0..mutations(target) {
            run(target, &mutated(input, &mut random));
        }
    }
}

fn run(target: Target, input: &[u8]) {
    let _input = ShownOnPanic(input);
    target.run(input);
}

/// Prints the input on a panic, whose message does not have it.
struct ShownOnPanic<'a>(&'a [u8]);

impl Drop for ShownOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("the input: {}", self.0.escape_ascii());
        }
    }
}

/// A generator (Knuth's MMIX LCG) with the same numbers in every run, so that a failure is reproducible.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound.max(1)
    }
}

/// Bytes that some parser treats specially.
const SPECIAL_BYTES: &[u8] = b"\n\"{}[]:*,\0\x7f\x80\xff0a-";

/// Cuts, removes, repeats, inserts or flips some bytes, one to four times.
fn mutated(input: &[u8], random: &mut Random) -> Vec<u8> {
    let mut input = input.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(input.len() + 1);
        let end = (at + random.below(16)).min(input.len());
        match random.below(5) {
            0 => input.truncate(at),
            1 => drop(input.drain(at..end)),
            2 => {
                let piece = input[at..end].to_vec();
                input.splice(at..at, piece);
            }
            3 => input.insert(at, SPECIAL_BYTES[random.below(SPECIAL_BYTES.len())]),
            _ => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
        }
    }
    input
}

fn text(target: Target, name: &str) -> String {
    let (_, input) = seeds(target).into_iter().find(|(seed, _)| seed == name).expect(name);
    String::from_utf8(input).expect("text")
}

/// Mutations of an input that is refused at its first line would test nothing.
#[test]
fn the_inputs_with_every_member_are_accepted() {
    Sidecar::parse(&text(Target::Sidecar, "all.yaml")).expect("a sidecar");
    Descriptor::parse(&text(Target::Descriptor, "all.json")).expect("a descriptor");
}

#[test]
fn plugins_are_refused_in_one_line_or_described_within_their_limits() {
    replay(Target::Loader);
}

#[test]
fn sidecars_are_parsed_or_refused_in_one_line() {
    replay(Target::Sidecar);
}

#[test]
fn descriptors_are_parsed_or_refused_in_one_line() {
    replay(Target::Descriptor);
}

#[test]
fn predicates_are_evaluated_within_their_cost_limit_or_refused_in_one_line() {
    replay(Target::Predicate);
}

#[test]
fn selectors_json_paths_and_objects_are_parsed_or_refused_in_one_line() {
    [Target::Selector, Target::JsonPath, Target::Object].into_iter().for_each(replay);
}

#[test]
fn every_import_accepts_any_arguments_within_its_limits() {
    replay(Target::Imports);
}

#[test]
fn requests_of_any_bytes_are_answered_and_leave_whole_objects() {
    replay(Target::Requests);
}
