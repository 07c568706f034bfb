//! `pilothouse explain` names the cause for which a key is, or is not, reconciled.

use serde_json::{Value, json};

use crate::harness::{Guest, Host, Options, wait, wat};

/// Waits until a key has this cause. Returns the explanation.
async fn explained(host: &Host, plugin: &str, key: &str, cause: &str) -> Value {
    let path = format!("/api/explain?plugin={plugin}&key={key}");
    let found = wait(|| async {
        let (_, body) = host.get(&path).await;
        let explanation: Value = serde_json::from_str(&body).unwrap_or_default();
        ((explanation["code"] == cause).then_some(explanation), body)
    })
    .await;
    found.unwrap_or_else(|last| panic!("{plugin} {key} never had the cause {cause}: {last}"))
}

/// Returns a sidecar for `echo.wat` with a descriptor that has this watch.
fn watching(members: &Value) -> String {
    let mut watch = json!({"name": "maps", "apiVersion": "v1", "kind": "ConfigMap", "trigger": "self"});
    watch.as_object_mut().expect("an object").extend(members.as_object().expect("members").clone());
    let descriptor = json!({"apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "watches": [watch]});
    json!({"config": descriptor}).to_string()
}

/// Installs a plugin for each cause that lies in a plugin, and creates an object for each cause that lies in an object.
async fn prepare(host: &Host) {
    let (wasm, namespace) = (Guest::Conformance.wasm(), host.server.namespace.as_str());
    let secrets = json!({"grants": {"watches": [{"apiGroups": [""], "resources": ["secrets"]}]}});
    for (name, sidecar, wasm) in [
        ("conformance", String::new(), &wasm),
        ("ungranted", secrets.to_string(), &wasm),
        ("disabled", "enabled: false".to_owned(), &wasm),
        ("elsewhere", watching(&json!({"namespaces": ["nowhere"]})), &wat("echo")),
        ("kindless", watching(&json!({"apiVersion": "example.com/v1", "kind": "Nothing"})), &wat("echo")),
        (
            "picky",
            watching(&json!({
                "namespaces": [namespace],
                "predicate": "generationChanged() && object.metadata.name == 'other'",
            })),
            &wat("echo"),
        ),
        ("trapping", String::new(), &wat("trap")),
    ] {
        if !sidecar.is_empty() {
            host.write_sidecar(name, &sidecar);
        }
        host.install_plugin(name, wasm);
    }
    for name in ["conformance", "elsewhere", "picky"] {
        host.wait_for_generation(name, 1).await;
    }
    host.wait_for_state("disabled", "stopped").await;
    for (name, action) in [
        ("done", "copy:record"),
        ("retrying", "retry:not yet"),
        ("later", "requeue:3600000"),
        ("given-up", "terminal:never"),
        ("flipping", "flip"),
    ] {
        host.server.create_script(name, action).await;
    }
    host.server.create_labelled("other-label", "something", json!({})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_cause_has_its_code() {
    let host = Host::start().await;
    prepare(&host).await;
    let namespace = host.server.namespace.as_str();
    for (plugin, name, cause, part) in [
        ("conformance", "done", "AllWell", "last reconciled at 2"),
        ("conformance", "retrying", "RetryPending", "not yet"),
        ("conformance", "later", "RequeuePending", "as the plugin asked"),
        ("conformance", "given-up", "TerminalError", "terminal error"),
        ("conformance", "flipping", "HotLoop", "changes each time; the next round"),
        ("conformance", "other-label", "NotSelected", "label selector \"test=conformance\""),
        ("conformance", "nothing", "NoSuchObject", "no such object in configmaps.v1"),
        ("picky", "done", "PredicateFalse", "object.metadata.name == 'other' is false at rv "),
        ("elsewhere", "done", "OtherNamespace", "only in nowhere"),
        ("ungranted", "done", "NotGranted", "is not granted"),
        ("kindless", "done", "CrdMissing", "Nothing"),
        ("disabled", "done", "PluginNotRunning", "its state is stopped"),
        ("trapping", "done", "BackingOff", "faults in a row"),
    ] {
        let explanation = explained(&host, plugin, &format!("{namespace}/{name}"), cause).await;
        let verdict = explanation["verdict"].as_str().expect("text");
        assert!(verdict.contains(part), "{plugin} {name}: {explanation:#}");
    }
    let (code, _) = host.get("/").await;
    assert_eq!(code, 200);
    let (_, page) = host.get(&format!("/plugins/picky/keys/{namespace}/done")).await;
    assert!(page.contains("<strong>PredicateFalse</strong>: "), "{page}");

    // A change while the plugin is paused waits.
    assert!(host.pilothouse(&["pause", "conformance"]).status.success());
    host.server.set_data("done", "changed", "1").await;
    explained(&host, "conformance", &format!("{namespace}/done"), "Paused").await;
    assert!(host.pilothouse(&["resume", "conformance"]).status.success());
    explained(&host, "conformance", &format!("{namespace}/done"), "AllWell").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_journal_has_the_events_writes_and_reconciles_of_a_key() {
    let host = Host::start().await;
    host.install_plugin("conformance", &Guest::Conformance.wasm());
    host.wait_for_generation("conformance", 1).await;
    let created = host.server.create_script("one", "copy:record").await;
    let version: u64 = created.metadata.resource_version.expect("a version").parse().expect("a number");
    let key = format!("{}/one", host.server.namespace);
    let entries = host
        .wait("a reconcile in the journal", || async {
            let explanation = explained(&host, "conformance", &key, "AllWell").await;
            let entries = explanation["then"].as_array().cloned()?;
            entries.iter().any(|entry| entry["type"] == "reconcile").then_some(entries)
        })
        .await;
    let entry = |kind: &str| entries.iter().find(|entry| entry["type"] == kind).expect(kind);
    assert_eq!(
        (&entry("event")["resourceVersion"], &entry("event")["queued"]),
        (&version.into(), &true.into())
    );
    let write = entry("write");
    assert!(write["code"] == 200 || write["code"] == 201, "{write:#}");
    assert_eq!(write["sameKey"], false, "{write:#}");
    let reconcile = entry("reconcile");
    assert_eq!((&reconcile["reasons"], &reconcile["outcome"]), (&json!(["created"]), &"done".into()));

    let run = |arguments: &[&str]| {
        let output = host.pilothouse(arguments);
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (output.status.code().expect("an exit code"), text(output.stdout), text(output.stderr))
    };
    let (code, stdout, stderr) = run(&["explain", "conformance", &key]);
    assert!(code == 0 && stdout.starts_with("AllWell: "), "{stdout}{stderr}");
    assert!(stdout.contains("created in scripts rv ") && stdout.contains("not pending"), "{stdout}");
    let (_, stdout, _) = run(&["explain", "conformance", &key, "--watch-name", "scripts", "-o", "json"]);
    let explanation: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!((&explanation["code"], &explanation["watch"]), (&"AllWell".into(), &"scripts".into()));
    for (arguments, code, part) in [
        (&["explain", "conformance", "one"][..], 1, "write NAMESPACE/NAME"),
        (&["explain", "conformance", &key, "--watch-name", "records"][..], 1, "targets are scripts"),
        (&["explain", "nobody", &key][..], 1, "no plugin \"nobody\""),
        (&["explain", "../x", &key][..], 2, "not a valid plugin name"),
    ] {
        let (actual, _, stderr) = run(arguments);
        assert!(actual == code && stderr.contains(part), "{arguments:?}: {actual}: {stderr}");
    }
}

/// Starts a host whose API server can inject faults; `None` if it is an external one.
async fn start_with_faults() -> Option<Host> {
    let host = Host::start_with(Options { test_faults: true, ..Options::default() }).await;
    let is_external = host.server.skip_if_external("the test needs fault injection");
    (!is_external).then_some(host)
}

async fn inject_fault(host: &Host, fault: Value) {
    let request =
        http::Request::post("/debug/faults").body(fault.to_string().into_bytes()).expect("a request");
    host.server.client.request_text(request).await.expect("accepted");
}

async fn clear_faults(host: &Host) {
    let request = http::Request::delete("/debug/faults").body(Vec::new()).expect("a request");
    host.server.client.request_text(request).await.expect("cleared");
}

/// Both plugins send a write that is never answered. One waits for it, and the other one's reconcile times out.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_without_a_response_keeps_its_worker_and_then_its_key() {
    let Some(host) = start_with_faults().await else { return };
    for (name, timeout) in [("patient", "10m"), ("hasty", "300ms")] {
        host.write_sidecar(name, &format!("limits: {{reconcileTimeout: {timeout}}}"));
        host.install_plugin(name, &Guest::Conformance.wasm());
    }
    for name in ["patient", "hasty"] {
        host.wait_for_state(name, "running").await;
    }
    let namespace = host.server.namespace.as_str();
    let fault =
        json!({"verb": "patch", "resource": "configmaps", "name": "record", "hang": true, "count": 1000});
    inject_fault(&host, fault).await;
    host.server.create_script("stuck", "copy:record").await;
    let stuck = format!("{namespace}/stuck");
    let explanation = explained(&host, "patient", &stuck, "Reconciling").await;
    let verdict = explanation["verdict"].as_str().expect("text");
    assert!(verdict.contains("a worker has been reconciling it for "), "{explanation:#}");
    explained(&host, "hasty", &stuck, "HeldByWrite").await;

    // A plugin has one worker by default, and that of this one is busy.
    host.server.create_script("next", "log:reconciled").await;
    let next = format!("{namespace}/next");
    let explanation = explained(&host, "patient", &next, "Queued").await;
    let verdict = explanation["verdict"].as_str().expect("text");
    assert!(verdict.contains("it has been waiting for a worker for "), "{explanation:#}");
    host.wait_for_message("hasty", "reconciled", 1).await;
    explained(&host, "hasty", &next, "AllWell").await;
    // The write of the first request, which is still open, is known.
    let explanation = explained(&host, "patient", &stuck, "Reconciling").await;
    let verdict = explanation["verdict"].as_str().expect("text");
    assert!(verdict.contains("1 write of it had no response yet"), "{explanation:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_fails_or_is_late_is_stale() {
    let Some(host) = start_with_faults().await else { return };
    host.install_plugin("conformance", &Guest::Conformance.wasm());
    host.wait_for_state("conformance", "running").await;
    host.server.create_script("seen", "log:reconciled").await;
    let key = |name: &str| format!("{}/{name}", host.server.namespace);
    explained(&host, "conformance", &key("seen"), "AllWell").await;

    inject_fault(&host, json!({"resource": "configmaps", "freezeWatches": true})).await;
    host.server.create_script("late", "log:reconciled").await;
    let explanation = explained(&host, "conformance", &key("late"), "WatchStale").await;
    let verdict = explanation["verdict"].as_str().expect("text");
    assert!(verdict.contains("but the watch has not delivered it"), "{explanation:#}");
    // This continues the watches, too.
    clear_faults(&host).await;
    explained(&host, "conformance", &key("late"), "AllWell").await;

    for verb in ["list", "watch"] {
        let fault = json!({"verb": verb, "resource": "configmaps", "code": 500, "count": 1_000_000});
        inject_fault(&host, fault).await;
    }
    inject_fault(&host, json!({"resource": "configmaps", "cutWatches": true})).await;
    let explanation = explained(&host, "conformance", &key("seen"), "WatchStale").await;
    let verdict = explanation["verdict"].as_str().expect("text");
    assert!(verdict.contains("the watch of configmaps.v1 does not work: "), "{explanation:#}");
    clear_faults(&host).await;
    explained(&host, "conformance", &key("seen"), "AllWell").await;
}

/// Every cause has a case in a table of this file, or a test of its own.
#[test]
fn every_cause_is_tested() {
    let source = include_str!("explain.rs");
    for cause in pilothouse_controller::Cause::ALL {
        assert!(source.contains(&format!("\"{cause}\"")), "no test expects the cause {cause}");
    }
}
