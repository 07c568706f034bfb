//! Code that breaks: the instance is replaced, the key is retried, and the reason is in the log.

use super::super::driver::{Driver, expect};

async fn recovers(driver: &Driver, op: &str, arguments: &[(&str, &str)]) -> Result<(), String> {
    expect("the next attempt", &driver.run(op, arguments).await, "recovered")
}

pub(super) async fn trap(driver: Driver) -> Result<(), String> {
    recovers(&driver, "trap", &[("a", "the sky is falling")]).await?;
    driver.host_logs("the sky is falling").await;
    Ok(())
}

pub(super) async fn time_out(driver: Driver) -> Result<(), String> {
    recovers(&driver, "loop", &[]).await?;
    driver.host_logs("limits.reconcileTimeout").await;
    Ok(())
}

pub(super) async fn memory(driver: Driver) -> Result<(), String> {
    recovers(&driver, "allocate", &[]).await
}

pub(super) async fn unknown_watch(driver: Driver) -> Result<(), String> {
    recovers(&driver, "unknown-watch", &[]).await?;
    driver.host_logs("nonesuch").await;
    Ok(())
}
