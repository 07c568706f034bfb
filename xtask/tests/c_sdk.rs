//! Compiles and runs the C SDK's tests natively. Building the host requires a C compiler anyway.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn the_readmes_example_compiles() {
    let text = std::fs::read_to_string(root().join("guest-sdk/c/README.md")).expect("the README");
    let code = text.split("```c\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("plugin.c");
    std::fs::write(&file, code).expect("written");
    let compiled = Command::new("cc")
        .current_dir(root())
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-Iguest-sdk/c"])
        .arg(&file)
        .output()
        .expect("cc is a prerequisite of this project");
    assert!(compiled.status.success(), "cc: {}", String::from_utf8_lossy(&compiled.stderr));
}

/// Compiles a C test program from sources in a folder of the repository, runs it and asserts that it passes.
fn assert_c_tests_pass(folder: &str, sources: &[&str]) {
    let output_folder = tempfile::tempdir().expect("a folder");
    let program = output_folder.path().join("test");
    let compiled = Command::new("cc")
        .current_dir(root().join(folder))
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-g"])
        .args(sources)
        .arg("-o")
        .arg(&program)
        .output()
        .expect("cc is a prerequisite of this project");
    assert!(compiled.status.success(), "cc: {}", String::from_utf8_lossy(&compiled.stderr));
    let output =
        Command::new(&program).current_dir(root().join(folder)).output().expect("the program starts");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout.contains("ok "), "no test ran: {stdout}");
}

#[test]
fn the_sdk_passes_its_tests() {
    assert_c_tests_pass("guest-sdk/c", &["tests/sdk.c", "testing/host.c", "pilothouse.c"]);
}

#[test]
fn the_fake_host_passes_the_cases_of_the_fake_cluster() {
    assert_c_tests_pass("guest-sdk/c", &["tests/cases.c", "testing/host.c", "pilothouse.c"]);
}

/// Returns whether there is a C++ compiler. The project needs only one for C.
fn has_cpp_compiler() -> bool {
    Command::new("c++").arg("--version").output().is_ok_and(|version| version.status.success())
}

#[test]
fn a_plugin_in_cpp_compiles_with_the_headers_and_passes_its_test() {
    if !has_cpp_compiler() {
        eprintln!("skipped: this machine has no C++ compiler");
        return;
    }
    let folder = root().join("guest-sdk/c");
    let output_folder = tempfile::tempdir().expect("a folder");
    let run = |command: &mut Command| {
        let output = command.current_dir(&folder).output().expect("the program starts");
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    // The SDK is C: a C++ compiler would read its sources as C++.
    let objects = ["pilothouse", "host"].map(|name| output_folder.path().join(name).with_extension("o"));
    for (source, object) in ["pilothouse.c", "testing/host.c"].into_iter().zip(&objects) {
        run(Command::new("cc").args(["-std=c11", "-c", source, "-o"]).arg(object));
    }
    let program = output_folder.path().join("test");
    let flags = ["-std=c++11", "-Wall", "-Wextra", "-Werror", "tests/plugin.cpp"];
    run(Command::new("c++").args(flags).args(&objects).arg("-o").arg(&program));
    let stdout = run(&mut Command::new(&program));
    assert!(stdout.contains("ok "), "no test ran: {stdout}");
}

/// Runs the tests of a plugin, given the path from its folder to the SDK.
fn assert_plugin_tests_pass(folder: &str, sdk: &str) {
    let sources = [
        format!("-I{sdk}"),
        "test/test.c".into(),
        format!("{sdk}/pilothouse.c"),
        format!("{sdk}/testing/host.c"),
    ];
    assert_c_tests_pass(folder, &sources.each_ref().map(String::as_str));
}

#[test]
fn the_pod_counter_passes_its_tests() {
    assert_plugin_tests_pass("examples/pod-counter", "../../guest-sdk/c");
}

#[test]
fn the_templates_pass_their_tests() {
    assert_plugin_tests_pass("host/pilothouse/templates/c", "../../../../guest-sdk/c");
    assert_plugin_tests_pass("host/pilothouse/templates/empty/c", "../../../../../guest-sdk/c");
}
