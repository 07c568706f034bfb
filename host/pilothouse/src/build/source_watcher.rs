//! Detects changes of a project's sources for `pilothouse dev --build`.
//!
//! Polls several times a second. Without node_modules, target and the like, a project has a few hundred files, and editors save
//! files in so many ways that file system events would have to be followed by a scan anyway.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::pattern::Pattern;
use super::project_file::PROJECT_FILE;

/// Folders that contain tools' output.
const IGNORED_FOLDERS: [&str; 4] = ["node_modules", "target", "dist", "__pycache__"];
/// Suffixes of files that tools and editors write next to the sources.
const IGNORED_SUFFIXES: [&str; 3] = ["~", ".wasm", ".egg-info"];

/// Compares a project's sources with their state at the previous poll.
#[derive(Debug)]
pub(crate) struct SourceWatcher {
    project: PathBuf,
    /// The plugins directory, which is ignored. It may be inside the project.
    plugins: PathBuf,
    /// Only files that match one of these are sources. If there are none, all files are.
    patterns: Vec<Pattern>,
    files: BTreeMap<PathBuf, FileState>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct FileState {
    modified: Option<SystemTime>,
    size: u64,
    /// Hash of the content. Rewriting a file with the same content is not a change.
    digest: u64,
}

impl SourceWatcher {
    pub(crate) fn new(project: &Path, plugins: &Path, patterns: Vec<Pattern>) -> Self {
        let resolved = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let (project, plugins) = (resolved(project), resolved(plugins));
        let mut watcher = Self { project, plugins, patterns, files: BTreeMap::new() };
        watcher.poll_changed();
        watcher
    }

    /// Replaces the patterns. If they differ from the previous ones, the next poll compares the sources with their state now.
    pub(crate) fn set_patterns(&mut self, patterns: Vec<Pattern>) {
        if patterns != self.patterns {
            self.patterns = patterns;
            self.poll_changed();
        }
    }

    /// Returns whether a file is a source. `pilothouse.yaml` always is.
    fn is_source(&self, path: &Path) -> bool {
        let Ok(path) = path.strip_prefix(&self.project) else { return false };
        self.patterns.is_empty()
            || path == Path::new(PROJECT_FILE)
            || self.patterns.iter().any(|pattern| pattern.matches(path))
    }

    /// Returns whether a file was added, removed or modified since the previous call.
    pub(crate) fn poll_changed(&mut self) -> bool {
        let mut files = BTreeMap::new();
        self.scan(&self.project, &mut files);
        let digests = |files: &BTreeMap<PathBuf, FileState>| {
            files.iter().map(|(path, state)| (path.clone(), state.digest)).collect::<Vec<_>>()
        };
        let has_changed = digests(&files) != digests(&self.files);
        self.files = files;
        has_changed
    }

    fn scan(&self, folder: &Path, files: &mut BTreeMap<PathBuf, FileState>) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries.flatten() {
            let path = entry.path();
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let is_ignored = IGNORED_SUFFIXES.iter().any(|suffix| name.ends_with(suffix));
            // Hidden files belong to editors and tools.
            if name.starts_with('.') || is_ignored || path == self.plugins {
                continue;
            }
            // `file_type` does not follow symbolic links: a link to a parent folder would cause an endless recursion.
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                if !IGNORED_FOLDERS.contains(&&*name) {
                    self.scan(&path, files);
                }
            } else if self.is_source(&path)
                && let Some(state) = self.file_state(&path)
            {
                files.insert(path, state);
            }
        }
    }

    /// Returns the state of a file. Hashes its content only if its size or modification time has changed.
    fn file_state(&self, path: &Path) -> Option<FileState> {
        let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        let (modified, size) = (metadata.modified().ok(), metadata.len());
        let unchanged = self.files.get(path).filter(|state| state.modified == modified && state.size == size);
        let digest = match unchanged {
            Some(state) => state.digest,
            None => {
                let mut hasher = DefaultHasher::new();
                fs::read(path).ok()?.hash(&mut hasher);
                hasher.finish()
            }
        };
        Some(FileState { modified, size, digest })
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
    fn added_modified_and_removed_files_are_reported_once() {
        let project = tempfile::tempdir().expect("a folder");
        let file = project.path().join("src/lib.rs");
        write(&file, "one");
        let mut watcher = SourceWatcher::new(project.path(), Path::new("elsewhere"), Vec::new());
        assert!(!watcher.poll_changed());
        for text in ["other", "longer text"] {
            write(&file, text);
            assert!(watcher.poll_changed(), "{text}");
            assert!(!watcher.poll_changed(), "{text}");
        }
        write(&project.path().join("src/new.rs"), "");
        assert!(watcher.poll_changed());
        fs::remove_file(&file).expect("removed");
        assert!(watcher.poll_changed());
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "files have times of the system clock")]
    fn rewriting_the_same_content_is_not_a_change() {
        let project = tempfile::tempdir().expect("a folder");
        let file = project.path().join("a.c");
        write(&file, "same");
        let mut watcher = SourceWatcher::new(project.path(), Path::new("elsewhere"), Vec::new());
        write(&file, "same");
        let later = SystemTime::now() + std::time::Duration::from_secs(60);
        fs::File::options()
            .append(true)
            .open(&file)
            .and_then(|file| file.set_modified(later))
            .expect("touched");
        assert!(!watcher.poll_changed());
    }

    #[test]
    fn files_written_by_tools_are_ignored() {
        let project = tempfile::tempdir().expect("a folder");
        let plugins = project.path().join("plugins");
        write(&project.path().join("a.c"), "");
        fs::create_dir(&plugins).expect("made");
        let mut watcher = SourceWatcher::new(project.path(), &plugins, Vec::new());
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
            assert!(!watcher.poll_changed(), "{path}");
        }
    }
    #[test]
    fn patterns_select_the_sources() {
        let project = tempfile::tempdir().expect("a folder");
        let pattern = |text: &str| Pattern::parse(text).expect(text);
        let mut watcher = SourceWatcher::new(project.path(), Path::new("elsewhere"), vec![pattern("src")]);
        for (path, is_source) in [
            ("src/deep/main.zig", true),
            ("build/main.o", false),
            ("README.md", false),
            ("pilothouse.yaml", true),
            ("other/pilothouse.yaml", false),
        ] {
            write(&project.path().join(path), "made");
            assert_eq!(watcher.poll_changed(), is_source, "{path}");
        }
        watcher.set_patterns(vec![pattern("*.md")]);
        assert!(!watcher.poll_changed(), "other patterns are no change of a source");
        write(&project.path().join("src/deep/main.zig"), "changed");
        assert!(!watcher.poll_changed(), "not a source any more");
        write(&project.path().join("README.md"), "changed");
        assert!(watcher.poll_changed());
    }
}
