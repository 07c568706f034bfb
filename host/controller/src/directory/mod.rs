//! Finds plugin files, and decides when a change to one is complete enough to be loaded.
//!
//! [`Directory`] is a pure state machine: its inputs are the results of scans and the time, its outputs are [`Change`]s. A change takes
//! effect once the files have looked the same for the settling time, so that a file that is being written, or replaced by deleting and
//! creating it, is not loaded half-way. At the start, files that were last modified long before take effect at once.

pub(crate) mod plugin_file;
mod refused_file;
mod writers;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use pilothouse_plugin::CompiledPlugin;
use tokio::time::Instant;

use crate::config::sidecar_location::SidecarLocation;
use crate::name::PluginName;
pub(crate) use refused_file::RefusedFile;
pub(crate) use writers::Writers;

/// The minimum age of a file that takes effect at once at the start. Must exceed the resolution of modification times, which is two seconds
/// at worst.
const OLD_FILE_AGE: Duration = Duration::from_secs(5);

/// The short form of `yaml`, which is not the extension of sidecars.
const YML: &str = "yml";

/// Distinguishes states of a file without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileFingerprint {
    len: u64,
    modified: Option<SystemTime>,
    /// Device and inode. They differ when a symlink is changed to a file of the same size and time.
    identity: (u64, u64),
}

/// A plugin that is no file: its compiled code and the text of its sidecar.
#[derive(Clone, Debug)]
pub(crate) struct InMemoryFiles {
    pub(crate) code: CompiledPlugin,
    pub(crate) sidecar: Arc<str>,
    /// The descriptor that the code returns with the sidecar's configuration, if it is known.
    pub(crate) descriptor: Option<Arc<str>>,
}

impl PartialEq for InMemoryFiles {
    fn eq(&self, other: &Self) -> bool {
        self.code.digest() == other.code.digest() && self.sidecar == other.sidecar
    }
}

impl Eq for InMemoryFiles {}

/// A plugin's files, as a scan found them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PluginFiles {
    /// The .wasm file.
    pub wasm: PathBuf,
    /// The sidecar's path, whether it exists or not.
    pub sidecar: PathBuf,
    wasm_fingerprint: FileFingerprint,
    sidecar_fingerprint: Option<FileFingerprint>,
    /// A file with the extension `.yml`. It is not a sidecar, but its author probably meant it to be one.
    yml_fingerprint: Option<FileFingerprint>,
    /// What is loaded in place of the files; `None` for a plugin of the directory.
    in_memory: Option<InMemoryFiles>,
    place: SidecarLocation,
}

impl PluginFiles {
    /// A plugin that is no file. Its paths only name it in messages.
    pub(crate) fn in_memory(name: &PluginName, files: InMemoryFiles) -> Self {
        let len = files.code.size() as u64;
        Self {
            wasm: PathBuf::from(format!("{name}.wasm")),
            sidecar: PathBuf::from(format!("{name}.yaml")),
            wasm_fingerprint: FileFingerprint { len, modified: None, identity: (0, 0) },
            sidecar_fingerprint: None,
            yml_fingerprint: None,
            in_memory: Some(files),
            place: SidecarLocation::File,
        }
    }

    /// The same files, whose sidecar the host has written.
    pub(crate) fn of_source(self) -> Self {
        Self { place: SidecarLocation::Source, ..self }
    }

    /// Where the operator writes the sidecar.
    pub(crate) fn sidecar_location(&self) -> SidecarLocation {
        self.place
    }

    /// What is loaded in place of the files; `None` for a plugin of the directory.
    pub(crate) fn as_in_memory(&self) -> Option<&InMemoryFiles> {
        self.in_memory.as_ref()
    }

    /// Files that do not exist.
    #[cfg(test)]
    pub(crate) fn for_test() -> Self {
        let wasm_fingerprint = FileFingerprint { len: 0, modified: None, identity: (0, 0) };
        Self {
            wasm: PathBuf::from("test.wasm"),
            sidecar: PathBuf::from("test.yaml"),
            wasm_fingerprint,
            sidecar_fingerprint: None,
            yml_fingerprint: None,
            in_memory: None,
            place: SidecarLocation::File,
        }
    }

