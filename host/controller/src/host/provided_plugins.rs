//! Plugins that something else than the operator's directory provides, such as a registry: a folder with their files, and what those wait for that
//! are not there.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use crate::directory::{ScanPage, scan};
use crate::environment::WallClock;
use crate::lifecycle::{LifecycleMetrics, PluginOrigin, PluginState, PluginStatus};
use crate::name::PluginName;
use crate::timestamp::rfc_3339;

/// A folder that another source of plugins maintains. Cheap to clone.
///
/// A file in it appears and changes by a rename, so that it is whole at any time.
#[derive(Clone, Debug, Default)]
pub struct ProvidedPlugins {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Not set while the source cannot use it.
    folder: OnceLock<PathBuf>,
    changed: Notify,
    /// What is wrong, by the plugin's name.
    problems: RwLock<BTreeMap<String, String>>,
    /// What the source has reported, by the plugin's name.
    reports: RwLock<BTreeMap<String, ReceivedReport>>,
    clock: WallClock,
    /// The last new version of each plugin that the host has not reported yet.
    updates: Mutex<BTreeMap<String, String>>,
    /// The plugins without a task whose state is exposed as a metric.
    exposed: Mutex<BTreeSet<String>>,
    /// The plugins of the plugins directory; `None` before its first scan.
    directory: RwLock<Option<Arc<BTreeSet<String>>>>,
}

/// What a source knows of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProvidedReport {
    /// The reference from which the plugin is pulled, with `oci://`.
    pub image: String,
    /// The digest of the artifact in the folder; "" if there is none.
    pub digest: String,
    /// Whether that artifact's signatures were verified.
    pub verification: Verification,
    /// Why the plugin could not be brought up to date.
    pub failure: Option<ProvidedFailure>,
    /// Whether the source has just found the plugin up to date, or brought it up to date.
    pub is_current: bool,
}

/// The last report about a plugin.
#[derive(Debug)]
struct ReceivedReport {
    report: ProvidedReport,
    /// When the source found the plugin up to date the last time.
    checked_at: Option<Timestamp>,
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

impl ReceivedReport {
    fn origin(&self) -> PluginOrigin {
        let ProvidedReport { image, digest, verification, .. } = &self.report;
        let decision = match verification {
            Verification::Pending => "",
            Verification::NoPolicy => "no policy",
            Verification::NoSignatureNeeded => "the policy needs no signature",
            Verification::Signed(by) => by,
        };
        PluginOrigin {
            image: image.clone(),
            digest: digest.clone(),
            decision: decision.to_owned(),
            checked_at: self.checked_at.map(rfc_3339),
        }
    }
}

impl ProvidedPlugins {
    /// Creates a source without problems, whose folder is not known yet.
    #[must_use]
    pub fn new() -> Self {
        Self { shared: Arc::default() }
    }

    /// Sets the folder with the plugins, and has the host scan it. Only the first call has an effect.
    pub fn set_folder(&self, folder: PathBuf) {
        let _ = self.shared.folder.set(folder);
        self.notify_changed();
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
        let previous = reports.remove(name);
        if report == ProvidedReport::default() {
            return;
        }
        let checked_at = match report.is_current {
            true => Some(self.shared.clock.now()),
            // The last time is that of the same reference.
            false => previous
                .filter(|previous| previous.report.image == report.image)
                .and_then(|previous| previous.checked_at),
        };
        reports.insert(name.to_owned(), ReceivedReport { report, checked_at });
    }

    /// Reports that the folder has a new version of a plugin, for the reason in the text.
    pub fn set_updated(&self, name: &str, text: String) {
        self.shared.updates.lock().insert(name.to_owned(), text);
        self.notify_changed();
    }

    /// Returns the new versions since the last call, by the plugin's name.
    pub(super) fn take_updates(&self) -> BTreeMap<String, String> {
        std::mem::take(&mut self.shared.updates.lock())
    }

