//! What `pilothouse new` writes: a language's template with its SDK and the contract, all embedded in this binary.

mod embedded;

use std::fs;
use std::io;
use std::path::Path;

use crate::build::Language;

/// One file of a project, with its path in it.
#[derive(Debug)]
pub(crate) struct TemplateFile {
    pub(crate) path: String,
    pub(crate) content: Vec<u8>,
}

const PLACEHOLDER: &str = "{{name}}";

/// All files of a new project; `None` when this binary was built without that language's template.
pub(crate) fn project(language: Language, name: &str) -> Option<Vec<TemplateFile>> {
    let of = |all: &[(&str, Files)]| {
        all.iter().find(|(found, _)| *found == language.name()).map(|(_, files)| *files)
    };
    let (template, sdk) = (of(embedded::TEMPLATES)?, of(embedded::SDKS)?);
    let mut files: Vec<_> = template
        .iter()
        .map(|(path, content)| TemplateFile {
            path: path.replace(PLACEHOLDER, name),
            content: named(content, name),
        })
        .collect();
    files.extend(sdk.iter().map(|(path, content)| TemplateFile {
        path: format!("sdk/{path}"),
        content: standing_alone(language, path, content),
    }));
    // The other SDKs have a link to the contract where this one has a path out of its folder.
    if language == Language::Rust {
        files.extend(embedded::WIT.iter().map(|(path, content)| TemplateFile {
            path: format!("sdk/wit/pilothouse/{path}"),
            content: content.to_vec(),
        }));
    }
    Some(files)
}

/// Writes the files into a folder that is there.
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

fn named(content: &[u8], name: &str) -> Vec<u8> {
    match std::str::from_utf8(content) {
        Ok(text) => text.replace(PLACEHOLDER, name).into_bytes(),
        Err(_) => content.to_vec(),
    }
}

/// A file of the SDK without its ties to the repository: the Rust crate names the examples' workspace and finds the
/// contract by a path out of its own folder (docs/decisions/0002-building-guests.md).
fn standing_alone(language: Language, path: &str, content: &[u8]) -> Vec<u8> {
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
    fn no_placeholder_is_left_and_nothing_that_tools_make_is_in() {
        for language in Language::ALL {
            let files = project(language, "my-name").unwrap_or_else(|| panic!("no {}", language.name()));
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
    fn the_rust_sdk_stands_alone() {
        let files = project(Language::Rust, "p").expect("the Rust template");
        let manifest = text(&files, "sdk/Cargo.toml");
        assert!(!manifest.contains("workspace"), "{manifest}");
        assert!(!text(&files, "sdk/src/bindings.rs").contains("\"../"), "a path out of the SDK");
        assert!(text(&files, "sdk/wit/pilothouse/worlds.wit").contains("world reconciler"));
    }
}
