//! `pilothouse.yaml` in a project: selects the project's language, or defines the command that builds it.

use std::path::{Component, Path, PathBuf};

use pilothouse_toolchain::Language;
use serde::Deserialize;
use serde_saphyr::Spanned;

use super::pattern::Pattern;
use crate::input_file;

/// The name of the file in a project's folder.
pub(crate) const PROJECT_FILE: &str = "pilothouse.yaml";

/// The maximum size of the file in bytes.
const MAX_SIZE: u64 = 64 << 10;
/// The maximum number of patterns in `watch`.
const MAX_PATTERNS: usize = 100;

/// How a project is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Builder {
    /// By the builder of a guest language.
    Language(Language),
    /// By a command of the project.
    Command(BuildCommand),
}

impl Builder {
    /// Returns what messages call the builder: the language's name, or the name of the file that defines the command.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Language(language) => language.name(),
            Self::Command(_) => PROJECT_FILE,
        }
    }

    /// Returns the patterns of the project's sources. An empty list means all files.
    pub(crate) fn into_watch(self) -> Vec<Pattern> {
        match self {
            Self::Language(_) => Vec::new(),
            Self::Command(command) => command.watch,
        }
    }
}

/// `build` in `pilothouse.yaml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BuildCommand {
    /// A script for `sh`.
    pub(super) run: String,
    /// Path of the .wasm file that the script writes, relative to the project's folder and inside of it.
    pub(super) output: PathBuf,
    /// Patterns of the sources; an empty list means all files.
    pub(super) watch: Vec<Pattern>,
    /// The version of Zig that the script finds in PATH.
    pub(super) zig: Option<String>,
}

/// How a project is built: by the builder of a guest language, or by a command.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(extend("minProperties" = 1, "maxProperties" = 1)))]
#[serde(deny_unknown_fields)]
struct FileMembers {
    /// The project's language: `rust`, `js`, `python`, `go` or `c`. Excludes `build`.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    language: Option<Spanned<String>>,
    /// The command that builds the project, in place of a language's builder.
    build: Option<BuildMembers>,
}

/// A command that builds a project.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct BuildMembers {
    /// A script for `sh`, which runs in the project's folder.
    #[cfg_attr(test, schemars(with = "String"))]
    run: Spanned<String>,
    /// Path of the .wasm file that the script writes, in the project's folder.
    #[cfg_attr(test, schemars(with = "String"))]
    output: Spanned<String>,
    /// Patterns of the sources; without any, all files are sources.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Vec<String>"))]
    watch: Vec<Spanned<String>>,
    /// The version of Zig that the script finds in PATH.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    zig: Option<Spanned<String>>,
}

/// Reads the file.
///
/// # Errors
/// Errors if the file cannot be read or is invalid. The text says in which line, and what the file may contain.
pub(super) fn read(path: &Path) -> Result<Builder, String> {
    let text = input_file::read_text(path, MAX_SIZE)
        .map_err(|problem| format!("cannot read {}: {problem}", path.display()))?;
    parse(&text).map_err(|problem| {
        let languages = Language::ALL.map(Language::name).join(", ");
        format!(
            "{}: {problem}; the file must contain either `language: LANG`, with one of {languages}, or `build` with the members `run` and \
             `output`",
            path.display()
        )
    })
}

fn parse(text: &str) -> Result<Builder, String> {
    let members: FileMembers = pilothouse_yaml::from_str(text)?;
    match (members.language, members.build) {
        (Some(language), None) => checked(&language, |name| {
            Language::from_name(name).ok_or_else(|| format!("unknown language {name:?}"))
        })
        .map(Builder::Language),
        (None, Some(build)) => build_command(&build).map(Builder::Command),
        (Some(language), Some(_)) => Err(format!(
            "line {}: `language` and `build` exclude each other, because the command replaces the language's builder",
            language.defined.line()
        )),
        (None, None) => Err("the file has neither `language` nor `build`".to_owned()),
    }
}

fn build_command(members: &BuildMembers) -> Result<BuildCommand, String> {
    let run = checked(&members.run, |text| match text.trim() {
        "" => Err("build.run is empty; write the command that builds the plugin".to_owned()),
        _ if text.contains('\0') => Err("build.run contains a NUL character".to_owned()),
        script => Ok(script.to_owned()),
    })?;
    let output = checked(&members.output, output_path)?;
    let watch = watch_patterns(&members.watch)?;
    let zig = members.zig.as_ref().map(|version| checked(version, zig_version)).transpose()?;
    Ok(BuildCommand { run, output, watch, zig })
}

fn watch_patterns(members: &[Spanned<String>]) -> Result<Vec<Pattern>, String> {
    let parse = |text: &str| Pattern::parse(text).map_err(|problem| format!("build.watch: {problem}"));
    match members {
        [first, ..] if members.len() > MAX_PATTERNS => Err(format!(
            "line {}: build.watch has {} patterns; the maximum is {MAX_PATTERNS}",
            first.defined.line(),
            members.len()
        )),
        _ => members.iter().map(|text| checked(text, parse)).collect(),
    }
}

