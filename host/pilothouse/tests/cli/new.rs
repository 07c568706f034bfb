//! `pilothouse new`.

use std::fs;
use std::os::unix::fs::symlink;

use pilothouse_toolchain::Language;

use crate::binary::{assert_fails, assert_succeeds, names, run};

#[test]
fn each_language_has_a_complete_template() {
    for language in Language::ALL.map(Language::name) {
        let folder = tempfile::tempdir().expect("a folder");
        let output = assert_succeeds(folder.path(), &["new", "greeter", "--lang", language]);
        assert!(
            output.stdout.ends_with("  pilothouse build greeter\n  pilothouse dev --build greeter\n"),
            "{output:#?}"
        );
        assert_eq!(names(folder.path()), ["greeter"], "{language}: nothing else is left");
        let project = folder.path().join("greeter");
        let readme = fs::read_to_string(project.join("README.md")).expect("a README");
        assert!(readme.starts_with("# greeter\n"), "{language}: {readme}");
        for file in [".gitignore", "manifests/foo.yaml", "sdk/README.md"] {
            assert!(project.join(file).is_file(), "{language}: no {file}");
        }
        let mode = std::os::unix::fs::PermissionsExt::mode(&project.metadata().expect("there").permissions());
        assert_eq!(mode & 0o500, 0o500, "{language}");
    }
}

#[test]
fn existing_files_are_not_overwritten() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("taken")).expect("made");
    fs::write(folder.path().join("taken/mine.txt"), "mine").expect("written");
    assert_fails(
        folder.path(),
        &["new", "taken", "--lang", "rust"],
        1,
        &["./taken", "not an empty folder", "another name"],
    );
    assert_eq!(names(&folder.path().join("taken")), ["mine.txt"]);

    fs::write(folder.path().join("a-file"), "mine").expect("written");
    symlink("nowhere", folder.path().join("a-link")).expect("linked");
    for name in ["a-file", "a-link"] {
        assert_fails(folder.path(), &["new", name, "--lang", "rust"], 1, &["nothing was written"]);
    }
    assert_eq!(names(folder.path()), ["a-file", "a-link", "taken"]);

    fs::create_dir(folder.path().join("empty")).expect("made");
    assert_succeeds(folder.path(), &["new", "empty", "--lang", "rust"]);
    assert!(folder.path().join("empty/Cargo.toml").is_file());
}

#[test]
fn invalid_usage_exits_with_2() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["Greeter", "a_b", "../up", "a/b", "-", "a.b"] {
        assert_fails(folder.path(), &["new", "--lang", "rust", "--", name], 2, &[name, "lower-case letters"]);
    }
    assert_fails(folder.path(), &["new", "greeter"], 2, &["--lang"]);
    assert_fails(
        folder.path(),
        &["new", "greeter", "--lang", "cobol"],
        2,
        &["cobol", "rust, js, python, go, c"],
    );
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

#[test]
fn error_names_a_folder_that_cannot_be_written() {
    // Not even root can create files in /proc/self.
    let output = run(std::path::Path::new("/proc/self"), &["new", "greeter", "--lang", "rust"]);
    assert_eq!(output.code, Some(1), "{output:#?}");
    assert!(
        output.stderr.contains("./greeter") && output.stderr.contains("nothing was written"),
        "{output:#?}"
    );
}
