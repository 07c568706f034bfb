//! Plugins that the configuration takes from a registry: a signature that does not count, and a host that is killed while it downloads. Commands that
//! ask a registry: `check` and `preflight`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::harness::{ApiServer, Host, Options, Registry, binary, wat, wat_with};

/// The key of a signer who has signed nothing.
const PUBLIC_KEY: &str = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEa9oISW5tUIkhqE9NWUTARlsyu0ov
AWak4GddankNvOHlKEZ+fYCBhOY44kg7kscqs4CBxfjUdeMiKTymPJINkQ==
-----END PUBLIC KEY-----
";

/// A registry, an API server, and the folder of the hosts' configuration and cache.
struct Cluster {
    registry: Registry,
    kubeconfig: PathBuf,
    _server: ApiServer,
    folder: TempDir,
}

impl Cluster {
    async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let registry = Registry::start().await;
        let kubeconfig = folder.path().join("kubeconfig");
        let server = ApiServer::start("127.0.0.1:0", &kubeconfig, &[]);
        Self { registry, kubeconfig, _server: server, folder }
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("oci")
    }

    /// Starts a host. `plugins` and `registries` are members of its configuration; the cache and the registry are added to the latter.
    async fn host(&self, plugins: &str, registries: &str) -> Host {
        let config = self.folder.path().join("config.yaml");
        let text = format!(
            "registries: {{cacheDir: '{}', plainHttp: ['{}']{registries}}}\nplugins: {plugins}\n",
            self.cache().display(),
            self.registry.host(),
        );
        fs::write(&config, text).expect("written");
        let config: &'static str = Box::leak(config.display().to_string().into_boxed_str());
        let options = Options {
            kubeconfig: Some(self.kubeconfig.clone()),
            flags: vec!["--config", config],
            ..Options::default()
        };
        Host::start_with(options).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_with_a_bad_signature_waits_with_an_event_and_the_others_run() {
    let cluster = Cluster::start().await;
    let (good_image, bad) = (cluster.registry.image("team/good:1"), cluster.registry.image("team/bad:1"));
    cluster.registry.push("team/good:1", &wat("done"));
    let digest = cluster.registry.push("team/bad:1", &wat("done"));
    cluster.registry.push_bad_signature("team/bad", &digest);
    let file = |name: &str, text: &str| {
        let path = cluster.folder.path().join(name);
        fs::write(&path, text).expect("written");
        path
    };
    file("release.pub", PUBLIC_KEY);
    let registry = cluster.registry.host();
    let policy = file(
        "policy.yaml",
        &format!(
            "rules:\n- {{match: ['{registry}/team/good'], unsigned: true}}\n\
             - {{match: ['{registry}/**'], signers: [{{name: release, keyFile: release.pub}}]}}\n"
        ),
    );
    let plugins = format!("[{{name: good, image: '{good_image}'}}, {{name: bad, image: '{bad}'}}]");
    let host = cluster.host(&plugins, &format!(", policy: '{}'", policy.display())).await;
    host.wait_for_state("good", "running").await;
    let waiting = host
        .wait_for_plugin("bad", "the reason", |plugin| {
            plugin["error"].as_str().is_some_and(|error| error.contains("there is one signature"))
        })
        .await;
    assert_eq!(waiting["state"], "waiting", "{waiting:#}");
    let reason = waiting["error"].as_str().unwrap_or_default().to_owned();
    for part in ["team/bad:1", &digest, "release: ", "`cosign sign`", "change the policy"] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
    // The host has no POD_NAMESPACE, so its Events are in this namespace.
    let path = "/apis/events.k8s.io/v1/namespaces/default/events";
    let event = host
        .wait("the Event", || async {
            let list = host.server.get(path).await;
            let events = list["items"].as_array().cloned().unwrap_or_default();
            events.into_iter().find(|event| {
                event["reason"] == "NotProvided"
                    && event["regarding"]["name"] == "bad"
                    && event["note"].as_str().is_some_and(|note| note.contains("signature"))
            })
        })
        .await;
    assert_eq!(event["type"], "Warning", "{event:#}");
    assert_eq!(event["note"], reason.as_str(), "{event:#}");
    assert!(
        !cluster.cache().join("plugins/bad.wasm").exists(),
        "an unverified plugin was handed to the host"
    );
    let output = host.pilothouse(&["explain", "bad", "default/a"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.starts_with("PluginNotRunning: "), "{output:?}");
    assert!(text.contains(&reason), "{text}");
    let output = host.pilothouse(&["pause", "bad"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("bad does not run"), "{output:?}");
    host.wait_for_state("good", "running").await;
    let good = host.plugin("good").await;
    assert_eq!(good["error"], "", "{good:#}");
    assert_eq!(good["source"]["image"], good_image.as_str(), "{good:#}");
    assert_eq!(good["source"]["decision"], "the policy needs no signature", "{good:#}");
    let metrics = host.get("/metrics").await.1;
    let state = "pilothouse_plugin_state{controller=\"bad\",plugin=\"bad\",state=\"waiting\"} 1";
    assert!(metrics.contains(state), "{metrics}");
    host.wait("the Event about the version of the other plugin", || async {
        let list = host.server.get(path).await;
        let events = list["items"].as_array().cloned().unwrap_or_default();
        let is_one = |event: &Value| event["reason"] == "Provided" && event["regarding"]["name"] == "good";
        events.iter().any(is_one).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_was_killed_while_it_downloaded_starts_again_and_uses_no_half_file() {
    let cluster = Cluster::start().await;
    // Large enough for several reads.
    let padded = format!("(module (@custom \"padding\" \"{}\")", "x".repeat(200_000));
    let wasm = wat_with("done", &[("(module", &padded)]);
    cluster.registry.push("team/plugin:1", &wasm);
    let plugins = format!("[{{name: plugin, image: '{}'}}]", cluster.registry.image("team/plugin:1"));
    let (blobs, installed) = (cluster.cache().join("blobs"), cluster.cache().join("plugins/plugin.wasm"));

    cluster.registry.stall_blobs(true);
    let host = cluster.host(&plugins, "").await;
    host.wait("the first half of the download", || async {
        files(&blobs).iter().any(|file| is_partial(file) && size(file) > 0).then_some(())
    })
    .await;
    // Kills the process.
    drop(host);
    let left: Vec<_> = files(&blobs).into_iter().filter(|file| is_partial(file) && size(file) > 0).collect();
    assert!(!left.is_empty(), "the process removed its partial file, so it was not killed");
    assert!(left.iter().all(|file| size(file) < wasm.len() as u64));
    assert!(!installed.exists(), "half a plugin was handed to the host");
    assert_blobs_are_whole(&blobs);

    cluster.registry.stall_blobs(false);
    let host = cluster.host(&plugins, "").await;
    host.wait_for_state("plugin", "running").await;
    assert_eq!(fs::read(&installed).expect("the plugin"), wasm);
    assert_blobs_are_whole(&blobs);
}

#[tokio::test(flavor = "multi_thread")]
async fn check_reports_on_a_plugin_in_a_registry_and_leaves_no_file() {
    let registry = Registry::start().await;
    let wasm = wat("done");
    let digest = registry.push("team/good:1", &wasm);
    registry.push("team/empty:1", b"\0asm\x01\0\0\0");
    registry.put_manifest("team/other", "1", &serde_json::json!({"schemaVersion": 2, "manifests": []}));
    let folder = tempfile::tempdir().expect("a folder");
    let check = |image: &str, flags: &[&str]| {
        let image = registry.image(image);
        let mut command = binary();
        command.current_dir(folder.path()).env("DOCKER_CONFIG", folder.path());
        let output = command.args(["check", &image]).args(flags).output().expect("it runs");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let sha256: String = Sha256::digest(&wasm).iter().map(|byte| format!("{byte:02x}")).collect();
    for image in ["team/good:1".to_owned(), format!("team/good@{digest}")] {
        let (code, stdout, stderr) = check(&image, &["--plain-http"]);
        assert_eq!(code, Some(0), "{stdout}{stderr}");
        assert!(stdout.contains(&format!("sha256 {sha256}")), "{stdout}");
    }
    let plain = registry.image("team/good:1").replace("oci://", "");
    let mut command = binary();
    let output = command.current_dir(folder.path()).args(["check", &plain, "--plain-http"]).output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "a reference without oci:// is one, too: {output:?}");
    let (code, stdout, _) = check("team/good:1", &["--plain-http", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!((code, &report["runs"], &report["digest"]), (Some(0), &true.into(), &sha256.into()));

    for (image, flags, code, parts) in [
        ("team/absent:1", &["--plain-http"][..], 1, &["team/absent:1", "check the reference"][..]),
        ("team/other:1", &["--plain-http"], 1, &["team/other:1", "name the digest"]),
        ("team/empty:1", &["--plain-http"], 1, &["empty.wasm"]),
        ("team/good", &["--plain-http"], 2, &["neither a tag nor a digest", "write oci://"]),
        ("team/good:1", &[], 1, &["pass --plain-http"]),
        ("team/good:1", &["--plain-http", "--credentials", "absent"], 2, &["absent", "check its path"]),
    ] {
        let (found, stdout, stderr) = check(image, flags);
        assert_eq!(found, Some(code), "{image}: {stdout}{stderr}");
        for part in parts {
            assert!(stderr.contains(part), "{image}: {part}: {stderr}");
        }
    }
    assert_eq!(files(folder.path()), Vec::<PathBuf>::new(), "check leaves no file");
}

#[tokio::test(flavor = "multi_thread")]
async fn preflight_asks_each_registry_and_reads_the_policy_and_its_trust_root() {
    let cluster = Cluster::start().await;
    cluster.registry.push("team/good:1", &wat("done"));
    let folder = cluster.folder.path();
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).expect("written");
    fs::create_dir(folder.join("plugins")).expect("created");
    write("policy.yaml", "trustRoot: trusted_root.json\nrules: [{match: ['**'], unsigned: true}]\n");
    let silent = "127.0.0.1:1";
    let config = format!(
        "registries: {{policy: policy.yaml, plainHttp: ['{registry}', '{silent}']}}\n\
         plugins: [{{name: good, image: '{registry}/team/good:1'}}, {{name: absent, image: '{registry}/team/absent:1'}}, \
         {{name: idle, image: '{registry}/team/good:1', sidecar: {{workers: 0}}}}, {{name: silent, image: '{silent}/a:1'}}, \
         {{name: other, image: '{silent}/b:1'}}]\n",
        registry = cluster.registry.host(),
    );
    write("config.yaml", &config);
    let preflight = || {
        let mut command = binary();
        command.current_dir(folder).args(["preflight", "--config", "config.yaml", "--cache-dir", "cache"]);
        let output = command.arg("--kubeconfig").arg(&cluster.kubeconfig).output().expect("it runs");
        (output.status.code(), String::from_utf8(output.stdout).expect("text"))
    };
    let (code, text) = preflight();
    assert_eq!(code, Some(1), "{text}");
    let line = |parts: &[&str]| {
        let found = text.lines().find(|line| parts.iter().all(|part| line.contains(part)));
        found.unwrap_or_else(|| panic!("no line with {parts:?}:\n{text}"))
    };
    let good = line(&["registry", "good: ", "team/good:1 is sha256:"]);
    assert!(good.starts_with("ok"), "{good}");
    let absent = line(&["registry", "absent: ", "push the plugin, or correct `image`"]);
    assert!(absent.starts_with("FAIL"), "{absent}");
    let idle =
        line(&["registry", "idle: config.yaml line 2 column", "sidecar.workers: 0", "correct --config"]);
    assert!(idle.starts_with("FAIL"), "{idle}");
    let silent = line(&["registry", "silent: ", "registries.plainHttp"]);
    assert!(silent.starts_with("FAIL") && silent.contains("1 more plugin"), "{silent}");
    assert!(!text.contains("other: "), "a registry that does not answer was asked again:\n{text}");
    let policy = line(&["policy", "trusted_root.json", "registries.policy in --config"]);
    assert!(policy.starts_with("FAIL"), "{policy}");

    write("policy.yaml", "rules: [{match: ['**'], unsigned: true}]\n");
    let (_, text) = preflight();
    assert!(text.lines().any(|line| line.starts_with("ok    policy")), "{text}");
    assert!(
        text.lines().any(|line| line.starts_with("ok    rights") && line.contains("good: ")),
        "the rights of a plugin from a registry are reviewed, too:\n{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rbac_and_size_include_the_plugins_of_the_configuration_that_the_policy_allows() {
    let cluster = Cluster::start().await;
    let registry = cluster.registry.host();
    cluster.registry.push("team/good:1", &wat("done"));
    let digest = cluster.registry.push("team/bad:1", &wat("done"));
    cluster.registry.push_bad_signature("team/bad", &digest);
    let folder = cluster.folder.path();
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).expect("written");
    write("release.pub", PUBLIC_KEY);
    write(
        "policy.yaml",
        &format!(
            "rules:\n- {{match: ['{registry}/team/good'], unsigned: true}}\n\
             - {{match: ['{registry}/**'], signers: [{{name: release, keyFile: release.pub}}]}}\n"
        ),
    );
    let run = |command: &str, plugins: &str| {
        let registries = format!("registries: {{policy: policy.yaml, plainHttp: ['{registry}']}}");
        write("config.yaml", &format!("{registries}\nplugins: {plugins}\n"));
        let mut process = binary();
        process.current_dir(folder).args([command, "--config", "config.yaml", "--kubeconfig"]);
        let output = process.arg(&cluster.kubeconfig).output().expect("it runs");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let good = format!("{{name: good, image: '{registry}/team/good:1'}}");
    let (code, roles, errors) = run("rbac", &format!("[{good}]"));
    assert_eq!(code, Some(0), "{errors}");
    assert!(
        roles.starts_with("# Permissions required to run good.") && roles.contains("configmaps"),
        "{roles}"
    );
    let (code, sizes, errors) = run("size", &format!("[{good}]"));
    assert_eq!(code, Some(0), "{errors}");
    assert!(sizes.contains("configmaps"), "the objects that it watches are counted: {sizes}");

    let bad = format!("{{name: bad, image: '{registry}/team/bad:1'}}");
    let (code, _, errors) = run("rbac", &format!("[{good}, {bad}]"));
    assert_eq!(code, Some(1), "{errors}");
    for part in ["the plugin bad in --config: ", "sign the plugin as the policy asks, or correct the policy"]
    {
        assert!(errors.contains(part), "{errors}");
    }
    let (code, _, errors) = run("rbac", "[]");
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("there is no plugin; name FILE.wasm"), "{errors}");
}

fn files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn is_partial(file: &Path) -> bool {
    name(file).starts_with(".partial-")
}

fn size(file: &Path) -> u64 {
    file.metadata().map_or(0, |metadata| metadata.len())
}

/// Asserts that each visible file has the digest that is its name.
fn assert_blobs_are_whole(blobs: &Path) {
    for file in files(blobs).iter().filter(|file| !is_partial(file)) {
        let content = fs::read(file).expect("a file");
        let hex: String = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(name(file), format!("sha256-{hex}"));
    }
}
