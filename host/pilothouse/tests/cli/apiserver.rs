//! The flags of `pilothouse apiserver`.

use std::fs;
use std::future::ready;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::binary::{assert_fails, pilothouse, wait_for};

#[test]
fn unknown_controller_is_refused_with_the_known_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = ["there is no controller \"deploymant\"", "deployment-controller", "--controllers"];
    assert_fails(folder.path(), &["apiserver", "--controllers", "job,deploymant"], 2, &refused);
}

#[test]
fn file_of_stages_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_fails(folder.path(), &["apiserver", "--stages", "none.yaml"], 2, &["--stages none.yaml"]);
    let stage = "apiVersion: pilothouse.dev/v1alpha1\nkind: Stage\nmetadata: {name: a}\nspec: {resourceRef: {kind: Foo}}\n";
    fs::write(folder.path().join("s.yaml"), stage).expect("written");
    let refused = ["--stages s.yaml", "stage \"a\": resourceRef: Foo of v1 has no stages"];
    assert_fails(folder.path(), &["apiserver", "--stages", "s.yaml"], 2, &refused);
}

#[test]
fn certificates_that_cannot_be_used_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("text.pem"), "text").expect("written");
    let files = ["--tls-cert-file", "text.pem", "--tls-private-key-file", "text.pem"];
    let refused = ["--tls-cert-file text.pem", "no certificate"];
    assert_fails(folder.path(), &[&["apiserver"], &files[..]].concat(), 2, &refused);
    let refused = ["--client-ca-file none.pem"];
    assert_fails(folder.path(), &["apiserver", "--client-ca-file", "none.pem"], 2, &refused);
    assert_fails(
        folder.path(),
        &["apiserver", "--tls-cert-file", "text.pem"],
        2,
        &["--tls-private-key-file"],
    );
}

#[tokio::test]
async fn a_signal_ends_a_command_that_waits_for_a_pipe() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("stages");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let mut command = pilothouse(folder.path());
    let mut server = command.args(["apiserver", "--stages", "stages"]).spawn().expect("it runs");
    // Opening succeeds once the command has opened the pipe, too. It then waits for the end, which does not come.
    let _writer = fs::File::options().write(true).open(&pipe).expect("a reader");
    kill_process(Pid::from_child(&server), Signal::TERM).expect("signalled");
    let status = wait_for("the end", String::new, || ready(server.try_wait().expect("a process"))).await;
    assert_eq!(status.code(), Some(1));
}
