//! Measures how long a host takes to serve: after a start, after a change of a plugin, and with a large plugin from the cache.
//!
//! ```text
//! cargo build --release --bin pilothouse
//! cargo bench -p pilothouse-bench --bench start -- --binary target/release/pilothouse [--rounds 15] [--guest FILE.wasm] [--large FILE.wasm]
//! ```
//!
//! The API server is a separate process with few objects, so that the first list costs little. Standard output has one line of JSON per
//! figure, standard error the same for people. All times are wall-clock times.

mod bare;
#[path = "../guest/figure.rs"]
#[allow(dead_code, reason = "the benchmark `guest` uses the CPU time")]
mod figure;
#[path = "../density/files.rs"]
#[allow(dead_code, reason = "the benchmark `density` uses the names")]
mod files;
#[path = "../density/process.rs"]
#[allow(dead_code, reason = "the benchmark `density` uses the memory")]
mod process;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use figure::{Figure, median};
use process::{Running, Server};
use tokio::time::{Instant, sleep};

/// The host's allocator, because the compiler in this process is compared with the one in the host.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// How long a file has to be unchanged before the host loads it.
const SETTLE: Duration = Duration::from_millis(200);

struct Arguments {
    binary: PathBuf,
    rounds: usize,
    guest: PathBuf,
    large: PathBuf,
}

fn arguments() -> Result<Arguments, String> {
    let guests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/target/guests");
    let mut binary = None;
    let mut rounds = 15;
    let mut guest = guests.join("secret-replicator.wasm");
    let mut large = guests.join("acceptance-python.wasm");
    let mut given = std::env::args().skip(1);
    while let Some(flag) = given.next() {
        // Cargo adds this flag.
        if flag == "--bench" {
            continue;
        }
        let value = given.next().ok_or_else(|| format!("{flag} needs a value"))?;
        match flag.as_str() {
            "--binary" => binary = Some(value.into()),
            "--rounds" => rounds = value.parse().map_err(|_| format!("{flag} {value}: give a number"))?,
            "--guest" => guest = value.into(),
            "--large" => large = value.into(),
            _ => return Err(format!("{flag} is unknown: see the top of bench/benches/start/main.rs")),
        }
    }
    let binary = binary.ok_or("--binary FILE: the host, built in release mode")?;
    Ok(Arguments { binary, rounds: rounds.max(1), guest, large })
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
    let folder = tempfile::tempdir().map_err(|error| format!("a folder: {error}"))?;
    let server = Server::start(&arguments.binary, folder.path())?;
    starts(&arguments, folder.path(), &server).await?;
    changes(&arguments, folder.path(), &server).await?;
    large(&arguments, folder.path(), &server).await
}

/// Measures the time from the start of the process to `/readyz`, without plugins and with one whose code is in the cache.
async fn starts(arguments: &Arguments, folder: &Path, server: &Server) -> Result<(), String> {
    let (none, one, cache) = (folder.join("none"), folder.join("one"), folder.join("cache"));
    fs::create_dir_all(&none).map_err(|error| format!("{}: {error}", none.display()))?;
    files::distinct(&arguments.guest, &one, 1)?;
    // Fills the cache.
    start(arguments, &one, &cache, server).await?;
    // At the start, the host does not wait for old files to settle.
    set_old(&one)?;
    let (mut empty, mut cached) = (Vec::new(), Vec::new());
    for _ in 0..arguments.rounds {
        empty.push(start(arguments, &none, &cache, server).await? * 1e3);
        cached.push(start(arguments, &one, &cache, server).await? * 1e3);
    }
    Figure::new("from the start of the process to ready", "ms", median(&mut empty))
        .target("at most", 100.0)
        .with("with a plugin whose code is in the cache, ms", median(&mut cached))
        .print();
    Ok(())
}

/// Sets the modification times of the files in a folder to an hour ago.
#[expect(clippy::disallowed_methods, reason = "files have times of the system clock")]
fn set_old(folder: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let then = std::time::SystemTime::now() - Duration::from_hours(1);
    for entry in fs::read_dir(folder).map_err(failed)? {
        let file = fs::File::options().write(true).open(entry.map_err(failed)?.path()).map_err(failed)?;
        file.set_modified(then).map_err(failed)?;
    }
    Ok(())
}

