//! The environment of a nested cargo.
//!
//! `cargo xtask` runs under `cargo run`, which sets variables for its own toolchain, flags and package, and under `cargo clippy` or a wrapper
//! also for the compiler. A guest must be built as if its command had been typed in a shell.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// Variables that cargo and rustup set for the processes that they run, or that are meant for the host's own build.
const OUTER_BUILD_VARIABLES: [&str; 18] = [
    "CARGO",
    "CARGO_BUILD_RUSTC",
    "CARGO_BUILD_RUSTC_WRAPPER",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "CARGO_BUILD_TARGET_DIR",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_PRIMARY_PACKAGE",
    "CARGO_TARGET_DIR",
    "LD_LIBRARY_PATH",
    "OUT_DIR",
    "RUSTC",
    "RUSTC_BOOTSTRAP",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTDOC",
    "RUSTFLAGS",
    "RUSTUP_TOOLCHAIN",
    "RUST_RECURSION_COUNT",
];

/// Prefixes of such variables.
const OUTER_BUILD_PREFIXES: [&str; 6] =
    ["CARGO_BIN_", "CARGO_CFG_", "CARGO_CRATE_", "CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_PROFILE_"];

fn belongs_to_the_outer_build(name: &str) -> bool {
    OUTER_BUILD_VARIABLES.contains(&name)
        || OUTER_BUILD_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Creates a command that runs in `directory` (by which rustup selects the toolchain) without the variables of an outer cargo.
#[must_use]
pub fn clean_command(program: impl AsRef<OsStr>, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(directory);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(belongs_to_the_outer_build) {
            command.env_remove(name);
        }
    }
    // Looking at a toolchain must not download one: each download is announced first.
    command.env("RUSTUP_AUTO_INSTALL", "0");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_cargo_run_sets_are_dropped() {
        for name in
            ["CARGO", "CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "RUSTUP_TOOLCHAIN", "RUSTFLAGS", "RUSTC"]
        {
            assert!(belongs_to_the_outer_build(name), "{name}");
        }
    }

    #[test]
    fn variables_that_the_user_set_are_kept() {
        for name in [
            "CARGO_HOME",
            "CARGO_NET_OFFLINE",
            "CARGO_HTTP_CAINFO",
            "CARGO_TERM_COLOR",
            "RUSTUP_HOME",
            "PATH",
        ] {
            assert!(!belongs_to_the_outer_build(name), "{name}");
        }
    }

    #[test]
    fn a_command_does_not_inherit_the_outer_builds_variables() {
        let command = clean_command("cargo", Path::new("."));
        // Under `cargo test` this variable is set, so it must be listed as removed.
        let removed = command.get_envs().any(|(name, value)| name == "CARGO_MANIFEST_DIR" && value.is_none());
        assert!(removed, "CARGO_MANIFEST_DIR would be inherited");
    }
}
