//! Observers: told of every change, in order; a failing one is told again, and no object holds the others up.

use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::harness::{Host, another_version, wat};

/// A sidecar that makes `every.wat` watch the test's ConfigMaps, with some members of the watch and the descriptor.
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

async fn observing(members: &Value) -> Host {
    let host = Host::start().await;
    host.sidecar("watcher", &sidecar(&host, &json!({"notify": true}), members));
    host
}

/// What the plugin said, without what the host has to say of its exports.
async fn told(host: &Host) -> Vec<String> {
    host.said("watcher").await.into_iter().filter(|said| !said.starts_with("the plugin exports")).collect()
}

async fn delete(host: &Host, name: &str) {
    host.server.config_maps().delete(name, &DeleteParams::default()).await.expect("deleted");
}

fn counter(plugin: &Value, name: &str) -> u64 {
    plugin["counters"][name].as_u64().unwrap_or_else(|| panic!("no {name} in {plugin:#}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn b34_an_observer_is_told_of_everything_and_a_new_version_again() {
    let host = observing(&json!({})).await;
    for name in ["a", "b"] {
        host.server.observed(name, json!({})).await;
    }
    let wasm = wat("every");
    host.drop_in("watcher", &wasm);
    host.wait_until_said("watcher", "initial b", 1).await;
    assert_eq!(told(&host).await, ["initial a", "initial b"]);
    host.server.observed("c", json!({})).await;
    host.wait_until_said("watcher", "added c", 1).await;
    host.server.set_data("a", "colour", "blue").await;
    host.wait_until_said("watcher", "updated a", 1).await;
    delete(&host, "b").await;
    host.wait_until_said("watcher", "deleted b", 1).await;
    let before = told(&host).await.len();
    host.drop_in("watcher", &another_version(&wasm, 2));
    host.wait_for_generation("watcher", 2).await;
    host.wait_until_said("watcher", "initial c", 1).await;
    assert_eq!(told(&host).await[before..], ["initial a", "initial c"]);
    let plugin = host
        .wait_for_plugin("watcher", "seven notifications taken", |plugin| counter(plugin, "observed") == 7)
        .await;
    assert_eq!(counter(&plugin, "observeErrors"), 0);
    let (_, metrics) = host.get("/metrics").await;
    assert!(
        metrics.contains("pilothouse_observed_notifications_total{controller=\"watcher\"} 7"),
        "{metrics}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn b38_a_trap_costs_the_instance_and_at_last_the_object_is_set_aside() {
    let host = observing(&json!({})).await;
    host.server.observed("good", json!({})).await;
    host.drop_in("watcher", &wat("every"));
    host.wait_until_said("watcher", "initial good", 1).await;
    host.server.observed("bad", json!({"wish": "trap"})).await;
    let plugin = host
        .wait_for_plugin("watcher", "one object set aside", |plugin| counter(plugin, "parked") == 1)
        .await;
    assert!(counter(&plugin, "observeErrors") >= 5, "{plugin:#}");
    // Each new instance was told again what the one before knew, and then what broke it.
    host.wait_until_said("watcher", "initial good", 5).await;
    host.wait_until_said("watcher", "added bad", 5).await;
    host.server.observed("later", json!({})).await;
    host.wait_until_said("watcher", "added later", 1).await;
    let events = host
        .wait("the event about it", || async {
            let events = host.server.events().await;
            (!events.is_empty()).then_some(events)
        })
        .await;
    let event = &events[0];
    assert_eq!(event.reason.as_deref(), Some("ObserveFailed"), "{event:?}");
    assert_eq!(event.regarding.as_ref().and_then(|regarding| regarding.name.as_deref()), Some("bad"));
    let tries = told(&host).await.iter().filter(|said| *said == "added bad").count();
    host.server.set_data("bad", "wish", "fine").await;
    // It was never told of with success, so it is new.
    host.wait_until_said("watcher", "added bad", tries + 1).await;
    let (_, metrics) = host.get("/metrics").await;
    assert!(metrics.contains("pilothouse_observe_parked_total{controller=\"watcher\"} 1"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn b38_an_error_is_told_again_to_the_same_instance_and_a_final_one_is_not() {
    let host = observing(&json!({})).await;
    host.drop_in("watcher", &wat("every"));
    host.wait_for_state("watcher", "running").await;
    host.server.observed("once", json!({"wish": "again"})).await;
    host.wait_until_said("watcher", "added once", 2).await;
    host.server.observed("never", json!({"wish": "terminal"})).await;
    let plugin = host
        .wait_for_plugin("watcher", "one object set aside", |plugin| counter(plugin, "parked") == 1)
        .await;
    assert_eq!(counter(&plugin, "observeErrors"), 2, "one each: {plugin:#}");
    let said = told(&host).await;
    assert_eq!(said.iter().filter(|said| *said == "added never").count(), 1, "{said:#?}");
    assert!(!said.iter().any(|said| said.starts_with("initial")), "no new instance: {said:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stateful_plugin_reconciles_what_its_instance_was_told_of() {
    let host = Host::start().await;
    let watch = json!({"notify": true, "trigger": "self", "indexes": [{"name": "team", "computed": true}]});
    host.sidecar("watcher", &sidecar(&host, &watch, &json!({"stateful": true})));
    host.server.observed("a", json!({"team": "red", "ask": "red"})).await;
    host.drop_in("watcher", &wat("every"));
    host.wait_until_said("watcher", "red: a", 1).await;
    assert_eq!(told(&host).await, ["initial a", "red: a"], "it observes first");
    host.server.observed("bad", json!({"wish": "trap", "ask": "red"})).await;
    host.wait_for_plugin("watcher", "one object set aside", |plugin| counter(plugin, "parked") == 1).await;
    host.wait_until_said("watcher", "red: a", 2).await;
    host.server.set_data("a", "colour", "blue").await;
    host.wait_until_said("watcher", "updated a", 1).await;
    host.wait_until_said("watcher", "red: a", 3).await;
}