/// Returns the checked value. An error starts with the line of the value.
fn checked<T>(member: &Spanned<String>, check: impl FnOnce(&str) -> Result<T, String>) -> Result<T, String> {
    check(&member.value).map_err(|problem| format!("line {}: {problem}", member.defined.line()))
}

/// Checks that the path is one of a .wasm file inside of the project's folder, as far as the text shows it.
fn output_path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let is_inside =
        path.components().all(|component| matches!(component, Component::Normal(_) | Component::CurDir));
    let is_wasm = path.extension().is_some_and(|extension| extension == "wasm");
    if is_inside && is_wasm && !text.contains('\0') {
        return Ok(path);
    }
    Err(format!(
        "build.output: {text:?} is not the path of a .wasm file in the project's folder; write one such as \"out/plugin.wasm\""
    ))
}

/// Checks that the text is a version, because it becomes a part of a folder's name and of an argument of pip.
fn zig_version(text: &str) -> Result<String, String> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-+".contains(&byte);
    let is_version = text.len() <= 40
        && text.starts_with(|first: char| first.is_ascii_digit())
        && text.bytes().all(is_allowed);
    if is_version {
        return Ok(text.to_owned());
    }
    Err(format!(
        "build.zig: {text:?} is not a version of Zig; write one such as \"{}\"",
        super::zig::DEFAULT_VERSION
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published_schema;

    #[test]
    fn the_published_schema_of_project_files_matches_the_types() {
        published_schema::assert_matches::<FileMembers>(
            "project.schema.json",
            "Pilothouse project (pilothouse.yaml)",
        );
    }

    fn command(text: &str) -> Result<BuildCommand, String> {
        match parse(text)? {
            Builder::Command(command) => Ok(command),
            Builder::Language(language) => panic!("expected a command, found {language:?}"),
        }
    }

    #[test]
    fn a_command_and_its_output_are_enough() {
        let expected = BuildCommand {
            run: "make plugin".to_owned(),
            output: "out/plugin.wasm".into(),
            watch: Vec::new(),
            zig: None,
        };
        assert_eq!(command("build: {run: make plugin, output: out/plugin.wasm}\n"), Ok(expected));
    }

    #[test]
    fn all_members_of_a_command_are_read() {
        let found = command(
            "build:\n  zig: 0.17.1\n  run: |\n    one\n    two\n  output: ./x.wasm\n  watch: [src, '*.zig']\n",
        );
        let found = found.expect("valid");
        assert_eq!((found.run.as_str(), found.zig.as_deref()), ("one\ntwo", Some("0.17.1")));
        let patterns = ["src", "*.zig"].map(|text| Pattern::parse(text).expect(text));
        assert_eq!(found.watch, patterns);
    }

    #[test]
    fn errors_name_the_line_and_what_belongs_there() {
        let valid = "build:\n  run: make\n  output: a.wasm\n";
        for (text, expected) in [
            ("language: cobol\n".to_owned(), ["line 1", "unknown language \"cobol\""]),
            ("\nlang: go\n".to_owned(), ["line 2", "unknown field `lang`, expected one of language, build"]),
            (
                format!("{valid}  outputs: b.wasm\n"),
                ["line 4", "unknown field `outputs`, expected one of run, output, watch, zig"],
            ),
            ("build:\n  run: make\n".to_owned(), ["line", "missing field `output`"]),
            (format!("{valid}language: go\n"), ["line 4", "exclude each other"]),
            (valid.replace("make", "' '"), ["line 2", "build.run is empty"]),
            (valid.replace("a.wasm", "a.js"), ["line 3", "build.output: \"a.js\""]),
            (valid.replace("a.wasm", "/tmp/a.wasm"), ["line 3", "in the project's folder"]),
            (valid.replace("a.wasm", "../a.wasm"), ["line 3", "in the project's folder"]),
            (valid.replace("a.wasm", "x/../../a.wasm"), ["line 3", "in the project's folder"]),
            (format!("{valid}  watch:\n  - src\n  - ../x\n"), ["line 6", "build.watch: \"../x\""]),
            (format!("{valid}  watch: [{}]\n", "a,".repeat(101)), ["line 4", "the maximum is 100"]),
            (format!("{valid}  zig: ../0.17.1\n"), ["line 4", "build.zig: \"../0.17.1\""]),
            (format!("{valid}  zig: --upgrade\n"), ["line 4", "not a version of Zig"]),
            ("{}\n".to_owned(), ["neither `language`", "nor `build`"]),
        ] {
            let error = parse(&text).expect_err(&text);
            assert!(expected.iter().all(|part| error.contains(part)), "{text}: {error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }

    #[test]
    fn the_size_of_the_file_is_limited() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(PROJECT_FILE);
        let limit = usize::try_from(MAX_SIZE).expect("small");
        let file_of = |size: usize| {
            let text = "language: go\n#";
            std::fs::write(&path, format!("{text}{}", "x".repeat(size - text.len()))).expect("written");
            read(&path)
        };
        assert_eq!(file_of(limit), Ok(Builder::Language(Language::Go)));
        assert!(file_of(limit + 1).expect_err("too large").contains("it is larger than 65536 bytes"));
    }
}
