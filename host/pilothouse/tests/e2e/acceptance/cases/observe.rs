//! What an observer is told.

use kube::api::DeleteParams;
use serde_json::json;

use super::super::driver::{Driver, expect};
use super::super::log::Line;

/// `change before after initial unknown` of the next notification about an item.
async fn told(driver: &Driver, from: usize, name: &str, change: &str) -> String {
    let key = driver.key(name);
    let fits = |line: &Line| {
        line.message == "observed" && line.field("key") == Some(&key) && line.field("change") == Some(change)
    };
    let line = driver.line(from, &format!("{change} of {name}"), fits).await;
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
    let name = driver.item("item", json!({"value": "one"})).await;
    expect("added", &told(&driver, from, &name, "added").await, "items - \"one\" false false")?;
    let from = driver.position();
    driver.host().server.set_data(&name, "value", "two").await;
    expect("updated", &told(&driver, from, &name, "updated").await, "items one \"two\" false false")?;
    let from = driver.position();
    let deleted = driver.host().server.config_maps().delete(&name, &DeleteParams::default()).await;
    deleted.map_err(|error| error.to_string())?;
    expect("deleted", &told(&driver, from, &name, "deleted").await, "items two - false false")
}

/// The new instance hears everything again; what goes on failing is set aside until it changes, and the rest goes on.
pub(super) async fn a_trap_is_set_aside(driver: Driver) -> Result<(), String> {
    let fine = driver.item("fine", json!({"value": "fine"})).await;
    told(&driver, 0, &fine, "added").await;
    let from = driver.position();
    let poison = driver.item("poison", json!({"value": "trap"})).await;
    expect("replayed", &told(&driver, from, &fine, "added").await, "items - \"fine\" true false")?;
    let later = driver.item("later", json!({"value": "later"})).await;
    told(&driver, from, &later, "added").await;
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
