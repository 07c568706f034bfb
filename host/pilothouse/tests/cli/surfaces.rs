//! The public surfaces, compared with the snapshots in `tests/snapshots`. CONTRIBUTING.md says which test records which surface.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::binary::{assert_succeeds, run, wait_for};
use crate::check::{crd, report, watch, write_plugin};
use crate::host::Dev;
use crate::snapshot::{assert_matches, json_shape};

#[test]
fn the_help_of_every_command_matches_its_snapshot() {
    let folder = tempfile::tempdir().expect("a folder");
    let overview = assert_succeeds(folder.path(), &["--help"]).stdout;
    let commands = subcommands(&overview);
    assert!(commands.contains(&"check"), "{commands:?}");
    let mut text = format!("$ pilothouse --help\n{overview}");
    for command in commands {
        let help = assert_succeeds(folder.path(), &[command, "--help"]).stdout;
        text += &format!("\n$ pilothouse {command} --help\n{help}");
    }
    assert_matches("help.txt", &text);
}

#[test]
fn the_contract_for_core_modules_matches_its_snapshots() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_matches("abi.txt", &assert_succeeds(folder.path(), &["abi"]).stdout);
    assert_matches("abi.h", &assert_succeeds(folder.path(), &["abi", "--format", "c"]).stdout);
}

/// Returns the commands that `pilothouse --help` lists, without `help` itself.
fn subcommands(help: &str) -> Vec<&str> {
    let (_, list) = help.split_once("Commands:\n").expect("a list of commands");
    let (list, _) = list.split_once("\n\n").expect("options below the commands");
    let entries = list.lines().filter_map(|line| line.strip_prefix("  "));
    let entries = entries.filter(|entry| !entry.starts_with(' '));
    entries.filter_map(|entry| entry.split_whitespace().next()).filter(|name| *name != "help").collect()
}

#[test]
fn exit_codes_match_their_snapshot() {
    let folder = tempfile::tempdir().expect("a folder");
    write_plugin(folder.path(), &json!({}), &json!({}));
    fs::write(folder.path().join("text.wasm"), "not WebAssembly").expect("written");
    fs::create_dir(folder.path().join("taken")).expect("created");
    fs::write(folder.path().join("taken/file"), "").expect("written");
    let lines = [
        "--version",
        "check plugin.wasm",
        "rbac plugin.wasm",
        "new greeter --lang c",
        "check text.wasm",
        "new taken --lang c",
        "status --server http://127.0.0.1:1",
        "logs --server http://127.0.0.1:1",
        "fly",
        "build absent",
        "check absent.wasm",
        "dev --listen nowhere",
        "logs Not/A/Name",
        "new Not_A_Name --lang c",
        "rbac absent.wasm",
        "run --config absent",
        "run --kubeconfig absent",
        "status --server ftp://localhost",
        "test absent",
        "test plugin.wasm",
    ]
    .map(|line| {
        let arguments: Vec<&str> = line.split(' ').collect();
        let code = run(folder.path(), &arguments).code.expect("an exit code");
        format!("{code}  pilothouse {line}\n")
    });
    assert_matches("exit-codes.txt", &lines.concat());
}

#[test]
fn the_members_of_yaml_files_match_their_snapshot() {
    let folder = tempfile::tempdir().expect("a folder");
    write_plugin(folder.path(), &json!({}), &json!({}));
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
    let mut text = String::new();
    for (place, sidecar) in [
        ("", "unknown: 1"),
        (" grants", "grants: {unknown: 1}"),
        (" grants.watches[]", "grants: {watches: [{unknown: 1}]}"),
        (" grants.writes[]", "grants: {writes: [{unknown: 1}]}"),
        (" limits", "limits: {unknown: 1}"),
        (" rollout", "rollout: {unknown: 1}"),
        (" rollout.canary", "rollout: {canary: {unknown: 1}}"),
    ] {
        write("plugin.yaml", sidecar);
        let output = run(folder.path(), &["check", "plugin.wasm"]);
        text += &format!("sidecar{place}: {}\n", accepted_members(&output.stderr));
    }
    for (place, config) in [
        ("", "unknown: 1"),
        (" cache", "cache: {unknown: 1}"),
        (" tracing", "tracing: {unknown: 1}"),
        (" plugins[]", "plugins: [{unknown: 1}]"),
        (" registries", "registries: {unknown: 1}"),
        (" pluginResource", "pluginResource: {unknown: 1}"),
    ] {
        write("config.yaml", config);
        let output = run(folder.path(), &["run", "--config", "config.yaml"]);
        text += &format!("--config{place}: {}\n", accepted_members(&output.stderr));
    }
    for (place, step) in [
        ("", "unknown: 1"),
        (" steps[]", "steps: [{unknown: 1}]"),
        (" steps[].patch", "steps: [{patch: {unknown: 1}}]"),
        (" steps[].expect", "steps: [{expect: {unknown: 1}}]"),
        (" steps[].expectEvent", "steps: [{expectEvent: {unknown: 1}}]"),
        (" steps[].expectPlugin", "steps: [{expectPlugin: {unknown: 1}}]"),
    ] {
        write("scenario.yaml", step);
        let output = run(folder.path(), &["test", "plugin.wasm", "--scenario", "scenario.yaml"]);
        text += &format!("scenario{place}: {}\n", accepted_members(&output.stderr));
    }
    for (place, project_file) in [("", "unknown: 1"), (" build", "build: {unknown: 1}")] {
        write("pilothouse.yaml", project_file);
        let output = run(folder.path(), &["build", "."]);
        text += &format!("pilothouse.yaml{place}: {}\n", accepted_members(&output.stderr));
    }
    assert_matches("yaml-members.txt", &text);
}

