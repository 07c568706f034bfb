//! Tests the notifications that an observer receives.

use kube::api::DeleteParams;
use serde_json::json;

use super::super::driver::{Driver, expect};
use super::super::log::Line;

/// Waits for the next notification of a change of an item. Returns its fields `watch before after initial unknown`.
async fn notification(driver: &Driver, from: usize, name: &str, change: &str) -> String {
    let key = driver.key(name);
    let is_notification = |line: &Line| {
        line.message == "observed" && line.field("key") == Some(&key) && line.field("change") == Some(change)
    };
    let line = driver.line(from, &format!("{change} of {name}"), is_notification).await;
    let field = |name| line.field(name).unwrap_or("(none)").to_owned();
    format!(
        "{} {} {} {} {}",
        field("watch"),
        field("before"),
        field("after"),
        field("initial"),
        field("unknown")
    )
}

pub(super) async fn changes(driver: Driver) -> Result<(), String> {
    let from = driver.position();
    let name = driver.create_item("item", json!({"value": "one"})).await;
    expect("added", &notification(&driver, from, &name, "added").await, "items - \"one\" false false")?;
    let from = driver.position();
    driver.host().server.set_data(&name, "value", "two").await;
    expect("updated", &notification(&driver, from, &name, "updated").await, "items one \"two\" false false")?;
    let from = driver.position();
    let deleted = driver.host().server.config_maps().delete(&name, &DeleteParams::default()).await;
    deleted.map_err(|error| error.to_string())?;
    expect("deleted", &notification(&driver, from, &name, "deleted").await, "items two - false false")
}

/// After a trap, the new instance receives everything again. An object that keeps failing is parked until it changes; others are not
/// affected.
pub(super) async fn trap(driver: Driver) -> Result<(), String> {
    let fine = driver.create_item("fine", json!({"value": "fine"})).await;
    notification(&driver, 0, &fine, "added").await;
    let from = driver.position();
    let poison = driver.create_item("poison", json!({"value": "trap"})).await;
    expect("replayed", &notification(&driver, from, &fine, "added").await, "items - \"fine\" true false")?;
    let later = driver.create_item("later", json!({"value": "later"})).await;
    notification(&driver, from, &later, "added").await;
    let from = driver.position();
    driver.host().server.set_data(&poison, "value", "cured").await;
    let key = driver.key(&poison);
    let cured = |line: &Line| {
        line.message == "observed"
            && line.field("key") == Some(&key)
            && line.field("after") == Some("\"cured\"")
    };
    driver.line(from, "the cured item", cured).await;
    Ok(())
}