async fn start(arguments: &Arguments, plugins: &Path, cache: &Path, server: &Server) -> Result<f64, String> {
    let begun = Instant::now();
    let host = Running::host(&arguments.binary, plugins, cache, server)?;
    wait(|| host.get("/readyz").is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))).await?;
    Ok(begun.elapsed().as_secs_f64())
}

/// Measures the time from the change of a file until the new version runs, relative to only compiling and instantiating the same bytes.
async fn changes(arguments: &Arguments, folder: &Path, server: &Server) -> Result<(), String> {
    let (versions, plugins) = (folder.join("versions"), folder.join("changing"));
    files::distinct(&arguments.guest, &versions, arguments.rounds + 1)?;
    fs::create_dir_all(&plugins).map_err(|error| format!("{}: {error}", plugins.display()))?;
    let put = |number: usize| {
        let from = versions.join(format!("plugin-{number}.wasm"));
        let beside = plugins.join("changing.tmp");
        let copied =
            fs::copy(&from, &beside).and_then(|_| fs::rename(&beside, plugins.join("changing.wasm")));
        copied.map_err(|error| format!("{}: {error}", from.display()))
    };
    put(0)?;
    let host = Running::host(&arguments.binary, &plugins, &folder.join("cache-of-changes"), server)?;
    wait(|| runs(&host, 1)).await?;
    let (mut served, mut ratios) = (Vec::new(), Vec::new());
    for round in 1..=arguments.rounds {
        let wasm =
            fs::read(versions.join(format!("plugin-{round}.wasm"))).map_err(|error| error.to_string())?;
        let bare = bare::compile_and_instantiate(&wasm).map_err(|error| format!("{error:?}"))?.as_secs_f64();
        let begun = Instant::now();
        put(round)?;
        // The new version cannot run earlier, and polling takes CPU time from the compiler.
        sleep(SETTLE).await;
        wait(|| runs(&host, round + 1)).await?;
        let took = begun.elapsed().as_secs_f64();
        served.push(took * 1e3);
        ratios.push(took / bare);
    }
    let size = fs::metadata(&arguments.guest).map_or(0, |metadata| metadata.len());
    Figure::new("a changed plugin serves, against bare compile and instantiate", "×", median(&mut ratios))
        .target("at most", 1.3)
        .with("ms, the 200 that its file settles included", median(&mut served))
        .with("KiB", size as f64 / 1024.0)
        .print();
    Ok(())
}

/// Measures the start of a host with a large plugin whose code is in the cache.
async fn large(arguments: &Arguments, folder: &Path, server: &Server) -> Result<(), String> {
    let (plugins, cache) = (folder.join("large"), folder.join("cache-of-large"));
    files::distinct(&arguments.large, &plugins, 1)?;
    let serves = async || {
        let begun = Instant::now();
        let host = Running::host(&arguments.binary, &plugins, &cache, server)?;
        wait(|| runs(&host, 1)).await?;
        Ok::<_, String>(begun.elapsed().as_secs_f64())
    };
    let cold = serves().await?;
    let mut warm = Vec::new();
    for _ in 0..arguments.rounds {
        warm.push(serves().await?);
    }
    let size = fs::metadata(&arguments.large).map_or(0, |metadata| metadata.len());
    Figure::new(
        "a large plugin serves, from the start of the process, with its code in the cache",
        "s",
        median(&mut warm),
    )
    .target("at most", 1.0)
    .with("without the cache, s", cold)
    .with("KiB", size as f64 / 1024.0)
    .print();
    Ok(())
}

/// Returns whether the host's only plugin runs in this generation.
fn runs(host: &Running, generation: usize) -> bool {
    let answer = host.get("/api/plugins").unwrap_or_default();
    answer.contains("\"state\":\"running\"") && answer.contains(&format!("\"generation\":{generation},"))
}

async fn wait(condition: impl Fn() -> bool) -> Result<(), String> {
    let begun = Instant::now();
    while !condition() {
        if begun.elapsed() > Duration::from_secs(600) {
            return Err("the host is not ready after 10 minutes".to_owned());
        }
        sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}
