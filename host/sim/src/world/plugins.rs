//! The plugins of a world: compiled and described once, and shared by all runs.

use std::sync::Arc;

use pilothouse_controller::PluginName;
use pilothouse_controller::sidecar::Sidecar;
use pilothouse_plugin::{
    CompiledPlugin, Engine, EngineOptions, InstanceLimits, LoadError, MappedCode, StubHost,
};

use super::fix_hash_order;
use crate::WorldError;

/// How many instructions one call of a guest may execute.
const CALL_FUEL: u64 = 200_000_000;

/// A plugin file that is to be simulated.
#[derive(Clone, Debug)]
pub struct PluginFile {
    /// The plugin's name.
    pub name: PluginName,
    /// The content of the .wasm file.
    pub wasm: Vec<u8>,
    /// The content of the file that replaces it at a reload; `None` to reload the same file.
    pub upgrade: Option<Vec<u8>>,
    /// The text of the sidecar, "" for none.
    pub sidecar: String,
}

/// A plugin with its compiled code.
#[derive(Clone, Debug)]
pub struct WorldPlugin {
    /// The plugin's name.
    pub name: PluginName,
    /// The code.
    pub code: DescribedCode,
    /// The code that replaces it at a reload; `None` to reload the same.
    pub upgrade: Option<DescribedCode>,
    /// The text of the sidecar, "" for none.
    pub sidecar: String,
}

/// The code of a plugin. It is mapped and asked for its descriptor once, and not in each run.
#[derive(Clone, Debug)]
pub struct DescribedCode {
    pub(super) code: CompiledPlugin,
    _mapped: MappedCode,
    /// The descriptor, or why the plugin does not return one: each run then sees why.
    pub(super) descriptor: Result<Arc<str>, String>,
}

impl DescribedCode {
    /// Compiles a plugin, and asks it for its descriptor with the configuration of this sidecar.
    ///
    /// # Errors
    /// If it cannot be compiled.
    pub async fn load(engine: &Engine, wasm: Vec<u8>, sidecar: &str) -> Result<Self, LoadError> {
        let code = engine.load(wasm).await?;
        let mapped = code.keep_mapped().await?;
        let config = Sidecar::parse(sidecar).map(|sidecar| sidecar.config_json()).unwrap_or_default();
        let host = Arc::new(StubHost::new(config).repeatable());
        let descriptor = code.describe(host, &InstanceLimits::default()).await;
        let descriptor = descriptor.map(Arc::from).map_err(|error| format!("describe failed: {error}"));
        Ok(Self { code, _mapped: mapped, descriptor })
    }

    /// Returns the text of the descriptor.
    ///
    /// # Errors
    /// If the plugin does not return one.
    pub fn descriptor(&self) -> Result<&str, &str> {
        self.descriptor.as_deref().map_err(String::as_str)
    }
}

/// Creates the engine of simulations, which limits guests by the instructions that they execute. `options` say how plugins are compiled, and where
/// the result is kept.
///
/// # Errors
/// If wasm cannot run on this machine.
pub fn engine(options: EngineOptions) -> Result<Engine, WorldError> {
    // Runs are repeatable within this process in any case.
    let _ = fix_hash_order();
    let options = EngineOptions { call_fuel: Some(CALL_FUEL), ..options };
    Engine::new(options).map_err(|error| WorldError(error.to_string()))
}

/// Plugins that were compiled for simulations. Cheap to clone: worlds in several threads share one.
#[derive(Clone)]
pub struct CompiledPlugins {
    pub(super) engine: Engine,
    pub(super) plugins: Vec<WorldPlugin>,
}

impl CompiledPlugins {
    /// Returns plugins that were loaded with an [engine] of simulations.
    #[must_use]
    pub fn new(engine: Engine, plugins: Vec<WorldPlugin>) -> Self {
        Self { engine, plugins }
    }

    /// Compiles the plugins in this process. Blocks; must not be called in a tokio runtime.
    ///
    /// # Errors
    /// If one of them cannot be compiled.
    pub fn compile(files: Vec<PluginFile>) -> Result<Self, WorldError> {
        let engine = engine(EngineOptions::default())?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .map_err(|error| WorldError(format!("cannot start a tokio runtime: {error}")))?;
        let plugins = runtime.block_on(async {
            let mut plugins = Vec::new();
            for PluginFile { name, wasm, upgrade, sidecar } in files {
                let failed = |error| WorldError(format!("the plugin {name} cannot be loaded: {error}"));
                let code = DescribedCode::load(&engine, wasm, &sidecar).await.map_err(failed)?;
                let upgrade = match upgrade {
                    Some(wasm) => Some(DescribedCode::load(&engine, wasm, &sidecar).await.map_err(failed)?),
                    None => None,
                };
                plugins.push(WorldPlugin { name, code, upgrade, sidecar });
            }
            Ok(plugins)
        })?;
        Ok(Self::new(engine, plugins))
    }
}

impl std::fmt::Debug for CompiledPlugins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompiledPlugins").field("plugins", &self.plugins).finish_non_exhaustive()
    }
}
