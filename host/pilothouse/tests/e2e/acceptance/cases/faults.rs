//! Tests guest faults: the instance is replaced, the key is retried, and the reason is logged.

use super::super::driver::{Driver, expect};
use super::super::log::Line;

async fn recovers(driver: &Driver, op: &str, arguments: &[(&str, &str)]) -> Result<(), String> {
    expect("the next attempt", &driver.run(op, arguments).await, "recovered")
}

pub(super) async fn trap(driver: Driver) -> Result<(), String> {
    recovers(&driver, "trap", &[("a", "the sky is falling")]).await?;
    driver.wait_for_host_log("the sky is falling").await;
    Ok(())
}

pub(super) async fn time_out(driver: Driver) -> Result<(), String> {
    let (script, from) = driver.start_script("loop", &[]).await;
    expect("the next attempt", &driver.result(&script, from).await, "recovered")?;
    driver.wait_for_host_log("limits.reconcileTimeout").await;
    // The next reload reconciles each script again. This script must not loop then, because the time limit is higher.
    driver.host().server.set_data(&script, "op", "info").await;
    let key = driver.key(&script);
    let is_harmless = |line: &Line| {
        let value = line.field("value").unwrap_or_default();
        line.message == "result" && line.field("key") == Some(&key) && value.starts_with("scripts ")
    };
    driver.line(from, "the script without its loop", is_harmless).await;
    driver.raise_time_limit().await;
    Ok(())
}

pub(super) async fn memory(driver: Driver) -> Result<(), String> {
    recovers(&driver, "allocate", &[]).await
}

pub(super) async fn unknown_watch(driver: Driver) -> Result<(), String> {
    recovers(&driver, "unknown-watch", &[]).await?;
    driver.wait_for_host_log("nonesuch").await;
    Ok(())
}
