//! What is on this machine, and the two commands that change it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::environment::clean_command;
use crate::plan::{Attempt, Facts, TARGET};

/// Looks at the machine without changing it. Attempts made before are the caller's to carry over.
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

/// Asks rustup for the target. Without retries: where nothing can be downloaded there is another way.
pub(crate) fn add_target(root: &Path) -> Result<(), String> {
    let mut command = clean_command("rustup", root);
    run(command.args(["target", "add", TARGET]).env("RUSTUP_MAX_RETRIES", "0").env("RUST_BACKTRACE", "0"))
}

/// Installs Debian packages; refreshes the package lists only if that does not work without.
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

/// `rustc 1.96.0 (ac68faa20 2026-05-25)` → (1, 96)
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

/// What a command that succeeds prints, trimmed.
fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok().map(|text| text.trim().to_owned())
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(last_words(&String::from_utf8_lossy(&output.stderr)))
}

/// What a command said went wrong: its lines that are marked as errors, else the last one; cut to what fits a sentence.
fn last_words(stderr: &str) -> String {
    let lines: Vec<_> = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let is_error = |line: &&str| line.starts_with("error") || line.starts_with("E:");
    let mut text = lines.iter().copied().filter(is_error).collect::<Vec<_>>().join("; ");
    if text.is_empty() {
        text = lines.last().copied().unwrap_or("it said nothing").to_owned();
    }
    if text.chars().count() > LAST_WORDS_MAX {
        text = text.chars().take(LAST_WORDS_MAX).chain(['…']).collect();
    }
    text
}

const LAST_WORDS_MAX: usize = 240;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_rustc_prints() {
        assert_eq!(parse_version("rustc 1.96.0 (ac68faa20 2026-05-25)"), Some((1, 96)));
        assert_eq!(parse_version("rustc 2.0.0-nightly"), Some((2, 0)));
        assert_eq!(parse_version("rustc"), None);
    }

    #[test]
    fn last_words_are_the_errors_or_else_the_last_line() {
        assert_eq!(
            last_words("info: downloading\n\nerror: no route\nwarning: x\nE: locked\n"),
            "error: no route; E: locked"
        );
        assert_eq!(last_words("first\nlast\n\n"), "last");
        assert_eq!(last_words(""), "it said nothing");
        let long = last_words(&format!("error: {}", "x".repeat(1000)));
        assert_eq!(long.chars().count(), LAST_WORDS_MAX + 1);
        assert!(long.ends_with('…'));
    }

    #[test]
    fn a_sysroot_has_std_only_with_its_library() {
        let sysroot = tempfile::tempdir().unwrap();
        let sysroot = sysroot.path();
        let library = sysroot.join("lib/rustlib").join(TARGET).join("lib");
        std::fs::create_dir_all(&library).unwrap();
        assert!(!has_std(sysroot), "an empty folder is left by an interrupted installation");
        std::fs::write(library.join("libstd-0123.rlib"), "").unwrap();
        assert!(has_std(sysroot));
    }
}
