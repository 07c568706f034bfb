use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::project;
use crate::tool::{Said, names, pilothouse, refused, succeed, wait_for};

fn built(folder: &Path) -> Vec<String> {
    names(folder)
        .into_iter()
        .filter(|name| name.ends_with(".wasm") || name.starts_with(".pilothouse"))
        .collect()
}

#[test]
fn a_new_project_builds_and_passes_its_check() {
    let folder = tempfile::tempdir().expect("a folder");
    succeed(folder.path(), &["new", "greeter", "--lang", "rust"]);
    let said = succeed(folder.path(), &["build", "greeter"]);
    assert!(said.stdout.contains("greeter/greeter.wasm") && said.stdout.contains("from rust"), "{said:#?}");
    assert_eq!(built(&folder.path().join("greeter")), ["greeter.wasm"]);

    let said = succeed(folder.path(), &["check", "greeter/greeter.wasm"]);
    assert!(said.stdout.starts_with("greeter 0.1.0 — "), "{said:#?}");
    assert!(said.stdout.contains("world reconciler"), "{said:#?}");

    succeed(folder.path(), &["build", "greeter", "-o", "out/other-name.wasm"]);
    assert_eq!(names(&folder.path().join("out")), ["other-name.wasm"]);
}

#[test]
fn a_missing_toolchain_gets_the_lines_that_bring_it() {
    let folder = tempfile::tempdir().expect("a folder");
    project::write(folder.path(), "lonely", &project::source("1"));
    let output = pilothouse(folder.path()).args(["build", "."]).env("PATH", "").output().expect("it runs");
    let said = Said::from(output);
    assert_eq!(said.code, Some(1), "{said:#?}");
    assert!(said.stderr.contains("no Rust toolchain for wasm32-unknown-unknown"), "{said:#?}");
    assert!(said.stderr.contains("install rustup (https://rustup.rs), then: rustup target add"), "{said:#?}");
    assert_eq!(built(folder.path()), Vec::<String>::new());
}

#[test]
fn what_was_built_before_survives_every_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    project::write(folder.path(), "steady", &project::source("1"));
    succeed(folder.path(), &["build", "."]);
    let good = fs::read(folder.path().join("steady.wasm")).expect("built");

    let broken = [
        ("it does not compile", "fn broken( {", vec!["cargo build", "failed", "error:"]),
        (
            "it is no plugin",
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
    for (what, source, parts) in broken {
        project::write(folder.path(), "steady", source);
        let said = refused(folder.path(), &["build", "."], 1, &parts);
        assert_eq!(built(folder.path()), ["steady.wasm"], "{what}: {said:#?}");
        assert!(fs::read(folder.path().join("steady.wasm")).expect("there") == good, "{what}");
    }
}

#[test]
fn bad_usage_ends_with_2() {
    let folder = tempfile::tempdir().expect("a folder");
    refused(folder.path(), &["build", "absent"], 2, &["absent", "give the folder of a project"]);
    refused(folder.path(), &["build", "."], 2, &["no Cargo.toml", "pilothouse new"]);
    fs::write(folder.path().join("go.mod"), "module x\n").expect("written");
    fs::write(folder.path().join("Cargo.toml"), project::manifest("x")).expect("written");
    refused(folder.path(), &["build", "."], 2, &["Cargo.toml and go.mod", "pilothouse.yaml"]);
}

#[test]
fn the_output_must_name_a_plugin() {
    let folder = tempfile::tempdir().expect("a folder");
    project::write(folder.path(), "named", &project::source("1"));
    refused(folder.path(), &["build", ".", "-o", "plugin.bin"], 2, &["plugin.bin", ".wasm"]);
    refused(folder.path(), &["build", ".", "-o", "My_Plugin.wasm"], 2, &["My_Plugin.wasm", "my-plugin.wasm"]);
}

/// Cargo runs a build script of the project's, which runs for ever: an interruption ends all three.
#[tokio::test]
async fn an_interruption_ends_the_tools_and_leaves_no_half_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let pid_file = folder.path().join("pid");
    project::write(folder.path(), "endless", &project::source("1"));
    let script = format!(
        "fn main() {{ std::fs::write({pid_file:?}, std::process::id().to_string()).unwrap(); loop {{ std::thread::park(); }} }}"
    );
    fs::write(folder.path().join("build.rs"), script).expect("written");
    // Into a target folder of its own: cargo's lock on the shared one would be held until the end.
    let mut command = pilothouse(folder.path());
    command.env("CARGO_TARGET_DIR", folder.path().join("target")).args(["build", "."]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let pid = wait_for("the build script", String::new, || async {
        fs::read_to_string(&pid_file).ok().filter(|pid| !pid.is_empty())
    })
    .await;
    let interrupt = ["-INT".to_owned(), child.id().to_string()];
    assert!(Command::new("kill").args(interrupt).status().expect("kill runs").success());
    let said = Said::from(child.wait_with_output().expect("it ends"));
    assert_eq!(said.code, Some(1), "{said:#?}");
    assert!(said.stderr.contains("interrupted"), "{said:#?}");
    assert_eq!(built(folder.path()), Vec::<String>::new());
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
