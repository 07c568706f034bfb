//! Plugins that something else than the operator's directory provides, such as a registry: a folder with their files, and what those wait for that
//! are not there.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::Notify;

use crate::directory::{Scan, scan};
use crate::lifecycle::{PluginState, PluginStatus};

/// A folder that another source of plugins maintains. Cheap to clone.
///
/// A file in it appears and changes by a rename, so that it is whole at any time.
#[derive(Clone, Debug)]
pub struct ProvidedPlugins {
    folder: PathBuf,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    changed: Notify,
    /// What is wrong, by the plugin's name.
    problems: RwLock<BTreeMap<String, String>>,
}

impl ProvidedPlugins {
    /// Creates a source without problems.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, shared: Arc::default() }
    }

    /// Has the host scan the folder.
    pub fn notify_changed(&self) {
        self.shared.changed.notify_one();
    }

    /// Sets what is wrong with a plugin, and what to do; `None` if nothing is. A plugin without a file waits for it. Returns whether that has
    /// changed.
    pub fn set_problem(&self, name: &str, problem: Option<String>) -> bool {
        let mut problems = self.shared.problems.write();
        let has_changed = problems.get(name) != problem.as_ref();
        match problem {
            Some(problem) => problems.insert(name.to_owned(), problem),
            None => problems.remove(name),
        };
        has_changed
    }

    /// Waits until the folder may have changed.
    pub(super) async fn changed(&self) {
        self.shared.changed.notified().await;
    }

    /// Adds the plugins of the folder to those of the plugins directory. One that is in both is that of the directory, and its other file is a
    /// problem. Returns the names of those.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(super) fn add_to(&self, found: &mut Scan) -> io::Result<Vec<String>> {
        let provided = scan(&self.folder)?;
        let mut duplicates = Vec::new();
        for (name, files) in provided.plugins {
            match found.plugins.entry(name) {
                Entry::Occupied(own) => duplicates.push(own.key().as_str().to_owned()),
                Entry::Vacant(free) => {
                    free.insert(files);
                }
            }
        }
        found.refused.extend(provided.refused);
        Ok(duplicates)
    }

    /// Adds the problems to the plugins' status. A plugin with an error of its own keeps that; one without a status waits.
    pub(super) fn add_problems(&self, status: &mut Vec<PluginStatus>) {
        for (name, problem) in &*self.shared.problems.read() {
            let Some(at) = status.iter().position(|status| status.name == *name) else {
                status.push(waiting(name, problem));
                continue;
            };
            let shown = &mut status[at];
            if shown.removed {
                *shown = waiting(name, problem);
            } else if shown.error.is_empty() {
                shown.error.clone_from(problem);
            }
        }
    }

    /// Returns what is wrong, by the plugin's name.
    pub(super) fn problems(&self) -> BTreeMap<String, String> {
        self.shared.problems.read().clone()
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

fn waiting(name: &str, problem: &str) -> PluginStatus {
    PluginStatus { state: PluginState::Waiting, ..PluginStatus::refused(name, &problem) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provided() -> (tempfile::TempDir, ProvidedPlugins) {
        let folder = tempfile::tempdir().expect("a folder");
        let provided = ProvidedPlugins::new(folder.path().to_owned());
        (folder, provided)
    }

    #[test]
    fn a_plugin_in_both_places_is_that_of_the_directory() {
        let (folder, provided) = provided();
        let directory = tempfile::tempdir().expect("a folder");
        for (place, name) in [(&directory, "a"), (&folder, "a"), (&folder, "b")] {
            std::fs::write(place.path().join(format!("{name}.wasm")), name).expect("written");
        }
        let mut found = scan(directory.path()).expect("a scan");
        assert_eq!(provided.add_to(&mut found).expect("readable"), ["a"]);
        let folders: Vec<_> =
            found.plugins.values().map(|files| files.wasm.parent().expect("a folder")).collect();
        assert_eq!(folders, [directory.path(), folder.path()]);
        drop(folder);
        assert!(
            provided.add_to(&mut found).is_err(),
            "its plugins must not stop while a volume is mounted again"
        );
    }

    #[test]
    fn a_plugin_without_a_file_waits_and_a_running_one_shows_the_problem() {
        let (_folder, provided) = provided();
        let running = |name: &str, error: &str, removed: bool| PluginStatus {
            state: PluginState::Running,
            removed,
            ..PluginStatus::refused(name, &error)
        };
        let mut status = vec![
            running("a", "", false),
            running("b", "own", false),
            running("c", "", true),
            running("d", "", false),
        ];
        for name in ["a", "b", "c", "e"] {
            provided.set_problem(name, Some("the registry is gone".to_owned()));
        }
        assert!(provided.set_problem("f", Some("x".to_owned())));
        assert!(!provided.set_problem("f", Some("x".to_owned())));
        assert!(provided.set_problem("f", None));
        provided.add_problems(&mut status);
        let shown: Vec<_> =
            status.iter().map(|status| (status.name.as_str(), status.state, status.error.as_str())).collect();
        let problem = "the registry is gone";
        assert_eq!(
            shown,
            [
                ("a", PluginState::Running, problem),
                ("b", PluginState::Running, "own"),
                ("c", PluginState::Waiting, problem),
                ("d", PluginState::Running, ""),
                ("e", PluginState::Waiting, problem),
            ]
        );
    }
}
