//! `pilothouse dev --build` and `--apply`.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::binary::{assert_fails, names, pilothouse, wait_for};
use crate::check::write_plugin;
use crate::host::Dev;
use crate::{project, sim};

async fn wait_for_log(dev: &Dev<'_>, text: &str) {
    wait_for(text, || dev.log(), || async { dev.log().contains(text).then_some(()) }).await;
}

/// Returns the only plugin in `/api/plugins`, or null if there is none yet.
async fn plugin(dev: &Dev<'_>) -> Value {
    dev.json("/api/plugins").await.map(|status| status["plugins"][0].clone()).unwrap_or_default()
}

async fn wait_for_running(dev: &Dev<'_>, version: &str) -> Value {
    let condition = format!("version {version}");
    wait_for(
        &condition,
        || dev.log(),
        || async {
            let plugin = plugin(dev).await;
            (plugin["version"] == version && plugin["state"] == "running").then_some(plugin)
        },
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn each_save_is_built_and_loaded_and_a_failed_build_keeps_the_running_version() {
    let folder = tempfile::tempdir().expect("a folder");
    let project = folder.path().join("project");
    project::write(&project, "saved", &project::source("1"));
    let mut dev = Dev::start(folder.path(), &["--build", "project", "--cache-dir", "cache"]);
    wait_for_running(&dev, "1").await;
    assert_eq!(names(&folder.path().join("plugins")), ["saved.wasm"]);
    wait_for_log(&dev, "described as 1").await;

    fs::write(project.join("src/lib.rs"), "fn broken( {").expect("written");
    wait_for_log(&dev, "build failed: ").await;
    wait_for_log(&dev, "error: this file contains an unclosed delimiter").await;
    assert!(!dev.log().contains("build-finished"), "cargo's messages are not shown: {}", dev.log());
    let failed = plugin(&dev).await;
    assert_eq!(
        (&failed["version"], &failed["generation"], &failed["error"]),
        (&"1".into(), &1.into(), &"".into())
    );

    fs::write(project.join("src/lib.rs"), project::source("2")).expect("written");
    let rebuilt = wait_for_running(&dev, "2").await;
    assert_eq!(rebuilt["generation"], 2);
    wait_for_log(&dev, "described as 2").await;
    let hint = "simulate it with `pilothouse sim project`";
    assert_eq!(dev.log().matches(hint).count(), 1, "only after the first build: {}", dev.log());

    // The check of each build compiles, and the host finds the result.
    assert_eq!(dev.log().matches(" of it compiling to machine code").count(), 2, "{}", dev.log());
    let metrics = dev.get("/metrics").await.expect("a response").body;
    let line = r#"pilothouse_plugin_code_total{outcome="compiled"} 2"#;
    assert!(metrics.lines().any(|found| found == line), "{line}\n{metrics}");

    assert!(Command::new("kill").arg(dev.child.id().to_string()).status().expect("kill runs").success());
    assert!(dev.child.wait().expect("it ends").success());
    assert_eq!(names(&folder.path().join("plugins")), ["saved.wasm"], "no temporary file is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_of_the_project_runs_at_each_save() {
    let folder = tempfile::tempdir().expect("a folder");
    let project = folder.path().join("plugin");
    project::write_with_command(&project, "echo first build\nmkdir -p out\ncp source out/built.wasm\n");
    fs::create_dir(folder.path().join("plugins")).expect("made");
    fs::copy(project.join("plugin.yaml"), folder.path().join("plugins/plugin.yaml")).expect("copied");
    let dev = Dev::start(folder.path(), &["--build", "plugin"]);
    wait_for_log(&dev, "first build").await;
    wait_for(
        "the plugin",
        || dev.log(),
        || async { (plugin(&dev).await["state"] == "running").then_some(()) },
    )
    .await;

    fs::write(project.join("src/build.sh"), "echo second build\nexit 7\n").expect("written");
    wait_for_log(&dev, "second build").await;
    wait_for_log(&dev, "exit status: 7").await;
    assert_eq!(plugin(&dev).await["state"], "running");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_build_is_simulated_in_the_background() {
    let folder = tempfile::tempdir().expect("a folder");
    let wrong = sim::wrong_scenario();
    sim::write_project(folder.path(), &[("generated.yaml", wrong.as_str())]);
    let plugins = folder.path().join("plugins");
    fs::create_dir(&plugins).expect("created");
    fs::copy(folder.path().join("leases/leases.yaml"), plugins.join("leases.yaml")).expect("copied");
    let dev = Dev::start(folder.path(), &["--build", "leases", "--sim", "--cache-dir", "cache"]);
    wait_for_log(&dev, "simulated leases: found in ").await;
    let log = dev.log();
    for part in ["at most one lease (leases/.pilothouse/finding-", "`pilothouse sim leases` tells the stor"] {
        assert!(log.contains(part), "{part:?} is not in\n{log}");
    }
    assert!(folder.path().join("leases/.pilothouse/finding-1.trace").is_file());
    assert_eq!(log.matches("building leases").count(), 1, "a trace is no change of the sources: {log}");
    assert!(!log.contains("simulate it with"), "{log}");

    // A scenario is a source of the project.
    let manifest = folder.path().join("leases/pilothouse.yaml");
    let watched = fs::read_to_string(&manifest).expect("a file").replace("[src]", "[simulations]");
    fs::write(folder.path().join("leases/simulations/generated.yaml"), sim::right_scenario())
        .expect("written");
    fs::write(manifest, watched).expect("written");
    wait_for_log(&dev, "simulated leases: 0 findings in ").await;
    wait_for_log(&dev, "  crashed before ").await;
    wait_for_log(&dev, "  oracles that had nothing to judge: ").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn manifests_are_applied_at_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("manifests")).expect("create the folder");
    let manifests = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\n---\n\
                     apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\n\
                     apiVersion: example.com/v1\nkind: Foo\nmetadata: {name: later}\n---\n\
                     apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: absent}\n";
    fs::write(folder.path().join("manifests/all.yaml"), manifests).expect("write the file");
    let dev = Dev::start(folder.path(), &["--apply", "manifests"]);
    for line in [
        "applied ConfigMap shop/a from manifests/all.yaml",
        "not applied: ConfigMap absent/b from manifests/all.yaml",
        "to be served: Foo later from manifests/all.yaml",
    ] {
        wait_for_log(&dev, line).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_compiler_is_selected_by_a_flag_and_compiling_is_logged() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("plugins")).expect("created");
    write_plugin(&folder.path().join("plugins"), &json!({"version": "1"}), &json!({}));
    // Each compiler finds only its own code in the cache.
    for (compiler, is_cached) in
        [("quick", false), ("optimizing", false), ("quick", true), ("optimizing", true)]
    {
        let dev = Dev::start(folder.path(), &["--cache-dir", "cache", "--compiler", compiler]);
        wait_for_running(&dev, "1").await;
        let log = dev.log();
        assert_eq!(log.contains("compiled in "), !is_cached, "{compiler}: {log}");
    }
}

/// Returns a command that runs the binary with a file system without code at `cache`; `None` where users may not mount one.
fn with_noexec_cache(folder: &std::path::Path) -> Option<Command> {
    let namespaces = ["--user", "--map-root-user", "--mount"];
    let probe =
        Command::new("unshare").args(namespaces).args(["mount", "-t", "tmpfs", "none", "/mnt"]).output();
    probe.ok().filter(|output| output.status.success())?;
    let binary = pilothouse(folder);
    let mut command = Command::new("unshare");
    let script = "mount -t tmpfs -o noexec,mode=700 none cache && exec \"$0\" \"$@\"";
    command.args(namespaces).args(["sh", "-c", script]).arg(binary.get_program()).current_dir(folder);
    for (name, value) in binary.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Some(command)
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_run_without_a_cache_that_is_mounted_with_noexec() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["plugins", "cache"] {
        fs::create_dir(folder.path().join(name)).expect("created");
    }
    write_plugin(&folder.path().join("plugins"), &json!({"version": "1"}), &json!({}));
    let Some(command) = with_noexec_cache(folder.path()) else {
        eprintln!("not tested: this system lets users mount nothing");
        return;
    };
    let dev = Dev::start_by(command, folder.path(), &["--cache-dir", "cache"]);
    wait_for_running(&dev, "1").await;
    let log = dev.log();
    assert!(log.contains("cannot keep compiled plugins in") && log.contains("mounted with noexec"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_leads_nowhere_is_a_failed_plugin() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("plugins")).expect("created");
    std::os::unix::fs::symlink("../out/p.wasm", folder.path().join("plugins/linked.wasm")).expect("linked");
    let dev = Dev::start(folder.path(), &[]);
    let failed = wait_for(
        "the failed plugin",
        || dev.log(),
        || async { Some(plugin(&dev).await).filter(|plugin| plugin["name"] == "linked") },
    )
    .await;
    assert_eq!(failed["state"], "failed");
    let error = failed["error"].as_str().unwrap_or_default();
    assert!(error.contains("plugins/linked.wasm is a symbolic link to ../out/p.wasm"), "{error}");
    wait_for_log(&dev, "is a symbolic link to ../out/p.wasm").await;
}

#[test]
fn manifests_that_cannot_be_read_are_a_usage_error() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_fails(folder.path(), &["dev", "--apply", "absent"], 2, &["--apply absent"]);
    fs::create_dir(folder.path().join("empty")).expect("made");
    assert_fails(
        folder.path(),
        &["dev", "--apply", "empty"],
        2,
        &["--apply empty", "give a folder with manifests"],
    );
}

#[test]
fn a_folder_without_a_project_is_a_usage_error() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_fails(folder.path(), &["dev", "--build", "."], 2, &["no Cargo.toml", "pilothouse new"]);
}
