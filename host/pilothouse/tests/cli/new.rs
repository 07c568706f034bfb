use std::fs;
use std::os::unix::fs::symlink;

use crate::tool::{names, refused, run, succeed};

const LANGUAGES: [&str; 5] = ["rust", "js", "python", "go", "c"];

#[test]
fn each_language_gets_a_whole_project() {
    for language in LANGUAGES {
        let folder = tempfile::tempdir().expect("a folder");
        let said = succeed(folder.path(), &["new", "greeter", "--lang", language]);
        assert!(
            said.stdout.ends_with("  pilothouse build greeter\n  pilothouse dev --build greeter\n"),
            "{said:#?}"
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
fn what_is_there_is_not_touched() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("taken")).expect("made");
    fs::write(folder.path().join("taken/mine.txt"), "mine").expect("written");
    refused(
        folder.path(),
        &["new", "taken", "--lang", "rust"],
        1,
        &["./taken", "not an empty folder", "another name"],
    );
    assert_eq!(names(&folder.path().join("taken")), ["mine.txt"]);

    fs::write(folder.path().join("a-file"), "mine").expect("written");
    symlink("nowhere", folder.path().join("a-link")).expect("linked");
    for name in ["a-file", "a-link"] {
        refused(folder.path(), &["new", name, "--lang", "rust"], 1, &["nothing was written"]);
    }
    assert_eq!(names(folder.path()), ["a-file", "a-link", "taken"]);

    fs::create_dir(folder.path().join("empty")).expect("made");
    succeed(folder.path(), &["new", "empty", "--lang", "rust"]);
    assert!(folder.path().join("empty/Cargo.toml").is_file());
}

#[test]
fn bad_usage_ends_with_2() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["Greeter", "a_b", "../up", "a/b", "-", "a.b"] {
        refused(folder.path(), &["new", "--lang", "rust", "--", name], 2, &[name, "lower-case letters"]);
    }
    refused(folder.path(), &["new", "greeter"], 2, &["--lang"]);
    refused(folder.path(), &["new", "greeter", "--lang", "cobol"], 2, &["cobol", "rust, js, python, go, c"]);
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

#[test]
fn a_folder_that_cannot_be_written_is_said() {
    // Where nobody may write, not even root.
    let said = run(std::path::Path::new("/proc/self"), &["new", "greeter", "--lang", "rust"]);
    assert_eq!(said.code, Some(1), "{said:#?}");
    assert!(said.stderr.contains("./greeter") && said.stderr.contains("nothing was made"), "{said:#?}");
}
