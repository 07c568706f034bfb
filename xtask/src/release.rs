//! `cargo xtask release`: builds `pilothouse` for delivery, with the debug lines in a separate file.

use std::fs;
use std::path::Path;
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
    let lines = binary.with_extension("debug");
    objcopy(&[Path::new("--only-keep-debug"), &binary, &lines])?;
    objcopy(&[Path::new("--strip-debug"), &binary])?;
    // The link has a checksum, so that a debugger refuses the lines of another build. It fails if the binary has one already.
    objcopy(&[Path::new("--remove-section=.gnu_debuglink"), &binary])?;
    let mut link = std::ffi::OsString::from("--add-gnu-debuglink=");
    link.push(&lines);
    objcopy(&[Path::new(&link), &binary])?;
    for file in [&binary, &lines] {
        let size = fs::metadata(file).with_context(|| format!("read {}", file.display()))?.len();
        println!("release: {} is {} MB", file.display(), size.div_ceil(1_000_000));
    }
    Ok(())
}

fn objcopy(arguments: &[&Path]) -> Result<()> {
    let status = Command::new("objcopy").args(arguments).status().context(
        "objcopy is missing or does not run: install binutils (Debian, Ubuntu: apt install binutils; Fedora: dnf install binutils)",
    )?;
    ensure!(status.success(), "objcopy could not separate the debug lines (see above): {status}");
    Ok(())
}
