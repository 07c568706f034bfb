//! What an idle plugin costs, against a controller that is a process of its own; and how long it takes to wake.
//!
//! ```text
//! cargo bench -p pilothouse-bench --bench density -- [--sizes 1,10,100,1000] [--idle SECONDS] [--guest FILE.wasm]...
//!                                                    [--peers 10] [--binary FILE]
//! ```
//!
//! For each guest it makes so many distinct files, runs `pilothouse run` on them against a server of its own, and reads what the kernel says
//! of the process, once as soon as all plugins run and once when they have been idle. Instances and mapped code go after 60 to 90 seconds,
//! so `--idle 100` is what idle means; without it the second reading comes after 3 seconds. Without `--sizes` there are 1 and 10 plugins, which
//! takes seconds.

#[path = "density/files.rs"]
mod files;
#[path = "density/process.rs"]
mod process;
#[path = "density/wake.rs"]
mod wake;

use std::path::{Path, PathBuf};
use std::time::Duration;

use process::{Memory, Running, Server};

/// The examples that are measured unless others are given: in Rust, C and JavaScript.
const GUESTS: [&str; 3] = ["secret-replicator", "pod-counter", "label-propagator"];

struct Arguments {
    sizes: Vec<usize>,
    idle: Duration,
    guests: Vec<PathBuf>,
    peers: usize,
    binary: Option<PathBuf>,
}

fn arguments() -> Result<Arguments, String> {
    let mut arguments = Arguments {
        sizes: vec![1, 10],
        idle: Duration::from_secs(3),
        guests: Vec::new(),
        peers: 0,
        binary: None,
    };
    let mut given = std::env::args().skip(1);
    while let Some(flag) = given.next() {
        // What cargo itself adds.
        if flag == "--bench" {
            continue;
        }
        let value = given.next().ok_or_else(|| format!("{flag} needs a value"))?;
        let number = || value.parse::<usize>().map_err(|_| format!("{flag} {value}: give a number"));
        match flag.as_str() {
            "--sizes" => {
                let sizes: Result<_, _> = value.split(',').map(str::parse).collect();
                arguments.sizes = sizes.map_err(|_| format!("{flag} {value}: give numbers, as 1,10,100"))?;
            }
            "--idle" => arguments.idle = Duration::from_secs(number()? as u64),
            "--guest" => arguments.guests.push(value.into()),
            "--peers" => arguments.peers = number()?,
            "--binary" => arguments.binary = Some(value.into()),
            _ => return Err(format!("{flag} is unknown: see the top of bench/benches/density.rs")),
        }
    }
    if arguments.guests.is_empty() {
        let folder = root().join("examples/target/guests");
        arguments.guests = GUESTS.map(|name| folder.join(format!("{name}.wasm"))).into();
    }
    Ok(arguments)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[tokio::main]
async fn main() {
    if let Err(problem) = run().await {
        eprintln!("error: {problem}");
        std::process::exit(1);
    }
}

async fn run() -> Result<(), String> {
    let arguments = arguments()?;
    let binary = match &arguments.binary {
        Some(binary) => binary.clone(),
        None => process::build(&root(), &["--package", "pilothouse"])?.join("pilothouse"),
    };
    let folder = tempfile::tempdir().map_err(|error| format!("a folder: {error}"))?;
    let server = Server::start(&binary, folder.path())?;
    println!(
        "| guest | plugins | start s, compiled / cached | resident KiB | private KiB | idle private KiB | each, idle |"
    );
    println!("|---|---|---|---|---|---|---|");
    for guest in &arguments.guests {
        measure_guest(&arguments, &binary, folder.path(), &server, guest).await?;
    }
    println!("\nprivate: anonymous memory of the process; what is mapped from files the kernel can drop.\n");
    println!("| guest | waking ms: map, link, instantiate | from a kept instance ms |");
    println!("|---|---|---|");
    for guest in &arguments.guests {
        let times = wake::measure(guest, folder.path()).await?;
        println!("| {} | {:.2} | {:.3} |", files::stem(guest), times.asleep, times.kept);
    }
    if arguments.peers > 0 {
        measure_peers(&arguments, &server).await?;
    }
    Ok(())
}

async fn measure_guest(
    arguments: &Arguments,
    binary: &Path,
    folder: &Path,
    server: &Server,
    guest: &Path,
) -> Result<(), String> {
    let cache = folder.join("cache");
    let none = folder.join("none");
    let mut host = Running::host(binary, &none, &cache, server)?;
    host.wait_for(0).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let base = host.memory()?;
    drop(host);
    let name = files::stem(guest);
    println!("| {name} | 0 | | {} | {} | | |", base.resident, base.private);
    for &size in &arguments.sizes {
        let plugins = folder.join(format!("{name}-{size}"));
        files::distinct(guest, &plugins, size)?;
        let mut host = Running::host(binary, &plugins, &cache, server)?;
        let compiled = host.wait_for(size).await?;
        drop(host);
        let mut host = Running::host(binary, &plugins, &cache, server)?;
        let cached = host.wait_for(size).await?;
        let running = host.memory()?;
        tokio::time::sleep(arguments.idle).await;
        let idle = host.memory()?;
        let each = (idle.private.saturating_sub(base.private)) / size as u64;
        println!(
            "| {name} | {size} | {:.1} / {:.1} | {} | {} | {} | {each} |",
            compiled.as_secs_f64(),
            cached.as_secs_f64(),
            idle.resident,
            running.private,
            idle.private,
        );
    }
    Ok(())
}

/// Controllers of the usual kind: a process each, with a watch and a cache of its own.
async fn measure_peers(arguments: &Arguments, server: &Server) -> Result<(), String> {
    let folder = root().join("bench/peers/kube-rs-controller");
    let binary = process::build(&folder, &[])?.join("kube-rs-controller");
    let count = arguments.peers;
    let peers: Result<Vec<_>, _> = (0..count).map(|_| Running::peer(&binary, server)).collect();
    let peers = peers?;
    tokio::time::sleep(arguments.idle.max(Duration::from_secs(5))).await;
    let memories: Result<Vec<Memory>, _> = peers.iter().map(Running::memory).collect();
    let memories = memories?;
    let mean = |of: fn(&Memory) -> u64| memories.iter().map(of).sum::<u64>() / count as u64;
    println!("\n| peer | processes | resident KiB each | private KiB each |\n|---|---|---|---|");
    println!(
        "| kube-rs | {count} | {} | {} |",
        mean(|memory| memory.resident),
        mean(|memory| memory.private)
    );
    Ok(())
}
