//! Which plugin files there are, and when a change to one is complete enough to be loaded.
//!
//! [`Directory`] is a pure machine: it is shown what a scan found and what time it is, and answers what to do. A file
//! counts once it has looked the same for the settling time, so that one that is being written, or replaced by
//! remove-and-create, is not taken half way. At the start, files that were last changed long before count at once.

pub(crate) mod plugin_file;
mod writers;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use crate::name::{NameError, PluginName};
pub(crate) use writers::Writers;

/// So long ago a file must have been changed that is not watched any more at the start. File systems round times to two seconds at worst.
const LONG_AGO: Duration = Duration::from_secs(5);

/// What people write for `yaml`.
const SHORT: &str = "yml";

/// What tells one state of a file from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    len: u64,
    modified: Option<SystemTime>,
    /// Device and inode, which change when a symlink is swapped to a file of the same size and time.
    identity: (u64, u64),
}

/// A plugin's files, as a scan found them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PluginFiles {
    /// The .wasm file.
    pub wasm: PathBuf,
    /// The sidecar's path, whether it exists or not.
    pub sidecar: PathBuf,
    wasm_stamp: Stamp,
    sidecar_stamp: Option<Stamp>,
    /// A file that looks like the sidecar and is not, by its ending: whoever wrote it means something that would not count.
    short: Option<Stamp>,
}

impl PluginFiles {
    /// Files that nobody looks at.
    #[cfg(test)]
    pub(crate) fn for_test() -> Self {
        let wasm_stamp = Stamp { len: 0, modified: None, identity: (0, 0) };
        Self {
            wasm: PathBuf::from("test.wasm"),
            sidecar: PathBuf::from("test.yaml"),
            wasm_stamp,
            sidecar_stamp: None,
            short: None,
        }
    }

    fn has_other_code_than(&self, other: Option<&Self>) -> bool {
        other.is_none_or(|other| self.wasm_stamp != other.wasm_stamp)
    }

    /// Whether nothing of them was changed lately.
    fn are_old(&self, now: SystemTime) -> bool {
        let is_old = |stamp: &Stamp| {
            let age = stamp.modified.and_then(|modified| now.duration_since(modified).ok());
            age.is_some_and(|age| age >= LONG_AGO)
        };
        is_old(&self.wasm_stamp) && self.sidecar_stamp.as_ref().is_none_or(is_old)
    }

    /// Whether the files still look as they did at the scan.
    pub(crate) fn are_current(&self) -> bool {
        stamp(&self.wasm).as_ref() == Some(&self.wasm_stamp) && self.has_current_sidecar()
    }

    /// Whether the sidecar still looks as it did at the scan.
    pub(crate) fn has_current_sidecar(&self) -> bool {
        stamp(&self.sidecar) == self.sidecar_stamp
    }

    /// The file beside the plugin that has `.yml` for `.yaml`, where there is one.
    pub(crate) fn short_sidecar(&self) -> Option<PathBuf> {
        self.short.map(|_| self.wasm.with_extension(SHORT))
    }
}

/// What a scan of the directory found.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// The plugins by name.
    pub plugins: BTreeMap<PluginName, PluginFiles>,
    /// Files that end in .wasm but cannot name a plugin.
    pub refused: Vec<NameError>,
    /// Which directory it was: another may have been put in its place.
    pub folder: (u64, u64),
}

/// Reads the directory.
///
/// # Errors
/// The directory cannot be read. An absent one is an error, too: its plugins must not stop because a volume is
/// mounted anew.
pub(crate) fn scan(directory: &Path) -> io::Result<Scan> {
    let folder = identity(&std::fs::metadata(directory)?);
    let mut scan = Scan { folder, ..Scan::default() };
    for entry in std::fs::read_dir(directory)? {
        let wasm = entry?.path();
        let hidden = wasm.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if hidden || wasm.extension().is_none_or(|extension| extension != "wasm") {
            continue;
        }
        // A file that vanishes between the listing and the look, or a dangling symlink, is no file.
        let Some(wasm_stamp) = stamp(&wasm) else { continue };
        let sidecar = wasm.with_extension("yaml");
        let short = stamp(&wasm.with_extension(SHORT));
        let sidecar_stamp = stamp(&sidecar);
        match PluginName::of_file(&wasm) {
            Ok(name) => {
                scan.plugins.insert(name, PluginFiles { wasm, sidecar, wasm_stamp, sidecar_stamp, short });
            }
            Err(error) => scan.refused.push(error),
        }
    }
    Ok(scan)
}

/// What is there, except folders. A pipe, a socket or a device is seen as well, so that its plugin can say that it is not read.
fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = std::fs::metadata(path).ok().filter(|metadata| !metadata.is_dir())?;
    Some(Stamp { len: metadata.len(), modified: metadata.modified().ok(), identity: identity(&metadata) })
}

