//! Finds the files of a recording.

use std::path::{Path, PathBuf};

use crate::CommandError;

/// The maximum number of files of a recording. `run --record` mostly writes a few dozen, but each restart and each version begins one.
const MAX_FILES: usize = 10_000;

/// Returns the path itself if it is a file, or else the recordings in that directory, the oldest first.
///
/// # Errors
/// Returns a usage error if there is none.
pub(super) fn find(path: &Path) -> Result<Vec<PathBuf>, CommandError> {
    let usage_error = |problem: &dyn std::fmt::Display| {
        CommandError::Usage(format!(
            "--recording {}: {problem}; give a file of `run --record DIR`, or the directory DIR/PLUGIN",
            path.display()
        ))
    };
    if !std::fs::metadata(path).map_err(|error| usage_error(&error))?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(|error| usage_error(&error))? {
        let file = entry.map_err(|error| usage_error(&error))?.path();
        if file.extension().is_some_and(|extension| extension == "jsonl") {
            files.push(file);
        }
        if files.len() > MAX_FILES {
            return Err(usage_error(&format!("it has more than {MAX_FILES} files")));
        }
    }
    if files.is_empty() {
        return Err(usage_error(&"it has no files with the ending .jsonl"));
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_stands_for_its_recordings_in_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = find(folder.path()).expect_err("it is empty");
        assert!(matches!(&error, CommandError::Usage(text) if text.contains("no files")), "{error:?}");
        for name in ["00000010.jsonl", "00000009.jsonl", "notes.txt"] {
            std::fs::write(folder.path().join(name), "").expect("written");
        }
        let found = find(folder.path()).expect("files");
        let names: Vec<_> = found.iter().filter_map(|path| path.file_name()?.to_str()).collect();
        assert_eq!(names, ["00000009.jsonl", "00000010.jsonl"]);
        let notes = folder.path().join("notes.txt");
        assert_eq!(find(&notes).expect("a file"), [notes], "whatever its name is");
        assert!(find(&folder.path().join("none")).is_err());
    }
}
