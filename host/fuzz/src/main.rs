//! Runs libFuzzer on the target `PILOTHOUSE_FUZZ_TARGET`, after writing the target's committed corpus to the folder `PILOTHOUSE_FUZZ_SEEDS`.
//! `cargo xtask fuzz` builds and starts this program.

#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use pilothouse_fuzz::{Target, seeds};

fn target() -> Target {
    static TARGET: OnceLock<Target> = OnceLock::new();
    *TARGET.get_or_init(|| {
        let name = std::env::var("PILOTHOUSE_FUZZ_TARGET").unwrap_or_default();
        Target::of_name(&name)
            .unwrap_or_else(|| panic!("PILOTHOUSE_FUZZ_TARGET is {name:?}, which is not a fuzz target"))
    })
}

fn write_seeds() {
    let Some(folder) = std::env::var_os("PILOTHOUSE_FUZZ_SEEDS").map(PathBuf::from) else { return };
    for (name, input) in seeds(target()) {
        let path = folder.join(name);
        fs::write(&path, input).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

/// The crates of the CEL parser, which panics at some malformed texts. The host contains these panics (`pilothouse_cel::Expression`).
const CONTAINED: [&str; 2] = ["/cel-", "/antlr4rust-"];

/// Replaces libFuzzer's panic hook, which aborts at each panic, by one that ignores panics in [`CONTAINED`]. One that no code contains still
/// ends the process, after it has left the target.
fn ignore_contained_panics() {
    let abort = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let file = panic.location().map_or("", |location| location.file());
        if !CONTAINED.iter().any(|part| file.contains(part)) {
            abort(panic);
        }
    }));
}

libfuzzer_sys::fuzz_target!(
    init: {
        write_seeds();
        ignore_contained_panics();
    },
    |input: &[u8]| {
        target().run(input);
    }
);
