//! What operators ask of single plugins: their keys, to queue one of them, and to pause.

use serde_json::Value;

use crate::harness::{Guest, Host, another_version};

/// Runs a subcommand against the host. Returns its exit code, standard output and standard error.
fn run(host: &Host, arguments: &[&str]) -> (i32, String, String) {
    let output = host.pilothouse(arguments);
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code().expect("an exit code"), text(output.stdout), text(output.stderr))
}

/// Returns the entry of a key in the plugin's list, or null.
async fn entry(host: &Host, key: &str) -> Value {
    let response: Value =
        serde_json::from_str(&host.get("/api/plugins/conformance/keys").await.1).expect("JSON");
    let keys = response["keys"].as_array().cloned().expect("a list");
    keys.into_iter().find(|entry| entry["key"] == key).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_plugin_keeps_its_keys_across_a_reload_until_it_is_resumed() {
    let host = Host::start().await;
    let wasm = Guest::Conformance.wasm();
    host.install_plugin("conformance", &wasm);
    host.wait_for_generation("conformance", 1).await;
    let (code, stdout, stderr) = run(&host, &["pause", "conformance"]);
    assert!(code == 0 && stdout.contains("pilothouse resume conformance"), "{stdout}{stderr}");
    let plugin = host.plugin("conformance").await;
    assert_eq!((&plugin["paused"], &plugin["ready"]), (&true.into(), &false.into()), "{plugin:#}");
    assert!(run(&host, &["status", "conformance"]).1.contains(" paused "));

    host.server.create_script("one", "copy:record").await;
    let key = format!("{}/one", host.server.namespace);
    host.wait("the key to be queued", || async {
        (entry(&host, &key).await["state"] == "ready").then_some(())
    })
    .await;
    host.install_plugin("conformance", &another_version(&wasm, 2));
    host.wait_for_generation("conformance", 2).await;
    let (code, stdout, _) = run(&host, &["keys", "conformance"]);
    assert!(code == 0 && stdout.contains("WATCH") && stdout.contains(&key), "{stdout}");
    assert!(!host.server.data("record").await.contains_key("version"), "the new version is paused, too");

    assert_eq!(run(&host, &["resume", "conformance"]).0, 0);
    host.wait("the record", || async {
        host.server.data("record").await.contains_key("version").then_some(())
    })
    .await;
    host.wait_for_plugin("conformance", "ready", |plugin| plugin["ready"] == true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_plugin_cannot_be_paused() {
    let host = Host::start().await;
    let wasm = Guest::Conformance.wasm();
    host.install_plugin("conformance", &wasm);
    host.wait_for_state("conformance", "running").await;
    std::fs::remove_file(host.plugins().join("conformance.wasm")).expect("removed");
    host.wait_for_plugin("conformance", "removed", |plugin| plugin["removed"] == true).await;
    for action in ["pause", "resume"] {
        let (code, _, stderr) = run(&host, &[action, "conformance"]);
        assert!(code == 1 && stderr.contains("conformance does not run"), "{action}: {code}: {stderr}");
    }
    host.install_plugin("conformance", &wasm);
    host.wait_for_plugin("conformance", "ready", |plugin| plugin["ready"] == true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_key_is_listed_with_its_error_and_queued_on_request() {
    let host = Host::start().await;
    host.install_plugin("conformance", &Guest::Conformance.wasm());
    host.wait_for_state("conformance", "running").await;
    host.server.create_script("one", "copy:record\nretry:not yet").await;
    let key = format!("{}/one", host.server.namespace);
    let failed = host
        .wait("eleven failed attempts", || async {
            let entry = entry(&host, &key).await;
            (entry["attempts"].as_u64() >= Some(11) && entry["state"] == "delayed").then_some(entry)
        })
        .await;
    assert_eq!(failed["watch"], "scripts", "{failed:#}");
    assert!(failed["lastError"].as_str().is_some_and(|error| error.contains("not yet")), "{failed:#}");
    let (_, stdout, _) = run(&host, &["keys", "conformance", "--failing"]);
    assert!(stdout.contains(&key) && stdout.contains("delayed") && stdout.contains("not yet"), "{stdout}");

    let (code, stdout, stderr) = run(&host, &["requeue", "conformance", &key]);
    assert_eq!((code, stdout.trim()), (0, &*format!("queued {key} of watch scripts")), "{stderr}");
    host.wait("a first attempt", || async {
        let attempt = host.server.data("record").await.get("attempt")?.parse::<u32>().ok()?;
        (attempt < 11).then_some(())
    })
    .await;

    for (arguments, code, part) in [
        (&["requeue", "conformance", "nowhere/none"][..], 1, "has no object \"nowhere/none\""),
        (&["requeue", "conformance", "none"][..], 1, "write NAMESPACE/NAME"),
        (&["requeue", "conformance", &key, "--watch-name", "records"][..], 1, "targets are scripts"),
        (&["requeue", "nobody", &key][..], 1, "no plugin \"nobody\""),
        (&["pause", "nobody"][..], 1, "no plugin \"nobody\""),
        (&["keys", "nobody"][..], 1, "no plugin \"nobody\""),
        (&["keys", "../x"][..], 2, "not a valid plugin name"),
    ] {
        let (actual, _, stderr) = run(&host, arguments);
        assert!(actual == code && stderr.contains(part), "{arguments:?}: {actual}: {stderr}");
    }
}