    /// Exposes the state of the plugins that wait for their files. A plugin that `has_task` exposes its state itself.
    pub(super) fn expose_states(&self, metrics: &LifecycleMetrics, has_task: impl Fn(&str) -> bool) {
        let waiting: BTreeSet<_> = self.problems().into_keys().filter(|name| !has_task(name)).collect();
        let mut exposed = self.shared.exposed.lock();
        for name in waiting.difference(&exposed) {
            metrics.for_name(&Arc::from(name.as_str())).enter(PluginState::Waiting);
        }
        for name in exposed.difference(&waiting).filter(|name| !has_task(name)) {
            metrics.forget(&Arc::from(name.as_str()));
        }
        *exposed = waiting;
    }

    /// Returns what the source knows of a plugin.
    pub(super) fn report(&self, name: &str) -> ProvidedReport {
        self.shared.reports.read().get(name).map(|received| received.report.clone()).unwrap_or_default()
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
        let Some(folder) = self.shared.folder.get() else {
            self.set_directory(found);
            return Ok(Vec::new());
        };
        let provided = scan(folder)?;
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

    /// Adds to the plugins' status what they are made of. A plugin of the directory is not the one of the source.
    pub(super) fn add_origins(&self, status: &mut [PluginStatus]) {
        let directory = self.directory();
        let is_of_directory = |name: &str| directory.as_ref().is_some_and(|names| names.contains(name));
        let reports = self.shared.reports.read();
        for shown in status.iter_mut().filter(|shown| !is_of_directory(&shown.name)) {
            shown.source = reports.get(&shown.name).map(ReceivedReport::origin);
        }
    }

    /// Returns what a plugin is made of; `None` for one of the directory, and for one that the source does not know.
    pub(super) fn origin(&self, name: &str) -> Option<PluginOrigin> {
        if self.directory().is_some_and(|names| names.contains(name)) {
            return None;
        }
        self.shared.reports.read().get(name).map(ReceivedReport::origin)
    }

    /// Adds the problems to the plugins' status, after the error that a plugin has itself. A plugin without a status waits.
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
            } else if !shown.error.contains(problem.as_str()) {
                shown.error = format!("{}; {problem}", shown.error);
            }
        }
    }

    /// Whether something is wrong with a plugin.
    pub(super) fn has_problem(&self, name: &str) -> bool {
        self.shared.problems.read().contains_key(name)
    }

    /// Returns what is wrong, by the plugin's name.
    pub(super) fn problems(&self) -> BTreeMap<String, String> {
        self.shared.problems.read().clone()
    }

    /// Returns the folder with the plugins; an empty path while it is not known.
    pub(super) fn folder(&self) -> &Path {
        self.shared.folder.get().map_or(Path::new(""), PathBuf::as_path)
    }
}

