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
            output.stdout.ends_with(
                "  pilothouse build greeter\n  pilothouse test greeter\n  pilothouse dev --build greeter\n"
            ),
            "{output:#?}"
        );
        assert_eq!(names(folder.path()), ["greeter"], "{language}: nothing else is left");
        let project = folder.path().join("greeter");
        let readme = fs::read_to_string(project.join("README.md")).expect("a README");
        assert!(readme.starts_with("# greeter\n"), "{language}: {readme}");
        let simulation = "simulations/recreation.yaml";
        for file in
            [".gitignore", "manifests/foo.yaml", "scenarios/deployment.yaml", simulation, "sdk/README.md"]
        {
            assert!(project.join(file).is_file(), "{language}: no {file}");
        }
        let example = fs::read_to_string(project.join("manifests/foo.yaml")).expect("an example");
        assert!(example.starts_with("apiVersion: greeter.example.com/v1alpha1\nkind: Foo\n"), "{example}");
        let mode = std::os::unix::fs::PermissionsExt::mode(&project.metadata().expect("there").permissions());
        assert_eq!(mode & 0o500, 0o500, "{language}");
    }
}

#[test]
fn each_language_has_a_template_without_a_custom_resource() {
    for language in Language::ALL.map(Language::name) {
        let folder = tempfile::tempdir().expect("a folder");
        assert_succeeds(folder.path(), &["new", "greeter", "--lang", language, "--empty"]);
        let project = folder.path().join("greeter");
        assert!(!project.join("manifests").exists(), "{language}");
        let simulation = "simulations/recreation.yaml";
        for file in [".gitignore", "README.md", "scenarios/hello.yaml", simulation, "sdk/README.md"] {
            assert!(project.join(file).is_file(), "{language}: no {file}");
        }
    }
}

#[test]
fn the_custom_resource_has_the_given_group_and_kind() {
    let folder = tempfile::tempdir().expect("a folder");
    let flags = ["--lang", "js", "--group", "shop.example.org", "--kind", "Website"];
    assert_succeeds(folder.path(), &[&["new", "greeter"][..], &flags[..]].concat());
    let read = |file: &str| fs::read_to_string(folder.path().join("greeter").join(file)).expect(file);
    assert!(read("src/crd.js").contains("websites.shop.example.org"));
    let example = read("manifests/website.yaml");
    assert!(example.starts_with("apiVersion: shop.example.org/v1alpha1\nkind: Website\n"), "{example}");
}

#[test]
fn a_project_can_be_created_in_the_current_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let project = folder.path().join("my-plugin");
    fs::create_dir_all(project.join(".git/refs")).expect("made");
    let output = assert_succeeds(&project, &["new", ".", "--lang", "go"]);
    assert!(
        output.stdout.ends_with("  pilothouse build .\n  pilothouse test .\n  pilothouse dev --build .\n"),
        "{output:#?}"
    );
    let readme = fs::read_to_string(project.join("README.md")).expect("a README");
    assert!(readme.starts_with("# my-plugin\n"), "{readme}");
    assert!(project.join(".git/refs").is_dir());
    let written = names(&project);
    assert!(written.contains(&"sdk".to_owned()), "{written:?}");
    assert!(!written.iter().any(|name| name.starts_with(".pilothouse")), "{written:?}");

    assert_fails(&project, &["new", ".", "--lang", "go"], 1, &["the current folder", "nothing was written"]);
    assert_eq!(names(&project), written);

    let invalid = folder.path().join("My_Plugin");
    fs::create_dir(&invalid).expect("made");
    assert_fails(&invalid, &["new", ".", "--lang", "go"], 2, &["the current folder", "My_Plugin"]);
    assert_eq!(names(&invalid), Vec::<String>::new());
}

#[test]
fn the_copy_of_the_sdk_can_be_updated() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_succeeds(folder.path(), &["new", "greeter", "--lang", "go"]);
    let project = folder.path().join("greeter");
    let manifest = fs::read_to_string(project.join("sdk/go.mod")).expect("a manifest");
    let output = assert_succeeds(folder.path(), &["sdk", "update", "greeter"]);
    assert_eq!(output.stdout, "greeter/sdk is up to date\n");

    fs::write(project.join("sdk/go.mod"), "outdated").expect("written");
    fs::write(project.join("sdk/removed.go"), "outdated").expect("written");
    let before = names(&project);
    let output = assert_succeeds(&project, &["sdk", "update"]);
    assert_eq!(output.stdout, "updated ./sdk (go); files changed: 1\n");
    assert_eq!(fs::read_to_string(project.join("sdk/go.mod")).expect("a manifest"), manifest);
    assert!(!project.join("sdk/removed.go").exists());
    assert_eq!(names(&project), before, "nothing else is left");
}

#[test]
fn only_a_copy_of_the_sdk_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_fails(folder.path(), &["sdk", "update"], 2, &["not a project"]);
    assert_succeeds(folder.path(), &["new", "greeter", "--lang", "go"]);
    let project = folder.path().join("greeter");
    fs::rename(project.join("sdk"), folder.path().join("shared")).expect("renamed");
    let arguments = ["sdk", "update", "greeter"];
    assert_fails(folder.path(), &arguments, 2, &["greeter/sdk", "not a copy of the SDK for go"]);
    symlink("../shared", project.join("sdk")).expect("linked");
    fs::write(folder.path().join("shared/go.mod"), "outdated").expect("written");
    assert_fails(folder.path(), &arguments, 2, &["greeter/sdk"]);
    assert_eq!(fs::read_to_string(folder.path().join("shared/go.mod")).expect("there"), "outdated");
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
    for (flags, parts) in [
        (["--group", "example", "--kind", "Website"], ["\"example\"", "at least one dot"]),
        (["--group", "example.com", "--kind", "website"], ["\"website\"", "upper-case"]),
        (["--group", "example.com", "--kind", "Deployment"], ["\"Deployment\"", "another --kind"]),
    ] {
        let arguments = [&["new", "greeter", "--lang", "rust"][..], &flags[..]].concat();
        assert_fails(folder.path(), &arguments, 2, &parts);
    }
    for flag in ["--group", "--kind"] {
        let arguments = ["new", "greeter", "--lang", "rust", "--empty", flag, "value"];
        assert_fails(folder.path(), &arguments, 2, &["--empty", flag]);
    }
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
