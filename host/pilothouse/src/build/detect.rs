//! Detects the language of a project.

use std::fs;
use std::path::Path;

use pilothouse_toolchain::Language;
use serde::Deserialize;

use crate::CommandError;

/// `pilothouse.yaml` in a project. Only needed where the project's files match several languages.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProjectFile {
    language: String,
}

/// Returns the language of the project in `folder`: the one named in `pilothouse.yaml`, or else the one whose manifest is present,
/// or else C if there is a C file.
///
/// # Errors
/// Errors if no language or several languages match, or `pilothouse.yaml` is invalid.
pub(crate) fn detect_language(folder: &Path) -> Result<Language, CommandError> {
    let project_file = folder.join("pilothouse.yaml");
    if project_file.is_file() {
        return read_project_file(&project_file).map_err(|problem| {
            let languages = Language::ALL.map(Language::name).join(", ");
            CommandError::Usage(format!(
                "{}: {problem}; the file must contain exactly `language: LANG`, with one of {languages}",
                project_file.display()
            ))
        });
    }
    let manifests = || {
        let of = |language: Language| language.manifests().iter().map(move |file| (*file, language));
        Language::ALL.into_iter().flat_map(of)
    };
    let found: Vec<_> = manifests().filter(|(file, _)| folder.join(file).is_file()).collect();
    match found.as_slice() {
        [] if has_c_file(folder) || has_c_file(&folder.join("src")) => Ok(Language::C),
        [] => Err(CommandError::Usage(format!(
            "{}: not a project that can be built: found no {}, and no C file in the folder or in src; give the folder of a project, or \
             create one with `pilothouse new NAME --lang LANG`",
            folder.display(),
            manifests().map(|(file, _)| file).collect::<Vec<_>>().join(", ")
        ))),
        [(_, language), rest @ ..] if rest.iter().all(|(_, other)| other == language) => Ok(*language),
        [(file, _), .., (other_file, _)] => Err(CommandError::Usage(format!(
            "{}: found both {file} and {other_file}; select one with `language: LANG` in a file pilothouse.yaml next to them",
            folder.display()
        ))),
        [(_, language)] => Ok(*language),
    }
}

fn read_project_file(path: &Path) -> Result<Language, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let file: ProjectFile = serde_saphyr::from_str(&text)
        .map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())?;
    Language::from_name(&file.language).ok_or_else(|| format!("unknown language {:?}", file.language))
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
        detect_language(folder.path()).map_err(|error| match error {
            CommandError::Usage(text) => text,
            CommandError::Failure(text) => panic!("not a usage error: {text}"),
        })
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
}