    /// Whether the .wasm file is another one than that of `other`.
    pub(crate) fn has_other_code_than(&self, other: Option<&Self>) -> bool {
        let digest = |files: &Self| files.in_memory.as_ref().map(|files| files.code.digest().to_owned());
        other.is_none_or(|other| {
            self.wasm_fingerprint != other.wasm_fingerprint || digest(self) != digest(other)
        })
    }

    /// Whether none of the files was modified recently.
    fn are_old(&self, now: SystemTime) -> bool {
        let is_old = |fingerprint: &FileFingerprint| {
            let age = fingerprint.modified.and_then(|modified| now.duration_since(modified).ok());
            age.is_some_and(|age| age >= OLD_FILE_AGE)
        };
        is_old(&self.wasm_fingerprint) && self.sidecar_fingerprint.as_ref().is_none_or(is_old)
    }

    /// Whether the files still look as they did at the scan.
    pub(crate) fn are_current(&self) -> bool {
        self.in_memory.is_some()
            || fingerprint(&self.wasm).as_ref() == Some(&self.wasm_fingerprint) && self.has_current_sidecar()
    }

    /// Whether the sidecar still looks as it did at the scan.
    pub(crate) fn has_current_sidecar(&self) -> bool {
        self.in_memory.is_some() || fingerprint(&self.sidecar) == self.sidecar_fingerprint
    }

    /// Returns the path of the file with the extension `.yml` instead of `.yaml`, if there is one.
    pub(crate) fn yml_sidecar(&self) -> Option<PathBuf> {
        self.yml_fingerprint.map(|_| self.wasm.with_extension(YML))
    }
}

/// The result of a scan of the directory.
#[derive(Debug, Default)]
pub(crate) struct ScanPage {
    /// The plugins by name.
    pub plugins: BTreeMap<PluginName, PluginFiles>,
    /// .wasm files that cannot be plugins.
    pub refused: Vec<RefusedFile>,
    /// Device and inode of the directory, which may have been replaced by another.
    pub folder: (u64, u64),
}

/// Scans the directory.
///
/// # Errors
/// The directory cannot be read. An absent directory is an error, too, because its plugins must not stop while a volume is remounted.
pub(crate) fn scan(directory: &Path) -> io::Result<ScanPage> {
    let folder = identity(&std::fs::metadata(directory)?);
    let mut scan = ScanPage { folder, ..ScanPage::default() };
    for entry in std::fs::read_dir(directory)? {
        let wasm = entry?.path();
        let hidden = wasm.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if hidden || wasm.extension().is_none_or(|extension| extension != "wasm") {
            continue;
        }
        let Some(wasm_fingerprint) = fingerprint(&wasm) else {
            // A file that was deleted after it was listed is absent, and a link that leads nowhere is reported.
            scan.refused.extend(RefusedFile::dangling_link(&wasm));
            continue;
        };
        let sidecar = wasm.with_extension("yaml");
        let yml_fingerprint = fingerprint(&wasm.with_extension(YML));
        let sidecar_fingerprint = fingerprint(&sidecar);
        match PluginName::of_file(&wasm) {
            Ok(name) => {
                let files = PluginFiles {
                    wasm,
                    sidecar,
                    wasm_fingerprint,
                    sidecar_fingerprint,
                    yml_fingerprint,
                    in_memory: None,
                    place: SidecarLocation::File,
                };
                scan.plugins.insert(name, files);
            }
            Err(error) => scan.refused.push(error.into()),
        }
    }
    Ok(scan)
}

/// Returns the fingerprint of a file; `None` if there is none, or a directory. Pipes, sockets and devices are included, so that loading the plugin
/// reports that it does not read them.
fn fingerprint(path: &Path) -> Option<FileFingerprint> {
    let metadata = std::fs::metadata(path).ok().filter(|metadata| !metadata.is_dir())?;
    Some(FileFingerprint {
        len: metadata.len(),
        modified: metadata.modified().ok(),
        identity: identity(&metadata),
    })
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
    /// The .wasm file is new or changed, but has not settled: compile it speculatively. Followed by any of these.
    StartCompile(PluginName, PluginFiles),
    /// The files are again those that were last loaded: cancel the speculative compilation.
    CancelCompile(PluginName),
    /// The files are new or changed, and have settled.
    Load(PluginName, PluginFiles),
    /// The .wasm file was removed.
    Remove(PluginName),
}

