//! `pilothouse completions`.

use crate::binary::{assert_fails, assert_succeeds};

#[test]
fn the_script_of_a_shell_is_printed_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = assert_succeeds(folder.path(), &["completions", "bash"]);
    assert!(output.stdout.starts_with("_pilothouse()"), "{}", output.stdout);
    assert_eq!(output.stderr, "");
}

#[test]
fn an_unknown_shell_is_refused_with_those_that_exist() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_fails(
        folder.path(),
        &["completions", "tcsh"],
        2,
        &["tcsh", "bash, elvish, fish, powershell, zsh"],
    );
}
