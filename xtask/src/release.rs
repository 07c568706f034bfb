//! `cargo xtask release`: builds `pilothouse` for delivery, with symbols and debug lines in a separate file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{cargo, host};

/// Builds `target/dist/pilothouse` and `target/dist/pilothouse.debug`. Debuggers and profilers find the second file next to the first.
///
/// # Errors
/// Errors if the build fails, or `objcopy` is missing.
pub(crate) fn run(root: &Path) -> Result<()> {
    host::require_make()?;
    let messages = host::run_cargo_json(cargo::cargo().current_dir(root).args([
        "build",
        "--locked",
        "--profile",
        "dist",
        "--package",
        "pilothouse",
    ]))?;
    let binary = host::find_executable(&messages, "pilothouse")?;
    let lines = separate_debug_lines(&binary, &binary)?;
    for file in [&binary, &lines] {
        let size = fs::metadata(file).with_context(|| format!("read {}", file.display()))?.len();
        println!("release: {} is {} MB", file.display(), size.div_ceil(1_000_000));
    }
    Ok(())
}

/// Writes `built` without its symbols and debug lines to `stripped`, which may be the same file, and both into a file beside that, whose path it
/// returns.
///
/// # Errors
/// Errors if `objcopy` is missing or fails.
pub(crate) fn separate_debug_lines(built: &Path, stripped: &Path) -> Result<PathBuf> {
    let lines = stripped.with_extension("debug");
    objcopy(&[Path::new("--only-keep-debug"), built, &lines])?;
    objcopy(&[Path::new("--strip-all"), built, stripped])?;
    // The link has a checksum, so that a debugger refuses the lines of another build. It fails if the binary has one already.
    objcopy(&[Path::new("--remove-section=.gnu_debuglink"), stripped])?;
    let mut link = std::ffi::OsString::from("--add-gnu-debuglink=");
    link.push(&lines);
    objcopy(&[Path::new(&link), stripped])?;
    Ok(lines)
}

fn objcopy(arguments: &[&Path]) -> Result<()> {
    let status = Command::new("objcopy").args(arguments).status().context(
        "objcopy is missing or does not run: install binutils (Debian, Ubuntu: apt install binutils; Fedora: dnf install binutils)",
    )?;
    ensure!(status.success(), "objcopy could not separate the debug lines (see above): {status}");
    Ok(())
}
