//! The C SDK's own tests, compiled natively with the C compiler that building the host needs anyway.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn the_readmes_example_compiles() {
    let text = std::fs::read_to_string(root().join("guest-sdk/c/README.md")).expect("the README");
    let code = text.split("```c\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let made = tempfile::tempdir().expect("a folder");
    let file = made.path().join("plugin.c");
    std::fs::write(&file, code).expect("written");
    let compiled = Command::new("cc")
        .current_dir(root())
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-Iguest-sdk/c"])
        .arg(&file)
        .output()
        .expect("cc is a prerequisite of this project");
    assert!(compiled.status.success(), "cc: {}", String::from_utf8_lossy(&compiled.stderr));
}

/// Compiles and runs a C program in a folder of the checkout.
fn passes(folder: &str, sources: &[&str]) {
    let made = tempfile::tempdir().expect("a folder");
    let program = made.path().join("test");
    let compiled = Command::new("cc")
        .current_dir(root().join(folder))
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-g"])
        .args(sources)
        .arg("-o")
        .arg(&program)
        .output()
        .expect("cc is a prerequisite of this project");
    assert!(compiled.status.success(), "cc: {}", String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&program).output().expect("the program starts");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    assert!(said.contains("ok "), "no test ran: {said}");
}

#[test]
fn the_sdk_passes_its_tests() {
    passes("guest-sdk/c", &["tests/sdk.c", "testing/host.c", "pilothouse.c"]);
}

#[test]
fn the_pod_counter_passes_its_tests() {
    let sdk = "../../guest-sdk/c";
    let sources = ["-I../../guest-sdk/c", "test/test.c"].map(str::to_owned);
    let sources: Vec<_> = sources
        .into_iter()
        .chain(["pilothouse.c", "testing/host.c"].map(|file| format!("{sdk}/{file}")))
        .collect();
    passes("examples/pod-counter", &sources.iter().map(String::as_str).collect::<Vec<_>>());
}
