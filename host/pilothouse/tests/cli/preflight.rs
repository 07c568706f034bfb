//! `pilothouse preflight` and `check --config --sidecars`.

use std::fs;

use serde_json::{Value, json};

use crate::binary::{assert_fails, assert_succeeds, run, wait_for, write_kubeconfig};
use crate::check::write_plugin;
use crate::host::Dev;
use crate::unauthorized::Unauthorized;

#[test]
fn each_failed_check_has_a_line_and_the_command_fails() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("config.yaml"), "grant: explicit\n").expect("written");
    let arguments = [
        "preflight",
        "--plugins",
        "absent",
        "--config",
        "config.yaml",
        "--kubeconfig",
        "absent",
        "--cache-dir",
        "cache",
    ];
    let output = assert_fails(folder.path(), &arguments, 1, &["checks failed"]);
    let lines: Vec<_> = output.stdout.lines().collect();
    let line = |check: &str| {
        *lines
            .iter()
            .find(|line| line[6..].starts_with(check))
            .unwrap_or_else(|| panic!("{check}: {lines:#?}"))
    };
    for (check, part) in
        [("configuration", "unknown field"), ("plugins", "absent"), ("server", "kubeconfig absent")]
    {
        let line = line(check);
        assert!(line.starts_with("FAIL") && line.contains(part) && line.contains(';'), "{line}");
    }
    assert!(line("cache").ends_with("compiled is writable and executable"), "{lines:#?}");
}

#[test]
fn a_server_that_refuses_the_credentials_is_a_failed_check_and_ends_the_others() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("plugins")).expect("created");
    write_plugin(&folder.path().join("plugins"), &json!({}), &json!({}));
    let server = Unauthorized::start();
    write_kubeconfig(folder.path(), &server.url, "wrong");
    let arguments = ["preflight", "--kubeconfig", "kubeconfig", "--cache-dir", "cache"];
    let output = assert_fails(folder.path(), &arguments, 1, &["one check failed"]);
    assert!(
        output.stdout.contains("FAIL  server         the server refuses the credentials (401); "),
        "{output:#?}"
    );
    assert!(!output.stdout.contains("rights") && !output.stdout.contains("watch-list"), "{output:#?}");
}

#[test]
fn an_empty_plugins_directory_is_no_problem_if_plugins_come_from_registries() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("plugins")).expect("created");
    let plugins_line = |config: &str| {
        fs::write(folder.path().join("config.yaml"), config).expect("written");
        let arguments =
            ["preflight", "--config", "config.yaml", "--kubeconfig", "absent", "--cache-dir", "cache"];
        let output = assert_fails(folder.path(), &arguments, 1, &["failed"]);
        let mut lines = output.stdout.lines();
        lines.find(|line| line[6..].starts_with("plugins")).expect("a line").to_owned()
    };
    let line = plugins_line("grants: explicit");
    assert!(line.starts_with("warn") && line.ends_with("the host does nothing"), "{line}");
    for config in ["plugins: [{name: a, image: '127.0.0.1:1/a:1'}]", "pluginResource: {enabled: true}"] {
        let line = plugins_line(config);
        assert!(line.starts_with("ok") && line.ends_with("the configuration names other plugins"), "{line}");
    }
}

