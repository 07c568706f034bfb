//! Measures what an idle plugin costs, compared with a controller in its own process, and how long a plugin takes to wake.
//!
//! ```text
//! cargo bench -p pilothouse-bench --bench density -- [[--sizes 1,10,100,1000] --guest FILE.wasm]... [--idle SECONDS]
//!                                                    [--peers 100] [--binary FILE]
//! ```
//!
//! For each guest and size, the benchmark writes that many distinct files, runs `pilothouse run` on them against an API server, and reads the
//! memory of the process from /proc: once when all plugins run, and again when they have been idle. All hosts are idle at the same time, which
//! saves time and does not change their memory. A host drops idle instances and mapped code after 60 to 90 seconds, so use `--idle 100` to
//! measure idle plugins; the default is 3 seconds. `--sizes` applies to the guests after it; the default is 1 and 10 plugins. The results are
//! printed as one line of JSON, which `cargo xtask bench --only density` shows as tables.

mod files;
mod process;
mod wake;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use process::{Memory, Running, Server};
use serde_json::{Value, json};

/// The default guests: the name of the example, its language, and the target for the private memory of each idle plugin in KiB.
const GUESTS: [(&str, &str, u64); 3] =
    [("secret-replicator", "Rust", 100), ("pod-counter", "C", 100), ("label-propagator", "JavaScript", 1024)];
/// The fewest plugins to which the targets apply. With fewer, the memory that the first plugin adds dominates.
const MIN_PLUGINS_FOR_TARGET: usize = 100;

struct Arguments {
    guests: Vec<Guest>,
    idle: Duration,
    peers: usize,
    binary: Option<PathBuf>,
}

struct Guest {
    file: PathBuf,
    sizes: Vec<usize>,
}

/// A running host with `size` plugins of one guest.
struct MeasuredHost {
    process: Running,
    guest: String,
    size: usize,
    /// The time from the start of the process until all plugins ran, with an empty and with a filled code cache; `None` without plugins.
    started: Option<(Duration, Duration)>,
    /// The memory when all plugins ran.
    running: Memory,
}

