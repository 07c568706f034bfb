//! The files that `pilothouse new` writes, all embedded in this binary: a project in the chosen language, its SDK and the contract.
//!
//! The source of a project exists once: it is that of the language's sample controller in `examples/`, with the plugin's name
//! replaced. `templates/LANGUAGE` adds the files that differ outside of the repository (README, package manifest, lock file) and
//! replaces the example's files of the same path. C has no such example; its template is a whole project.

mod embedded;

use std::fs;
use std::io;
use std::path::Path;

use pilothouse_toolchain::Language;

/// One file of a new project.
#[derive(Debug)]
pub(crate) struct TemplateFile {
    /// Its path, relative to the project's folder.
    pub(crate) path: String,
    pub(crate) content: Vec<u8>,
}

/// Stands for the plugin's name in the files of `templates/`.
const PLACEHOLDER: &str = "{{name}}";

/// Returns all files of a new project, or `None` when this binary was built without that language's template.
pub(crate) fn project_files(language: Language, name: &str) -> Option<Vec<TemplateFile>> {
    let of_language = |all: &[(&str, Files)]| {
        all.iter().find(|(candidate, _)| *candidate == language.name()).map(|(_, files)| *files)
    };
    let (template, sdk) = (of_language(embedded::TEMPLATES)?, of_language(embedded::SDKS)?);
    let mut files = Vec::new();
    if let Some((_, example_name, example)) = example_of(language) {
        let is_replaced = |path: &str| template.iter().any(|(replacement, _)| *replacement == path);
        files.extend(example.iter().filter(|(path, _)| !is_replaced(path)).map(|(path, content)| {
            TemplateFile { path: (*path).to_owned(), content: with_name(content, example_name, name) }
        }));
    }
    files.extend(template.iter().map(|(path, content)| TemplateFile {
        path: path.replace(PLACEHOLDER, name),
        content: with_name(content, PLACEHOLDER, name),
    }));
    files.extend(sdk.iter().map(|(path, content)| TemplateFile {
        path: format!("sdk/{path}"),
        content: standalone(language, path, content),
    }));
    // The other SDKs contain the contract by a symbolic link; this one refers to it by a path out of its folder.
    if language == Language::Rust {
        files.extend(embedded::WIT.iter().map(|(path, content)| TemplateFile {
            path: format!("sdk/wit/pilothouse/{path}"),
            content: content.to_vec(),
        }));
    }
    Some(files)
}

/// Writes the files into an existing folder.
pub(crate) fn write(files: &[TemplateFile], folder: &Path) -> io::Result<()> {
    for file in files {
        let path = folder.join(&file.path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, &file.content)?;
    }
    Ok(())
}

/// The sample controller in this language: the language's name, the plugin's name and the files.
fn example_of(language: Language) -> Option<&'static (&'static str, &'static str, Files)> {
    embedded::EXAMPLES.iter().find(|(candidate, _, _)| *candidate == language.name())
}

fn with_name(content: &[u8], placeholder: &str, name: &str) -> Vec<u8> {
    match std::str::from_utf8(content) {
        Ok(text) => text.replace(placeholder, name).into_bytes(),
        Err(_) => content.to_vec(),
    }
}

/// Returns a file of the SDK without references to the repository: the Rust crate names the examples' workspace and finds the
/// contract by a path out of its own folder (docs/decisions/0002-building-guests.md).
fn standalone(language: Language, path: &str, content: &[u8]) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(content) else { return content.to_vec() };
    match (language, path) {
        (Language::Rust, "Cargo.toml") => {
            text.replace("workspace = \"../../examples\"\n", "").replace("[lints]\nworkspace = true\n\n", "")
        }
        (Language::Rust, "src/bindings.rs") => text.replace("\"../../wit\"", "\"wit/pilothouse\""),
        _ => return content.to_vec(),
    }
    .into_bytes()
}

type Files = &'static [(&'static str, &'static [u8])];

