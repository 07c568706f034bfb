//! `cargo xtask testserver-bench`: measures the embedded API server beside kube-apiserver with etcd, on the same machine in the same run.
//!
//! The load generator is `bench/api-load`. It is a separate program in Go, so that both servers get the same load from a compiled client.

mod figures;
mod round;
mod section;
mod servers;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use self::figures::{FIGURES, ratio};
use self::round::Round;
use super::{programs, results, write_section};
use crate::tools;

/// Options of the command.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Run a small load and write nothing: prints the table and checks that the ratios point the right way.
    #[arg(long)]
    quick: bool,
    /// The `pilothouse` program to measure; by default, a release build of this repository.
    #[arg(long, value_name = "FILE")]
    host: Option<PathBuf>,
}

/// The size of the load.
#[derive(Clone, Copy)]
pub(super) struct Size {
    /// Number of rounds in which the servers take turns.
    rounds: usize,
    objects: usize,
    /// How often the objects are listed in a round.
    lists: usize,
    watchers: usize,
    /// Number of changes that each watcher receives.
    changes: usize,
}

const FULL: Size = Size { rounds: 3, objects: 100_000, lists: 5, watchers: 1_000, changes: 300 };
const QUICK: Size = Size { rounds: 1, objects: 5_000, lists: 3, watchers: 200, changes: 100 };

/// The number of connections that write.
const CONNECTIONS: usize = 16;
/// The number of objects of a page: what client-go requests.
const PAGE: usize = 500;

/// The results of both servers: the rounds of each.
pub(super) struct Comparison {
    embedded: Vec<Round>,
    kubernetes: Vec<Round>,
}

/// The programs that take part.
struct Programs {
    host: PathBuf,
    kube_apiserver: PathBuf,
    api_load: PathBuf,
    /// Folder for the files of the servers.
    folder: PathBuf,
}

/// Measures both servers. Writes the section of the report and the results, unless the run is a quick one.
///
/// # Errors
/// Errors if a program cannot be built, a server does not answer a request as expected, or the ratios of a quick run point the wrong way.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<()> {
    let programs = Programs::build(root, arguments.host.as_deref())?;
    let size = if arguments.quick { QUICK } else { FULL };
    let mut comparison = Comparison { embedded: Vec::new(), kubernetes: Vec::new() };
    for number in 1..=size.rounds {
        println!("bench: round {number} of {}: the embedded server", size.rounds);
        comparison.embedded.push(round::measure(&programs, servers::Kind::Embedded, size)?);
        println!("bench: round {number} of {}: kube-apiserver", size.rounds);
        comparison.kubernetes.push(round::measure(&programs, servers::Kind::Kubernetes, size)?);
    }
    let section = section::render(&comparison, size);
    println!("{section}");
    if arguments.quick {
        return check_direction(&comparison);
    }
    write_section(root, &section)?;
    let all = json!({
        "objects": size.objects,
        "watchers": size.watchers,
        "changes": size.changes,
        "embedded": comparison.embedded,
        "kubernetes": comparison.kubernetes,
    });
    results::write(root, "test-server", &all)
}

impl Programs {
    fn build(root: &Path, host: Option<&Path>) -> Result<Self> {
        let host = match host {
            Some(file) => file.canonicalize().with_context(|| format!("find {}", file.display()))?,
            None => programs::host(root)?,
        };
        let folder = root.join("target/bench");
        fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        let api_load = programs::go(&root.join("bench/api-load"), &folder.join("api-load"))?;
        Ok(Self {
            host,
            kube_apiserver: tools::KUBE_APISERVER.install(root)?,
            api_load: api_load.context("the load generator is written in Go: install Go 1.26 or newer")?,
            folder: folder.join("test-server"),
        })
    }
}

/// Checks that the embedded server is better in every figure that has a target.
fn check_direction(comparison: &Comparison) -> Result<()> {
    for figure in FIGURES.iter().filter(|figure| figure.target.is_some()) {
        let ratio = ratio(figure, comparison);
        ensure!(
            figure.is_better(ratio),
            "{}: the embedded server has {ratio:.3} times the figure of kube-apiserver",
            figure.title
        );
    }
    Ok(())
}