fn arguments() -> Result<Arguments, String> {
    let mut arguments =
        Arguments { guests: Vec::new(), idle: Duration::from_secs(3), peers: 0, binary: None };
    let mut sizes = vec![1, 10];
    let mut given = std::env::args().skip(1);
    while let Some(flag) = given.next() {
        // Cargo adds this flag.
        if flag == "--bench" {
            continue;
        }
        let value = given.next().ok_or_else(|| format!("{flag} needs a value"))?;
        let number = || value.parse::<usize>().map_err(|_| format!("{flag} {value}: give a number"));
        match flag.as_str() {
            "--sizes" => {
                let given: Result<_, _> = value.split(',').map(str::parse).collect();
                sizes = given.map_err(|_| format!("{flag} {value}: give numbers, as 1,10,100"))?;
            }
            "--idle" => arguments.idle = Duration::from_secs(number()? as u64),
            "--guest" => arguments.guests.push(Guest { file: value.into(), sizes: sizes.clone() }),
            "--peers" => arguments.peers = number()?,
            "--binary" => arguments.binary = Some(value.into()),
            _ => return Err(format!("{flag} is unknown: see the top of bench/benches/density/main.rs")),
        }
    }
    if arguments.guests.is_empty() {
        let folder = root().join("examples/target/guests");
        let guest = |(name, _, _)| Guest { file: folder.join(format!("{name}.wasm")), sizes: sizes.clone() };
        arguments.guests = GUESTS.map(guest).into();
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
    let folder = folder.path();
    let server = Server::start(&binary, folder)?;
    let mut hosts = vec![start(&binary, folder, &server, None, 0).await?];
    for guest in &arguments.guests {
        for &size in &guest.sizes {
            eprintln!("density: {size} × {}", files::stem(&guest.file));
            hosts.push(start(&binary, folder, &server, Some(&guest.file), size).await?);
        }
    }
    let peers = peers(&arguments, &server)?;
    eprintln!("density: {} s of idleness", arguments.idle.as_secs());
    tokio::time::sleep(arguments.idle).await;
    let idle: Vec<_> = hosts.iter().map(|host| host.process.memory()).collect::<Result<_, _>>()?;
    let peer_memory: Vec<_> = peers.iter().map(Running::memory).collect::<Result<_, _>>()?;
    drop(peers);
    let (host_results, peer_results) = (host_results(&hosts, &idle), peer_results(&peer_memory));
    drop(hosts);
    let mut waking = Vec::new();
    for Guest { file, .. } in &arguments.guests {
        let times = wake::measure(file, folder).await?;
        waking.push(
            json!({"guest": files::stem(file), "unmappedMs": times.unmapped, "pooledMs": times.pooled}),
        );
    }
    println!("{}", json!({"hosts": host_results, "peers": peer_results, "waking": waking}));
    Ok(())
}

/// Starts a host twice: the first compiles the plugins, and the second loads them from the cache and keeps running.
async fn start(
    binary: &Path,
    folder: &Path,
    server: &Server,
    guest: Option<&Path>,
    size: usize,
) -> Result<MeasuredHost, String> {
    let name = guest.map_or_else(|| "none".to_owned(), files::stem);
    let plugins = folder.join(format!("{name}-{size}"));
    // One cache for each guest: together they may exceed the size of a cache.
    let cache = folder.join(format!("cache-{name}"));
    fs::create_dir_all(&plugins).map_err(|error| format!("{}: {error}", plugins.display()))?;
    let mut compiled = None;
    if let Some(guest) = guest {
        files::distinct(guest, &plugins, size)?;
        compiled = Some(Running::host(binary, &plugins, &cache, server)?.wait_for(size).await?);
    }
    let mut host = Running::host(binary, &plugins, &cache, server)?;
    let cached = host.wait_for(size).await?;
    let running = host.memory()?;
    let started = compiled.map(|compiled| (compiled, cached));
    Ok(MeasuredHost { process: host, guest: name, size, started, running })
}

/// Starts the peers: one kube-rs controller in each process, with its own watch and cache.
fn peers(arguments: &Arguments, server: &Server) -> Result<Vec<Running>, String> {
    if arguments.peers == 0 {
        return Ok(Vec::new());
    }
    let folder = root().join("bench/peers/kube-rs-controller");
    let binary = process::build(&folder, &[])?.join("kube-rs-controller");
    (0..arguments.peers).map(|_| Running::peer(&binary, server)).collect()
}

/// Returns the private memory of each plugin of a host when all are idle, in KiB, without that of a host without plugins.
fn each(hosts: &[MeasuredHost], idle: &[Memory], at: usize) -> u64 {
    let empty = hosts.iter().position(|host| host.size == 0).map_or(0, |empty| idle[empty].private);
    idle[at].private.saturating_sub(empty) / hosts[at].size.max(1) as u64
}

/// Returns the results of the hosts: KiB when all plugins ran and when they were idle, and seconds until all ran.
fn host_results(hosts: &[MeasuredHost], idle: &[Memory]) -> Vec<Value> {
    let result = |(at, (host, idle_memory)): (usize, (&MeasuredHost, &Memory))| {
        let MeasuredHost { guest, size, started, running, .. } = host;
        let known = GUESTS.iter().find(|(name, _, _)| name == guest);
        let target = known.filter(|_| *size >= MIN_PLUGINS_FOR_TARGET).map(|(_, _, most)| most);
        json!({
            "guest": guest,
            "language": known.map(|(_, language, _)| language),
            "plugins": size,
            "compiledStartSeconds": started.map(|(compiled, _)| compiled.as_secs_f64()),
            "cachedStartSeconds": started.map(|(_, cached)| cached.as_secs_f64()),
            "runningPrivateKib": running.private,
            "idlePrivateKib": idle_memory.private,
            "idleResidentKib": idle_memory.resident,
            "eachKib": (*size > 0).then(|| each(hosts, idle, at)),
            "eachKibTarget": target,
        })
    };
    hosts.iter().zip(idle).enumerate().map(result).collect()
}

/// Returns the mean memory of the peers' processes; `null` without peers.
fn peer_results(peers: &[Memory]) -> Value {
    if peers.is_empty() {
        return Value::Null;
    }
    json!({
        "peer": "kube-rs",
        "processes": peers.len(),
        "residentKib": mean(peers, |peer| peer.resident),
        "privateKib": mean(peers, |peer| peer.private),
    })
}

fn mean(memories: &[Memory], of: fn(&Memory) -> u64) -> u64 {
    memories.iter().map(of).sum::<u64>() / memories.len().max(1) as u64
}
