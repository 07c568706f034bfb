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

libfuzzer_sys::fuzz_target!(
    init: write_seeds(),
    |input: &[u8]| {
        target().run(input);
    }
);
