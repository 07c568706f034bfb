//! Builds the programs that the benchmarks run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Benchmark::{self, EndToEnd, Ingest, Operation, Plugins, Scale, Simulation};
use crate::{cargo, host};

/// Paths of the programs.
pub(super) struct Programs {
    pub(super) fixture: PathBuf,
    /// The fixture server that generates objects while it serves them, and the consumer with many informers.
    pub(super) scale_server: PathBuf,
    pub(super) informers: PathBuf,
    /// The consumer with Pilothouse's informer and the host's allocator; the next two use other allocators.
    pub(super) pilothouse: PathBuf,
    pub(super) pilothouse_mimalloc: PathBuf,
    pub(super) pilothouse_system: PathBuf,
    /// The `pilothouse` binary.
    pub(super) host: PathBuf,
    pub(super) kube_rs: PathBuf,
    pub(super) kube_rs_sample: PathBuf,
    pub(super) foo_driver: PathBuf,
    pub(super) kube_rs_mimalloc: PathBuf,
    pub(super) kube_rs_jemalloc: PathBuf,
    /// `None` on a machine without Go. The report then lacks these rows.
    pub(super) client_go: Option<PathBuf>,
    pub(super) controller_runtime: Option<PathBuf>,
    /// Folder with the fixture's responses as protobuf.
    pub(super) protobuf: PathBuf,
}

impl Programs {
    /// Builds the programs that the benchmarks need. The path of any other one leads nowhere, so starting it fails with its name.
    pub(super) fn build(root: &Path, quick: bool, parts: &[Benchmark]) -> Result<Self> {
        let folder = root.join("target/bench");
        let protobuf = folder.join("protobuf");
        fs::create_dir_all(&protobuf).with_context(|| format!("create {}", protobuf.display()))?;
        let is_needed = |by: &[Benchmark]| by.iter().any(|part| parts.contains(part));
        let own = |by: &[Benchmark], name: &str, allocator: &str| {
            if !is_needed(by) {
                return Ok(not_built(name));
            }
            rust(root, &["--package", "pilothouse-bench"], name, allocator, &folder)
        };
        let peers = root.join("bench/peers");
        let on_kube_rs = |by: &[Benchmark], name: &str, allocator: &str| {
            if !is_needed(by) {
                return Ok(not_built(name));
            }
            rust(&peers.join("kube-rs"), &[], name, allocator, &folder)
        };
        let in_go = |by: &[Benchmark], name: &str| {
            if is_needed(by) { go(&peers.join(name), &folder.join(name)) } else { Ok(None) }
        };
        let (streams, ends) = ([Ingest, Plugins, Scale], [EndToEnd]);
        // A quick run compares only the default allocators.
        let [mimalloc, jemalloc, system] =
            if quick { ["", "", ""] } else { ["mimalloc", "jemalloc", "system-allocator"] };
        Ok(Self {
            protobuf,
            kube_rs: on_kube_rs(&streams, "kube-rs", "")?,
            pilothouse: own(&streams, "ingest_consumer", "")?,
            fixture: own(&[Ingest, Plugins, Operation], "fixture_server", "")?,
            scale_server: own(&[Scale], "scale_server", "")?,
            informers: own(&[Scale], "informers_consumer", "")?,
            pilothouse_mimalloc: own(&[Ingest], "ingest_consumer", mimalloc)?,
            pilothouse_system: own(&[Ingest], "ingest_consumer", system)?,
            kube_rs_mimalloc: on_kube_rs(&[Ingest], "kube-rs", mimalloc)?,
            kube_rs_jemalloc: on_kube_rs(&[Ingest], "kube-rs", jemalloc)?,
            kube_rs_sample: on_kube_rs(&ends, "sample-controller", "")?,
            foo_driver: on_kube_rs(&ends, "foo-driver", "")?,
            host: if is_needed(&[EndToEnd, Plugins, Scale, Operation, Simulation]) {
                host(root)?
            } else {
                not_built("pilothouse")
            },
            controller_runtime: in_go(&ends, "controller-runtime")?,
            client_go: in_go(&streams, "client-go")?,
        })
    }
}

fn not_built(name: &str) -> PathBuf {
    PathBuf::from(format!("{name} (not built for this benchmark)"))
}

/// Builds the `pilothouse` binary in release mode.
pub(super) fn host(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/bench");
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    rust(root, &["--package", "pilothouse"], "pilothouse", "", &folder)
}

/// Builds a binary and copies it to `folder`, because the next build with another allocator overwrites it.
fn rust(directory: &Path, package: &[&str], name: &str, allocator: &str, folder: &Path) -> Result<PathBuf> {
    println!("bench: building {name} {allocator}");
    let mut cargo = cargo::cargo();
    // Each workspace uses its own target directory, because two of them have binaries with the same name.
    cargo.env_remove("CARGO_TARGET_DIR");
    cargo.current_dir(directory).args(["build", "--locked", "--release", "--bin", name]).args(package);
    if !allocator.is_empty() {
        cargo.args(["--features", allocator]);
    }
    let built = host::find_executable(&host::run_cargo_json(&mut cargo)?, name)?;
    let copy = folder.join([name, allocator].join("-").trim_end_matches('-'));
    fs::copy(&built, &copy).with_context(|| format!("copy {}", built.display()))?;
    Ok(copy)
}

/// Builds the Go program in a folder; `None` if Go is missing.
pub(super) fn go(directory: &Path, output: &Path) -> Result<Option<PathBuf>> {
    println!("bench: building {} with Go", directory.display());
    let built = Command::new("go").current_dir(directory).args(["build", "-o"]).arg(output).arg(".").status();
    match built {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!(
                "bench: go is not in PATH: skipping the programs in Go; install Go 1.26 or newer to measure them"
            );
            Ok(None)
        }
        Err(error) => Err(error).context("start go"),
        Ok(status) => {
            ensure!(status.success(), "go could not build {}: {status}", directory.display());
            Ok(Some(output.to_owned()))
        }
    }
}
