//! Starts cargo.

use std::process::Command;

/// Returns a command for the cargo that runs this xtask, without the variables that describe xtask's package. Some build scripts
/// (ring's) depend on these variables, so alternating between `cargo` and `cargo xtask` would recompile their dependants each time.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let describes_xtask = name
            .to_str()
            .is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"));
        if describes_xtask {
            command.env_remove(name);
        }
    }
    command
}
