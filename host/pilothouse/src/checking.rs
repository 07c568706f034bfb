//! Loading a plugin's file as the host would, without running it: what `check` reports and `build` ends with.

use std::path::Path;

use pilothouse_controller::{CheckReport, check};
use pilothouse_plugin::{Engine, EngineOptions};

use crate::Failed;

/// Checks the file without a server.
///
/// # Errors
/// The one line that `status` would show, were the file in the plugins directory.
pub(crate) async fn without_server(file: &Path) -> Result<CheckReport, Failed> {
    let engine = engine()?;
    check(&engine, file, None).await.map_err(|problem| refused(file, &problem))
}

pub(crate) fn engine() -> Result<Engine, Failed> {
    Engine::new(EngineOptions::default()).map_err(|error| Failed::Work(format!("the wasm engine: {error}")))
}

pub(crate) fn refused(file: &Path, problem: &str) -> Failed {
    Failed::Work(format!("{}: {problem}", file.display()))
}
