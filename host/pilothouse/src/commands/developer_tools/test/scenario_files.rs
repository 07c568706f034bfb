//! Finds and reads the files of scenarios.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::scenario::{MAX_FILE_SIZE, Scenario};
use crate::{CommandError, input_file};

/// The folder with the scenarios of a project, or of the plugins beside it.
const FOLDER: &str = "scenarios";
/// The extensions of scenario files.
const EXTENSIONS: [&str; 2] = ["yaml", "yml"];

/// Returns the scenario files below the folder of a project or a plugin, sorted by name.
///
/// # Errors
/// Returns a usage error if the folder cannot be read, or there is none although one is required: a project may have simulations only.
pub(super) fn find(folder: &Path, is_required: bool) -> Result<Vec<PathBuf>, CommandError> {
    // Without `./` in front, messages are easier to read.
    let folder = if folder == Path::new(".") { PathBuf::from(FOLDER) } else { folder.join(FOLDER) };
    let remedy = "write a scenario to NAME.yaml in that folder, or name one with --scenario FILE";
    let usage_error =
        |problem: String| CommandError::Usage(format!("{}: {problem}; {remedy}", folder.display()));
    let mut files = Vec::new();
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_required => return Ok(files),
        entries => entries.map_err(|error| usage_error(error.to_string()))?,
    };
    for entry in entries {
        let file = entry.map_err(|error| usage_error(error.to_string()))?.path();
        if file.extension().is_some_and(|end| EXTENSIONS.iter().any(|known| end == *known)) {
            files.push(file);
        }
    }
    if files.is_empty() && is_required {
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
    let text = read_text(file).map_err(|problem| {
        CommandError::Usage(format!("{}: {problem}; give a scenario file", file.display()))
    })?;
    Scenario::parse(file, &text, &read_text).map_err(CommandError::Usage)
}

fn read_text(path: &Path) -> Result<String, String> {
    input_file::read_text(path, u64::try_from(MAX_FILE_SIZE).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_are_found_in_the_order_of_their_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let Err(CommandError::Usage(text)) = find(folder.path(), true) else { panic!("there is no folder") };
        assert_eq!(find(folder.path(), false).expect("none is required"), Vec::<PathBuf>::new());
        assert!(text.contains("scenarios: ") && text.contains("--scenario FILE"), "{text}");
        let scenarios = folder.path().join("scenarios");
        fs::create_dir(&scenarios).expect("created");
        let Err(CommandError::Usage(text)) = find(folder.path(), true) else { panic!("it is empty") };
        assert_eq!(find(folder.path(), false).expect("none is required"), Vec::<PathBuf>::new());
        assert!(text.contains("no .yaml or .yml file"), "{text}");
        for name in ["b.yaml", "a.yml", "README.md"] {
            fs::write(scenarios.join(name), "").expect("written");
        }
        assert_eq!(
            find(folder.path(), true).expect("files"),
            [scenarios.join("a.yml"), scenarios.join("b.yaml")]
        );
    }

    #[test]
    fn only_files_of_a_bounded_size_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let large = folder.path().join("large.yaml");
        fs::write(&large, vec![b'#'; MAX_FILE_SIZE + 1]).expect("written");
        let absent = folder.path().join("absent.yaml");
        for (path, expected) in [
            (large.as_path(), "it is larger than"),
            (folder.path(), "it is not a regular file"),
            (absent.as_path(), "absent.yaml: "),
        ] {
            let Err(CommandError::Usage(text)) = read(path) else { panic!("{expected}") };
            assert!(text.contains(expected) && text.contains("give a scenario file"), "{text}");
        }
    }
}
