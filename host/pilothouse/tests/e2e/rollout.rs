//! Older versions of a plugin run again: by themselves, if a new version fails in its probation, and on request.

use std::cell::Cell;

use serde_json::{Value, json};

use crate::harness::{Guest, Host, Options, another_version, wat, wat_with};

/// Runs a subcommand against the host. Returns its exit code, standard output and standard error.
fn run(host: &Host, arguments: &[&str]) -> (i32, String, String) {
    let output = host.pilothouse(arguments);
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code().expect("an exit code"), text(output.stdout), text(output.stderr))
}

/// A version that succeeds in its first calls, and then returns a retry at each.
fn fails_after(calls: u32) -> Vec<u8> {
    let fails = format!(
        "(global.set $calls (i32.add (global.get $calls) (i32.const 1)))
        (if (i32.gt_u (global.get $calls) (i32.const {calls}))
          (then (i32.store8 (i32.const 64) (i32.const 1)) (return (i32.const 64))))
        (i32.const 48))"
    );
    let global = "(global $calls (mut i32) (i32.const 0))\n  (func $reset ";
    wat_with("done", &[("(func $reset ", global), ("(i32.const 48))", &fails)])
}

/// Returns an Event with this reason.
async fn event(host: &Host, reason: &str) -> Option<Value> {
    let events = host.server.get("/apis/events.k8s.io/v1/namespaces/default/events").await;
    events["items"].as_array()?.iter().find(|event| event["reason"] == reason).cloned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_fails_later_is_rolled_back_until_the_file_changes() {
    let host = Host::start().await;
    host.write_sidecar("plugin", "rollout: {probation: 1h}\n");
    host.install_plugin("plugin", &wat("done"));
    let first = host.wait_for_generation("plugin", 1).await;
    assert_eq!(first.get("rollout"), None, "{first:#}");
    let good = first["digest"].clone();
    for object in 0..50 {
        host.server.create_script(&format!("script-{object}"), "").await;
    }
    host.install_plugin("plugin", &fails_after(500));
    let new = host.wait_for_generation("plugin", 2).await;
    assert_eq!(new["rollout"]["probation"]["previous"], good, "{new:#}");

    let round = Cell::new(0);
    let plugin = host
        .wait("the version before to run again", || async {
            round.set(round.get() + 1);
            for object in 0..50 {
                host.server.set_data(&format!("script-{object}"), "round", &round.get().to_string()).await;
            }
            let plugin = host.plugin("plugin").await;
            (plugin["generation"] == 3).then_some(plugin)
        })
        .await;
    assert_eq!((&plugin["digest"], &plugin["state"]), (&good, &json!("running")), "{plugin:#}");
    let held_back = &plugin["rollout"]["heldBack"];
    assert_eq!((&held_back["digest"], &held_back["automatic"]), (&new["digest"], &json!(true)), "{plugin:#}");
    let error = plugin["error"].as_str().expect("text");
    assert!(error.contains("runs in place of the file's") && error.contains("failed"), "{error}");
    let (_, metrics) = host.get("/metrics").await;
    let line = "pilothouse_plugin_rollbacks_total{controller=\"plugin\",result=\"automatic\"} 1";
    assert!(metrics.contains(line), "{metrics}");
    let log = host.log_messages("plugin").await;
    for text in ["running version", "rolling back from version", "in probation for"] {
        assert!(log.iter().any(|line| line.starts_with(text)), "{text}: {log:#?}");
    }
    let event = host.wait("the Event about it", || event(&host, "RolledBack")).await;
    assert_eq!(event["type"], "Warning");

    // A reload for another reason does not load the failed version again.
    host.write_sidecar("plugin", "workers: 2\nrollout: {probation: 1h}\n");
    let reloaded = host.wait_for_generation("plugin", 4).await;
    assert_eq!(reloaded["digest"], good, "{reloaded:#}");
    host.install_plugin("plugin", &another_version(&wat("done"), 3));
    let third = host.wait_for_generation("plugin", 5).await;
    assert_eq!((third["rollout"].get("heldBack"), &third["error"]), (None, &json!("")), "{third:#}");
    assert_eq!(third["rollout"]["probation"]["previous"], good, "{third:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_backs_off_is_rolled_back_with_its_keys() {
    // With the hook, a lost key is not requeued by the reload, so the test would notice it.
    let host = Host::start_with(Options { no_requeue_on_reload: true, ..Options::default() }).await;
    host.write_sidecar("plugin", "rollout: {probation: 1h}\n");
    host.install_plugin("plugin", &wat("done"));
    let first = host.wait_for_generation("plugin", 1).await;
    host.install_plugin("plugin", &wat("trap"));
    host.wait_for_plugin("plugin", "the version that traps", |plugin| {
        plugin["generation"].as_u64() >= Some(2)
    })
    .await;
    let before = host.plugin("plugin").await["counters"]["succeeded"].as_u64().expect("a count");
    host.server.create_script("one", "").await;
    let plugin = host.wait_for_generation("plugin", 3).await;
    assert_eq!(plugin["digest"], first["digest"], "{plugin:#}");
    let reason = plugin["rollout"]["heldBack"]["reason"].as_str().expect("text");
    assert!(reason.contains("backs off"), "{reason}");
    host.wait_for_plugin("plugin", "the key to be reconciled by the version before", |plugin| {
        plugin["counters"]["succeeded"].as_u64() > Some(before)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_goes_back_and_forth_without_a_lost_event() {
    const OBJECTS: usize = 20;
    let host = Host::start_with(Options { no_requeue_on_reload: true, ..Options::default() }).await;
    let server = &host.server;
    let wasm = Guest::Conformance.wasm();
    host.install_plugin("conformance", &wasm);
    let first = host.wait_for_generation("conformance", 1).await;
    let (code, _, stderr) = run(&host, &["rollback", "conformance"]);
    assert!(code == 1 && stderr.contains("older than the running one"), "{code}: {stderr}");
    host.install_plugin("conformance", &another_version(&wasm, 2));
    let second = host.wait_for_generation("conformance", 2).await;
    let [first, second] = [&first, &second].map(|plugin| plugin["digest"].as_str().expect("a digest"));
    for object in 0..OBJECTS {
        server.create_script(&format!("script-{object}"), &format!("copy:record-{object}")).await;
    }
    for round in 0..4_u64 {
        let (arguments, digest) = match round % 2 {
            0 => (vec!["rollback", "conformance"], first),
            _ => (vec!["rollback", "conformance", &second[..12]], second),
        };
        for object in 0..OBJECTS {
            if object == OBJECTS / 2 {
                let (code, stdout, stderr) = run(&host, &arguments);
                assert!(code == 0 && stdout.contains(digest), "{stdout}{stderr}");
            }
            server.set_data(&format!("script-{object}"), "round", &round.to_string()).await;
        }
        let plugin = host.wait_for_generation("conformance", round + 3).await;
        assert_eq!(plugin["digest"], digest, "{plugin:#}");
        assert_eq!(plugin["rollout"].get("heldBack").is_some(), digest == first, "{plugin:#}");
    }
    for object in 0..OBJECTS {
        let name = format!("script-{object}");
        let script = server.config_maps().get(&name).await.expect("it is there");
        let last = script.metadata.resource_version.expect("a version");
        let condition = format!("a reconcile of {name} at version {last}");
        host.wait(&condition, || async {
            (server.data(&format!("record-{object}")).await.get("resourceVersion") == Some(&last))
                .then_some(())
        })
        .await;
    }
    let plugin = host.plugin("conformance").await;
    assert_eq!(plugin["counters"]["errors"], 0, "{plugin:#}");
    for (arguments, part) in [
        (&["rollback", "conformance", second][..], "runs already"),
        (&["rollback", "conformance", "ffff"][..], "write at least six characters"),
        (&["rollback", "nobody"][..], "no plugin \"nobody\""),
    ] {
        let (code, _, stderr) = run(&host, arguments);
        assert!(code == 1 && stderr.contains(part), "{arguments:?}: {code}: {stderr}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_version_in_probation_is_not_judged() {
    let host = Host::start().await;
    host.write_sidecar("plugin", "rollout: {probation: 1s}\n");
    host.install_plugin("plugin", &wat("done"));
    host.wait_for_generation("plugin", 1).await;
    assert_eq!(run(&host, &["pause", "plugin"]).0, 0);
    host.install_plugin("plugin", &another_version(&wat("done"), 2));
    let plugin = host.wait_for_generation("plugin", 2).await;
    assert!(plugin["rollout"]["probation"].is_object(), "{plugin:#}");
    assert_eq!(run(&host, &["resume", "plugin"]).0, 0);
    host.wait_for_plugin("plugin", "the end of the probation", |plugin| {
        plugin["rollout"].get("probation").is_none()
    })
    .await;
    assert_eq!(host.plugin("plugin").await["digest"], plugin["digest"]);
}
