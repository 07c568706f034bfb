//! Finds and reads the files of scenarios.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::scenario::{MAX_FILE_SIZE, Scenario};
use crate::CommandError;

/// The folder with the scenarios of a project, or of the plugins beside it.
const FOLDER: &str = "scenarios";
/// The extensions of scenario files.
const EXTENSIONS: [&str; 2] = ["yaml", "yml"];

/// Returns the scenario files below the folder of a project or a plugin, sorted by name.
///
/// # Errors
/// Returns a usage error if there is none.
pub(super) fn find(folder: &Path) -> Result<Vec<PathBuf>, CommandError> {
    // Without `./` in front, messages are easier to read.
    let folder = if folder == Path::new(".") { PathBuf::from(FOLDER) } else { folder.join(FOLDER) };
    let remedy = "write a scenario to NAME.yaml in that folder, or name one with --scenario FILE";
    let usage_error =
        |problem: String| CommandError::Usage(format!("{}: {problem}; {remedy}", folder.display()));
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder).map_err(|error| usage_error(error.to_string()))? {
        let file = entry.map_err(|error| usage_error(error.to_string()))?.path();
        if file.extension().is_some_and(|end| EXTENSIONS.iter().any(|known| end == *known)) {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(usage_error("it has no .yaml or .yml file".to_owned()));
    }
    files.sort();
    Ok(files)
}

/// Reads a scenario, and the files of manifests that it names.
///
/// # Errors
/// Returns a usage error if a file cannot be read or is not valid.
pub(super) fn read(file: &Path) -> Result<Scenario, CommandError> {
    let text = read_bounded(file).map_err(|problem| {
        CommandError::Usage(format!("{}: {problem}; give a scenario file", file.display()))
    })?;
    Scenario::parse(file, &text, &read_bounded).map_err(CommandError::Usage)
}

/// Reads a text of at most [`MAX_FILE_SIZE`] bytes.
fn read_bounded(path: &Path) -> Result<String, String> {
    // Anything else, such as a pipe, may never end.
    if !fs::metadata(path).map_err(|error| error.to_string())?.is_file() {
        return Err("it is not a file".to_owned());
    }
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut text = String::new();
    let limit = u64::try_from(MAX_FILE_SIZE).unwrap_or(u64::MAX);
    file.take(limit + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() > MAX_FILE_SIZE {
        return Err(format!("it is larger than {MAX_FILE_SIZE} bytes"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_are_found_in_the_order_of_their_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let Err(CommandError::Usage(text)) = find(folder.path()) else { panic!("there is no folder") };
        assert!(text.contains("scenarios: ") && text.contains("--scenario FILE"), "{text}");
        let scenarios = folder.path().join("scenarios");
        fs::create_dir(&scenarios).expect("created");
        let Err(CommandError::Usage(text)) = find(folder.path()) else { panic!("it is empty") };
        assert!(text.contains("no .yaml or .yml file"), "{text}");
        for name in ["b.yaml", "a.yml", "README.md"] {
            fs::write(scenarios.join(name), "").expect("written");
        }
        assert_eq!(find(folder.path()).expect("files"), [scenarios.join("a.yml"), scenarios.join("b.yaml")]);
    }

    #[test]
    fn only_files_of_a_bounded_size_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let large = folder.path().join("large.yaml");
        fs::write(&large, vec![b'#'; MAX_FILE_SIZE + 1]).expect("written");
        let absent = folder.path().join("absent.yaml");
        for (path, expected) in [
            (large.as_path(), "it is larger than"),
            (folder.path(), "it is not a file"),
            (absent.as_path(), "absent.yaml: "),
        ] {
            let Err(CommandError::Usage(text)) = read(path) else { panic!("{expected}") };
            assert!(text.contains(expected) && text.contains("give a scenario file"), "{text}");
        }
    }
}
