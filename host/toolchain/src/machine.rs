//! Probes the machine, and runs the two commands that change it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::environment::clean_command;
use crate::plan::{Attempt, Facts, TARGET};

/// Probes the machine without changing it. The caller sets the fields about earlier attempts and about what may be installed.
pub(crate) fn probe(root: &Path) -> Facts {
    let sysroot = sysroot("rustc".as_ref(), root);
    let system_sysroot = sysroot_of_system_rust(root);
    Facts {
        target_installed: sysroot.as_deref().is_some_and(has_std),
        rustup: output(clean_command("rustup", root).args(["show", "active-toolchain"])).is_some(),
        target_add: Attempt::NotMade,
        system_rust: system_sysroot.as_ref().and_then(|_| system_version(root)),
        system_std_sources: system_sysroot
            .is_some_and(|path| path.join("lib/rustlib/src/rust/library/std/Cargo.toml").is_file()),
        wasm_linker: sysroot.as_deref().and_then(rust_lld).or_else(wasm_ld),
        debian: Path::new("/usr/bin/apt-get").is_file(),
        root: output(clean_command("id", root).arg("-u")).as_deref() == Some("0"),
        package_install: Attempt::NotMade,
        may_install: false,
    }
}

/// Runs `rustup target add`, without retries: offline, it should fail at once, because there are alternatives.
pub(crate) fn add_target(root: &Path) -> Result<(), String> {
    let mut command = clean_command("rustup", root);
    run(command.args(["target", "add", TARGET]).env("RUSTUP_MAX_RETRIES", "0").env("RUST_BACKTRACE", "0"))
}

/// Installs Debian packages. Updates the package lists only if the installation fails without that.
pub(crate) fn install_packages(root: &Path, packages: &[&str]) -> Result<(), String> {
    let apt_get = |arguments: &[&str]| {
        let mut command = clean_command("/usr/bin/apt-get", root);
        command.env("DEBIAN_FRONTEND", "noninteractive");
        run(command.args(["-q", "-o", "DPkg::Lock::Timeout=120"]).args(arguments))
    };
    let mut install = vec!["install", "-y", "--no-install-recommends"];
    install.extend(packages);
    apt_get(&install).or_else(|_| apt_get(&["update"]).and_then(|()| apt_get(&install)))
}

fn has_std(sysroot: &Path) -> bool {
    let Ok(files) = std::fs::read_dir(sysroot.join("lib/rustlib").join(TARGET).join("lib")) else {
        return false;
    };
    files.flatten().any(|file| {
        let name = file.file_name();
        let name = name.to_string_lossy();
        name.starts_with("libstd-") && name.ends_with(".rlib")
    })
}

fn sysroot(rustc: &OsStr, root: &Path) -> Option<PathBuf> {
    output(clean_command(rustc, root).args(["--print", "sysroot"])).map(PathBuf::from)
}

fn sysroot_of_system_rust(root: &Path) -> Option<PathBuf> {
    if !Path::new("/usr/bin/cargo").is_file() {
        return None;
    }
    sysroot("/usr/bin/rustc".as_ref(), root)
}

fn system_version(root: &Path) -> Option<(u32, u32)> {
    parse_version(&output(clean_command("/usr/bin/rustc", root).arg("--version"))?)
}

/// Parses the output of `rustc --version`: (1, 96) for `rustc 1.96.0 (ac68faa20 2026-05-25)`.
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split_whitespace().nth(1)?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn rust_lld(sysroot: &Path) -> Option<PathBuf> {
    let hosts = std::fs::read_dir(sysroot.join("lib/rustlib")).ok()?;
    hosts.flatten().map(|host| host.path().join("bin/rust-lld")).find(|path| path.is_file())
}

fn wasm_ld() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join("wasm-ld")).find(|path| path.is_file())
}

/// Returns the trimmed output of a command; `None` if it fails.
fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok().map(|text| text.trim().to_owned())
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(error_summary(&String::from_utf8_lossy(&output.stderr)))
}

/// Summarizes the error output of a command: the lines that are marked as errors, or else the last line, cut to [`MAX_SUMMARY`] characters.
fn error_summary(stderr: &str) -> String {
    let lines: Vec<_> = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let is_error = |line: &&str| line.starts_with("error") || line.starts_with("E:");
    let mut text = lines.iter().copied().filter(is_error).collect::<Vec<_>>().join("; ");
    if text.is_empty() {
        text = lines.last().copied().unwrap_or("no error output").to_owned();
    }
    if text.chars().count() > MAX_SUMMARY {
        text = text.chars().take(MAX_SUMMARY).chain(['…']).collect();
    }
    text
}

const MAX_SUMMARY: usize = 240;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_parsed_from_the_output_of_rustc() {
        assert_eq!(parse_version("rustc 1.96.0 (ac68faa20 2026-05-25)"), Some((1, 96)));
        assert_eq!(parse_version("rustc 2.0.0-nightly"), Some((2, 0)));
        assert_eq!(parse_version("rustc"), None);
    }

    #[test]
    fn the_summary_has_the_error_lines_or_else_the_last_line() {
        assert_eq!(
            error_summary("info: downloading\n\nerror: no route\nwarning: x\nE: locked\n"),
            "error: no route; E: locked"
        );
        assert_eq!(error_summary("first\nlast\n\n"), "last");
        assert_eq!(error_summary(""), "no error output");
        let long = error_summary(&format!("error: {}", "x".repeat(1000)));
        assert_eq!(long.chars().count(), MAX_SUMMARY + 1);
        assert!(long.ends_with('…'));
    }

    #[test]
    fn a_sysroot_without_the_library_has_no_std() {
        let sysroot = tempfile::tempdir().unwrap();
        let sysroot = sysroot.path();
        let library = sysroot.join("lib/rustlib").join(TARGET).join("lib");
        std::fs::create_dir_all(&library).unwrap();
        assert!(!has_std(sysroot), "an empty folder is left by an interrupted installation");
        std::fs::write(library.join("libstd-0123.rlib"), "").unwrap();
        assert!(has_std(sysroot));
    }
}
