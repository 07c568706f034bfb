//! Tests that every error of the client arrives as an error of the language.

use serde_json::{Value, json};

use super::super::driver::{Driver, expect};

fn config_map(driver: &Driver, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": driver.namespace()}})
}

async fn create(driver: &Driver, manifest: &Value) -> String {
    driver.run("create", &[("body", &manifest.to_string()), ("a", "")]).await
}

/// Creates a ConfigMap while the server injects a fault. Returns the result.
async fn create_with_fault(driver: &Driver, fault: Value) -> String {
    let name = driver.name("map");
    let body = config_map(driver, &name).to_string();
    // The script is a ConfigMap, too, so it must be created before the fault is injected.
    let (script, from) = driver.start_script("info", &[("body", &body)]).await;
    driver.result(&script, from).await;
    let mut matching = json!({"verb": "create", "resource": "configmaps", "namespace": driver.namespace()});
    matching.as_object_mut().expect("an object").extend(fault.as_object().cloned().unwrap_or_default());
    driver.inject_fault(matching).await;
    let from = driver.position();
    driver.host().server.set_data(&script, "op", "create").await;
    driver.result(&script, from).await
}

pub(super) async fn not_found(driver: Driver) -> Result<(), String> {
    let arguments =
        [("a", "v1"), ("b", "ConfigMap"), ("c", driver.namespace()), ("d", "nowhere"), ("f", "/kind")];
    expect("a missing object", &driver.run("client-get", &arguments).await, "not-found")
}

pub(super) async fn already_exists(driver: Driver) -> Result<(), String> {
    let manifest = config_map(&driver, &driver.name("map"));
    expect("the first", &create(&driver, &manifest).await, &driver.name("map"))?;
    expect("the second", &create(&driver, &manifest).await, "already-exists")
}

pub(super) async fn conflict(driver: Driver) -> Result<(), String> {
    let mut manifest = config_map(&driver, &driver.name("map"));
    expect("the first", &create(&driver, &manifest).await, &driver.name("map"))?;
    manifest["metadata"]["resourceVersion"] = json!("1");
    let stale = driver.run("update", &[("body", &manifest.to_string())]).await;
    expect("an update of a state long gone", &stale, "conflict")
}

pub(super) async fn invalid(driver: Driver) -> Result<(), String> {
    let manifest = config_map(&driver, "Not_A_Name");
    expect("a bad name", &create(&driver, &manifest).await, "invalid:metadata.name")
}

pub(super) async fn forbidden(driver: Driver) -> Result<(), String> {
    expect("403", &create_with_fault(&driver, json!({"code": 403})).await, "forbidden")
}

pub(super) async fn denied(driver: Driver) -> Result<(), String> {
    expect("an undeclared write", &driver.run("denied", &[]).await, "denied:create secrets")?;
    driver.wait_for_host_log("request denied: the descriptor's writes lack the rule").await;
    Ok(())
}

pub(super) async fn too_many_requests(driver: Driver) -> Result<(), String> {
    let fault = json!({"code": 429, "retryAfterSeconds": 3});
    expect("429", &create_with_fault(&driver, fault).await, "too-many-requests:3000")
}

pub(super) async fn unavailable(driver: Driver) -> Result<(), String> {
    expect("503", &create_with_fault(&driver, json!({"code": 503})).await, "unavailable")
}

pub(super) async fn other(driver: Driver) -> Result<(), String> {
    expect("500", &create_with_fault(&driver, json!({"code": 500})).await, "other:500")
}