#[test]
fn a_cache_of_plugins_that_cannot_be_used_is_a_failed_check() {
    let folder = tempfile::tempdir().expect("a folder");
    let line = |directory: &str| {
        let config = format!("pluginResource: {{enabled: true}}\nregistries: {{cacheDir: {directory}}}\n");
        fs::write(folder.path().join("config.yaml"), config).expect("written");
        let arguments =
            ["preflight", "--config", "config.yaml", "--kubeconfig", "absent", "--cache-dir", "cache"];
        let output = assert_fails(folder.path(), &arguments, 1, &["failed"]);
        let mut lines = output.stdout.lines();
        lines.find(|line| line[6..].starts_with("plugin-cache")).expect("a line").to_owned()
    };
    // A file in the place of a directory.
    let unusable = line("config.yaml/oci");
    assert!(unusable.starts_with("FAIL") && unusable.contains("; set registries.cacheDir"), "{unusable}");
    assert!(line("oci").starts_with("ok"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_working_cluster_passes_all_checks() {
    let folder = tempfile::tempdir().expect("a folder");
    let plugins = folder.path().join("plugins");
    fs::create_dir(&plugins).expect("created");
    write_plugin(&plugins, &json!({}), &json!({}));
    let dev = Dev::start(folder.path(), &["--cache-dir", "cache", "--kubeconfig-out", "kubeconfig"]);
    wait_for(
        "a ready host",
        || dev.log(),
        || async { dev.get("/readyz").await.filter(|response| response.body == "ok") },
    )
    .await;
    let arguments = ["preflight", "--kubeconfig", "kubeconfig", "--cache-dir", "cache"];
    let output = assert_succeeds(folder.path(), &arguments);
    for check in ["server", "clock", "watch-list", "rights", "plugins", "cache", "configuration"] {
        let line = output
            .stdout
            .lines()
            .find(|line| line[6..].starts_with(check))
            .unwrap_or_else(|| panic!("{check}: {output:#?}"));
        assert!(line.starts_with("ok"), "{line}");
    }

    let with_auth = [&arguments[..], &["--auth", "kubernetes"]].concat();
    let output = assert_succeeds(folder.path(), &with_auth);
    let line = "ok    rights         the host: all 2 permissions for the status port";
    assert!(output.stdout.contains(line), "{}", output.stdout);

    fs::write(folder.path().join("config.yaml"), "pluginResource: {enabled: true}\n").expect("written");
    let arguments = [&arguments[..], &["--config", "config.yaml"]].concat();
    let output = assert_fails(folder.path(), &arguments, 1, &["one check failed"]);
    let kind = output.stdout.lines().find(|line| line.contains("plugins.pilothouse.dev")).expect("a line");
    assert!(kind.starts_with("FAIL  plugin-kind") && kind.contains("; apply "), "{kind}");
    assert!(output.stdout.contains("the host: all 3 permissions for Plugin objects"), "{}", output.stdout);
}

#[test]
fn configuration_files_are_checked_without_plugins() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
    fs::create_dir(folder.path().join("sidecars")).expect("created");
    write("config.yaml", "grants: explicit\n");
    write("sidecars/a.yaml", "workers: 2\n");
    let arguments = ["check", "--config", "config.yaml", "--sidecars", "sidecars"];
    let output = assert_succeeds(folder.path(), &arguments);
    assert_eq!(output.stdout, "config.yaml: valid\nsidecars/a.yaml: valid\n");

    write("config.yaml", "\ngrant: explicit\n");
    write("sidecars/b.yaml", "limits:\n  memory: lots\n");
    let output = assert_fails(folder.path(), &arguments, 1, &["2 files are invalid"]);
    for part in [
        "config.yaml: line 2 column 1: ",
        "sidecars/a.yaml: valid",
        "sidecars/b.yaml: line 2 column 3: limits.memory",
    ] {
        assert!(output.stdout.contains(part), "{part}\n{}", output.stdout);
    }
    write("config.yaml", "registries: {policy: policy.yaml}\n");
    assert_succeeds(folder.path(), &["check", "--config", "config.yaml"]);
    write("policy.yaml", "rules: [{match: ['r.example/**'], signers: [{name: a, keyFile: absent.pem}]}]\n");
    let arguments = ["check", "--config", "config.yaml"];
    let output = assert_fails(folder.path(), &arguments, 1, &["one file is invalid"]);
    assert!(
        output.stdout.contains("policy.yaml: ") && output.stdout.contains("absent.pem"),
        "{}",
        output.stdout
    );

    let output = run(folder.path(), &["check", "--sidecars", "sidecars", "--json"]);
    let document: Value = serde_json::from_str(&output.stdout).expect("JSON");
    assert_eq!(document["valid"], false);
    assert_eq!(document["problems"][0]["file"], "sidecars/b.yaml");
    assert_eq!(document["problems"][0]["line"], 2);
    assert_fails(folder.path(), &["check", "--sidecars", "absent"], 2, &["--sidecars absent"]);
    assert_fails(folder.path(), &["check", "--config", "absent.yaml"], 2, &["--config absent.yaml"]);
    assert_fails(folder.path(), &["check"], 2, &["FILE.wasm"]);
}
