//! Measures the transport between an API server and the informer: TLS, HTTP/1.1 or HTTP/2, gzip.
//!
//! ```text
//! cargo bench -p pilothouse-bench --bench transport -- [--rounds 3] [--objects 20000] [--events 40000]
//! ```
//!
//! The server is this process. Each client is a separate process with the client and the informer of `pilothouse run`, on a thread as there. A
//! real API server compresses lists of more than 128 KiB for clients that accept gzip, at Go's level 1, and never compresses watches. Here the
//! list is compressed beforehand. Standard output has one line of JSON per row, standard error the same for people.

mod case;
mod client;
mod dial;
mod server;

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use case::{Case, MANY, SINGLE};
use server::{PreparedBodies, Server};

/// The host's allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Objects of each watch if there are many.
const OBJECTS_OF_MANY: usize = 200;
/// Events of each watch if there are many.
const EVENTS_OF_MANY: usize = 4_000;

struct Arguments {
    rounds: usize,
    objects: usize,
    events: usize,
    /// The task of a client process, as JSON.
    client: Option<String>,
}

fn arguments() -> Result<Arguments, String> {
    let mut arguments = Arguments { rounds: 3, objects: 20_000, events: 40_000, client: None };
    let mut given = std::env::args().skip(1);
    while let Some(flag) = given.next() {
        // Cargo adds this flag.
        if flag == "--bench" {
            continue;
        }
        let value = given.next().ok_or_else(|| format!("{flag} needs a value"))?;
        let number = || value.parse::<usize>().map_err(|_| format!("{flag} {value}: give a number"));
        match flag.as_str() {
            "--rounds" => arguments.rounds = number()?.max(1),
            "--objects" => arguments.objects = number()?.max(1),
            "--events" => arguments.events = number()?.max(1),
            "--client" => arguments.client = Some(value),
            _ => return Err(format!("{flag} is unknown: see the top of bench/benches/transport/main.rs")),
        }
    }
    Ok(arguments)
}

fn main() {
    let result = arguments().and_then(|arguments| match &arguments.client {
        Some(task) => client::run(task),
        None => match tokio::runtime::Runtime::new() {
            Ok(runtime) => runtime.block_on(run(&arguments)),
            Err(error) => Err(error.to_string()),
        },
    });
    if let Err(problem) = result {
        eprintln!("error: {problem}");
        std::process::exit(1);
    }
}

async fn run(arguments: &Arguments) -> Result<(), String> {
    let large = PreparedBodies::prepare(arguments.objects, arguments.events)?;
    let small = PreparedBodies::prepare(
        OBJECTS_OF_MANY.min(arguments.objects),
        EVENTS_OF_MANY.min(arguments.events),
    )?;
    println!(
        "{}",
        json!({"served": {
            "objects": large.objects, "events": large.events, "listMib": mib(large.list.len() as u64), "packedMib": mib(large.gzip.len() as u64),
            "manyObjects": small.objects, "manyEvents": small.events,
        }})
    );
    let cases: Vec<_> =
        SINGLE.iter().map(|case| (case, &large)).chain(MANY.iter().map(|case| (case, &small))).collect();
    let mut rounds: Vec<Vec<Value>> = vec![Vec::new(); cases.len()];
    // The cases take turns, so that a noisy minute affects all of them.
    for _ in 0..arguments.rounds {
        for ((case, served), results) in cases.iter().zip(&mut rounds) {
            results.push(measure(case, served).await.map_err(|problem| format!("{}: {problem}", case.name))?);
        }
    }
    for ((case, _), results) in cases.iter().zip(&rounds) {
        let mut row = json!({"case": case.name, "watches": case.watches});
        let names = results[0].as_object().into_iter().flat_map(|result| result.keys());
        for name in names {
            let mut values: Vec<_> = results.iter().filter_map(|result| result[name].as_f64()).collect();
            values.sort_by(f64::total_cmp);
            row[name] = json!(values[values.len() / 2]);
        }
        println!("{row}");
        eprintln!("{row}");
    }
    Ok(())
}

/// Measures a new client process with a new server.
async fn measure(case: &Case, served: &PreparedBodies) -> Result<Value, String> {
    let server = Server::start(case, served.clone()).await?;
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let task = json!({
        "case": case.name, "port": server.port, "ca": server.certificate, "objects": served.objects, "events": served.events,
    });
    let mut child = Command::new(this)
        .args(["--client", &task.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("the client can't be started: {error}"))?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("no standard output")?).lines();
    let mut next = async || {
        let line =
            lines.next_line().await.map_err(|error| error.to_string())?.ok_or("the client ended early")?;
        serde_json::from_str::<Value>(&line).map_err(|error| format!("the client printed {line}: {error}"))
    };
    let listed = next().await?;
    let list_bytes = server.sent();
    server.begin_events();
    let done = next().await?;
    let event_bytes = server.sent() - list_bytes;
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let events = (served.events * case.watches) as f64;
    Ok(json!({
        "listSeconds": listed["seconds"],
        "listCpuSeconds": listed["cpu"],
        "listMib": mib(list_bytes),
        "privateMib": listed["privateMib"],
        "eventsPerSecond": events / number(&done["seconds"]),
        "eventCpuMicros": number(&done["cpu"]) * 1e6 / events,
        "eventBytes": event_bytes as f64 / events,
        "eventSeconds": done["seconds"],
        "endPrivateMib": done["privateMib"],
        "connections": server.connections(),
    }))
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1048576.0
}
