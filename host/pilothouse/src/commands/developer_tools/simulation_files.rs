//! Finds the scenarios for simulations of a project.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::CommandError;

/// The folder with the scenarios for simulations of a project, or of the plugins beside it.
const FOLDER: &str = "simulations";
/// The extensions of scenario files.
const EXTENSIONS: [&str; 2] = ["yaml", "yml"];
/// The largest number of scenario files.
const MAX_FILES: usize = 100;

/// Returns the scenario files below the folder of a project or a plugin, sorted by name. Empty if there is no folder for them.
///
/// # Errors
/// Returns a usage error if the folder cannot be read or has too many files.
pub(super) fn find(folder: &Path) -> Result<Vec<PathBuf>, CommandError> {
    // Without `./` in front, messages are easier to read.
    let folder = if folder == Path::new(".") { PathBuf::from(FOLDER) } else { folder.join(FOLDER) };
    let usage_error = |problem: &dyn std::fmt::Display| {
        CommandError::Usage(format!(
            "{}: {problem}; give it scenarios for simulations, NAME.yaml, or remove it",
            folder.display()
        ))
    };
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(usage_error(&error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let file = entry.map_err(|error| usage_error(&error))?.path();
        if file.extension().is_some_and(|end| EXTENSIONS.iter().any(|known| end == *known)) {
            files.push(file);
        }
        if files.len() > MAX_FILES {
            return Err(usage_error(&format!("it has more than {MAX_FILES} scenarios")));
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_are_found_in_the_order_of_their_names() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(find(folder.path()).expect("no folder is no error"), Vec::<PathBuf>::new());
        let simulations = folder.path().join("simulations");
        fs::create_dir(&simulations).expect("created");
        assert_eq!(find(folder.path()).expect("no file is no error"), Vec::<PathBuf>::new());
        for name in ["b.yaml", "a.yml", "README.md"] {
            fs::write(simulations.join(name), "").expect("written");
        }
        let expected = [simulations.join("a.yml"), simulations.join("b.yaml")];
        assert_eq!(find(folder.path()).expect("files"), expected);
    }

    #[test]
    fn a_folder_that_cannot_be_used_is_a_usage_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let simulations = folder.path().join("simulations");
        fs::write(&simulations, "").expect("written");
        let problem = || match find(folder.path()) {
            Err(CommandError::Usage(text)) => text,
            other => panic!("{other:?}"),
        };
        assert!(problem().contains("simulations: "), "{}", problem());
        fs::remove_file(&simulations).expect("removed");
        fs::create_dir(&simulations).expect("created");
        for index in 0..=MAX_FILES {
            fs::write(simulations.join(format!("{index}.yaml")), "").expect("written");
        }
        assert!(problem().contains("it has more than 100 scenarios"), "{}", problem());
    }
}
