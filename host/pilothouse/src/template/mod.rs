//! The projects that `pilothouse new` creates: a language's template, its SDK and the WIT contract, all embedded in this binary.

mod embedded;

use std::fs;
use std::io;
use std::path::Path;

use pilothouse_toolchain::Language;

/// A file of a new project.
#[derive(Debug)]
pub(crate) struct TemplateFile {
    /// Path relative to the project's folder.
    pub(crate) path: String,
    pub(crate) content: Vec<u8>,
}

const PLACEHOLDER: &str = "{{name}}";

/// Returns all files of a new project. Returns `None` if this binary was built without the language's template.
pub(crate) fn project_files(language: Language, name: &str) -> Option<Vec<TemplateFile>> {
    let files_of_language = |all: &[(&str, Files)]| {
        all.iter().find(|(found, _)| *found == language.name()).map(|(_, files)| *files)
    };
    let (template, sdk) = (files_of_language(embedded::TEMPLATES)?, files_of_language(embedded::SDKS)?);
    let mut files: Vec<_> = template
        .iter()
        .map(|(path, content)| TemplateFile {
            path: path.replace(PLACEHOLDER, name),
            content: replace_placeholder(content, name),
        })
        .collect();
    files.extend(sdk.iter().map(|(path, content)| TemplateFile {
        path: format!("sdk/{path}"),
        content: detach_from_repository(language, path, content),
    }));
    // The other SDKs contain the contract through a symbolic link. The Rust SDK refers to a path outside its folder.
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

fn replace_placeholder(content: &[u8], name: &str) -> Vec<u8> {
    match std::str::from_utf8(content) {
        Ok(text) => text.replace(PLACEHOLDER, name).into_bytes(),
        Err(_) => content.to_vec(),
    }
}

/// Returns the content of an SDK file without references to the rest of the repository: the Rust crate is a member of the examples'
/// workspace and refers to the contract by a path outside its folder (docs/decisions/0002-building-guests.md).
fn detach_from_repository(language: Language, path: &str, content: &[u8]) -> Vec<u8> {
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
    fn projects_contain_no_placeholders_and_no_build_output() {
        for language in Language::ALL {
            let files =
                project_files(language, "my-name").unwrap_or_else(|| panic!("no {}", language.name()));
            assert!(files.len() > 5, "{language:?}: {files:?}");
            for file in &files {
                let is_built = ["node_modules/", "target/", "__pycache__/", ".venv/"]
                    .iter()
                    .any(|part| file.path.contains(part));
                assert!(!is_built && !file.path.ends_with(".wasm"), "{language:?}: {}", file.path);
                let placeholder = PLACEHOLDER.as_bytes();
                let is_left = file.content.windows(placeholder.len()).any(|part| part == placeholder);
                assert!(!is_left, "{language:?}: {} has the placeholder", file.path);
            }
            assert!(text(&files, "README.md").contains("my-name"), "{language:?}");
            assert!(files.iter().any(|file| file.path == ".gitignore"), "{language:?}");
            assert!(
                files.iter().any(|file| file.path.ends_with("reconcile.wit")),
                "{language:?}: no contract"
            );
        }
    }

    #[test]
    fn the_rust_sdk_does_not_refer_to_the_repository() {
        let files = project_files(Language::Rust, "p").expect("the Rust template");
        let manifest = text(&files, "sdk/Cargo.toml");
        assert!(!manifest.contains("workspace"), "{manifest}");
        assert!(!text(&files, "sdk/src/bindings.rs").contains("\"../"), "a path out of the SDK");
        assert!(text(&files, "sdk/wit/pilothouse/worlds.wit").contains("world reconciler"));
    }
}
