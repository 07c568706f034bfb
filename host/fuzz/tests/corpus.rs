//! The corpus and small changes of it, without a fuzzer.

use pilothouse_controller::descriptor::Descriptor;
use pilothouse_controller::sidecar::Sidecar;
use pilothouse_fuzz::{Target, seeds};

/// How many changes of each input are tried.
fn changes(target: Target) -> usize {
    match target {
        // Each script is done by a plugin in a whole host.
        Target::Imports => 100,
        // The loader compiles what passes; the others only read.
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
        for _ in 0..changes(target) {
            run(target, &changed(input, &mut random));
        }
    }
}

fn run(target: Target, input: &[u8]) {
    let _input = ShownOnPanic(input);
    target.run(input);
}

/// A panic in the host says what happened, not which bytes did it.
struct ShownOnPanic<'a>(&'a [u8]);

impl Drop for ShownOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("the input: {}", self.0.escape_ascii());
        }
    }
}

/// The same numbers in every run (Knuth's generator), so that a failure comes again.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound.max(1)
    }
}

/// Bytes that mean something to one reader or another.
const TELLING: &[u8] = b"\n\"{}[]:*,\0\x7f\x80\xff0a-";

/// Cuts, repeats, flips: one to four times.
fn changed(input: &[u8], random: &mut Random) -> Vec<u8> {
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
            3 => input.insert(at, TELLING[random.below(TELLING.len())]),
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

/// Changes of a file that is refused at its first line would try nothing.
#[test]
fn the_inputs_that_have_every_member_are_accepted() {
    Sidecar::parse(&text(Target::Sidecar, "all.yaml")).expect("a sidecar");
    Descriptor::parse(&text(Target::Descriptor, "all.json")).expect("a descriptor");
}

#[test]
fn plugins_are_refused_in_one_line_or_described_within_their_limits() {
    replay(Target::Loader);
}

#[test]
fn sidecars_are_read_or_refused_in_one_line() {
    replay(Target::Sidecar);
}

#[test]
fn descriptors_are_read_or_refused_in_one_line() {
    replay(Target::Descriptor);
}

#[test]
fn predicates_are_evaluated_within_their_cost_or_refused_in_one_line() {
    replay(Target::Predicate);
}

#[test]
fn selectors_json_paths_and_objects_are_read_or_refused_in_one_line() {
    [Target::Selector, Target::JsonPath, Target::Object].into_iter().for_each(replay);
}

#[test]
fn every_import_takes_any_arguments_within_its_limits() {
    replay(Target::Imports);
}