fn waiting(name: &str, problem: &str) -> PluginStatus {
    PluginStatus { state: PluginState::Waiting, ..PluginStatus::refused(name, &problem) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::sidecar_location::SidecarLocation;
    use crate::directory::PluginFiles;

    fn provided() -> (tempfile::TempDir, ProvidedPlugins) {
        let folder = tempfile::tempdir().expect("a folder");
        let provided = ProvidedPlugins::new();
        provided.set_folder(folder.path().to_owned());
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
    fn without_a_folder_the_plugins_of_the_directory_are_found() {
        let (directory, provided) = (tempfile::tempdir().expect("a folder"), ProvidedPlugins::new());
        std::fs::write(directory.path().join("a.wasm"), "a").expect("written");
        let mut found = scan(directory.path()).expect("a scan");
        assert_eq!(provided.add_to(&mut found).expect("no problem"), Vec::<String>::new());
        assert_eq!(found.plugins.len(), 1);
        assert_eq!(provided.directory(), Some(Arc::new(BTreeSet::from(["a".to_owned()]))));
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
    fn the_status_has_what_a_plugin_is_made_of_unless_the_directory_has_one_of_its_name() {
        let provided = ProvidedPlugins::new();
        let report = ProvidedReport {
            image: "r.example/team/p:1".to_owned(),
            digest: "sha256:1".to_owned(),
            verification: Verification::Signed("signed by ci".to_owned()),
            failure: None,
            is_current: false,
        };
        for name in ["p", "own"] {
            provided.set_report(name, report.clone());
        }
        *provided.shared.directory.write() = Some(Arc::new(BTreeSet::from(["own".to_owned()])));
        let mut status = ["p", "own", "other"].map(|name| PluginStatus::refused(name, &""));
        provided.add_origins(&mut status);
        let [p, own, other] = status.map(|status| status.source.map(|origin| origin.to_string()));
        assert_eq!(p.as_deref(), Some("r.example/team/p:1 (sha256:1): signed by ci"));
        assert_eq!((own, other), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_the_last_check_stays_while_checks_fail() {
        let clock = WallClock::starting_at(Timestamp::UNIX_EPOCH);
        let provided = ProvidedPlugins { shared: Arc::new(Shared { clock, ..Shared::default() }) };
        let report = |image: &str, is_current| {
            let report = ProvidedReport { image: image.to_owned(), is_current, ..ProvidedReport::default() };
            provided.set_report("p", report);
            provided.origin("p").expect("a source").checked_at
        };
        assert_eq!(report("r.example/p:1", false), None, "it was not checked yet");
        assert_eq!(report("r.example/p:1", true).as_deref(), Some("1970-01-01T00:00:00Z"));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(report("r.example/p:1", false).as_deref(), Some("1970-01-01T00:00:00Z"));
        assert_eq!(report("r.example/p:1", true).as_deref(), Some("1970-01-01T00:01:00Z"));
        assert_eq!(report("r.example/p:2", false), None, "another reference was not checked yet");
        assert_eq!(provided.origin("q"), None);
    }

    #[test]
    fn a_plugin_without_a_task_has_the_metric_of_the_state_waiting() {
        let mut registry = prometheus_client::registry::Registry::default();
        let (metrics, provided) = (LifecycleMetrics::register(&mut registry), ProvidedPlugins::new());
        for name in ["absent", "running"] {
            provided.set_problem(name, Some("the registry is gone".to_owned()));
        }
        let encoded = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).expect("encoded");
            text
        };
        let series = |text: &str, plugin: &str, state: &str| {
            let labels =
                format!("plugin_state{{controller=\"{plugin}\",plugin=\"{plugin}\",state=\"{state}\"}}");
            text.lines().find_map(|line| line.split_once(&labels)).map(|(_, value)| value.trim().to_owned())
        };
        provided.expose_states(&metrics, |name| name == "running");
        let text = encoded();
        assert_eq!(series(&text, "absent", "waiting").as_deref(), Some("1"));
        assert_eq!(series(&text, "absent", "running").as_deref(), Some("0"));
        assert_eq!(series(&text, "running", "waiting"), None);

        // Its file has arrived, and its task exposes the state from now on.
        metrics.for_name(&Arc::from("absent")).enter(PluginState::Running);
        provided.expose_states(&metrics, |_| true);
        assert_eq!(series(&encoded(), "absent", "running").as_deref(), Some("1"));

        provided.set_problem("gone", Some("the registry is gone".to_owned()));
        provided.expose_states(&metrics, |name| name != "gone");
        provided.set_problem("gone", None);
        provided.expose_states(&metrics, |name| name != "gone");
        assert_eq!(series(&encoded(), "gone", "waiting"), None);
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
            running("g", "it waits; the registry is gone", false),
        ];
        for name in ["a", "b", "c", "e", "g"] {
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
                ("b", PluginState::Running, "own; the registry is gone"),
                ("c", PluginState::Waiting, problem),
                ("d", PluginState::Running, ""),
                ("g", PluginState::Running, "it waits; the registry is gone"),
                ("e", PluginState::Waiting, problem),
            ]
        );
    }
}
