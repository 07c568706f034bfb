//! `pilothouse build`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::binary::{CommandOutput, assert_fails, assert_succeeds, names, pilothouse, wait_for};
use crate::project;

/// Returns the names of the plugins and temporary files that a build left in the folder.
fn build_results(folder: &Path) -> Vec<String> {
    names(folder)
        .into_iter()
        .filter(|name| name.ends_with(".wasm") || name.starts_with(".pilothouse"))
        .collect()
}

#[test]
fn a_new_project_builds_and_passes_its_check() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_succeeds(folder.path(), &["new", "greeter", "--lang", "rust"]);
    let output = assert_succeeds(folder.path(), &["build", "greeter"]);
    assert!(
        output.stdout.contains("greeter/greeter.wasm") && output.stdout.contains("from rust"),
        "{output:#?}"
    );
    assert_eq!(build_results(&folder.path().join("greeter")), ["greeter.wasm"]);

    let output = assert_succeeds(folder.path(), &["check", "greeter/greeter.wasm"]);
    assert!(output.stdout.starts_with("greeter 0.1.0 — "), "{output:#?}");
    assert!(output.stdout.contains("world reconciler"), "{output:#?}");

    assert_succeeds(folder.path(), &["build", "greeter", "-o", "out/other-name.wasm"]);
    assert_eq!(names(&folder.path().join("out")), ["other-name.wasm"]);
}

#[test]
fn error_of_a_missing_toolchain_says_how_to_install_it() {
    let folder = tempfile::tempdir().expect("a folder");
    project::write(folder.path(), "lonely", &project::source("1"));
    let output = pilothouse(folder.path()).args(["build", "."]).env("PATH", "").output().expect("it runs");
    let output = CommandOutput::from(output);
    assert_eq!(output.code, Some(1), "{output:#?}");
    assert!(output.stderr.contains("no Rust toolchain for wasm32-unknown-unknown"), "{output:#?}");
    assert!(
        output.stderr.contains("install rustup (https://rustup.rs), then: rustup target add"),
        "{output:#?}"
    );
    assert_eq!(build_results(folder.path()), Vec::<String>::new());
}

#[test]
fn a_failed_build_keeps_the_previous_plugin() {
    let folder = tempfile::tempdir().expect("a folder");
    project::write(folder.path(), "steady", &project::source("1"));
    assert_succeeds(folder.path(), &["build", "."]);
    let good = fs::read(folder.path().join("steady.wasm")).expect("built");

    let broken = [
        ("it does not compile", "fn broken( {", vec!["cargo build", "failed", "error:"]),
        (
            "it is not a plugin",
            "#[unsafe(no_mangle)] pub extern \"C\" fn nothing() {}",
            vec!["steady.wasm", "expected pilothouse:controller/plugin", "build it with an SDK"],
        ),
        (
            "its descriptor is refused",
            &project::source("1").replace("\"trigger\": \"self\"", "\"trigger\": \"slef\""),
            vec!["steady.wasm", "slef"],
        ),
        (
            "the kind is unknown",
            &project::source("1").replace("\"ConfigMap\"", "\"ConfigMapp\""),
            vec!["watches[0]", "ConfigMapp", "there are:", "ConfigMap,"],
        ),
    ];
    for (problem, source, expected) in broken {
        project::write(folder.path(), "steady", source);
        let output = assert_fails(folder.path(), &["build", "."], 1, &expected);
        assert!(!output.stderr.contains(".pilothouse-"), "a temporary path: {output:#?}");
        assert_eq!(build_results(folder.path()), ["steady.wasm"], "{problem}: {output:#?}");
        assert!(fs::read(folder.path().join("steady.wasm")).expect("there") == good, "{problem}");
    }
}

