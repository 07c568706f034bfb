//! Which plugin files there are, and when a change to one is complete enough to be loaded.
//!
//! [`Directory`] is a pure machine: it is shown what a scan found and what time it is, and answers what to do. A file
//! counts once it has looked the same for the settling time, so that one that is being written, or replaced by
//! remove-and-create, is not taken half way.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use crate::name::{NameError, PluginName};

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
}

/// What a scan of the directory found.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// The plugins by name.
    pub plugins: BTreeMap<PluginName, PluginFiles>,
    /// Files that end in .wasm but cannot name a plugin.
    pub refused: Vec<NameError>,
}

/// Reads the directory.
///
/// # Errors
/// The directory cannot be read. An absent one is an error, too: its plugins must not stop because a volume is
/// mounted anew.
pub(crate) fn scan(directory: &Path) -> io::Result<Scan> {
    let mut scan = Scan::default();
    for entry in std::fs::read_dir(directory)? {
        let wasm = entry?.path();
        let hidden = wasm.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if hidden || wasm.extension().is_none_or(|extension| extension != "wasm") {
            continue;
        }
        // A file that vanishes between the listing and the look, or a dangling symlink, is no file.
        let Some(wasm_stamp) = stamp(&wasm) else { continue };
        let sidecar = wasm.with_extension("yaml");
        let sidecar_stamp = stamp(&sidecar);
        match PluginName::of_file(&wasm) {
            Ok(name) => {
                scan.plugins.insert(name, PluginFiles { wasm, sidecar, wasm_stamp, sidecar_stamp });
            }
            Err(error) => scan.refused.push(error),
        }
    }
    Ok(scan)
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
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
    /// Its files are new or changed, and have settled.
    Load(PluginName, PluginFiles),
    /// Its file is gone.
    Remove(PluginName),
}

/// The machine. `None` stands for an absent file.
#[derive(Debug)]
pub(crate) struct Directory {
    settle: Duration,
    /// What was last acted on.
    known: BTreeMap<PluginName, PluginFiles>,
    /// What looks different, and since when it has looked that way.
    unsettled: BTreeMap<PluginName, (Option<PluginFiles>, Instant)>,
}

impl Directory {
    /// A machine that knows no plugin yet.
    #[must_use]
    pub(crate) fn new(settle: Duration) -> Self {
        Self { settle, known: BTreeMap::new(), unsettled: BTreeMap::new() }
    }

    /// Takes in what a scan found, and answers what has settled.
    pub(crate) fn observe(&mut self, found: &BTreeMap<PluginName, PluginFiles>, now: Instant) -> Vec<Change> {
        let names: Vec<_> =
            found.keys().chain(self.known.keys()).chain(self.unsettled.keys()).cloned().collect();
        let mut changes = Vec::new();
        for name in names {
            let seen = found.get(&name);
            if seen == self.known.get(&name) {
                self.unsettled.remove(&name);
                continue;
            }
            let since = match self.unsettled.get(&name) {
                Some((files, since)) if files.as_ref() == seen => *since,
                _ => {
                    self.unsettled.insert(name.clone(), (seen.cloned(), now));
                    now
                }
            };
            if now.duration_since(since) < self.settle {
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

    /// When something that now looks different will have settled, if it does not change again.
    #[must_use]
    pub(crate) fn next_look(&self) -> Option<Instant> {
        self.unsettled.values().map(|(_, since)| *since + self.settle).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTLE: Duration = Duration::from_millis(200);

    fn files(len: u64) -> PluginFiles {
        PluginFiles {
            wasm: "a.wasm".into(),
            sidecar: "a.yaml".into(),
            wasm_stamp: Stamp { len, modified: None, identity: (0, 0) },
            sidecar_stamp: None,
        }
    }

    fn name() -> PluginName {
        PluginName::of_file(Path::new("a.wasm")).expect("a name")
    }

    fn found(len: Option<u64>) -> BTreeMap<PluginName, PluginFiles> {
        len.map(|len| (name(), files(len))).into_iter().collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_is_loaded_once_it_has_settled() {
        let (mut directory, start) = (Directory::new(SETTLE), Instant::now());
        assert_eq!(directory.observe(&found(Some(1)), start), []);
        assert_eq!(directory.next_look(), Some(start + SETTLE));
        let grown = start + SETTLE / 2;
        assert_eq!(directory.observe(&found(Some(2)), grown), []);
        assert_eq!(
            directory.observe(&found(Some(2)), start + SETTLE),
            [],
            "the clock starts again when it grows"
        );
        assert_eq!(directory.observe(&found(Some(2)), grown + SETTLE), [Change::Load(name(), files(2))]);
        assert_eq!(directory.observe(&found(Some(2)), grown + SETTLE * 9), []);
        assert_eq!(directory.next_look(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_gone_for_a_moment_was_never_gone() {
        let (mut directory, start) = (Directory::new(SETTLE), Instant::now());
        directory.observe(&found(Some(1)), start);
        assert_eq!(directory.observe(&found(Some(1)), start + SETTLE).len(), 1);
        let later = start + SETTLE * 5;
        assert_eq!(directory.observe(&found(None), later), []);
        assert_eq!(directory.observe(&found(Some(1)), later + SETTLE / 2), []);
        assert_eq!(directory.observe(&found(Some(1)), later + SETTLE * 3), [], "it is the same file");
        directory.observe(&found(None), later + SETTLE * 4);
        assert_eq!(directory.observe(&found(None), later + SETTLE * 5), [Change::Remove(name())]);
    }

    #[test]
    fn a_scan_takes_wasm_files_with_names_and_reports_the_others() {
        let folder = tempfile::tempdir().expect("a folder");
        for file in ["good.wasm", "good.yaml", "Bad_Name.wasm", ".hidden.wasm", "readme.md"] {
            std::fs::write(folder.path().join(file), file).expect("written");
        }
        std::fs::create_dir(folder.path().join("folder.wasm")).expect("made");
        let found = scan(folder.path()).expect("readable");
        assert_eq!(found.plugins.keys().map(PluginName::as_str).collect::<Vec<_>>(), ["good"]);
        assert!(found.plugins.values().all(|files| files.sidecar_stamp.is_some()));
        assert_eq!(found.refused.len(), 1);
        assert!(scan(&folder.path().join("absent")).is_err());
    }
}
