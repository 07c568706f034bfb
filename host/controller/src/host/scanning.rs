//! Finds the files of plugins: scans the directory and the folder of another source, and watches the directory for changes.

use std::path::Path;
use std::sync::Arc;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecursiveMode, Watcher};
use parking_lot::Mutex;
use pilothouse_plugin::blocking;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{POLL_INTERVAL, PluginHost, ProvidedPlugins};
use crate::directory::{ScanPage, Writers, scan};

/// Notifications of the file system.
#[derive(Default)]
pub(super) struct DirectoryEvents {
    pub(super) changed: Notify,
    pub(super) writers: Mutex<Writers>,
}

impl PluginHost {
    /// Starts a watcher of the directory. Without one, the directory is only polled.
    pub(super) fn watch_directory(
        &self,
        events: &Arc<DirectoryEvents>,
    ) -> Option<notify::RecommendedWatcher> {
        let directory = &self.shared.options.plugins;
        // The new watcher has seen no write yet.
        *events.writers.lock() = Writers::default();
        if !self.shared.options.file_events {
            return None;
        }
        let events = Arc::clone(events);
        let on_event = move |event: notify::Result<notify::Event>| {
            events.writers.lock().observe(&event, Instant::now());
            if requires_scan(&event) {
                events.changed.notify_one();
            }
        };
        let watcher = notify::recommended_watcher(on_event)
            .and_then(|mut watcher| watcher.watch(directory, RecursiveMode::NonRecursive).map(|()| watcher));
        match watcher {
            Ok(watcher) => Some(watcher),
            Err(error) => {
                let seconds = POLL_INTERVAL.as_secs();
                tracing::warn!("cannot watch {}, polling it every {seconds} s: {error}", directory.display());
                None
            }
        }
    }

    /// Scans the directory; `None` if it cannot be read. Logs each problem once, not at every scan.
    pub(super) async fn scan(&self, logged_problems: &mut Vec<String>) -> Option<ScanPage> {
        let directory = self.shared.options.plugins.clone();
        let provided = self.shared.provided.get().cloned();
        let scanned = blocking::run(move || scan_all(&directory, provided.as_ref())).await.ok()?;
        let mut problems: Vec<String> = Vec::new();
        let found = match scanned {
            Ok((found, duplicates)) => {
                problems.extend(duplicates.iter().map(|name| duplicate(name)));
                problems.extend(found.refused.iter().map(ToString::to_string));
                self.shared.refused.write().clone_from(&found.refused);
                Some(found)
            }
            Err(problem) => {
                problems.push(problem);
                None
            }
        };
        for problem in problems.iter().filter(|problem| !logged_problems.contains(problem)) {
            tracing::error!("{problem}");
        }
        *logged_problems = problems;
        found
    }
}

/// Whether the directory may have changed. A scan causes access events itself, so those are ignored, except for the one that reports the end
/// of a write. An error means that events were missed.
fn requires_scan(event: &notify::Result<notify::Event>) -> bool {
    let closed = EventKind::Access(AccessKind::Close(AccessMode::Write));
    event.as_ref().map_or(true, |event| !event.kind.is_access() || event.kind == closed)
}

/// Scans the directory, and the folder of another source. Returns the names of the plugins that are in both, too. If either cannot be read, nothing
/// is returned but the reason, because the plugins of that one would be taken for removed.
fn scan_all(directory: &Path, provided: Option<&ProvidedPlugins>) -> Result<(ScanPage, Vec<String>), String> {
    let mut found =
        scan(directory).map_err(|error| unreadable("the plugins directory", directory, &error))?;
    let duplicates = match provided {
        Some(provided) => provided.add_to(&mut found).map_err(|error| {
            unreadable("the folder of plugins from registries", provided.folder(), &error)
        })?,
        None => Vec::new(),
    };
    Ok((found, duplicates))
}

fn duplicate(name: &str) -> String {
    format!(
        "the plugin {name} is in the plugins directory and comes from a registry, too; the file in the directory is run; remove one of them"
    )
}

fn unreadable(what: &str, directory: &Path, error: &std::io::Error) -> String {
    let remedy = match error.kind() {
        std::io::ErrorKind::NotFound => "create it again; its plugins continue to run meanwhile",
        _ => "check its permissions",
    };
    format!("{what} {} cannot be read: {error}; {remedy}", directory.display())
}

#[cfg(test)]
mod tests {
    use notify::Event;
    use notify::event::{CreateKind, ModifyKind, RenameMode};

    use super::*;

    #[test]
    fn the_scan_itself_does_not_cause_another_scan() {
        let event = |kind| Ok(Event::new(kind));
        assert!(!requires_scan(&event(EventKind::Access(AccessKind::Any))));
        assert!(requires_scan(&event(EventKind::Access(AccessKind::Close(AccessMode::Write)))));
        assert!(requires_scan(&event(EventKind::Create(CreateKind::File))));
        assert!(requires_scan(&event(EventKind::Modify(ModifyKind::Name(RenameMode::To)))));
        assert!(requires_scan(&Err(notify::Error::generic("overflow"))));
    }
}
