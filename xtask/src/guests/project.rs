//! Finds the guest projects: every example, and the acceptance plugin in every language.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use pilothouse_toolchain::Language;

/// How a guest is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// By cargo, as a package of the workspace in `examples/`.
    Rust,
    /// By assembling WebAssembly text.
    Wat,
    /// By `pilothouse build`.
    PilothouseBuild,
}

/// The folder of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Project {
    /// For example `sample-controller` or `acceptance-js`.
    pub(super) name: String,
    pub(super) folder: PathBuf,
    pub(super) kind: Kind,
}

/// Returns the projects with the given names, or all projects for an empty list.
///
/// # Errors
/// Errors if a name is unknown; the text lists all names.
pub(super) fn select(root: &Path, names: &[&str]) -> Result<Vec<Project>> {
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
                bail!("unknown example {name:?}; the examples are {}", known.join(", "));
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

/// Returns how to build the guest in `folder`, or `None` for a folder that is not a guest, such as `acceptance` or `target`.
fn kind(folder: &Path) -> Option<Kind> {
    let has_manifest =
        |language: Language| language.manifests().iter().any(|file| folder.join(file).is_file());
    let has_extension = |extension: &str| {
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        files.map(|file| file.path()).any(|file| file.extension().is_some_and(|found| found == extension))
    };
    if folder.join("pilothouse.yaml").is_file() {
        // It names a language or a build command, whatever else the folder contains.
        Some(Kind::PilothouseBuild)
    } else if has_manifest(Language::Rust) && folder.join("src").is_dir() {
        // The workspace's own manifests are in folders without `src`.
        Some(Kind::Rust)
    } else if Language::ALL.into_iter().any(|language| language != Language::Rust && has_manifest(language))
        || has_extension("c")
    {
        Some(Kind::PilothouseBuild)
    } else if has_extension("wat") {
        Some(Kind::Wat)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_toolchain::{WAT, acceptance_implementations};

    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    #[test]
    fn an_empty_list_selects_every_example_and_every_acceptance_plugin() {
        let projects = select(&root(), &[]).unwrap();
        let kind =
            |name: &str| projects.iter().find(|project| project.name == name).map(|project| project.kind);
        assert_eq!(kind("sample-controller"), Some(Kind::Rust));
        assert_eq!(kind("sample-controller-zig"), Some(Kind::PilothouseBuild));
        for name in acceptance_implementations() {
            let expected = match name {
                WAT => Kind::Wat,
                _ if name == Language::Rust.name() => Kind::Rust,
                _ => Kind::PilothouseBuild,
            };
            assert_eq!(kind(&format!("acceptance-{name}")), Some(expected), "{name}");
        }
        assert_eq!((kind("target"), kind("acceptance")), (None, None));
    }

    #[test]
    fn error_of_an_unknown_example_lists_the_examples() {
        let error = select(&root(), &["sample"]).unwrap_err().to_string();
        assert!(
            error.contains("unknown example \"sample\"") && error.contains("sample-controller"),
            "{error}"
        );
    }
}
