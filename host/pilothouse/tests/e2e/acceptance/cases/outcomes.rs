//! Tests the results of `describe` and `reconcile`.

use kube::api::DeleteParams;

use super::super::driver::{Driver, expect};

pub(super) async fn describe(driver: Driver) -> Result<(), String> {
    let plugin = driver.host().plugin(driver.plugin()).await;
    expect("state", plugin["state"].as_str().unwrap_or_default(), "running")?;
    expect("error", plugin["error"].as_str().unwrap_or_default(), "")?;
    let response = driver.host().server.get("/debug/requests").await;
    let counts = response["counts"].as_array().cloned().unwrap_or_default();
    for resource in ["v1/configmaps", "v1/namespaces"] {
        let watched = counts.iter().any(|count| count["verb"] == "watch" && count["resource"] == resource);
        if !watched {
            return Err(format!("{resource} is not watched: {response}"));
        }
    }
    Ok(())
}

pub(super) async fn reconcile(driver: Driver) -> Result<(), String> {
    let (script, from) = driver.start_script("info", &[]).await;
    let value = driver.result(&script, from).await;
    let wanted = format!("scripts {} attempt=0 reasons=created", driver.key(&script));
    expect("the request", &value, &wanted)?;
    let from = driver.position();
    driver.host().server.set_data(&script, "a", "changed").await;
    let wanted = format!("scripts {} attempt=0 reasons=updated", driver.key(&script));
    expect("the request after a change", &driver.result(&script, from).await, &wanted)
}

pub(super) async fn requeue_after(driver: Driver) -> Result<(), String> {
    expect("the second reconcile", &driver.run("requeue", &[("a", "50")]).await, "requeued")
}

pub(super) async fn retry(driver: Driver) -> Result<(), String> {
    expect("the last attempt", &driver.run("retry", &[("a", "2")]).await, "attempt=2")?;
    driver.wait_for_host_log("attempt 1 of 2").await;
    Ok(())
}

pub(super) async fn terminal(driver: Driver) -> Result<(), String> {
    let (script, from) = driver.start_script("terminal", &[("a", "cannot ever work")]).await;
    driver.wait_for_host_log("cannot ever work").await;
    // The object's next change is a first attempt, so the terminal error was not retried.
    driver.host().server.set_data(&script, "op", "info").await;
    let wanted = format!("scripts {} attempt=0 reasons=updated", driver.key(&script));
    expect("the request after a change", &driver.result(&script, from).await, &wanted)
}

pub(super) async fn finalizer(driver: Driver) -> Result<(), String> {
    let (script, from) = driver.start_script("finalizer", &[]).await;
    expect("the first reconcile", &driver.result(&script, from).await, "held")?;
    let maps = driver.host().server.config_maps();
    let held = maps.get(&script).await.map_err(|error| error.to_string())?;
    let finalizers = held.metadata.finalizers.unwrap_or_default();
    expect("the finalizers", &finalizers.join(","), "acceptance.pilothouse.dev/cleanup")?;
    maps.delete(&script, &DeleteParams::default()).await.map_err(|error| error.to_string())?;
    let key = driver.key(&script);
    let cleaned = |line: &super::super::log::Line| {
        line.message == "result" && line.field("key") == Some(&key) && line.field("value") == Some("cleaned")
    };
    driver.line(from, "the cleaning", cleaned).await;
    let gone = || async { maps.get_opt(&script).await.ok()?.is_none().then_some(()) };
    driver.host().wait("the script to be gone", gone).await;
    Ok(())
}

/// A new version whose `describe` fails leaves the old one running.
pub(super) async fn describe_error(driver: Driver) -> Result<(), String> {
    driver.host().write_sidecar(driver.plugin(), "config: {fail: \"no describing today\"}\n");
    let rejected = driver.host().wait_for_plugin(driver.plugin(), "the rejection", |plugin| {
        plugin["error"].as_str().is_some_and(|error| error.contains("no describing today"))
    });
    let plugin = rejected.await;
    expect("state", plugin["state"].as_str().unwrap_or_default(), "running")?;
    expect("the old version", &driver.run("has-synced", &[("a", "scripts")]).await, "true")
}
