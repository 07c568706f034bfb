//! The guest languages: the one list that `pilothouse new` and `build`, the embedded templates, the acceptance suite,
//! `cargo xtask languages` and the language benchmark follow.

use std::iter;

/// A guest language: it has an SDK in `guest-sdk/NAME`, a template in `host/pilothouse/templates/NAME`, a builder in
/// `host/pilothouse/src/build`, and an acceptance plugin in `examples/acceptance/NAME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Rust.
    Rust,
    /// JavaScript and TypeScript.
    Js,
    /// Python.
    Python,
    /// Go.
    Go,
    /// C.
    C,
}

impl Language {
    /// All guest languages, in the order in which help texts and documents list them.
    pub const ALL: [Self; 5] = [Self::Rust, Self::Js, Self::Python, Self::Go, Self::C];

    /// Returns the name that `--lang`, `pilothouse.yaml` and folder names use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Js => "js",
            Self::Python => "python",
            Self::Go => "go",
            Self::C => "c",
        }
    }

    /// Returns the language with the given [`name`](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|language| language.name() == name)
    }

    /// Returns a description for help texts: the language and what builds it.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::Rust => "Rust, built with cargo",
            Self::Js => "JavaScript or TypeScript, built with npm",
            Self::Python => "Python, built in a virtual environment",
            Self::Go => "Go, built with the standard compiler",
            Self::C => "C, built with clang or zig",
        }
    }

    /// Returns the files that identify a project in this language. Empty for C, which has no manifest.
    #[must_use]
    pub const fn manifests(self) -> &'static [&'static str] {
        match self {
            Self::Rust => &["Cargo.toml"],
            Self::Js => &["package.json"],
            Self::Python => &["pyproject.toml", "requirements.txt"],
            Self::Go => &["go.mod"],
            Self::C => &[],
        }
    }
}

/// The name of the acceptance plugin that is written by hand as WebAssembly text. It uses no SDK and is the baseline for all others.
pub const WAT: &str = "wat";

/// Languages without an SDK, a template or a builder of their own. A command in `pilothouse.yaml` builds their projects.
pub const WITH_BUILD_COMMAND: [&str; 2] = ["zig", "assemblyscript"];

/// Returns the names of the acceptance plugin's implementations: [`WAT`], then one for each language, with those of
/// [`WITH_BUILD_COMMAND`] last.
pub fn acceptance_implementations() -> impl Iterator<Item = &'static str> {
    iter::once(WAT).chain(Language::ALL.into_iter().map(Language::name)).chain(WITH_BUILD_COMMAND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_manifests_identify_one_language_each() {
        for language in Language::ALL {
            assert_eq!(Language::from_name(language.name()), Some(language));
            for manifest in language.manifests() {
                let owners = Language::ALL.into_iter().filter(|other| other.manifests().contains(manifest));
                assert_eq!(owners.count(), 1, "{manifest}");
            }
        }
        assert_eq!(Language::from_name("cobol"), None);
    }

    #[test]
    fn every_language_has_an_sdk_a_template_and_an_acceptance_plugin() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for language in Language::ALL {
            for folder in ["guest-sdk", "host/pilothouse/templates", "examples/acceptance"] {
                let path = root.join(folder).join(language.name());
                assert!(path.is_dir(), "{} is missing", path.display());
            }
        }
    }
    #[test]
    fn every_other_language_has_a_build_command_and_examples() {
        let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        for name in WITH_BUILD_COMMAND {
            assert_eq!(Language::from_name(name), None);
            for folder in [format!("acceptance/{name}"), format!("sample-controller-{name}")] {
                let path = examples.join(folder).join("pilothouse.yaml");
                assert!(path.is_file(), "{} is missing", path.display());
            }
        }
    }
}
