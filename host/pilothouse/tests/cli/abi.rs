//! `pilothouse abi`: compilers accept its header, and a guest that has nothing else is a plugin.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::binary::assert_succeeds;

/// Writes the header and the guest over it to the folder.
fn write_sources(folder: &Path) {
    let header = assert_succeeds(folder, &["abi", "--format", "c"]).stdout;
    fs::write(folder.join("abi.h"), header).expect("written");
    fs::write(folder.join("guest.c"), include_str!("abi_guest.c")).expect("written");
    fs::write(folder.join("header.cc"), "#include \"abi.h\"\n").expect("written");
}

/// Runs a compiler in the folder. Returns whether there is one.
#[track_caller]
fn compiles(folder: &Path, compiler: &Path, arguments: &[&str]) -> bool {
    let output = match Command::new(compiler).current_dir(folder).args(arguments).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => return false,
        output => output.expect("a compiler"),
    };
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} {arguments:?}: {stderr}", compiler.display());
    true
}

const WARNINGS: [&str; 5] = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"];

#[test]
fn the_header_is_valid_c99() {
    let folder = tempfile::tempdir().expect("a folder");
    write_sources(folder.path());
    let arguments = [&WARNINGS[..], &["-std=c99", "guest.c"][..]].concat();
    assert!(compiles(folder.path(), Path::new("cc"), &arguments), "cc is a prerequisite of this project");
}

#[test]
fn the_header_is_valid_cpp() {
    let folder = tempfile::tempdir().expect("a folder");
    write_sources(folder.path());
    let arguments = [&WARNINGS[..], &["-std=c++11", "header.cc"][..]].concat();
    if !compiles(folder.path(), Path::new("c++"), &arguments) {
        eprintln!("skipped: there is no C++ compiler");
    }
}

/// Returns the zig that `pilothouse build` would use, in the order in which it looks for one.
fn zig() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let in_path = std::env::split_paths(&path).map(|folder| folder.join("zig"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    let downloads = fs::read_dir(cache.join("pilothouse")).into_iter().flatten().flatten();
    let downloaded = downloads.map(|entry| entry.path().join("ziglang/zig"));
    in_path.chain(downloaded).find(|zig| zig.is_file())
}

#[test]
fn a_guest_over_the_header_alone_is_a_plugin() {
    let folder = tempfile::tempdir().expect("a folder");
    write_sources(folder.path());
    let Some(zig) = zig() else {
        eprintln!("skipped: there is no zig; `cargo xtask build-guests` downloads it");
        return;
    };
    // The header's assertions of the layout hold for this target only.
    let target = ["cc", "-target", "wasm32-freestanding", "-std=c99", "-Os", "-nostdlib", "-Wl,--no-entry"];
    compiles(folder.path(), &zig, &[&target[..], &["-o", "guest.wasm", "guest.c"][..]].concat());
    let report = assert_succeeds(folder.path(), &["check", "guest.wasm"]).stdout;
    assert!(report.contains("exports reconcile"), "{report}");
}

#[test]
fn a_guest_in_zig_over_the_translated_header_is_a_plugin() {
    let folder = tempfile::tempdir().expect("a folder");
    write_sources(folder.path());
    let Some(zig) = zig() else {
        eprintln!("skipped: there is no zig; `cargo xtask build-guests` downloads it");
        return;
    };
    let target = ["-target", "wasm32-freestanding"];
    let translated = Command::new(&zig)
        .current_dir(folder.path())
        .args(["translate-c", target[0], target[1], "abi.h"])
        .output()
        .expect("zig runs");
    assert!(translated.status.success(), "{}", String::from_utf8_lossy(&translated.stderr));
    fs::write(folder.path().join("abi.zig"), translated.stdout).expect("written");
    fs::write(folder.path().join("guest.zig"), include_str!("abi_guest.zig")).expect("written");
    let build = ["build-exe", "guest.zig", "-O", "ReleaseSmall", "-fno-entry", "-rdynamic"];
    compiles(folder.path(), &zig, &[&build[..], &target].concat());
    let report = assert_succeeds(folder.path(), &["check", "guest.wasm"]).stdout;
    assert!(report.contains("exports reconcile"), "{report}");
}
