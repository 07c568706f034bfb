//! The environment that a nested cargo gets.
//!
//! `cargo xtask` runs under `cargo run`, which tells its children its own toolchain, flags and package; and under
//! `cargo clippy` or a wrapper its compiler too. A guest must be built as if its command had been typed in a shell.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// Set by cargo and rustup for the process that they run, or meant for the host's own build.
const OF_THE_OUTER_BUILD: [&str; 18] = [
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

/// Families of such variables.
const PREFIXES_OF_THE_OUTER_BUILD: [&str; 6] =
    ["CARGO_BIN_", "CARGO_CFG_", "CARGO_CRATE_", "CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_PROFILE_"];

fn belongs_to_the_outer_build(name: &str) -> bool {
    OF_THE_OUTER_BUILD.contains(&name)
        || PREFIXES_OF_THE_OUTER_BUILD.iter().any(|prefix| name.starts_with(prefix))
}

/// A command in `directory` (which selects rustup's toolchain) without the outer build's variables.
#[must_use]
pub fn clean_command(program: impl AsRef<OsStr>, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(directory);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(belongs_to_the_outer_build) {
            command.env_remove(name);
        }
    }
    // Asking must not download; what downloads is said first.
    command.env("RUSTUP_AUTO_INSTALL", "0");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cargo_run_sets_is_dropped() {
        for name in
            ["CARGO", "CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "RUSTUP_TOOLCHAIN", "RUSTFLAGS", "RUSTC"]
        {
            assert!(belongs_to_the_outer_build(name), "{name}");
        }
    }

    #[test]
    fn what_the_user_set_for_every_build_stays() {
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
    fn a_command_does_not_inherit_them() {
        let command = clean_command("cargo", Path::new("."));
        // Under `cargo test` this variable is set, so it must be listed as removed.
        let removed = command.get_envs().any(|(name, value)| name == "CARGO_MANIFEST_DIR" && value.is_none());
        assert!(removed, "CARGO_MANIFEST_DIR would be inherited");
    }
}
