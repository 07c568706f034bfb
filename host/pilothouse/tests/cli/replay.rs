//! `pilothouse sim --recording`: which plugins can be replayed.

use std::fs;
use std::path::Path;

use crate::binary::{assert_fails, assert_succeeds};

/// A recording of one reconcile of `done.wat`, which makes no calls.
const RECORDING: &str = r#"{"format":"pilothouse.dev/recording/v1","plugin":"done","digest":"ab","config":{},"secrets":"hashed"}
{"time":"2026-01-02T03:04:05Z","microseconds":1,"watch":"configmaps","namespace":"default","name":"a","reasons":["updated"],"attempt":0,"calls":[],"result":"done"}
"#;

/// Writes a plugin of the tests after replacing a text in its source, and the recording.
fn write(folder: &Path, from: &str, to: &str) {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugin/tests/guests/done.wat");
    let text = fs::read_to_string(source).expect("a guest");
    assert!(text.contains(from), "{from}");
    let wasm = wat::parse_str(text.replace(from, to)).expect("a guest");
    fs::write(folder.join("done.wasm"), wasm).expect("written");
    fs::write(folder.join("recording.jsonl"), RECORDING).expect("written");
}

const ARGUMENTS: [&str; 6] = ["sim", "--cache-dir", "cache", "--recording", "recording.jsonl", "done.wasm"];

#[test]
fn a_replay_has_the_limits_of_the_sidecar() {
    let folder = tempfile::tempdir().expect("a folder");
    // 1,100 pages of 64 KiB are more than the default of 64 MiB.
    write(folder.path(), "(memory (export \"memory\") 1)", "(memory (export \"memory\") 1100)");
    assert_fails(folder.path(), &ARGUMENTS, 2, &["memory"]);
    fs::write(folder.path().join("done.yaml"), "limits: {memory: 128Mi}\n").expect("written");
    let output = assert_succeeds(folder.path(), &ARGUMENTS);
    assert!(output.stdout.contains("1 reconciles are equal"), "{output:#?}");
}

#[test]
fn a_plugin_that_the_quick_compiler_refuses_can_be_replayed() {
    let folder = tempfile::tempdir().expect("a folder");
    let memory = "(memory (export \"memory\") 1)";
    write(folder.path(), memory, &format!("{memory} (func $endless (return_call $endless))"));
    let output = assert_succeeds(folder.path(), &ARGUMENTS);
    assert!(output.stdout.contains("1 reconciles are equal"), "{output:#?}");
}
