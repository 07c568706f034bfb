//! Compiles changed plugin files before they have settled: the compiler starts as soon as a file is seen to
//! have changed, so that the settling time is not lost. Only the code is used, and only if the settled file
//! has the same SHA-256.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_plugin::{CompilePermit, CompiledPlugin, Engine, LoadError};
use tokio_util::task::AbortOnDropHandle;

use super::files::{sum_blocking, wasm};
use crate::directory::PluginFiles;
use crate::name::PluginName;

/// The speculative compiles, at most one per plugin. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct SpeculativeCompiler {
    compiles: Arc<Mutex<BTreeMap<PluginName, SpeculativeCompile>>>,
}

/// A speculative compile that is running or done. Dropping it stops the compiler.
pub(crate) struct SpeculativeCompile {
    files: PluginFiles,
    outcome: AbortOnDropHandle<Option<Outcome>>,
}

/// The SHA-256 of the bytes that were read, and the result of compiling them.
type Outcome = ([u8; 32], Result<CompiledPlugin, LoadError>);

impl SpeculativeCompiler {
    /// Starts a compile, and cancels the plugin's earlier one. The compile yields nothing if no compiler slot
    /// is free: a plugin that is being loaded comes first.
    pub(crate) fn start(&self, engine: &Engine, name: PluginName, files: PluginFiles) {
        let mut compiles = self.compiles.lock();
        let before = compiles.remove(&name);
        let (engine, path) = (engine.clone(), files.wasm.clone());
        let task = tokio::spawn(async move {
            if let Some(SpeculativeCompile { outcome, .. }) = before {
                outcome.abort();
                // The slot is free only once the earlier task has ended.
                let _ = outcome.await;
            }
            compile(&engine, &path, engine.try_acquire_compile_permit()?).await
        });
        compiles.insert(name, SpeculativeCompile { files, outcome: AbortOnDropHandle::new(task) });
    }

    /// Cancels the plugin's compile, because the file has changed back or is gone.
    pub(crate) fn cancel(&self, name: &PluginName) {
        self.compiles.lock().remove(name);
    }

    /// Takes the compile that was started for these files; one that was started for other files is cancelled.
    pub(super) fn take(&self, name: &PluginName, files: &PluginFiles) -> Option<SpeculativeCompile> {
        self.compiles.lock().remove(name).filter(|speculative| speculative.files == *files)
    }
}

impl SpeculativeCompile {
    /// Returns whether the compile has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.outcome.is_finished()
    }

    /// Waits for the code of the file with this SHA-256. Returns `None` if the compile did not run or read
    /// other bytes.
    ///
    /// Dropping the future stops the compiler.
    pub(super) async fn code(self, sum: [u8; 32]) -> Option<Result<CompiledPlugin, LoadError>> {
        let (compiled_sum, code) = self.outcome.await.ok().flatten()?;
        (compiled_sum == sum).then_some(code)
    }
}

/// Returns `None` if the file cannot be read or changes meanwhile: the load itself reports such a problem.
async fn compile(engine: &Engine, path: &Path, place: CompilePermit) -> Option<Outcome> {
    let (sum, size) = sum_blocking(path).await.ok()?;
    match engine.load_cached(sum, size).await {
        Ok(None) => {}
        Ok(Some(code)) => return Some((sum, Ok(code))),
        Err(error) => return Some((sum, Err(error))),
    }
    let wasm = wasm(path, sum).await.ok()?;
    Some((sum, engine.compile(wasm, sum, place).await))
}

#[cfg(test)]
mod tests {
    use pilothouse_plugin::EngineOptions;

    use super::*;
    use crate::directory::scan;