#[cfg(test)]
mod tests {
    use super::*;

    fn text<'a>(files: &'a [TemplateFile], path: &str) -> &'a str {
        let file = files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("no {path}"));
        std::str::from_utf8(&file.content).expect("text")
    }

    #[test]
    fn no_placeholder_remains_and_no_generated_file_is_included() {
        for language in Language::ALL {
            let files =
                project_files(language, "my-name").unwrap_or_else(|| panic!("no {}", language.name()));
            assert!(files.len() > 5, "{language:?}: {files:?}");
            for file in &files {
                let is_generated = ["node_modules/", "target/", "__pycache__/", ".venv/"]
                    .iter()
                    .any(|part| file.path.contains(part));
                assert!(!is_generated && !file.path.ends_with(".wasm"), "{language:?}: {}", file.path);
                let placeholder = PLACEHOLDER.as_bytes();
                let has_placeholder = file.content.windows(placeholder.len()).any(|part| part == placeholder);
                assert!(!has_placeholder, "{language:?}: {} has the placeholder", file.path);
            }
            assert!(text(&files, "README.md").contains("my-name"), "{language:?}");
            assert!(files.iter().any(|file| file.path == ".gitignore"), "{language:?}");
            assert!(
                files.iter().any(|file| file.path.ends_with("reconcile.wit")),
                "{language:?}: no contract"
            );
            let is_released = |file: &TemplateFile| file.path.contains("/released/");
            assert!(!files.iter().any(is_released), "{language:?}: contracts of earlier versions");
        }
    }

    /// The files of a project that depend on where it is. Everything else comes from the example, so the two cannot differ.
    const FILES_OF_TEMPLATES: [&str; 9] = [
        ".gitignore",
        "Cargo.lock",
        "Cargo.toml",
        "README.md",
        "go.mod",
        "package-lock.json",
        "package.json",
        "pyproject.toml",
        "requirements.txt",
    ];

    #[test]
    fn the_source_of_a_project_is_that_of_the_example() {
        let languages = embedded::TEMPLATES.iter().filter(|(language, _)| *language != "c");
        for (language, template) in languages {
            let source: Vec<_> = template
                .iter()
                .filter(|(path, _)| !FILES_OF_TEMPLATES.contains(path))
                .map(|(path, _)| path)
                .collect();
            assert!(source.is_empty(), "templates/{language} has {source:?}: change the example instead");
            let has_example = embedded::EXAMPLES.iter().any(|(with_example, _, _)| with_example == language);
            assert!(has_example, "{language} has neither an example nor a template with source");
        }
    }

    #[test]
    fn the_names_of_examples_do_not_remain() {
        for language in Language::ALL {
            for file in project_files(language, "my-name").expect("a template") {
                let content = String::from_utf8_lossy(&file.content);
                let is_own = !file.path.starts_with("sdk/");
                assert!(!is_own || !content.contains("sample-controller"), "{language:?}: {}", file.path);
            }
        }
    }

    #[test]
    fn a_project_ignores_its_own_status_writes() {
        for language in Language::ALL {
            let files = project_files(language, "my-name").expect("a template");
            let has_predicate = files
                .iter()
                .filter(|file| !file.path.starts_with("sdk/"))
                .any(|file| String::from_utf8_lossy(&file.content).contains("generationChanged()"));
            assert!(
                has_predicate,
                "{language:?}: without a predicate each status write wakes the plugin again"
            );
        }
    }

    #[test]
    fn the_rust_sdk_stands_alone() {
        let files = project_files(Language::Rust, "p").expect("the Rust template");
        let manifest = text(&files, "sdk/Cargo.toml");
        assert!(!manifest.contains("workspace"), "{manifest}");
        assert!(!text(&files, "sdk/src/bindings.rs").contains("\"../"), "a path out of the SDK");
        assert!(text(&files, "sdk/wit/pilothouse/worlds.wit").contains("world reconciler"));
    }
}
