//! The plugin with which a recording is replayed.

use std::path::{Path, PathBuf};

use pilothouse_controller::limits::SidecarLimits;
use pilothouse_controller::recording::{RecordingHead, ReplayError, Replayer};
use pilothouse_plugin::Engine;

use crate::CommandError;
use crate::cli::CompilerMode;
use crate::commands::host;

/// A plugin's file, the limits in the sidecar beside it, and the engine that compiles it.
pub(crate) struct Plugin {
    file: PathBuf,
    limits: SidecarLimits,
    cache_dir: Option<PathBuf>,
    compiler: CompilerMode,
    engine: Engine,
}

impl Plugin {
    /// Creates a plugin. `cache_dir` is the directory for compiled plugins; `None` for the default.
    ///
    /// # Errors
    /// Errors if wasm cannot run on this machine.
    pub(crate) fn new(
        file: &Path,
        limits: SidecarLimits,
        cache_dir: Option<PathBuf>,
    ) -> Result<Self, CommandError> {
        let compiler = CompilerMode::Quick;
        let engine = host::engine(cache_dir.clone(), compiler)?;
        Ok(Self { file: file.to_owned(), limits, cache_dir, compiler, engine })
    }

    /// Loads the plugin with the configuration of a recording. A plugin that the quick compiler refuses is compiled as by `run`.
    ///
    /// # Errors
    /// Returns a usage error if the plugin cannot be replayed.
    pub(super) async fn load(&mut self, head: &RecordingHead) -> Result<Replayer, CommandError> {
        let mut loaded = Replayer::load(&self.engine, &self.file, &self.limits, head).await;
        if matches!(loaded, Err(ReplayError::Load(_))) && self.compiler == CompilerMode::Quick {
            self.compiler = CompilerMode::Optimizing;
            self.engine = host::engine(self.cache_dir.clone(), self.compiler)?;
            loaded = Replayer::load(&self.engine, &self.file, &self.limits, head).await;
        }
        loaded.map_err(|error| CommandError::Usage(format!("{}: {error}", self.file.display())))
    }
}
