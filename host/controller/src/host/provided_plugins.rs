//! Plugins that something else than the operator's directory provides, such as a registry: a folder with their files, and what those wait for that
//! are not there.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::Notify;

use crate::directory::{ScanPage, scan};
use crate::lifecycle::{PluginState, PluginStatus};
use crate::name::PluginName;

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
    /// What the source has reported, by the plugin's name.
    reports: RwLock<BTreeMap<String, ProvidedReport>>,
    /// The plugins of the plugins directory; `None` before its first scan.
    directory: RwLock<Option<Arc<BTreeSet<String>>>>,
}

/// What a source knows of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProvidedReport {
    /// The digest of the artifact in the folder; "" if there is none.
    pub digest: String,
    /// Whether that artifact's signatures were verified.
    pub verification: Verification,
    /// Why the plugin could not be brought up to date.
    pub failure: Option<ProvidedFailure>,
}

/// Why a plugin may be loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Verification {
    /// There is no artifact yet.
    #[default]
    Pending,
    /// No policy says which signatures are needed.
    NoPolicy,
    /// The policy needs no signature.
    NoSignatureNeeded,
    /// It is signed; the text says by whom.
    Signed(String),
}

/// Why a source could not bring a plugin up to date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvidedFailure {
    /// The reason as one word, such as `Unreachable`.
    pub reason: &'static str,
    /// What is wrong, and what to do.
    pub message: String,
    /// Whether the signatures do not satisfy the policy.
    pub is_unverified: bool,
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

    /// Sets what the source knows of a plugin. The default is forgotten.
    pub fn set_report(&self, name: &str, report: ProvidedReport) {
        let mut reports = self.shared.reports.write();
        match report == ProvidedReport::default() {
            true => drop(reports.remove(name)),
            false => drop(reports.insert(name.to_owned(), report)),
        }
    }

    /// Returns what the source knows of a plugin.
    pub(super) fn report(&self, name: &str) -> ProvidedReport {
        self.shared.reports.read().get(name).cloned().unwrap_or_default()
    }

    /// Returns the plugins of the plugins directory; `None` before its first scan.
    pub(super) fn directory(&self) -> Option<Arc<BTreeSet<String>>> {
        self.shared.directory.read().clone()
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
    pub(super) fn add_to(&self, found: &mut ScanPage) -> io::Result<Vec<String>> {
        let provided = scan(&self.folder)?;
        self.set_directory(found);
        let mut duplicates = Vec::new();
        for (name, files) in provided.plugins {
            match found.plugins.entry(name) {
                Entry::Occupied(own) => duplicates.push(own.key().as_str().to_owned()),
                Entry::Vacant(free) => {
                    free.insert(files.of_source());
                }
            }
        }
        found.refused.extend(provided.refused);
        Ok(duplicates)
    }

    /// Remembers the plugins of the plugins directory.
    fn set_directory(&self, found: &ScanPage) {
        let mut directory = self.shared.directory.write();
        let names = || found.plugins.keys().map(PluginName::as_str);
        if !directory.as_ref().is_some_and(|known| known.iter().map(String::as_str).eq(names())) {
            *directory = Some(Arc::new(names().map(str::to_owned).collect()));
        }
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
    use crate::config::sidecar_location::SidecarLocation;
    use crate::directory::PluginFiles;

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
        assert_eq!(provided.directory(), None);
        assert_eq!(provided.add_to(&mut found).expect("readable"), ["a"]);
        assert_eq!(provided.directory(), Some(Arc::new(BTreeSet::from(["a".to_owned()]))));
        let folders: Vec<_> =
            found.plugins.values().map(|files| files.wasm.parent().expect("a folder")).collect();
        assert_eq!(folders, [directory.path(), folder.path()]);
        let places: Vec<_> = found.plugins.values().map(PluginFiles::sidecar_location).collect();
        assert_eq!(places, [SidecarLocation::File, SidecarLocation::Source]);
        drop(folder);
        assert!(
            provided.add_to(&mut found).is_err(),
            "its plugins must not stop while a volume is mounted again"
        );
    }

    #[test]
    fn a_report_is_kept_until_the_default_replaces_it() {
        let (_folder, provided) = provided();
        let report = ProvidedReport { digest: "sha256:1".to_owned(), ..ProvidedReport::default() };
        provided.set_report("p", report.clone());
        assert_eq!((provided.report("p"), provided.report("q")), (report, ProvidedReport::default()));
        provided.set_report("p", ProvidedReport::default());
        assert!(provided.shared.reports.read().is_empty());
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
