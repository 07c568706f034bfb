//! Which language a project is written in.

use std::fs;
use std::path::Path;

use clap::ValueEnum;
use serde::Deserialize;

use crate::Failed;

/// The languages with a recipe and a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Language {
    /// Rust, by cargo.
    Rust,
    /// JavaScript or TypeScript, by npm.
    Js,
    /// Python, by a virtual environment.
    Python,
    /// Go, by the standard compiler.
    Go,
    /// C, by clang or zig.
    C,
}

/// `pilothouse.yaml` in a project: only needed where its files leave a doubt.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProjectFile {
    language: Language,
}

/// The manifests by which a project is known.
const MANIFESTS: [(&str, Language); 5] = [
    ("Cargo.toml", Language::Rust),
    ("package.json", Language::Js),
    ("pyproject.toml", Language::Python),
    ("requirements.txt", Language::Python),
    ("go.mod", Language::Go),
];

impl Language {
    /// All of them, in the order in which they are listed to a person.
    pub(crate) const ALL: [Self; 5] = [Self::Rust, Self::Js, Self::Python, Self::Go, Self::C];

    /// What `--lang` calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Js => "js",
            Self::Python => "python",
            Self::Go => "go",
            Self::C => "c",
        }
    }

    /// The language of the project in `folder`: what its `pilothouse.yaml` says, else by its manifest, else C where
    /// there is a C file.
    pub(crate) fn of(folder: &Path) -> Result<Self, Failed> {
        let project_file = folder.join("pilothouse.yaml");
        if project_file.is_file() {
            let text = fs::read_to_string(&project_file).map_err(|error| error.to_string());
            let read = text.and_then(|text| {
                serde_saphyr::from_str::<ProjectFile>(&text)
                    .map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())
            });
            return read.map(|file| file.language).map_err(|problem| {
                let languages = Self::ALL.map(Self::name).join(", ");
                Failed::Usage(format!(
                    "{}: {problem}; it has one member, language: one of {languages}",
                    project_file.display()
                ))
            });
        }
        let found: Vec<_> = MANIFESTS.iter().filter(|(file, _)| folder.join(file).is_file()).collect();
        match found.as_slice() {
            [] if has_c_file(folder) || has_c_file(&folder.join("src")) => Ok(Self::C),
            [] => Err(Failed::Usage(format!(
                "{}: no project that can be built: there is no Cargo.toml, package.json, pyproject.toml, requirements.txt or \
                 go.mod, and no C file there or in src; give a project's folder, or make one with `pilothouse new NAME \
                 --lang LANG`",
                folder.display()
            ))),
            [(_, language), rest @ ..] if rest.iter().all(|(_, other)| other == language) => Ok(*language),
            [(file, _), .., (other_file, _)] => Err(Failed::Usage(format!(
                "{}: both {file} and {other_file} are there; say which counts: write `language: LANG` into a file \
                 pilothouse.yaml beside them",
                folder.display()
            ))),
            [(_, language)] => Ok(*language),
        }
    }
}

fn has_c_file(folder: &Path) -> bool {
    let Ok(files) = fs::read_dir(folder) else { return false };
    files.flatten().any(|file| file.path().extension().is_some_and(|extension| extension == "c"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> Result<Language, String> {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        }
        Language::of(folder.path()).map_err(|failed| match failed {
            Failed::Usage(text) => text,
            Failed::Work(text) => panic!("not a usage error: {text}"),
        })
    }

    #[test]
    fn a_project_is_known_by_its_manifest() {
        for (file, language) in MANIFESTS {
            assert_eq!(of(&[(file, ""), ("helper.c", "")]), Ok(language), "{file}");
        }
        assert_eq!(of(&[("pyproject.toml", ""), ("requirements.txt", "")]), Ok(Language::Python));
    }

    #[test]
    fn a_c_file_is_enough_where_there_is_no_manifest() {
        assert_eq!(of(&[("plugin.c", "")]), Ok(Language::C));
        assert_eq!(of(&[("src/plugin.c", "")]), Ok(Language::C));
    }

    #[test]
    fn a_doubt_is_for_the_author_to_settle() {
        let error = of(&[("go.mod", ""), ("package.json", "")]).expect_err("two manifests");
        assert!(error.contains("package.json and go.mod") && error.contains("pilothouse.yaml"), "{error}");
        let settled = [("go.mod", ""), ("package.json", ""), ("pilothouse.yaml", "language: go\n")];
        assert_eq!(of(&settled), Ok(Language::Go));
    }

    #[test]
    fn what_is_no_project_gets_the_remedy() {
        let error = of(&[("README.md", "")]).expect_err("nothing to build");
        assert!(error.contains("Cargo.toml") && error.contains("pilothouse new"), "{error}");
        for text in ["language: cobol\n", "lang: go\n", ""] {
            let error = of(&[("pilothouse.yaml", text)]).expect_err(text);
            assert!(
                error.contains("pilothouse.yaml") && error.contains("rust, js, python, go, c"),
                "{error}"
            );
        }
    }
}
