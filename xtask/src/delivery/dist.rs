//! `cargo xtask dist`: writes the archives of a release for this machine's platform.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::archive::{self, Entry};
use super::build::{self, Built, Compiler, Variant};
use super::metadata::{Metadata, PACKAGE};
use super::sbom::{self, Delivery};
use super::source::Source;

/// The shells, each with the name under which it looks for the script.
const COMPLETIONS: [(&str, &str); 5] = [
    ("bash", "pilothouse.bash"),
    ("elvish", "pilothouse.elv"),
    ("fish", "pilothouse.fish"),
    ("powershell", "_pilothouse.ps1"),
    ("zsh", "_pilothouse"),
];

/// Options of `cargo xtask dist`.
#[derive(Debug, Args)]
pub(crate) struct DistArguments {
    /// Folder to write the archives into. By default, `archives` in the target directory.
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Fail unless this is the git tag of the version in Cargo.toml.
    #[arg(long)]
    tag: Option<String>,
}

/// Builds the program with all features and writes an archive with it, its completion scripts, man pages and SBOM, and on Linux an
/// archive with its debug lines.
///
/// # Errors
/// Errors if the build fails, or the program does not run.
pub(crate) fn run(root: &Path, arguments: &DistArguments) -> Result<()> {
    let metadata = Metadata::read(root)?;
    let source = Source::read(root, &metadata)?;
    if let Some(tag) = &arguments.tag {
        source.require_tag(tag)?;
    }
    let compiler = Compiler::find(root)?;
    let target_folder = metadata.target_folder()?;
    let built = build::build(root, &target_folder, &compiler, Variant::Full)?;
    let sbom = sbom::document(root, &metadata, &source, &compiler, Variant::Full, Delivery::Archive)?;
    let output = match &arguments.output {
        Some(folder) => folder.clone(),
        None => target_folder.join("archives"),
    };
    fs::create_dir_all(&output).with_context(|| format!("create {}", output.display()))?;
    let name = archive_name(&source.version, &compiler.target);
    let run = |arguments: &[&str]| output_of(&built.program, arguments);
    write_archive(&output, &name, entries(root, &name, &built, sbom.clone(), &run)?)?;
    let sbom_file = output.join(format!("{name}.cdx.json"));
    fs::write(&sbom_file, sbom).with_context(|| format!("write {}", sbom_file.display()))?;
    if let Some(lines) = &built.debug_lines {
        let content = read(lines)?;
        let file = Entry::file(format!("{name}/{PACKAGE}.debug"), 0o644, content);
        write_archive(&output, &format!("{name}.debug"), vec![Entry::folder(&name, 0o755), file])?;
    }
    Ok(())
}

/// Returns the name of the archive for a platform, without its ending. `[package.metadata.binstall]` in host/pilothouse/Cargo.toml names it,
/// too.
fn archive_name(version: &str, target: &str) -> String {
    format!("{PACKAGE}-{version}-{target}")
}

/// Returns the name of the file of an archive.
fn file_name(name: &str) -> String {
    format!("{name}.tar.gz")
}

/// Runs the program with arguments and returns its output.
type Run<'a> = &'a dyn Fn(&[&str]) -> Result<Vec<u8>>;

/// Returns what the archive contains, in one folder.
fn entries(root: &Path, name: &str, built: &Built, sbom: String, run: Run<'_>) -> Result<Vec<Entry>> {
    let in_archive = |path: &str| format!("{name}/{path}");
    let mut entries = vec![
        Entry::folder(name, 0o755),
        Entry::folder(&in_archive("completions"), 0o755),
        Entry::folder(&in_archive("man"), 0o755),
        Entry::folder(&in_archive("man/man1"), 0o755),
        Entry::file(in_archive(PACKAGE), 0o755, read(&built.program)?),
        Entry::file(in_archive("pilothouse.cdx.json"), 0o644, sbom),
    ];
    for file in ["LICENSE", "README.md", "CHANGELOG.md"] {
        entries.push(Entry::file(in_archive(file), 0o644, read(&root.join(file))?));
    }
    for (shell, file) in COMPLETIONS {
        let script = run(&["completions", shell])?;
        entries.push(Entry::file(in_archive(&format!("completions/{file}")), 0o644, script));
    }
    for (file, page) in man_pages(&built.program.with_file_name("man1"), run)? {
        entries.push(Entry::file(in_archive(&format!("man/man1/{file}")), 0o644, page));
    }
    Ok(entries)
}

/// Returns the man pages that the program writes into a folder, each with its file name.
fn man_pages(folder: &Path, run: Run<'_>) -> Result<Vec<(String, Vec<u8>)>> {
    if folder.exists() {
        // Pages of commands that no longer exist.
        fs::remove_dir_all(folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    let path = folder.to_str().context("the path of the target directory is not UTF-8")?;
    run(&["man-pages", path])?;
    let mut pages = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry.with_context(|| format!("read {}", folder.display()))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).context("a file name is not UTF-8")?;
        pages.push((name.to_owned(), read(&path)?));
    }
    Ok(pages)
}