/// Returns the members that an error message offers in place of one with the name `unknown`.
fn accepted_members(stderr: &str) -> String {
    let (_, list) = stderr.split_once("unknown field `unknown`, expected ").expect(stderr);
    let list = list.strip_prefix("one of ").unwrap_or(list);
    let mut members = Vec::new();
    for word in list.split(", ") {
        let name: String = word.chars().take_while(char::is_ascii_alphanumeric).collect();
        let is_last = name.len() < word.len();
        members.push(name);
        if is_last {
            break;
        }
    }
    members.join(", ")
}

#[test]
fn the_json_of_check_matches_its_snapshot() {
    let folder = tempfile::tempdir().expect("a folder");
    let members = json!({
        "name": "another", "version": "1.2.3", "summary": "does things",
        "watches": [
            {"name": "things", "apiVersion": "example.com/v1", "kind": "Thing", "trigger": "self"},
            {"name": "pods", "apiVersion": "v1", "kind": "Pod", "namespaces": ["shop"], "labelSelector": "app=web",
                "trigger": {"label": {"key": "thing", "watch": "things"}},
                "indexes": [{"name": "by-node", "field": "{.spec.nodeName}"}]},
            {"name": "secret", "apiVersion": "v1", "kind": "Secret", "namespaces": ["shop"], "fieldSelector": "metadata.name=one"},
        ],
        "writes": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"], "namespaces": ["shop"]}],
        "crds": [crd("Namespaced")],
        "http": ["api.example.com"],
        "limits": {"memory": "16Mi"},
    });
    write_plugin(folder.path(), &members, &json!({"serviceAccount": "shop/robot"}));
    let valid = report(folder.path());
    assert_eq!(valid["runs"], true, "{valid:#}");
    write_plugin(folder.path(), &watch(&json!({"kind": "Deploymnt"})), &json!({}));
    let invalid = report(folder.path());
    assert_eq!(invalid["runs"], false, "{invalid:#}");
    assert_matches("check.txt", &json_shape(&[valid, invalid], &[]));
}

/// What the status port serves.
const PATHS: [&str; 16] = [
    "/",
    "/plugins/plugin",
    "/plugins/plugin/keys/shop/none",
    "/page/style.css",
    "/page/live.js",
    "/page/icon.svg",
    "/healthz",
    "/readyz",
    "/readyz/plugins",
    "/metrics",
    "/api/plugins",
    "/api/plugins/plugin/keys",
    "/api/explain?plugin=plugin&key=shop/none",
    "/api/logs",
    "/debug/informers",
    "/debug/host",
];

