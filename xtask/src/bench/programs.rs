//! The programs that take part.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::host;

/// Where they were built.
pub(super) struct Programs {
    pub(super) fixture: PathBuf,
    /// Our informer with the host's allocator, and with others.
    pub(super) pilothouse: PathBuf,
    pub(super) pilothouse_mimalloc: PathBuf,
    pub(super) pilothouse_system: PathBuf,
    /// The host itself.
    pub(super) host: PathBuf,
    pub(super) kube_rs: PathBuf,
    pub(super) kube_rs_sample: PathBuf,
    pub(super) foo_driver: PathBuf,
    pub(super) kube_rs_mimalloc: PathBuf,
    pub(super) kube_rs_jemalloc: PathBuf,
    /// None on a machine without Go: the report says so.
    pub(super) client_go: Option<PathBuf>,
    pub(super) controller_runtime: Option<PathBuf>,
    /// The folder of the fixture as protobuf.
    pub(super) protobuf: PathBuf,
}

impl Programs {
    pub(super) fn build(root: &Path, quick: bool) -> Result<Self> {
        let folder = root.join("target/bench");
        let protobuf = folder.join("protobuf");
        fs::create_dir_all(&protobuf).with_context(|| format!("make {}", protobuf.display()))?;
        let own = |name: &str, allocator: &str| {
            rust(root, &["--package", "pilothouse-bench"], name, allocator, &folder)
        };
        let peers = root.join("bench/peers");
        let on_kube_rs =
            |name: &str, allocator: &str| rust(&peers.join("kube-rs"), &[], name, allocator, &folder);
        let peer = |allocator: &str| on_kube_rs("kube-rs", allocator);
        let kube_rs = peer("")?;
        let pilothouse = own("ingest_consumer", "")?;
        // A quick run compares them as they ship only.
        let [mimalloc, jemalloc, system] =
            if quick { ["", "", ""] } else { ["mimalloc", "jemalloc", "system-allocator"] };
        Ok(Self {
            protobuf,
            fixture: own("fixture_server", "")?,
            pilothouse_mimalloc: own("ingest_consumer", mimalloc)?,
            pilothouse_system: own("ingest_consumer", system)?,
            pilothouse,
            kube_rs_mimalloc: peer(mimalloc)?,
            kube_rs_jemalloc: peer(jemalloc)?,
            kube_rs,
            kube_rs_sample: on_kube_rs("sample-controller", "")?,
            foo_driver: on_kube_rs("foo-driver", "")?,
            host: host(root)?,
            controller_runtime: go(&peers.join("controller-runtime"), &folder.join("controller-runtime"))?,
            client_go: go(&peers.join("client-go"), &folder.join("client-go"))?,
        })
    }
}

/// The host, built for release.
pub(super) fn host(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/bench");
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    rust(root, &["--package", "pilothouse"], "pilothouse", "", &folder)
}

/// Builds a binary and copies it away, so that the next build of it, with another allocator, leaves it.
fn rust(directory: &Path, package: &[&str], name: &str, allocator: &str, folder: &Path) -> Result<PathBuf> {
    println!("bench: building {name} {allocator}");
    let mut cargo = host::cargo();
    // Each workspace has its own target directory, whatever the environment says: two of them have binaries of one name.
    cargo.env_remove("CARGO_TARGET_DIR");
    cargo.current_dir(directory).args(["build", "--locked", "--release", "--bin", name]).args(package);
    if !allocator.is_empty() {
        cargo.args(["--features", allocator]);
    }
    let built = host::executable(&host::messages(&mut cargo)?, name)?;
    let copy = folder.join([name, allocator].join("-").trim_end_matches('-'));
    fs::copy(&built, &copy).with_context(|| format!("copy {}", built.display()))?;
    Ok(copy)
}

fn go(directory: &Path, output: &Path) -> Result<Option<PathBuf>> {
    println!("bench: building the peers in Go");
    let built = Command::new("go").current_dir(directory).args(["build", "-o"]).arg(output).arg(".").status();
    match built {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!(
                "bench: no go on the path: client-go is left out; install Go 1.26 or newer to have it measured"
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
