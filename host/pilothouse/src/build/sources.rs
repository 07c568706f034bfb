//! Whether a project's sources have changed: for `pilothouse dev --build`.
//!
//! By looking, some times a second: a project has some hundred files where node_modules, target and the like are left out, and
//! editors save in so many ways that their events would have to be followed by a look anyway.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Folders that tools fill.
const LEFT_OUT: [&str; 4] = ["node_modules", "target", "dist", "__pycache__"];
/// What tools and editors write beside the sources.
const LEFT_OUT_ENDINGS: [&str; 3] = ["~", ".wasm", ".egg-info"];

/// The sources of a project as they were at the last look.
#[derive(Debug)]
pub(crate) struct Sources {
    project: PathBuf,
    /// Where built plugins lie; it may be inside of the project.
    plugins: PathBuf,
    seen: BTreeMap<PathBuf, Seen>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Seen {
    modified: Option<SystemTime>,
    size: u64,
    /// Of the content: a tool that writes the same again changes nothing.
    digest: u64,
}

impl Sources {
    pub(crate) fn of(project: &Path, plugins: &Path) -> Self {
        let resolved = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let mut sources =
            Self { project: resolved(project), plugins: resolved(plugins), seen: BTreeMap::new() };
        sources.look();
        sources
    }

    /// Looks again, and says whether a file has come, gone, or has another content.
    pub(crate) fn look(&mut self) -> bool {
        let mut now = BTreeMap::new();
        self.walk(&self.project, &mut now);
        let digests = |seen: &BTreeMap<PathBuf, Seen>| {
            seen.iter().map(|(path, seen)| (path.clone(), seen.digest)).collect::<Vec<_>>()
        };
        let has_changed = digests(&now) != digests(&self.seen);
        self.seen = now;
        has_changed
    }

    fn walk(&self, folder: &Path, now: &mut BTreeMap<PathBuf, Seen>) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries.flatten() {
            let path = entry.path();
            let name = entry.file_name();
            let name = name.to_string_lossy();
            // Hidden files are editors' and tools' own.
            let is_made = LEFT_OUT_ENDINGS.iter().any(|ending| name.ends_with(ending));
            if name.starts_with('.') || is_made || path == self.plugins {
                continue;
            }
            // Not of what a link points to: a link to a folder above would never end.
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                if !LEFT_OUT.contains(&&*name) {
                    self.walk(&path, now);
                }
            } else if let Some(seen) = self.see(&path) {
                now.insert(path, seen);
            }
        }
    }

    fn see(&self, path: &Path) -> Option<Seen> {
        let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        let (modified, size) = (metadata.modified().ok(), metadata.len());
        let before = self.seen.get(path).filter(|seen| seen.modified == modified && seen.size == size);
        let digest = match before {
            Some(seen) => seen.digest,
            None => {
                let mut hasher = DefaultHasher::new();
                fs::read(path).ok()?.hash(&mut hasher);
                hasher.finish()
            }
        };
        Some(Seen { modified, size, digest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, text).expect("written");
    }

    #[test]
    fn sources_that_come_change_and_go_are_seen_once() {
        let project = tempfile::tempdir().expect("a folder");
        let file = project.path().join("src/lib.rs");
        write(&file, "one");
        let mut sources = Sources::of(project.path(), Path::new("elsewhere"));
        assert!(!sources.look());
        for text in ["other", "longer text"] {
            write(&file, text);
            assert!(sources.look(), "{text}");
            assert!(!sources.look(), "{text}");
        }
        write(&project.path().join("src/new.rs"), "");
        assert!(sources.look());
        fs::remove_file(&file).expect("removed");
        assert!(sources.look());
    }

    #[test]
    fn the_same_content_written_again_is_no_change() {
        let project = tempfile::tempdir().expect("a folder");
        let file = project.path().join("a.c");
        write(&file, "same");
        let mut sources = Sources::of(project.path(), Path::new("elsewhere"));
        write(&file, "same");
        let later = SystemTime::now() + std::time::Duration::from_secs(60);
        fs::File::options()
            .append(true)
            .open(&file)
            .and_then(|file| file.set_modified(later))
            .expect("touched");
        assert!(!sources.look());
    }

    #[test]
    fn what_tools_write_is_not_looked_at() {
        let project = tempfile::tempdir().expect("a folder");
        let plugins = project.path().join("plugins");
        write(&project.path().join("a.c"), "");
        fs::create_dir(&plugins).expect("made");
        let mut sources = Sources::of(project.path(), &plugins);
        for path in [
            "target/release/a.o",
            "node_modules/x/index.js",
            ".venv/lib/x.py",
            "dist/a.js",
            "src/__pycache__/a.pyc",
            "a.wasm",
            ".a.c.swp",
            "a.c~",
            "sdk/x.egg-info/PKG-INFO",
            "plugins/a.yaml",
        ] {
            write(&project.path().join(path), "made");
            assert!(!sources.look(), "{path}");
        }
    }
}
