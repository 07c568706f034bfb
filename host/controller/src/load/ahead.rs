//! Code of files that have not settled yet: a compiler begins when a file is seen to have changed, so that the time in which it may change
//! again is not lost. Nothing comes of it but code; what is loaded is what the settled file has.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_plugin::{Code, Engine, LoadError, Place};
use tokio_util::task::AbortOnDropHandle;

use super::files::{sum_of, wasm};
use crate::directory::PluginFiles;
use crate::name::PluginName;

/// One for each plugin at most.
#[derive(Clone, Default)]
pub(crate) struct Ahead {
    begun: Arc<Mutex<BTreeMap<PluginName, Begun>>>,
}

/// A compiler at work, or what came of it. Dropping it ends it.
pub(crate) struct Begun {
    files: PluginFiles,
    outcome: AbortOnDropHandle<Option<Outcome>>,
}

/// The sum of the bytes that were read, and what became of them.
type Outcome = ([u8; 32], Result<Code, LoadError>);

impl Ahead {
    /// Begins, and gives up what was begun for the plugin before. Nothing comes of it where a compiler would have to be waited for: whoever
    /// needs one now comes first.
    pub(crate) fn begin(&self, engine: &Engine, name: PluginName, files: PluginFiles) {
        let mut begun = self.begun.lock();
        let before = begun.remove(&name);
        let (engine, path) = (engine.clone(), files.wasm.clone());
        let task = tokio::spawn(async move {
            if let Some(Begun { outcome, .. }) = before {
                outcome.abort();
                // Its place is free when it has ended.
                let _ = outcome.await;
            }
            compile(&engine, &path, engine.free_place()?).await
        });
        begun.insert(name, Begun { files, outcome: AbortOnDropHandle::new(task) });
    }

    /// Gives up what was begun: the file has changed back, or is gone.
    pub(crate) fn give_up(&self, name: &PluginName) {
        self.begun.lock().remove(name);
    }

    /// What was begun for these files; what was begun for others is given up.
    pub(super) fn take(&self, name: &PluginName, files: &PluginFiles) -> Option<Begun> {
        self.begun.lock().remove(name).filter(|begun| begun.files == *files)
    }
}

impl Begun {
    /// Waits for the code of the file with this sum. `None` where nothing is known of it.
    ///
    /// Dropping the future ends the compiler.
    pub(super) async fn code(self, sum: [u8; 32]) -> Option<Result<Code, LoadError>> {
        let (of, code) = self.outcome.await.ok().flatten()?;
        (of == sum).then_some(code)
    }
}

/// `None` where the file can't be read or changes meanwhile: whoever loads it will say so, if it is so then.
async fn compile(engine: &Engine, path: &Path, place: Place) -> Option<Outcome> {
    let (sum, size) = sum_of(path).await.ok()?;
    match engine.load_kept(sum, size).await {
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

    /// A folder with a plugin, what is seen of it, and its sum.
    async fn plugin(wasm: &[u8]) -> (tempfile::TempDir, PluginName, PluginFiles, [u8; 32]) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("p.wasm");
        std::fs::write(&path, wasm).expect("written");
        let found = scan(folder.path()).expect("readable").plugins;
        let (name, files) = found.into_iter().next().expect("a plugin");
        let (sum, _) = sum_of(&path).await.expect("readable");
        (folder, name, files, sum)
    }

    fn done() -> Vec<u8> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugin/tests/guests/done.wat");
        wat::parse_file(path).expect("a guest")
    }

    #[tokio::test]
    async fn code_is_there_before_its_file_is_loaded() {
        let engine = Engine::new(EngineOptions::default()).expect("an engine");
        let (_folder, name, files, sum) = plugin(&done()).await;
        let ahead = Ahead::default();
        assert!(ahead.take(&name, &files).is_none());
        ahead.begin(&engine, name.clone(), files.clone());
        let begun = ahead.take(&name, &files).expect("begun");
        let code = begun.code(sum).await.expect("known").expect("a plugin");
        assert_eq!(code.size(), done().len());
        assert_eq!(engine.compile_stats().compiled, 1);
        assert!(ahead.take(&name, &files).is_none(), "it is taken once");
        // A refusal is known ahead, too.
        let (_folder, name, files, sum) = plugin(b"no wasm").await;
        ahead.begin(&engine, name.clone(), files.clone());
        let refused = ahead.take(&name, &files).expect("begun").code(sum).await.expect("known").err();
        assert!(matches!(refused, Some(LoadError::NotWasm { .. })), "{refused:?}");
    }

    #[tokio::test]
    async fn what_was_begun_for_other_files_is_not_taken() {
        let engine = Engine::new(EngineOptions::default()).expect("an engine");
        let (folder, name, files, _) = plugin(&done()).await;
        let ahead = Ahead::default();
        ahead.begin(&engine, name.clone(), files.clone());
        std::fs::write(folder.path().join("p.wasm"), b"another size").expect("written");
        let found = scan(folder.path()).expect("readable").plugins;
        assert!(ahead.take(&name, &found[&name]).is_none());
        assert!(ahead.take(&name, &files).is_none(), "it was given up");
        // Files that look the same and are not: what counts is the sum of what is loaded.
        ahead.begin(&engine, name.clone(), found[&name].clone());
        let begun = ahead.take(&name, &found[&name]).expect("begun");
        assert!(begun.code([7; 32]).await.is_none());
    }

    #[tokio::test]
    async fn nothing_is_begun_while_compilers_are_busy() {
        let engine = Engine::new(EngineOptions::default()).expect("an engine");
        let (_folder, name, files, sum) = plugin(&done()).await;
        let ahead = Ahead::default();
        let mut places = Vec::new();
        while let Some(place) = engine.free_place() {
            places.push(place);
        }
        ahead.begin(&engine, name.clone(), files.clone());
        let begun = ahead.take(&name, &files).expect("tried");
        assert!(begun.code(sum).await.is_none());
        drop(places);
        ahead.begin(&engine, name.clone(), files.clone());
        let begun = ahead.take(&name, &files).expect("begun");
        assert!(begun.code(sum).await.expect("known").is_ok());
        // The place is free again when it has ended.
        assert!(engine.free_place().is_some());
    }

    #[tokio::test]
    async fn what_comes_next_has_the_place_of_what_is_given_up() {
        let engine = Engine::new(EngineOptions::default()).expect("an engine");
        let (_folder, name, files, sum) = plugin(&done()).await;
        let ahead = Ahead::default();
        let mut others = Vec::new();
        while let Some(place) = engine.free_place() {
            others.push(place);
        }
        others.pop();
        for _ in 0..5 {
            ahead.begin(&engine, name.clone(), files.clone());
            tokio::task::yield_now().await;
        }
        let begun = ahead.take(&name, &files).expect("begun");
        assert!(begun.code(sum).await.expect("known").is_ok());
        ahead.begin(&engine, name.clone(), files);
        tokio::task::yield_now().await;
        ahead.give_up(&name);
        // The only one that can come free.
        drop(engine.place().await);
    }
}