/// The state machine that decides when files are loaded.
#[derive(Debug)]
pub(crate) struct Directory {
    settle: Duration,
    /// Whether the first scan has been processed.
    has_started: bool,
    /// The files of the last [`Change::Load`] of each plugin.
    loaded: BTreeMap<PluginName, PluginFiles>,
    unsettled: BTreeMap<PluginName, UnsettledFiles>,
}

/// Files that differ from those that were last loaded.
#[derive(Debug)]
struct UnsettledFiles {
    /// `None` if the .wasm file is absent.
    files: Option<PluginFiles>,
    /// Since when the files have been in this state.
    since: Instant,
    /// The files of the last [`Change::StartCompile`].
    compiling: Option<PluginFiles>,
}

impl Directory {
    /// Creates a state machine without plugins.
    #[must_use]
    pub(crate) fn new(settle: Duration) -> Self {
        Self { settle, has_started: false, loaded: BTreeMap::new(), unsettled: BTreeMap::new() }
    }

    /// Marks the old files of the first scan as settled. Called before each [`observe`](Self::observe); does nothing after the first time.
    pub(crate) fn settle_old_files(
        &mut self,
        found: &BTreeMap<PluginName, PluginFiles>,
        wall_clock: SystemTime,
        now: Instant,
    ) {
        let Some(since) = now.checked_sub(self.settle).filter(|_| !self.has_started) else { return };
        self.has_started = true;
        let old = found.iter().filter(|(_, files)| files.are_old(wall_clock));
        let settled =
            |files: &PluginFiles| UnsettledFiles { files: Some(files.clone()), since, compiling: None };
        self.unsettled.extend(old.map(|(name, files)| (name.clone(), settled(files))));
    }

    /// Whether some files will settle if they do not change any more. Does not count files that are still being written, because their
    /// writer may never end.
    pub(crate) fn is_settling(&self, now: Instant) -> bool {
        self.unsettled.values().any(|unsettled| now.duration_since(unsettled.since) < self.settle)
    }

    /// Processes the result of a scan, and returns what to do. `writers` tells which files are still being written.
    pub(crate) fn observe(
        &mut self,
        found: &BTreeMap<PluginName, PluginFiles>,
        writers: &Writers,
        now: Instant,
    ) -> Vec<Change> {
        let names: Vec<_> =
            found.keys().chain(self.loaded.keys()).chain(self.unsettled.keys()).cloned().collect();
        let mut changes = Vec::new();
        for name in names {
            let current = found.get(&name);
            let loaded = self.loaded.get(&name);
            if current == loaded {
                if self.unsettled.remove(&name).is_some_and(|unsettled| unsettled.compiling.is_some()) {
                    changes.push(Change::CancelCompile(name));
                }
                continue;
            }
            let new = UnsettledFiles { files: current.cloned(), since: now, compiling: None };
            let unsettled = self.unsettled.entry(name.clone()).or_insert(new);
            if unsettled.files.as_ref() != current {
                (unsettled.files, unsettled.since) = (current.cloned(), now);
            }
            let is_being_written = |files: &PluginFiles| {
                writers.is_writing(&files.wasm, now) || writers.is_writing(&files.sidecar, now)
            };
            if current.is_some_and(is_being_written) {
                continue;
            }
            if now.duration_since(unsettled.since) < self.settle {
                let has_new_code = |files: &PluginFiles| {
                    files.has_other_code_than(loaded) && unsettled.compiling.as_ref() != Some(files)
                };
                if current.is_some_and(has_new_code) {
                    unsettled.compiling = current.cloned();
                    changes.extend(current.map(|files| Change::StartCompile(name, files.clone())));
                }
                continue;
            }
            self.unsettled.remove(&name);
            match current {
                Some(files) => {
                    self.loaded.insert(name.clone(), files.clone());
                    changes.push(Change::Load(name, files.clone()));
                }
                None => {
                    self.loaded.remove(&name);
                    changes.push(Change::Remove(name));
                }
            }
        }
        changes
    }

    /// Returns when the next files will have settled, if they do not change again. For files that are still being written, returns one
    /// settling time from now. `None` if all files have settled.
    #[must_use]
    pub(crate) fn next_scan(&self, now: Instant) -> Option<Instant> {
        let due = self.unsettled.values().map(|unsettled| unsettled.since + self.settle);
        due.map(|due| if due > now { due } else { now + self.settle }).min()
    }
}

#[cfg(test)]
mod tests;
