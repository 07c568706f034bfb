//! Checks that the files and folders that CONTRIBUTING.md names exist. A recipe with a wrong path misleads everybody who follows it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The page that is checked.
const PAGE: &str = "CONTRIBUTING.md";

/// What a path without a slash ends with. Other names, such as `pilothouse.yaml`, may be those of a user's files.
const EXTENSIONS: [&str; 4] = [".md", ".rs", ".toml", ".wit"];

/// Words in capital letters that stand for a name of the contributor's choice.
const PLACEHOLDERS: [&str; 2] = ["LANGUAGE", "NAME"];

/// Returns a line for each path that the page names and that does not exist.
///
/// # Errors
/// Errors if the page cannot be read.
pub(crate) fn missing_paths(root: &Path, files: &[PathBuf]) -> Result<Vec<String>> {
    let page = std::fs::read_to_string(root.join(PAGE)).with_context(|| format!("read {PAGE}"))?;
    Ok(problems(&page, files))
}

fn problems(page: &str, files: &[PathBuf]) -> Vec<String> {
    let missing = |path: &&str| !files.iter().any(|file| names(path, file));
    paths(page)
        .into_iter()
        .filter(missing)
        .map(|path| format!("{PAGE}: {path} is not a file or folder of the repository"))
        .collect()
}

/// Returns the paths on the page: code in backquotes that looks like a path, and the targets of links within the repository.
fn paths(page: &str) -> Vec<&str> {
    let code = page.split('`').skip(1).step_by(2).filter(|text| is_path(text));
    let links = page.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    code.chain(links.filter(|target| !target.is_empty() && !target.contains("://"))).collect()
}

/// Whether the text looks like a path in the repository. Text that starts with a slash is a path of a URL.
fn is_path(text: &str) -> bool {
    let is_relative = !text.starts_with('/') && !text.contains("..");
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
    let has_name = text.bytes().any(|byte| byte.is_ascii_alphanumeric());
    let is_separated = text.contains('/') || EXTENSIONS.iter().any(|extension| text.ends_with(*extension));
    is_relative && has_name && is_separated && text.bytes().all(is_allowed)
}

/// Whether the path names this file or one of its folders. A path may leave out the first folders, as in `metrics/mod.rs`.
fn names(path: &str, file: &Path) -> bool {
    let path: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let file: Vec<&str> = file.iter().filter_map(|segment| segment.to_str()).collect();
    let is_match = |part: &[&str]| part.iter().zip(&path).all(|(found, wanted)| is_match(found, wanted));
    !path.is_empty() && file.windows(path.len()).any(is_match)
}

/// Whether a segment of a file's path is the wanted one. A placeholder matches any text.
fn is_match(found: &str, wanted: &str) -> bool {
    let placeholder = PLACEHOLDERS.iter().find_map(|placeholder| wanted.split_once(*placeholder));
    match placeholder {
        Some((start, end)) => {
            found.len() >= start.len() + end.len() && found.starts_with(start) && found.ends_with(end)
        }
        None => found == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems_of(page: &str) -> Vec<String> {
        let files = ["docs/a.md", "host/a/src/mod.rs", "host/a/src/metrics/rest.rs", "sdk/rust/README.md"];
        problems(page, &files.map(PathBuf::from))
    }

    #[test]
    fn paths_that_do_not_exist_are_found() {
        let page = "See `stand_in.rs`, `host/b`, `src/rest.rs`, `sdk/NAME/src` and [a page](docs/b.md#part).";
        let problems = problems_of(page);
        let missing = ["stand_in.rs", "host/b", "src/rest.rs", "sdk/NAME/src", "docs/b.md"];
        let expected =
            missing.map(|path| format!("CONTRIBUTING.md: {path} is not a file or folder of the repository"));
        assert_eq!(problems, expected);
    }

    #[test]
    fn files_and_folders_are_found_by_their_last_segments_and_by_placeholders() {
        let page = "`docs/a.md`, `host/a/src`, `docs/`, `metrics/rest.rs`, `mod.rs`, `sdk/LANGUAGE`, `metrics/NAME.rs` and [a](docs/a.md).";
        assert_eq!(problems_of(page), Vec::<String>::new());
    }

    #[test]
    fn code_that_is_no_path_is_ignored() {
        let page = "`cargo xtask tidy`, `//!`, `name: value`, `0.1.0`, `NAME`, `--workspace`, `/api/plugins`, `../../wit`, \
                    `pilothouse.yaml` and [a site](https://example.com/a).";
        assert_eq!(problems_of(page), Vec::<String>::new());
    }
}
