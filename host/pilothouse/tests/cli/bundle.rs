//! `pilothouse bundle`, without a host and with one. The redaction has unit tests of its own.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::binary::{assert_fails, assert_succeeds, pilothouse, wait_for, write_kubeconfig};
use crate::check::write_plugin;
use crate::host::{Dev, get};

/// Returns the texts in a bundle by their paths.
fn unpack(path: &Path) -> BTreeMap<String, String> {
    let bytes = fs::read(path).expect("a bundle");
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bytes.as_slice()));
    let mut files = BTreeMap::new();
    for entry in archive.entries().expect("entries") {
        let mut entry = entry.expect("an entry");
        let path = entry
            .path()
            .expect("a path")
            .strip_prefix("pilothouse-bundle")
            .expect("the folder")
            .display()
            .to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).expect("text");
        files.insert(path, text);
    }
    files
}

#[test]
fn without_a_host_the_bundle_has_the_files_and_says_what_is_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let plugins = folder.path().join("plugins");
    fs::create_dir(&plugins).expect("created");
    write_plugin(&plugins, &json!({}), &json!({"workers": 2}));
    let sidecar = "config: {password: canary-1}\ngrants: {http: [canary-4.example.com]}\n";
    fs::write(plugins.join("other.yaml"), sidecar).expect("written");
    // A file of the second kubeconfig has what the sidecar has, too.
    fs::write(folder.path().join("second"), "users: [{name: a, user: {tokenFile: token}}]\n")
        .expect("written");
    fs::write(folder.path().join("token"), "canary-4.example.com").expect("written");
    let kubeconfigs = std::env::join_paths([folder.path().join("first"), folder.path().join("second")]);
    fs::write(folder.path().join("config.yaml"), "grants: explicit\n# canary-2\n").expect("written");
    let output = pilothouse(folder.path())
        .args(["bundle", "-o", "b.tar.gz", "--config", "config.yaml", "--server", "http://127.0.0.1:1"])
        .env("DB_PASSWORD", "canary-3")
        .env("KUBECONFIG", kubeconfigs.expect("no colon"))
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        printed.contains("left out: status, keys, informers, metrics and logs of a running host"),
        "{printed}"
    );
    let files = unpack(&folder.path().join("b.tar.gz"));
    for path in [
        "README.txt",
        "version.json",
        "environment.txt",
        "config.yaml",
        "plugins.txt",
        "sidecars/plugin.yaml",
        "check/plugin.json",
    ] {
        assert!(files.contains_key(path), "{path}: {:?}", files.keys());
    }
    assert!(
        files["left-out.txt"].contains(
            "of a running host: cannot reach a host at http://127.0.0.1:1/metrics: Connection refused"
        ),
        "{}",
        files["left-out.txt"]
    );
    assert!(files["sidecars/plugin.yaml"].contains("workers: 2"));
    assert!(files.values().all(|text| !text.contains("canary")), "{files:#?}");
}

#[test]
fn an_anonymised_bundle_has_no_name_of_a_plugin_or_an_image() {
    let folder = tempfile::tempdir().expect("a folder");
    let plugins = folder.path().join("plugins");
    fs::create_dir(&plugins).expect("created");
    write_plugin(&plugins, &json!({}), &json!({}));
    for extension in ["wasm", "yaml"] {
        let name = |stem: &str| plugins.join(format!("{stem}.{extension}"));
        fs::rename(name("plugin"), name("giraffe")).expect("renamed");
    }
    let config = "plugins: [{name: walrus, image: '127.0.0.1:1/ostrich/pelican:1'}]\n";
    fs::write(folder.path().join("config.yaml"), config).expect("written");
    let arguments = ["bundle", "-o", "b.tar.gz", "--config", "config.yaml", "--anonymise"];
    assert_succeeds(folder.path(), &[&arguments[..], &["--server", "http://127.0.0.1:1"]].concat());
    let files = unpack(&folder.path().join("b.tar.gz"));
    assert!(files.contains_key("rights.json"), "{:?}", files.keys());
    for (path, text) in &files {
        for name in ["giraffe", "walrus", "ostrich", "pelican"] {
            assert!(!path.contains(name) && !text.contains(name), "{name} is in {path}:\n{text}");
        }
    }
    let version: Value = serde_json::from_str(&files["version.json"]).expect("JSON");
    let features = version["features"].as_array().expect("a list");
    assert!(features.iter().all(|feature| !feature.to_string().contains("anon-")), "{version}");
}