#[cfg(unix)]
fn identity(metadata: &std::fs::Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn identity(_: &std::fs::Metadata) -> (u64, u64) {
    (0, 0)
}

/// What to do about a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Its .wasm is new or changed and may change again. One of the others follows, or this once more.
    Coming(PluginName, PluginFiles),
    /// Its files are again what they were.
    NotComing(PluginName),
    /// Its files are new or changed, and have settled.
    Load(PluginName, PluginFiles),
    /// Its file is gone.
    Remove(PluginName),
}

/// The machine. `None` stands for an absent file.
#[derive(Debug)]
pub(crate) struct Directory {
    settle: Duration,
    has_begun: bool,
    /// What was last acted on.
    known: BTreeMap<PluginName, PluginFiles>,
    unsettled: BTreeMap<PluginName, Unsettled>,
}

/// What looks different.
#[derive(Debug)]
struct Unsettled {
    files: Option<PluginFiles>,
    /// Since when it has looked that way.
    since: Instant,
    /// What was last said to be coming.
    coming: Option<PluginFiles>,
}

impl Directory {
    /// A machine that knows no plugin yet.
    #[must_use]
    pub(crate) fn new(settle: Duration) -> Self {
        Self { settle, has_begun: false, known: BTreeMap::new(), unsettled: BTreeMap::new() }
    }

    /// Before a look. The old files that the first one will find have settled; for later ones this does nothing.
    pub(crate) fn begin(
        &mut self,
        found: &BTreeMap<PluginName, PluginFiles>,
        wall_clock: SystemTime,
        now: Instant,
    ) {
        let Some(since) = now.checked_sub(self.settle).filter(|_| !self.has_begun) else { return };
        self.has_begun = true;
        let old = found.iter().filter(|(_, files)| files.are_old(wall_clock));
        let settled = |files: &PluginFiles| Unsettled { files: Some(files.clone()), since, coming: None };
        self.unsettled.extend(old.map(|(name, files)| (name.clone(), settled(files))));
    }

    /// Whether time alone lets something settle. What waits for its writer does not count: that may be for ever.
    pub(crate) fn is_settling(&self, now: Instant) -> bool {
        self.unsettled.values().any(|unsettled| now.duration_since(unsettled.since) < self.settle)
    }

    /// Takes in what a scan found and who still writes, and answers what has settled.
    pub(crate) fn observe(
        &mut self,
        found: &BTreeMap<PluginName, PluginFiles>,
        writers: &Writers,
        now: Instant,
    ) -> Vec<Change> {
        let names: Vec<_> =
            found.keys().chain(self.known.keys()).chain(self.unsettled.keys()).cloned().collect();
        let mut changes = Vec::new();
        for name in names {
            let seen = found.get(&name);
            let known = self.known.get(&name);
            if seen == known {
                if self.unsettled.remove(&name).is_some_and(|unsettled| unsettled.coming.is_some()) {
                    changes.push(Change::NotComing(name));
                }
                continue;
            }
            let new = Unsettled { files: seen.cloned(), since: now, coming: None };
            let unsettled = self.unsettled.entry(name.clone()).or_insert(new);
            if unsettled.files.as_ref() != seen {
                (unsettled.files, unsettled.since) = (seen.cloned(), now);
            }
            let is_written =
                |files: &PluginFiles| writers.has(&files.wasm, now) || writers.has(&files.sidecar, now);
            if seen.is_some_and(is_written) {
                continue;
            }
            if now.duration_since(unsettled.since) < self.settle {
                let is_coming = |files: &PluginFiles| {
                    files.has_other_code_than(known) && unsettled.coming.as_ref() != Some(files)
                };
                if seen.is_some_and(is_coming) {
                    unsettled.coming = seen.cloned();
                    changes.extend(seen.map(|files| Change::Coming(name, files.clone())));
                }
                continue;
            }
            self.unsettled.remove(&name);
            match seen {
                Some(files) => {
                    self.known.insert(name.clone(), files.clone());
                    changes.push(Change::Load(name, files.clone()));
                }
                None => {
                    self.known.remove(&name);
                    changes.push(Change::Remove(name));
                }
            }
        }
        changes
    }

    /// When something that now looks different will have settled, if it does not change again; what is only waiting for
    /// its writer is looked at as often.
    #[must_use]
    pub(crate) fn next_look(&self, now: Instant) -> Option<Instant> {
        let due = self.unsettled.values().map(|unsettled| unsettled.since + self.settle);
        due.map(|due| if due > now { due } else { now + self.settle }).min()
    }
}

#[cfg(test)]
mod tests;
