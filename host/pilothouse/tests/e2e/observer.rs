//! Observers receive every change in order. A failed batch is redelivered, and an object that keeps failing does not block others.

use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::harness::{Host, another_version, wat};

/// Returns a sidecar for `every.wat` that watches the test's ConfigMaps, with additional members of the watch and the descriptor.
fn sidecar(host: &Host, watch: &Value, members: &Value) -> String {
    let mut maps = json!({
        "name": "maps", "apiVersion": "v1", "kind": "ConfigMap", "labelSelector": "test=observer",
        "namespaces": [host.server.namespace]
    });
    let mut config = json!({"apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin"});
    for (name, value) in watch.as_object().expect("members") {
        maps[name] = value.clone();
    }
    for (name, value) in members.as_object().expect("members") {
        config[name] = value.clone();
    }
    config["watches"] = json!([maps]);
    json!({"config": config}).to_string()
}

async fn start_with_observer(members: &Value) -> Host {
    let host = Host::start().await;
    host.write_sidecar("watcher", &sidecar(&host, &json!({"notify": true}), members));
    host
}

/// Returns the messages that the plugin logged itself.
async fn messages(host: &Host) -> Vec<String> {
    let by_plugin = ["initial ", "added ", "updated ", "deleted ", "red: "];
    let messages = host.log_messages("watcher").await.into_iter();
    messages.filter(|message| by_plugin.iter().any(|start| message.starts_with(start))).collect()
}

async fn delete(host: &Host, name: &str) {
    host.server.config_maps().delete(name, &DeleteParams::default()).await.expect("deleted");
}

fn counter(plugin: &Value, name: &str) -> u64 {
    plugin["counters"][name].as_u64().unwrap_or_else(|| panic!("no {name} in {plugin:#}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_observer_receives_every_change_and_a_new_version_starts_from_the_beginning() {
    let host = start_with_observer(&json!({})).await;
    for name in ["a", "b"] {
        host.server.create_observed(name, json!({})).await;
    }
    let wasm = wat("every");
    host.install_plugin("watcher", &wasm);
    host.wait_for_message("watcher", "initial b", 1).await;
    assert_eq!(messages(&host).await, ["initial a", "initial b"]);
    host.server.create_observed("c", json!({})).await;
    host.wait_for_message("watcher", "added c", 1).await;
    host.server.set_data("a", "colour", "blue").await;
    host.wait_for_message("watcher", "updated a", 1).await;
    delete(&host, "b").await;
    host.wait_for_message("watcher", "deleted b", 1).await;
    let before = messages(&host).await.len();
    host.install_plugin("watcher", &another_version(&wasm, 2));
    host.wait_for_generation("watcher", 2).await;
    host.wait_for_message("watcher", "initial c", 1).await;
    assert_eq!(messages(&host).await[before..], ["initial a", "initial c"]);
    let plugin = host
        .wait_for_plugin("watcher", "seven observed notifications", |plugin| counter(plugin, "observed") == 7)
        .await;
    assert_eq!(counter(&plugin, "observeErrors"), 0);
    let (_, metrics) = host.get("/metrics").await;
    assert!(
        metrics.contains("pilothouse_observed_notifications_total{controller=\"watcher\"} 7"),
        "{metrics}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_keeps_trapping_the_observer_is_parked() {
    let host = start_with_observer(&json!({})).await;
    host.server.create_observed("good", json!({})).await;
    host.install_plugin("watcher", &wat("every"));
    host.wait_for_message("watcher", "initial good", 1).await;
    host.server.create_observed("bad", json!({"wish": "trap"})).await;
    let plugin =
        host.wait_for_plugin("watcher", "one parked object", |plugin| counter(plugin, "parked") == 1).await;
    assert!(counter(&plugin, "observeErrors") >= 5, "{plugin:#}");
    // Each new instance receives the known objects as initial notifications, then the change that trapped.
    host.wait_for_message("watcher", "initial good", 5).await;
    host.wait_for_message("watcher", "added bad", 5).await;
    host.server.create_observed("later", json!({})).await;
    host.wait_for_message("watcher", "added later", 1).await;
    let events = host
        .wait("the event about it", || async {
            let events = host.server.events().await;
            (!events.is_empty()).then_some(events)
        })
        .await;
    let event = &events[0];
    assert_eq!(event.reason.as_deref(), Some("ObserveFailed"), "{event:?}");
    assert_eq!(event.regarding.as_ref().and_then(|regarding| regarding.name.as_deref()), Some("bad"));
    let attempts = messages(&host).await.iter().filter(|message| *message == "added bad").count();
    host.server.set_data("bad", "wish", "fine").await;
    // The object was never observed successfully, so its change is delivered as `added`.
    host.wait_for_message("watcher", "added bad", attempts + 1).await;
    let (_, metrics) = host.get("/metrics").await;
    assert!(metrics.contains("pilothouse_observe_parked_total{controller=\"watcher\"} 1"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retriable_error_is_redelivered_to_the_same_instance_and_a_terminal_one_is_not() {
    let host = start_with_observer(&json!({})).await;
    host.install_plugin("watcher", &wat("every"));
    host.wait_for_state("watcher", "running").await;
    host.server.create_observed("once", json!({"wish": "again"})).await;
    host.wait_for_message("watcher", "added once", 2).await;
    host.server.create_observed("never", json!({"wish": "terminal"})).await;
    let plugin =
        host.wait_for_plugin("watcher", "one parked object", |plugin| counter(plugin, "parked") == 1).await;
    assert_eq!(counter(&plugin, "observeErrors"), 2, "one each: {plugin:#}");
    let messages = messages(&host).await;
    assert_eq!(messages.iter().filter(|message| *message == "added never").count(), 1, "{messages:#?}");
    assert!(!messages.iter().any(|message| message.starts_with("initial")), "no new instance: {messages:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stateful_plugin_observes_an_object_before_it_reconciles_it() {
    let host = Host::start().await;
    let watch = json!({"notify": true, "trigger": "self", "indexes": [{"name": "team", "computed": true}]});
    host.write_sidecar("watcher", &sidecar(&host, &watch, &json!({"stateful": true})));
    host.server.create_observed("a", json!({"team": "red", "ask": "red"})).await;
    host.install_plugin("watcher", &wat("every"));
    host.wait_for_message("watcher", "red: a", 1).await;
    assert_eq!(messages(&host).await, ["initial a", "red: a"], "it observes first");
    host.server.create_observed("bad", json!({"wish": "trap", "ask": "red"})).await;
    host.wait_for_plugin("watcher", "one parked object", |plugin| counter(plugin, "parked") == 1).await;
    host.wait_for_message("watcher", "red: a", 2).await;
    host.server.set_data("a", "colour", "blue").await;
    host.wait_for_message("watcher", "updated a", 1).await;
    host.wait_for_message("watcher", "red: a", 3).await;
}