#[tokio::test(flavor = "multi_thread")]
async fn the_status_servers_documents_match_their_snapshots() {
    let folder = tempfile::tempdir().expect("a folder");
    let dev = start_host(folder.path());
    let status = wait_for(
        "a plugin that runs and one that backs off",
        || dev.log(),
        || async {
            let status = dev.json("/api/plugins").await?;
            let plugins = status["plugins"].as_array()?;
            let find = |name: &str| plugins.iter().find(|plugin| plugin["name"] == name);
            let is_complete =
                find("plugin")?["state"] == "running" && find("looping")?["nextTry"].is_string();
            is_complete.then(|| status.clone())
        },
    )
    .await;
    assert_matches("api-plugins.txt", &json_shape(&[status], &["plugins[].hostMemory.byKind"]));

    let informers = wait_for(
        "a watching informer",
        || dev.log(),
        || async {
            let dump = dev.json("/debug/informers").await?;
            let watching = |informer: &Value| informer["phase"] == "watching" && informer["synced"] == true;
            let informers = dump["informers"].as_array()?;
            (!informers.is_empty() && informers.iter().all(watching)).then(|| dump.clone())
        },
    )
    .await;
    assert_matches("debug-informers.txt", &json_shape(&[informers], &[]));

    let lines = wait_for(
        "the warning about the descriptor's name",
        || dev.log(),
        || async {
            let body = dev.get("/api/logs?plugin=plugin").await?.body;
            let lines: Vec<Value> =
                body.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
            (!lines.is_empty()).then_some(lines)
        },
    )
    .await;
    assert_matches("api-logs.txt", &json_shape(&lines, &[]));

    let explanation = dev.json("/api/explain?plugin=plugin&key=shop/none").await.expect("JSON");
    assert_matches("api-explain.txt", &json_shape(&[explanation], &[]));

    let mut paths = String::new();
    for path in PATHS {
        let response = dev.get(path).await.expect("a response");
        paths += &format!("{path}: {}\n", response.content_type);
    }
    assert_matches("http-paths.txt", &paths);

    let scrape = dev.get("/metrics").await.expect("a response").body;
    let (served, documented) = (served_metrics(&scrape), documented_metrics());
    let undocumented: Vec<_> = served.difference(&documented).collect();
    // Only Linux has `/proc`.
    let is_from_proc =
        |row: &str| row.starts_with("`process_") || row.starts_with("`pilothouse_memory_limit_bytes`");
    // Only a host with plugins from registries has these.
    let is_of_registries = |row: &str| row.starts_with("`pilothouse_oci_");
    let is_of_allocator = |row: &str| row.starts_with("`pilothouse_allocator_");
    let is_expected = |row: &&String| {
        !is_of_registries(row.as_str())
            && (cfg!(target_os = "linux") || !is_from_proc(row.as_str()))
            && (cfg!(feature = "jemalloc") || !is_of_allocator(row.as_str()))
    };
    let missing: Vec<_> = documented.difference(&served).filter(is_expected).collect();
    assert!(
        undocumented.is_empty() && missing.is_empty(),
        "not in docs/metrics.md: {undocumented:#?}\nonly in docs/metrics.md: {missing:#?}"
    );
}

/// Starts a host with two plugins: `plugin` watches ConfigMaps and has another name in its descriptor, which the host warns about. The
/// `describe` of `looping` exceeds its time limit.
fn start_host(folder: &Path) -> Dev<'_> {
    let plugins = folder.join("plugins");
    fs::create_dir(&plugins).expect("created");
    let watch = json!({
        "name": "maps", "apiVersion": "v1", "kind": "ConfigMap", "trigger": "self", "resync": 3_600_000,
        "indexes": [{"name": "by-app", "label": "app"}]
    });
    write_plugin(&plugins, &json!({"name": "other", "watches": [watch]}), &json!({}));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugin/tests/guests/faulty.wat");
    let mut text = fs::read_to_string(path).expect(path).replace("$in-describe", "$loops");
    for unused in ["$in-reconcile", "$in-observe", "$in-index"] {
        text = text.replace(unused, "$nothing");
    }
    fs::write(plugins.join("looping.yaml"), "limits: {describeTimeout: 50ms}\n").expect("written");
    fs::write(plugins.join("looping.wasm"), wat::parse_str(&text).expect("a guest")).expect("written");
    Dev::start(folder, &["--cache-dir", "cache"])
}

/// Returns the name, kind and labels of each metric of a scrape, in the form of docs/metrics.md.
fn served_metrics(scrape: &str) -> BTreeSet<String> {
    let families = scrape.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    families
        .map(|(family, kind)| {
            let (suffix, series) = match kind {
                "counter" => ("_total", "_total"),
                "histogram" => ("", "_count"),
                _ => ("", ""),
            };
            let start = format!("{family}{series}{{");
            let labels = scrape.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_default();
            let labels: Vec<_> = labels
                .split("\",")
                .filter_map(|pair| pair.split_once('='))
                .map(|(label, _)| format!("`{label}`"))
                .collect();
            format!("`{family}{suffix}` | {kind} | {}", labels.join(", "))
        })
        .collect()
}

/// Returns the same from the tables of docs/metrics.md.
fn documented_metrics() -> BTreeSet<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let page = fs::read_to_string(path).expect(path);
    let rows = page.lines().filter_map(|line| line.strip_prefix("| "));
    rows.filter(|row| row.starts_with('`'))
        .map(|row| row.splitn(4, " | ").take(3).collect::<Vec<_>>().join(" | "))
        .collect()
}
