//! Which guests there are: each example, and the acceptance plugin in each language.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// How a guest is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A package of the workspace in `examples/`.
    Rust,
    /// Text by hand, assembled.
    Wat,
    /// A project that `pilothouse build` knows.
    Other,
}

/// A folder with a guest in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Project {
    /// `sample-controller`, `acceptance-js`.
    pub(super) name: String,
    pub(super) folder: PathBuf,
    pub(super) kind: Kind,
}

/// The projects asked for; all of them for no name.
///
/// # Errors
/// Names one that there is not, with those there are.
pub(super) fn named(root: &Path, names: &[&str]) -> Result<Vec<Project>> {
    let projects = all(root)?;
    if names.is_empty() {
        return Ok(projects);
    }
    let mut found = Vec::new();
    for name in names {
        match projects.iter().find(|project| project.name == *name) {
            Some(project) => found.push(project.clone()),
            None => {
                let known: Vec<_> = projects.iter().map(|project| project.name.as_str()).collect();
                bail!("there is no example {name:?}; there are: {}", known.join(", "));
            }
        }
    }
    Ok(found)
}

fn all(root: &Path) -> Result<Vec<Project>> {
    let mut projects = in_folder(&root.join("examples"), "")?;
    projects.extend(in_folder(&root.join("examples/acceptance"), "acceptance-")?);
    projects.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(projects)
}

fn in_folder(folder: &Path, prefix: &str) -> Result<Vec<Project>> {
    let entries = fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("read {}", folder.display()))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(kind) = kind(&path) {
            found.push(Project { name: format!("{prefix}{name}"), folder: path, kind });
        }
    }
    Ok(found)
}

/// None for a folder that is no project: `acceptance`, `target`.
fn kind(folder: &Path) -> Option<Kind> {
    let has = |name: &str| folder.join(name).is_file();
    let has_extension = |extension: &str| {
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        files.map(|file| file.path()).any(|file| file.extension().is_some_and(|found| found == extension))
    };
    if has("Cargo.toml") && folder.join("src").is_dir() {
        Some(Kind::Rust)
    } else if has("package.json") || has("pyproject.toml") || has("go.mod") || has_extension("c") {
        Some(Kind::Other)
    } else if has_extension("wat") {
        Some(Kind::Wat)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    #[test]
    fn every_example_and_every_acceptance_plugin_is_found_when_none_is_named() {
        let projects = named(&root(), &[]).unwrap();
        let kind =
            |name: &str| projects.iter().find(|project| project.name == name).map(|project| project.kind);
        assert_eq!(kind("sample-controller"), Some(Kind::Rust));
        assert_eq!(kind("acceptance-rust"), Some(Kind::Rust));
        assert_eq!(kind("acceptance-js"), Some(Kind::Other));
        assert_eq!(kind("acceptance-wat"), Some(Kind::Wat));
        assert_eq!((kind("target"), kind("acceptance")), (None, None));
    }

    #[test]
    fn an_unknown_example_is_refused_with_those_there_are() {
        let error = named(&root(), &["sample"]).unwrap_err().to_string();
        assert!(error.contains("no example \"sample\"") && error.contains("sample-controller"), "{error}");
    }
}
