//! What an idle plugin costs, against a controller that is a process of its own; and how long it takes to wake.
//!
//! ```text
//! cargo bench -p pilothouse-bench --bench density -- [[--sizes 1,10,100,1000] --guest FILE.wasm]... [--idle SECONDS]
//!                                                    [--peers 100] [--binary FILE]
//! ```
//!
//! For each guest it makes so many distinct files, runs `pilothouse run` on them against a server of its own, and reads what the kernel says
//! of the process, once as soon as all plugins run and once when they have been idle. All hosts are idle at the same time, which saves most
//! of the time and none of the memory. Instances and mapped code go after 60 to 90 seconds, so `--idle 100` is what idle means; without it
//! the second reading comes after 3 seconds. `--sizes` is for the guests behind it; before it there are 1 and 10 plugins, which takes seconds.

mod files;
mod process;
mod wake;

use std::path::{Path, PathBuf};
use std::time::Duration;

use process::{Memory, Running, Server};

/// The examples that are measured unless others are given, with their language and what each idle plugin may take, in KiB.
const GUESTS: [(&str, &str, u64); 3] =
    [("secret-replicator", "Rust", 100), ("pod-counter", "C", 100), ("label-propagator", "JavaScript", 1024)];
/// The targets are for so many plugins: with fewer, what only the first takes is a large part.
const TARGETED: usize = 100;

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

/// A host with so many plugins of one guest, which run.
struct Crowd {
    host: Running,
    guest: String,
    size: usize,
    /// From its start, without code in the cache and with it; nothing for no plugins.
    started: Option<(Duration, Duration)>,
    running: Memory,
}

fn arguments() -> Result<Arguments, String> {
    let mut arguments =
        Arguments { guests: Vec::new(), idle: Duration::from_secs(3), peers: 0, binary: None };
    let mut sizes = vec![1, 10];
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
    let mut crowds = vec![start(&binary, folder, &server, None, 0).await?];
    for guest in &arguments.guests {
        for &size in &guest.sizes {
            eprintln!("density: {size} × {}", files::stem(&guest.file));
            crowds.push(start(&binary, folder, &server, Some(&guest.file), size).await?);
        }
    }
    let peers = peers(&arguments, &server)?;
    eprintln!("density: {} s of idleness", arguments.idle.as_secs());
    tokio::time::sleep(arguments.idle).await;
    let idle: Vec<_> = crowds.iter().map(|crowd| crowd.host.memory()).collect::<Result<_, _>>()?;
    let of_peers: Vec<_> = peers.iter().map(Running::memory).collect::<Result<_, _>>()?;
    drop(peers);
    targets(&crowds, &idle, &of_peers);
    table(&crowds, &idle);
    if !of_peers.is_empty() {
        peer_table(&of_peers);
    }
    drop(crowds);
    println!("| guest | waking ms: map, link, instantiate | from a kept instance ms |");
    println!("|---|---|---|");
    for Guest { file, .. } in &arguments.guests {
        let times = wake::measure(file, folder).await?;
        println!("| {} | {:.2} | {:.3} |", files::stem(file), times.asleep, times.kept);
    }
    Ok(())
}

/// Starts a host twice: to have the files compiled, and to find their code in the cache. The second one goes on.
async fn start(
    binary: &Path,
    folder: &Path,
    server: &Server,
    guest: Option<&Path>,
    size: usize,
) -> Result<Crowd, String> {
    let name = guest.map_or_else(|| "none".to_owned(), files::stem);
    let plugins = folder.join(format!("{name}-{size}"));
    // One for each guest: together they may be more than what the host keeps.
    let cache = folder.join(format!("cache-{name}"));
    let mut compiled = None;
    if let Some(guest) = guest {
        files::distinct(guest, &plugins, size)?;
        compiled = Some(Running::host(binary, &plugins, &cache, server)?.wait_for(size).await?);
    }
    let mut host = Running::host(binary, &plugins, &cache, server)?;
    let cached = host.wait_for(size).await?;
    let running = host.memory()?;
    Ok(Crowd { host, guest: name, size, started: compiled.map(|compiled| (compiled, cached)), running })
}

/// Controllers of the usual kind: a process each, with a watch and a cache of its own.
fn peers(arguments: &Arguments, server: &Server) -> Result<Vec<Running>, String> {
    if arguments.peers == 0 {
        return Ok(Vec::new());
    }
    let folder = root().join("bench/peers/kube-rs-controller");
    let binary = process::build(&folder, &[])?.join("kube-rs-controller");
    (0..arguments.peers).map(|_| Running::peer(&binary, server)).collect()
}

/// Private memory of each plugin when all are idle, in KiB.
fn each(crowds: &[Crowd], idle: &[Memory], at: usize) -> u64 {
    let none = crowds.iter().position(|crowd| crowd.size == 0).map_or(0, |none| idle[none].private);
    idle[at].private.saturating_sub(none) / crowds[at].size.max(1) as u64
}

fn targets(crowds: &[Crowd], idle: &[Memory], peers: &[Memory]) {
    println!("### Targets\n\n| what | target | reached |\n|---|---|---|");
    for (at, Crowd { guest, size, .. }) in crowds.iter().enumerate() {
        let known = GUESTS.iter().find(|(name, _, _)| name == guest).filter(|_| *size >= TARGETED);
        if let Some((_, language, most)) = known {
            let each = each(crowds, idle, at);
            println!(
                "| private memory of each of {size} idle plugins in {language}, KiB | ≤ {most} | {each} |"
            );
            if !peers.is_empty() {
                let ratio = mean(peers, |peer| peer.private) / each.max(1);
                println!("| a kube-rs process takes so many times as much |  | {ratio} |");
            }
        }
    }
    println!();
}

fn table(crowds: &[Crowd], idle: &[Memory]) {
    println!("### Plugins\n");
    println!(
        "| guest | plugins | start s, compiled / cached | private KiB | idle: private KiB | resident KiB | private KiB each |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (at, (Crowd { guest, size, started, running, .. }, idle_memory)) in
        crowds.iter().zip(idle).enumerate()
    {
        let started = started.map_or_else(String::new, |(compiled, cached)| {
            format!("{:.1} / {:.1}", compiled.as_secs_f64(), cached.as_secs_f64())
        });
        let each = if *size > 0 { each(crowds, idle, at).to_string() } else { String::new() };
        println!(
            "| {guest} | {size} | {started} | {} | {} | {} | {each} |",
            running.private, idle_memory.private, idle_memory.resident,
        );
    }
    println!(
        "\nprivate: anonymous memory of the process; what is mapped from files the kernel can drop. The files of one guest differ in a custom section: \
         each is compiled, mapped and instantiated for itself. Those of a smaller number are among those of a larger, and are not compiled again.\n"
    );
}

fn peer_table(peers: &[Memory]) {
    println!("| peer | processes | resident KiB each | private KiB each |\n|---|---|---|---|");
    println!(
        "| kube-rs | {} | {} | {} |\n",
        peers.len(),
        mean(peers, |peer| peer.resident),
        mean(peers, |peer| peer.private)
    );
}

fn mean(memories: &[Memory], of: fn(&Memory) -> u64) -> u64 {
    memories.iter().map(of).sum::<u64>() / memories.len().max(1) as u64
}