fn output_of(program: &Path, arguments: &[&str]) -> Result<Vec<u8>> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| format!("start {}", program.display()))?;
    ensure!(
        output.status.success(),
        "{} {}: {}",
        program.display(),
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output.stdout)
}

fn write_archive(folder: &Path, name: &str, entries: Vec<Entry>) -> Result<()> {
    let path = folder.join(file_name(name));
    let bytes = archive::gzip(&archive::tar(entries)?)?;
    fs::write(&path, &bytes).with_context(|| format!("write {}", path.display()))?;
    println!("dist: {} is {} MB", path.display(), bytes.len().div_ceil(1_000_000));
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers like `pilothouse`.
    fn answer(arguments: &[&str]) -> Result<Vec<u8>> {
        if let ["man-pages", folder] = arguments {
            fs::create_dir_all(folder).expect("created");
            fs::write(Path::new(folder).join("pilothouse.1"), "a page").expect("written");
        }
        Ok(arguments.join(" ").into_bytes())
    }

    #[test]
    fn the_archive_has_the_program_scripts_and_pages_and_is_reproducible() {
        let folder = tempfile::tempdir().expect("a folder");
        for file in ["LICENSE", "README.md", "CHANGELOG.md", PACKAGE] {
            fs::write(folder.path().join(file), file).expect("written");
        }
        let stale = folder.path().join("man1/pilothouse-removed.1");
        fs::create_dir(folder.path().join("man1")).expect("created");
        fs::write(stale, "a page").expect("written");
        let built = Built { program: folder.path().join(PACKAGE), debug_lines: None };
        let tree = || entries(folder.path(), "p-1.2.3-x", &built, "{}".to_owned(), &answer).expect("entries");
        let mut files: Vec<_> = tree().into_iter().filter(|entry| entry.content.is_some()).collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let files: Vec<_> = files.iter().map(|entry| entry.path.trim_start_matches("p-1.2.3-x/")).collect();
        assert_eq!(
            files,
            [
                "CHANGELOG.md",
                "LICENSE",
                "README.md",
                "completions/_pilothouse",
                "completions/_pilothouse.ps1",
                "completions/pilothouse.bash",
                "completions/pilothouse.elv",
                "completions/pilothouse.fish",
                "man/man1/pilothouse.1",
                "pilothouse",
                "pilothouse.cdx.json",
            ]
        );
        let archives = [(); 2].map(|()| archive::tar(tree()).expect("an archive"));
        assert_eq!(archives[0], archives[1]);
    }

    /// Fills in a template of binstall for the package in this version.
    fn filled_in(template: &str, target: &str) -> String {
        [
            ("repo", "https://example.com/pilothouse"),
            ("name", PACKAGE),
            ("bin", PACKAGE),
            ("version", "1.2.3"),
            ("target", target),
            ("binary-ext", ""),
        ]
        .iter()
        .fold(template.to_owned(), |text, (name, value)| text.replace(&format!("{{ {name} }}"), value))
    }

    #[test]
    fn binstall_finds_the_program_in_the_archive_of_each_platform() {
        let metadata = Metadata::read(&crate::root()).expect("cargo metadata");
        let package = metadata.package(PACKAGE, None).expect("the package");
        let binstall = &package.metadata()["binstall"];
        assert_eq!(binstall["pkg-fmt"], "tgz");
        let folder = tempfile::tempdir().expect("a folder");
        for file in ["LICENSE", "README.md", "CHANGELOG.md", PACKAGE] {
            fs::write(folder.path().join(file), file).expect("written");
        }
        let built = Built { program: folder.path().join(PACKAGE), debug_lines: None };
        // Each platform that binstall asks for, and the one for which the archive was built.
        for (asked, built_for) in [
            ("x86_64-unknown-linux-gnu", "x86_64-unknown-linux-gnu"),
            ("aarch64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"),
            ("x86_64-unknown-linux-musl", "x86_64-unknown-linux-gnu"),
            ("aarch64-unknown-linux-musl", "aarch64-unknown-linux-gnu"),
            ("x86_64-apple-darwin", "x86_64-apple-darwin"),
            ("aarch64-apple-darwin", "aarch64-apple-darwin"),
        ] {
            let setting = |name: &str| {
                let special = binstall["overrides"][asked][name].as_str();
                let template = special.or(binstall[name].as_str()).expect("a template");
                filled_in(template, asked)
            };
            let name = archive_name("1.2.3", built_for);
            let expected =
                format!("https://example.com/pilothouse/releases/download/v1.2.3/{}", file_name(&name));
            assert_eq!(setting("pkg-url"), expected, "{asked}");
            let tree = entries(folder.path(), &name, &built, "{}".to_owned(), &answer).expect("entries");
            let program = setting("bin-dir");
            assert!(
                tree.iter()
                    .any(|entry| entry.path == program && entry.mode == 0o755 && entry.content.is_some()),
                "{asked}: the archive has no {program}"
            );
        }
    }

    #[test]
    fn a_program_that_fails_is_an_error_with_its_output() {
        let error = output_of(Path::new("sh"), &["-c", "echo broken >&2; exit 3"]).expect_err("refused");
        assert!(error.to_string().contains("broken"), "{error}");
    }
}
