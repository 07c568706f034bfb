//! `pilothouse bundle` of a running host: secrets are planted in everything that the host knows, and none is in the file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{ApiServer, Host, Options, binary, wat};
use crate::planted_secrets::{CANARIES, COLOUR, LOGIN, canary, logged, unpack};

/// Creates a ConfigMap without labels, in which the guest expects none.
async fn create(host: &Host, name: &str, data: Value) {
    let path = format!("/api/v1/namespaces/{}/configmaps", host.server.namespace);
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
    host.server.post(&path, &object).await;
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// Makes the plugin `wish` log each message with secrets.
async fn log_secrets(host: &Host) {
    for (number, message) in logged().iter().enumerate() {
        create(host, &format!("logged-{number}"), json!({"wish": format!("y {message}")})).await;
        // The log escapes line breaks.
        let line = message.lines().next().expect("a line");
        host.wait(&format!("the message {line:?}"), || async {
            let messages = host.log_messages("wish").await;
            messages.iter().any(|logged| logged.contains(line)).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_of_a_running_host_is_in_its_bundle() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let kubeconfig = path("kubeconfig");
    let _server = ApiServer::start("127.0.0.1:0", &kubeconfig, &[]);
    // The configuration: a comment, and the sidecar of a plugin whose registry does not answer.
    write(
        &path("config.yaml"),
        &format!(
            "# the token is {}\nregistries: {{cacheDir: '{}', plainHttp: ['127.0.0.1:1']}}\n\
             plugins: [{{name: remote, image: '127.0.0.1:1/team/remote:1', sidecar: {{config: {{token: {}}}}}}}]\n",
            canary(4),
            path("oci").display(),
            canary(6),
        ),
    );
    let config: &'static str = Box::leak(path("config.yaml").display().to_string().into_boxed_str());
    let environment = vec![("DB_PASSWORD", canary(LOGIN)), ("API_TOKEN", canary(11))];
    let host = Host::start_with(Options {
        kubeconfig: Some(kubeconfig.clone()),
        flags: vec!["--config", config],
        environment: environment.clone(),
        ..Options::default()
    })
    .await;
    // Sidecars: values of `config`, and comments. `done` ignores its configuration.
    let sidecar = format!(
        "# {}\nconfig: {{password: {}, deep: [{{colour: {}}}]}}\n",
        canary(3),
        canary(1),
        canary(COLOUR)
    );
    host.write_sidecar("quiet", &sidecar);
    host.install_plugin("quiet", &wat("done"));
    host.install_plugin("wish", &wat("wish"));
    host.wait_for_state("quiet", "running").await;
    host.wait_for_state("wish", "running").await;
    // Objects: data that no plugin logs, and what the plugin logs of the others.
    create(&host, "unread", json!({"password": canary(2)})).await;
    log_secrets(&host).await;
    // The error of a key.
    create(&host, "failing", json!({"wish": format!("r password={}", canary(35))})).await;
    let keys = "/api/plugins/wish/keys";
    host.wait("a key that failed", || async { host.get(keys).await.1.contains("failing").then_some(()) })
        .await;

    let output = binary()
        .args(["bundle", "--interval", "1ms", "--server", &host.status_url, "--config", config, "-o"])
        .arg(path("bundle.tar.gz"))
        .arg("--plugins")
        .arg(host.plugins())
        .arg("--kubeconfig")
        .arg(&kubeconfig)
        .envs(environment)
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let files = unpack(&fs::read(path("bundle.tar.gz")).expect("a bundle"));
    for file in [
        "config.yaml",
        "sidecars/quiet.yaml",
        "status.json",
        "host.json",
        "host-2.json",
        "logs.ndjson",
        "keys/wish.json",
    ] {
        assert!(files.contains_key(file), "{file} is missing: {:?}", files.keys());
    }
    let logs = &files["logs.ndjson"];
    for part in ["Authorization: [redacted]", "the colour is [redacted]", "@api.example.com"] {
        assert!(logs.contains(part), "the log of the plugin is not there: {part}: {logs}");
    }
    for (file, text) in &files {
        // The metrics have names with `canary`, so each secret is looked for.
        for number in 0..CANARIES {
            assert!(!text.contains(&canary(number)), "the secret {number} is in {file}:\n{text}");
        }
    }
    assert_no_credentials(&kubeconfig, &files);
    assert!(files["status.json"].contains("\"remote\""), "the name of a configured plugin is no secret");
    let facts: Value = serde_json::from_str(&files["host.json"]).expect("JSON");
    if cfg!(target_os = "linux") {
        let threads = facts["threads"].as_array().cloned().unwrap_or_default();
        assert!(threads.iter().any(|thread| thread["userMilliseconds"].is_u64()), "{facts:#}");
        assert!(facts["memory"]["residentKilobytes"].is_u64(), "{facts:#}");
    }
}

/// Asserts that no file has a credential of the kubeconfig's users.
fn assert_no_credentials(kubeconfig: &Path, files: &BTreeMap<String, String>) {
    let text = fs::read_to_string(kubeconfig).expect("a kubeconfig");
    let document: Value = serde_saphyr::from_str(&text).expect("YAML");
    let users = document["users"].as_array().cloned().unwrap_or_default();
    let credentials: Vec<_> = users
        .iter()
        .flat_map(|user| user["user"].as_object().cloned().unwrap_or_default())
        .filter_map(|(_, value)| value.as_str().map(str::to_owned))
        .collect();
    assert!(!credentials.is_empty(), "the kubeconfig has no credentials");
    for (file, text) in files {
        assert!(credentials.iter().all(|secret| !text.contains(secret)), "a credential is in {file}");
    }
}