    /// Returns a directory with one plugin, the scanned name and files, and the SHA-256 of the file.
    async fn plugin(wasm: &[u8]) -> (tempfile::TempDir, PluginName, PluginFiles, [u8; 32]) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("p.wasm");
        std::fs::write(&path, wasm).expect("written");
        let found = scan(folder.path()).expect("readable").plugins;
        let (name, files) = found.into_iter().next().expect("a plugin");
        let (sum, _) = sum_blocking(&path).await.expect("readable");
        (folder, name, files, sum)
    }

    fn done() -> Vec<u8> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugin/tests/guests/done.wat");
        wat::parse_file(path).expect("a guest")
    }

    #[tokio::test]
    async fn a_speculative_compile_is_used_by_the_load() {
        let engine = Engine::new(EngineOptions::default()).expect("an engine");
        let (_folder, name, files, sum) = plugin(&done()).await;
        let speculative_compiler = SpeculativeCompiler::default();
        assert!(speculative_compiler.take(&name, &files).is_none());
        speculative_compiler.start(&engine, name.clone(), files.clone());
        let speculative = speculative_compiler.take(&name, &files).expect("begun");
        let code = speculative.code(sum).await.expect("known").expect("a plugin");
        assert_eq!(code.size(), done().len());
        assert_eq!(engine.compile_stats().compiled, 1);
        assert!(speculative_compiler.take(&name, &files).is_none(), "it is taken once");
        // A refusal is known ahead of the load, too.
        let (_folder, name, files, sum) = plugin(b"no wasm").await;
        speculative_compiler.start(&engine, name.clone(), files.clone());
        let refused =
            speculative_compiler.take(&name, &files).expect("begun").code(sum).await.expect("known").err();
        assert!(matches!(refused, Some(LoadError::NotWasm { .. })), "{refused:?}");
    }

    #[tokio::test]
    async fn a_compile_of_other_files_is_not_used() {
        let engine = Engine::new(EngineOptions::default()).expect("an engine");
        let (folder, name, files, _) = plugin(&done()).await;
        let speculative_compiler = SpeculativeCompiler::default();
        speculative_compiler.start(&engine, name.clone(), files.clone());
        std::fs::write(folder.path().join("p.wasm"), b"another size").expect("written");
        let found = scan(folder.path()).expect("readable").plugins;
        assert!(speculative_compiler.take(&name, &found[&name]).is_none());
        assert!(speculative_compiler.take(&name, &files).is_none(), "it was given up");
        // Files whose metadata is the same, but not their bytes: the SHA-256 of what is loaded decides.
        speculative_compiler.start(&engine, name.clone(), found[&name].clone());
        let speculative = speculative_compiler.take(&name, &found[&name]).expect("begun");
        assert!(speculative.code([7; 32]).await.is_none());
    }

    #[tokio::test]
    async fn no_compile_starts_while_all_compilers_are_busy() {
        let engine = Engine::new(EngineOptions::default()).expect("an engine");
        let (_folder, name, files, sum) = plugin(&done()).await;
        let speculative_compiler = SpeculativeCompiler::default();
        let mut places = Vec::new();
        while let Some(place) = engine.try_acquire_compile_permit() {
            places.push(place);
        }
        speculative_compiler.start(&engine, name.clone(), files.clone());
        let speculative = speculative_compiler.take(&name, &files).expect("tried");
        assert!(speculative.code(sum).await.is_none());
        drop(places);
        speculative_compiler.start(&engine, name.clone(), files.clone());
        let speculative = speculative_compiler.take(&name, &files).expect("begun");
        assert!(speculative.code(sum).await.expect("known").is_ok());
        // The slot is free again once the compile has ended.
        assert!(engine.try_acquire_compile_permit().is_some());
    }

    #[tokio::test]
    async fn the_next_compile_gets_the_slot_of_a_cancelled_one() {
        let engine = Engine::new(EngineOptions::default()).expect("an engine");
        let (_folder, name, files, sum) = plugin(&done()).await;
        let speculative_compiler = SpeculativeCompiler::default();
        let mut others = Vec::new();
        while let Some(place) = engine.try_acquire_compile_permit() {
            others.push(place);
        }
        others.pop();
        for _ in 0..5 {
            speculative_compiler.start(&engine, name.clone(), files.clone());
            tokio::task::yield_now().await;
        }
        let speculative = speculative_compiler.take(&name, &files).expect("begun");
        assert!(speculative.code(sum).await.expect("known").is_ok());
        speculative_compiler.start(&engine, name.clone(), files);
        tokio::task::yield_now().await;
        speculative_compiler.cancel(&name);
        // The only slot that can become free.
        drop(engine.acquire_compile_permit().await);
    }
}
