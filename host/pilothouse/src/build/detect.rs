//! Detects how a project is built.

use std::fs;
use std::path::Path;

use pilothouse_toolchain::Language;

use super::project_file::{self, Builder, PROJECT_FILE};
use crate::CommandError;

/// Returns how the project in `folder` is built: as `pilothouse.yaml` says, or else by the language whose manifest is present, or else as
/// C if there is a C file.
///
/// # Errors
/// Errors if no language or several languages match, or `pilothouse.yaml` is invalid.
pub(crate) fn detect_builder(folder: &Path) -> Result<Builder, CommandError> {
    let project_file = folder.join(PROJECT_FILE);
    if project_file.is_file() {
        return project_file::read(&project_file).map_err(CommandError::Usage);
    }
    let manifests = || {
        let of = |language: Language| language.manifests().iter().map(move |file| (*file, language));
        Language::ALL.into_iter().flat_map(of)
    };
    let found: Vec<_> = manifests().filter(|(file, _)| folder.join(file).is_file()).collect();
    match found.as_slice() {
        [] if has_c_file(folder) || has_c_file(&folder.join("src")) => Ok(Builder::Language(Language::C)),
        [] => Err(CommandError::Usage(format!(
            "{}: not a project that can be built: found no {}, no {PROJECT_FILE}, and no C file in the folder or in src; give the folder of \
             a project, create one with `pilothouse new NAME --lang LANG`, or write the command that builds it into {PROJECT_FILE}",
            folder.display(),
            manifests().map(|(file, _)| file).collect::<Vec<_>>().join(", ")
        ))),
        [(_, language), rest @ ..] if rest.iter().all(|(_, other)| other == language) => {
            Ok(Builder::Language(*language))
        }
        [(file, _), .., (other_file, _)] => Err(CommandError::Usage(format!(
            "{}: found both {file} and {other_file}; select one with `language: LANG` in a file {PROJECT_FILE} next to them",
            folder.display()
        ))),
        [(_, language)] => Ok(Builder::Language(*language)),
    }
}

/// Returns the language of the project in `folder`.
///
/// # Errors
/// Errors like [`detect_builder`], or if a command of its own builds the project.
pub(crate) fn detect_language(folder: &Path) -> Result<Language, CommandError> {
    match detect_builder(folder)? {
        Builder::Language(language) => Ok(language),
        Builder::Command(_) => Err(CommandError::Usage(format!(
            "{}: the command in {PROJECT_FILE} builds this project, so its SDK is not known; replace it by hand",
            folder.display()
        ))),
    }
}

fn has_c_file(folder: &Path) -> bool {
    let Ok(files) = fs::read_dir(folder) else { return false };
    files.flatten().any(|file| file.path().extension().is_some_and(|extension| extension == "c"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(files: &[(&str, &str)]) -> Result<Language, String> {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("created");
            fs::write(path, text).expect("written");
        }
        let problem = |error| match error {
            CommandError::Usage(text) => text,
            CommandError::Failure(text) => panic!("not a usage error: {text}"),
        };
        // Whatever the folder contains, both functions agree on it.
        let language = detect_language(folder.path()).map_err(problem);
        match detect_builder(folder.path()).map_err(problem) {
            Ok(Builder::Command(_)) => {}
            Ok(Builder::Language(found)) => assert_eq!(language, Ok(found)),
            Err(error) => assert_eq!(language, Err(error)),
        }
        language
    }

    #[test]
    fn a_manifest_identifies_the_language() {
        for language in Language::ALL {
            for manifest in language.manifests() {
                assert_eq!(detect(&[(manifest, ""), ("helper.c", "")]), Ok(language), "{manifest}");
            }
        }
        assert_eq!(detect(&[("pyproject.toml", ""), ("requirements.txt", "")]), Ok(Language::Python));
    }

    #[test]
    fn a_c_file_without_a_manifest_means_c() {
        assert_eq!(detect(&[("plugin.c", "")]), Ok(Language::C));
        assert_eq!(detect(&[("src/plugin.c", "")]), Ok(Language::C));
    }

    #[test]
    fn manifests_of_two_languages_need_a_project_file() {
        let error = detect(&[("go.mod", ""), ("package.json", "")]).expect_err("two manifests");
        assert!(error.contains("package.json and go.mod") && error.contains("pilothouse.yaml"), "{error}");
        let files = [("go.mod", ""), ("package.json", ""), ("pilothouse.yaml", "language: go\n")];
        assert_eq!(detect(&files), Ok(Language::Go));
    }

    #[test]
    fn errors_say_what_a_project_needs() {
        let error = detect(&[("README.md", "")]).expect_err("nothing to build");
        assert!(error.contains("no Cargo.toml, package.json") && error.contains("pilothouse new"), "{error}");
        for text in ["language: cobol\n", "lang: go\n", ""] {
            let error = detect(&[("pilothouse.yaml", text)]).expect_err(text);
            assert!(
                error.contains("pilothouse.yaml") && error.contains("rust, js, python, go, c"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_build_command_replaces_the_language_of_a_manifest() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("package.json"), "{}").expect("written");
        fs::write(folder.path().join(PROJECT_FILE), "build: {run: make, output: a.wasm}\n").expect("written");
        let builder = detect_builder(folder.path()).expect("a builder");
        assert!(matches!(builder, Builder::Command(_)) && builder.name() == "pilothouse.yaml", "{builder:?}");
        let Err(CommandError::Usage(error)) = detect_language(folder.path()) else { panic!("no language") };
        assert!(error.contains("the command in pilothouse.yaml builds this project"), "{error}");
    }
}