#[test]
fn a_command_of_the_project_builds_the_plugin() {
    let folder = tempfile::tempdir().expect("a folder");
    // The folder's name is the plugin's name. The plugin gets its descriptor from the sidecar of this name.
    let project = folder.path().join("plugin");
    project::write_with_command(&project, "echo copying\nmkdir -p out\ncp source out/built.wasm\n");
    let output = assert_succeeds(folder.path(), &["build", "plugin"]);
    assert!(
        output.stdout.contains("plugin/plugin.wasm") && output.stdout.contains("from pilothouse.yaml"),
        "{output:#?}"
    );
    assert!(output.stderr.contains("copying\n"), "{output:#?}");
    assert_eq!(build_results(&project), ["plugin.wasm"]);

    for (script, expected) in [
        ("echo out of paint >&2; exit 7", vec!["out of paint", "`sh -e src/build.sh`", "exit status: 7"]),
        ("rm out/built.wasm", vec!["out/built.wasm cannot be found", "set `output` in pilothouse.yaml"]),
        ("echo text > out/built.wasm", vec!["plugin.wasm", "WebAssembly"]),
    ] {
        fs::write(project.join("src/build.sh"), script).expect("written");
        assert_fails(folder.path(), &["build", "plugin"], 1, &expected);
        assert_eq!(build_results(&project), ["plugin.wasm"], "the previous plugin stays");
    }
    fs::write(project.join("pilothouse.yaml"), "build:\n  run: make\n  output: ../built.wasm\n")
        .expect("written");
    let expected = ["pilothouse.yaml: line 3: build.output", "in the project's folder"];
    assert_fails(folder.path(), &["build", "plugin"], 2, &expected);
}

#[test]
fn a_compile_error_is_shown_once_without_cargos_own_messages() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = project::source("1").replace("static DONE", "let _: u32 = \"text\";\n    static DONE");
    project::write(folder.path(), "mistyped", &source);
    let output =
        assert_fails(folder.path(), &["build", "."], 1, &["error[E0308]: mismatched types", "src/lib.rs"]);
    assert_eq!(output.stderr.matches("error[E0308]").count(), 1, "{output:#?}");
    for noise in ["\"reason\"", "build-finished", "Compiling mistyped"] {
        assert!(!output.stderr.contains(noise), "{noise}: {output:#?}");
    }
}

#[test]
fn invalid_usage_exits_with_2() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_fails(folder.path(), &["build", "absent"], 2, &["absent", "give the folder of a project"]);
    assert_fails(folder.path(), &["build", "."], 2, &["no Cargo.toml", "pilothouse new"]);
    fs::write(folder.path().join("go.mod"), "module x\n").expect("written");
    fs::write(folder.path().join("Cargo.toml"), project::manifest("x")).expect("written");
    assert_fails(folder.path(), &["build", "."], 2, &["Cargo.toml and go.mod", "pilothouse.yaml"]);
}

#[test]
fn the_output_must_name_a_plugin() {
    let folder = tempfile::tempdir().expect("a folder");
    project::write(folder.path(), "named", &project::source("1"));
    assert_fails(folder.path(), &["build", ".", "-o", "plugin.bin"], 2, &["plugin.bin", ".wasm"]);
    assert_fails(
        folder.path(),
        &["build", ".", "-o", "My_Plugin.wasm"],
        2,
        &["My_Plugin.wasm", "my-plugin.wasm"],
    );
}

/// Cargo runs a build script that never ends: an interruption must terminate pilothouse, cargo and the script.
#[tokio::test]
async fn an_interruption_terminates_the_tools_and_leaves_no_partial_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let pid_file = folder.path().join("pid");
    project::write(folder.path(), "endless", &project::source("1"));
    let script = format!(
        "fn main() {{ std::fs::write({pid_file:?}, std::process::id().to_string()).unwrap(); loop {{ std::thread::park(); }} }}"
    );
    fs::write(folder.path().join("build.rs"), script).expect("written");
    // A target folder of its own, because cargo would hold the lock on the shared one until the end.
    let mut command = pilothouse(folder.path());
    command.env("CARGO_TARGET_DIR", folder.path().join("target")).args(["build", "."]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let pid = wait_for("the build script", String::new, || async {
        fs::read_to_string(&pid_file).ok().filter(|pid| !pid.is_empty())
    })
    .await;
    let interrupt = ["-INT".to_owned(), child.id().to_string()];
    assert!(Command::new("kill").args(interrupt).status().expect("kill runs").success());
    let output = CommandOutput::from(child.wait_with_output().expect("it ends"));
    assert_eq!(output.code, Some(1), "{output:#?}");
    assert!(output.stderr.contains("interrupted"), "{output:#?}");
    assert_eq!(build_results(folder.path()), Vec::<String>::new());
    wait_for(
        "the end of the build script",
        || pid.clone(),
        || async {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            (stat.is_empty() || stat.contains(") Z ")).then_some(())
        },
    )
    .await;
}
