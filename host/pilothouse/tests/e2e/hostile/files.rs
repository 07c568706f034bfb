//! Files that are no plugins, or are made to be expensive.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::Arena;
use crate::harness::{Guest, Host, wat};

fn fifo(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().expect("mkfifo runs");
    assert!(made.success());
}

/// Waits until a plugin of that name has failed, with a reason.
async fn is_refused(host: &Host, name: &str) -> String {
    let plugin = host.wait_for_state(name, "failed").await;
    let error = plugin["error"].as_str().unwrap_or_default().to_owned();
    assert!(!error.is_empty(), "{name} failed without a reason: {plugin:#}");
    error
}

#[tokio::test(flavor = "multi_thread")]
async fn sidecars_that_are_not_regular_files_are_rejected() {
    let mut arena = Arena::start().await;
    let plugins = arena.host.plugins();
    let sidecar = |name: &str| plugins.join(format!("{name}.yaml"));
    symlink("/dev/zero", sidecar("zero")).expect("linked");
    symlink("/etc/passwd", sidecar("passwd")).expect("linked");
    fifo(&sidecar("fifo"));
    std::fs::create_dir(sidecar("folder")).expect("made");
    for name in ["zero", "passwd", "fifo", "folder"] {
        arena.host.install_plugin(name, &wat("done"));
        let error = is_refused(&arena.host, name).await;
        assert!(error.contains(&format!("{name}.yaml")), "{error}");
        assert!(!error.contains("root:"), "{error}");
        arena.goes_on(name).await;
    }
    arena.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_that_are_not_regular_files_are_rejected() {
    let mut arena = Arena::start().await;
    let plugins = arena.host.plugins();
    symlink("/dev/zero", plugins.join("zero.wasm")).expect("linked");
    fifo(&plugins.join("fifo.wasm"));
    std::fs::create_dir(plugins.join("folder.wasm")).expect("made");
    for (name, what) in [("zero", "is a device"), ("fifo", "is a named pipe")] {
        let error = is_refused(&arena.host, name).await;
        assert!(error.contains(what), "{error}");
        arena.goes_on(name).await;
    }
    // A folder is no file that somebody meant to be a plugin.
    assert_ne!(arena.host.plugin("folder").await["state"], "running");
    arena.ends().await;
}

/// A module of so many functions that do nothing.
fn functions(count: u32) -> Vec<u8> {
    let leb = |mut value: u32| {
        let mut bytes = Vec::new();
        loop {
            let byte = (value & 0x7f) as u8;
            value >>= 7;
            if value == 0 {
                bytes.push(byte);
                return bytes;
            }
            bytes.push(byte | 0x80);
        }
    };
    let section =
        |id: u8, body: Vec<u8>| [vec![id], leb(u32::try_from(body.len()).expect("small")), body].concat();
    let types = section(1, vec![1, 0x60, 0, 0]);
    let declared = section(3, [leb(count), vec![0; count as usize]].concat());
    let body = [2, 0, 0x0b];
    let code = section(10, [leb(count), body.repeat(count as usize)].concat());
    [b"\0asm\x01\0\0\0".to_vec(), types, declared, code].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn expensive_modules_are_rejected() {
    let mut arena = Arena::start().await;
    let whole = Guest::Hostile.wasm();
    for (name, wasm) in [
        ("million-functions", functions(990_000)),
        ("truncated", whole[..whole.len() / 2].to_vec()),
        ("text", b"#!/bin/sh\nexec sh\n".to_vec()),
        ("empty", Vec::new()),
        ("header", b"\0asm\x01\0\0\0".to_vec()),
        ("zeros", vec![0; 8 << 20]),
    ] {
        arena.host.install_plugin(name, &wasm);
        is_refused(&arena.host, name).await;
        arena.goes_on(name).await;
    }
    arena.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn expensive_sidecars_are_rejected() {
    let mut arena = Arena::start().await;
    let laughs: String = (1..12)
        .map(|level| format!("l{level}: &l{level} [{}]\n", vec![format!("*l{}", level - 1); 10].join(",")))
        .collect();
    for (name, text) in [
        (
            "laughs",
            format!(
                "config:\n  l0: &l0 [a]\n{}",
                laughs.replace('l', "  l").replace("*  l", "*l").replace("&  l", "&l")
            ),
        ),
        ("deep", format!("config: {}", "[".repeat(500_000))),
        ("large", format!("config: {{a: {}}}", "x".repeat(2 << 20))),
        ("binary", "\u{0}\u{1}\u{2}".to_owned()),
        ("unknown", "grant: {}\n".to_owned()),
    ] {
        arena.host.write_sidecar(name, &text);
        arena.host.install_plugin(name, &wat("done"));
        is_refused(&arena.host, name).await;
        arena.goes_on(name).await;
    }
    arena.ends().await;
}
