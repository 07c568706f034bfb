//! Patterns of the paths in a project, for `watch` in `pilothouse.yaml`.

use std::ffi::OsStr;
use std::path::Path;

/// A pattern of paths relative to a project's folder. `*` stands for any text and `?` for one character of a name, `**` for any number
/// of folders. A pattern that matches a folder matches all files in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// One for each name in a path. The last one is always `**`.
    names: Vec<String>,
}

/// The name that stands for any number of folders.
const ANY_FOLDERS: &str = "**";
/// The maximum length of a pattern in bytes.
const MAX_LENGTH: usize = 512;

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// Errors if the pattern is empty or too long, or describes paths outside of the project's folder.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_LENGTH {
            return Err(format!("the pattern has {} bytes; the maximum is {MAX_LENGTH}", text.len()));
        }
        let names = text.split('/').filter(|name| !name.is_empty() && *name != ".");
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        if names.is_empty() || text.starts_with('/') || names.iter().any(|name| name == "..") {
            return Err(format!(
                "{text:?} is not a pattern of paths in the project's folder; write one such as \"src\" or \"**/*.zig\""
            ));
        }
        names.push(ANY_FOLDERS.to_owned());
        Ok(Self { names })
    }

    /// Returns whether the pattern matches a path relative to the project's folder, or one of the folders that contain it.
    pub(super) fn matches(&self, path: &Path) -> bool {
        let path: Vec<_> = path.iter().map(OsStr::to_string_lossy).collect();
        is_match(&self.names, &path, |name| name == ANY_FOLDERS, |name, found| is_name(name, found))
    }
}

/// Returns whether the name matches a pattern of names, with `*` and `?`.
fn is_name(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    is_match(&pattern, &name, |wanted| *wanted == '*', |wanted, found| *wanted == '?' || wanted == found)
}

/// Returns whether the elements of a pattern match a sequence. An element for which `is_any` holds matches any number of items. Takes at
/// most as many steps as the product of both lengths.
fn is_match<P, T>(
    pattern: &[P],
    items: &[T],
    is_any: impl Fn(&P) -> bool,
    is_equal: impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut element, mut item) = (0, 0);
    // The element after the last one that matches any number of items, and the first item that it was compared with. If the rest does
    // not match, the search continues with the item after that.
    let mut retry = None;
    while item < items.len() {
        match pattern.get(element) {
            Some(wanted) if is_any(wanted) => {
                element += 1;
                retry = Some((element, item));
            }
            Some(wanted) if is_equal(wanted, &items[item]) => (element, item) = (element + 1, item + 1),
            _ => {
                let Some((after, first)) = retry else { return false };
                (element, item) = (after, first + 1);
                retry = Some((element, item));
            }
        }
    }
    pattern.iter().skip(element).all(is_any)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        Pattern::parse(pattern).expect(pattern).matches(Path::new(path))
    }

    #[test]
    fn a_pattern_matches_files_and_everything_in_folders() {
        for (pattern, path) in [
            ("src", "src/main.zig"),
            ("src/", "src/deep/main.zig"),
            ("./build.zig", "build.zig"),
            ("*.zig", "build.zig"),
            ("s*/m??n.zig", "src/main.zig"),
            ("**/*.zig", "main.zig"),
            ("**/*.zig", "src/deep/main.zig"),
            ("src/**/test", "src/a/b/test/one.zig"),
            ("*a*b*", "xaxabxbx"),
        ] {
            assert!(matches(pattern, path), "{pattern} {path}");
        }
    }

    #[test]
    fn a_pattern_does_not_match_other_paths() {
        for (pattern, path) in [
            ("src", "srcs/main.zig"),
            ("src", "lib/src"),
            ("*.zig", "src/main.zig"),
            ("?.zig", "ab.zig"),
            ("src/*.zig", "src/deep/main.zig"),
            ("**/*.zig", "src/main.zigs"),
            ("src/**/test", "src/a/tests/one.zig"),
            ("src/main.zig", "src"),
        ] {
            assert!(!matches(pattern, path), "{pattern} {path}");
        }
    }

    #[test]
    fn a_pattern_stays_inside_of_the_project() {
        for text in ["", ".", "/", "/etc/passwd", "../other", "src/../../other"] {
            let error = Pattern::parse(text).expect_err(text);
            assert!(error.contains("not a pattern of paths in the project's folder"), "{error}");
        }
        assert!(Pattern::parse(&"a".repeat(MAX_LENGTH + 1)).expect_err("long").contains("the maximum is"));
    }

    #[test]
    fn the_work_for_a_hostile_pattern_is_bounded() {
        let pattern = format!("{}b", "*a".repeat(200));
        assert!(!matches(&pattern, &"a".repeat(5000)));
        let folders = format!("{}b", "**/a/".repeat(90));
        assert!(!matches(&folders, &"a/".repeat(2000)));
    }
}