#[test]
fn with_an_unreachable_cluster_plugins_are_checked_without_the_review_of_rights() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("plugins")).expect("created");
    write_plugin(&folder.path().join("plugins"), &json!({}), &json!({}));
    write_kubeconfig(folder.path(), "http://127.0.0.1:1", "any");
    let arguments =
        ["bundle", "-o", "b.tar.gz", "--kubeconfig", "kubeconfig", "--server", "http://127.0.0.1:1"];
    assert_succeeds(folder.path(), &arguments);
    let files = unpack(&folder.path().join("b.tar.gz"));
    let report: Value = serde_json::from_str(&files["check/plugin.json"]).expect("JSON");
    assert_eq!(report["runs"], true, "{report}");
    let reason = "the review of rights: the API server 127.0.0.1:1 cannot be reached: ";
    let left_out = &files["left-out.txt"];
    assert!(left_out.contains(reason) && left_out.contains("; check --kubeconfig FILE"), "{left_out}");
    assert!(!left_out.contains("took longer"), "{left_out}");
}

#[test]
fn a_bundle_that_cannot_be_written_is_an_error_with_a_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = ["bundle", "-o", "absent/b.tar.gz", "--server", "http://127.0.0.1:1"];
    assert_fails(folder.path(), &arguments, 1, &["absent/b.tar.gz", "give another path with -o"]);
    assert_fails(folder.path(), &["bundle", "--server", "ftp://localhost"], 2, &["not an http:// URL"]);
    assert_fails(folder.path(), &["bundle", "--interval", "1h"], 2, &["at most 5m"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bundle_of_a_running_host_has_its_status_metrics_and_logs() {
    let folder = tempfile::tempdir().expect("a folder");
    let plugins = folder.path().join("plugins");
    fs::create_dir(&plugins).expect("created");
    write_plugin(&plugins, &json!({"name": "other"}), &json!({}));
    let dev = Dev::start(folder.path(), &["--cache-dir", "cache"]);
    wait_for(
        "a plugin that runs",
        || dev.log(),
        || async {
            let status = dev.json("/api/plugins").await?;
            (status["plugins"][0]["state"] == "running").then_some(())
        },
    )
    .await;
    let stdout = fs::read_to_string(folder.path().join("stdout")).expect("the host's output");
    let url = stdout.lines().find_map(|line| line.strip_prefix("status      ")).expect("the address");
    let arguments = ["bundle", "-o", "b.tar.gz", "--interval", "1ms", "--unredacted", "--server", url];
    assert_succeeds(folder.path(), &arguments);
    let files = unpack(&folder.path().join("b.tar.gz"));
    let names = [
        "host.json",
        "host-2.json",
        "status.json",
        "informers.json",
        "metrics/1.txt",
        "metrics/2.txt",
        "logs.ndjson",
        "keys/plugin.json",
        "stuck-keys.json",
        "explain.ndjson",
    ];
    for path in names {
        assert!(files.contains_key(path), "{path}: {:?}", files.keys());
    }
    let host: Value = serde_json::from_str(&files["host.json"]).expect("JSON");
    assert_eq!(host["arguments"][1], "dev");
    assert!(files["metrics/2.txt"].contains("pilothouse_plugin_state"));
    assert_opens_in_the_status_page(folder.path(), "b.tar.gz").await;
}

/// Asserts that `show` serves the overview and the page of the plugin, and nothing that only a host has.
async fn assert_opens_in_the_status_page(folder: &Path, bundle: &str) {
    let mut child =
        pilothouse(folder).args(["show", bundle]).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("piped");
    BufReader::new(stdout).read_line(&mut line).expect("the address");
    let url = line.trim().strip_prefix("status page  ").expect("the address");
    let page = async |path: &str| get(&format!("{url}{path}")).await.expect("a response").body;
    let overview = page("/").await;
    assert!(overview.contains("<a href=\"/plugins/plugin\">plugin</a>"), "{overview}");
    let plugin = page("/plugins/plugin").await;
    for part in ["<span class=\"state running\">running</span>", "No key is pending.", "The last "] {
        assert!(plugin.contains(part), "{part}: {plugin}");
    }
    assert!(!plugin.contains("<script") && !plugin.contains("/api/plugins"), "{plugin}");
    assert!(page("/plugins/plugin/keys/shop/none").await.contains("does not explain this key"));
    assert!(page("/page/style.css").await.contains("color-scheme"));
    child.kill().expect("it runs until it is stopped");
    child.wait().expect("it ends");
}

#[test]
fn a_file_that_is_no_bundle_is_not_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("text.tar.gz"), "no archive").expect("written");
    assert_fails(folder.path(), &["show", "text.tar.gz"], 1, &["text.tar.gz: it is no complete bundle"]);
    assert_fails(folder.path(), &["show", "absent.tar.gz"], 2, &["absent.tar.gz", "`pilothouse bundle`"]);
}
