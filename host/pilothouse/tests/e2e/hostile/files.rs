//! Files that are not plugins, or that are expensive to load.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::HostUnderAttack;
use crate::harness::{Guest, Host, wat};

fn fifo(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().expect("mkfifo runs");
    assert!(made.success());
}

/// Waits until a plugin has failed, asserts that it has an error, and returns the error.
async fn wait_for_rejection(host: &Host, name: &str) -> String {
    let plugin = host.wait_for_state(name, "failed").await;
    let error = plugin["error"].as_str().unwrap_or_default().to_owned();
    assert!(!error.is_empty(), "{name} failed without a reason: {plugin:#}");
    error
}

#[tokio::test(flavor = "multi_thread")]
async fn sidecars_that_are_not_regular_files_are_rejected() {
    let mut target = HostUnderAttack::start().await;
    let plugins = target.host.plugins();
    let sidecar = |name: &str| plugins.join(format!("{name}.yaml"));
    symlink("/dev/zero", sidecar("zero")).expect("linked");
    symlink("/etc/passwd", sidecar("passwd")).expect("linked");
    fifo(&sidecar("fifo"));
    std::fs::create_dir(sidecar("folder")).expect("made");
    for name in ["zero", "passwd", "fifo", "folder"] {
        target.host.install_plugin(name, &wat("done"));
        let error = wait_for_rejection(&target.host, name).await;
        assert!(error.contains(&format!("{name}.yaml")), "{error}");
        assert!(!error.contains("root:"), "{error}");
        target.assert_healthy(name).await;
    }
    target.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_that_are_not_regular_files_are_rejected() {
    let mut target = HostUnderAttack::start().await;
    let plugins = target.host.plugins();
    symlink("/dev/zero", plugins.join("zero.wasm")).expect("linked");
    fifo(&plugins.join("fifo.wasm"));
    std::fs::create_dir(plugins.join("folder.wasm")).expect("made");
    for (name, reason) in [("zero", "is a device"), ("fifo", "is a named pipe")] {
        let error = wait_for_rejection(&target.host, name).await;
        assert!(error.contains(reason), "{error}");
        target.assert_healthy(name).await;
    }
    // A folder is ignored rather than reported.
    assert_ne!(target.host.plugin("folder").await["state"], "running");
    target.stop().await;
}

/// Returns a module with `count` empty functions.
fn module_with_functions(count: u32) -> Vec<u8> {
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
    let mut target = HostUnderAttack::start().await;
    let whole = Guest::Hostile.wasm();
    for (name, wasm) in [
        ("million-functions", module_with_functions(990_000)),
        ("truncated", whole[..whole.len() / 2].to_vec()),
        ("text", b"#!/bin/sh\nexec sh\n".to_vec()),
        ("empty", Vec::new()),
        ("header", b"\0asm\x01\0\0\0".to_vec()),
        ("zeros", vec![0; 8 << 20]),
    ] {
        target.host.install_plugin(name, &wasm);
        wait_for_rejection(&target.host, name).await;
        target.assert_healthy(name).await;
    }
    target.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn expensive_sidecars_are_rejected() {
    let mut target = HostUnderAttack::start().await;
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
        target.host.write_sidecar(name, &text);
        target.host.install_plugin(name, &wat("done"));
        wait_for_rejection(&target.host, name).await;
        target.assert_healthy(name).await;
    }
    target.stop().await;
}
