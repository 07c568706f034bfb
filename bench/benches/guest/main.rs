//! Measures the cost of WebAssembly: work that a guest in Rust does, compared with the same work done natively or on bare wasmtime.
//!
//! ```text
//! cargo xtask build-guests --small probe
//! cargo bench -p pilothouse-bench --bench guest -- [--objects 20000] [--rounds 7] [--only observe,predicate,reconcile,read]
//! ```
//!
//! Everything runs on one thread. The alternatives take turns: each round feeds the same bytes to each of them. Times are CPU times of the
//! thread, so that a busy machine disturbs them least. Standard output has one line of JSON per figure, standard error the same for people.

mod bare;
mod consumers;
mod core;
mod figure;
mod pods;
mod server;

use std::path::Path;

use consumers::{NativeSubscriber, Plugin};
use figure::{Figure, cpu, median};

/// The host's allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

struct Arguments {
    objects: usize,
    rounds: usize,
    only: Vec<String>,
}

impl Arguments {
    fn read() -> Result<Self, String> {
        let mut arguments = Self { objects: 20_000, rounds: 7, only: Vec::new() };
        let mut given = std::env::args().skip(1);
        while let Some(flag) = given.next() {
            // Cargo adds this flag.
            if flag == "--bench" {
                continue;
            }
            let value = given.next().ok_or_else(|| format!("{flag} needs a value"))?;
            let number = || value.parse().map_err(|_| format!("{flag} {value}: give a number"));
            match flag.as_str() {
                "--objects" => arguments.objects = number()?,
                "--rounds" => arguments.rounds = number()?,
                "--only" => arguments.only = value.split(',').map(str::to_owned).collect(),
                _ => return Err(format!("{flag} is unknown: see the top of bench/benches/guest/main.rs")),
            }
        }
        if arguments.objects < pods::READ_KEYS || arguments.rounds == 0 {
            return Err(format!("--objects must be at least {}, --rounds at least 1", pods::READ_KEYS));
        }
        Ok(arguments)
    }

    fn wants(&self, figure: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == figure)
    }
}

fn main() {
    if let Err(problem) = run() {
        eprintln!("error: {problem}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), String> {
    let arguments = Arguments::read()?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/target/guests/small/probe.wasm");
    let guest = std::fs::read(&path).map_err(|error| {
        format!("{}: {error}; run `cargo xtask build-guests --small probe` first", path.display())
    })?;
    let list = pods::list(arguments.objects);
    let mut native = NativeSubscriber::start(&list, arguments.objects)?;
    if arguments.wants("observe") {
        notifications(&arguments, &mut native, &mut Plugin::start(&list, &guest, r#"{"observes": true}"#)?)?;
    }
    if arguments.wants("predicate") {
        for (name, predicate) in [
            ("predicate", "generationChanged()"),
            ("predicate on the object", "has(object.metadata.generation) && object.metadata.generation > 0"),
        ] {
            let config = format!(r#"{{"predicate": "{predicate}"}}"#);
            predicates(&arguments, name, &mut native, &mut Plugin::start(&list, &guest, &config)?)?;
        }
    }
    if arguments.wants("reconcile") || arguments.wants("read") {
        let mut plugin = Plugin::start(&list, &guest, "{}")?;
        let mut bare = bare::Bare::new(&guest, arguments.objects).map_err(|error| format!("{error:?}"))?;
        if arguments.wants("reconcile") {
            let one_by_one = "reconciles of get, 3 fields and done, on one core";
            reconciles(&arguments, one_by_one, "pods", &mut native, &mut plugin, &mut bare)?;
            let mut plugin = Plugin::start(&list, &guest, r#"{"readsAtOnce": true}"#)?;
            let at_once = "reconciles of get, 3 fields in one call and done, on one core";
            reconciles(&arguments, at_once, "pods-at-once", &mut native, &mut plugin, &mut bare)?;
        }
        if arguments.wants("read") {
            reads(&arguments, &mut plugin, &mut bare)?;
        }
    }
    Ok(())
}

/// Measures a notification in a batch to an observer, beyond the cost of a native subscriber.
fn notifications(
    arguments: &Arguments,
    native: &mut NativeSubscriber,
    plugin: &mut Plugin,
) -> Result<(), String> {
    let (mut extra, mut base, mut batches) = (Vec::new(), Vec::new(), Vec::new());
    let mut before = plugin.mark()?;
    for _ in 0..arguments.rounds {
        let chunks = pods::round(arguments.objects);
        let events = arguments.objects as f64 + 1.0;
        let alone = cpu(|| native.round(&chunks))?;
        let observed = cpu(|| plugin.round(&chunks))?;
        let now = plugin.last_mark()?;
        if now.0 - before.0 != arguments.objects as u64 + 1 {
            return Err(format!("{} of {events} notifications were delivered", now.0 - before.0));
        }
        batches.push(events / (now.1 - before.1) as f64);
        before = now;
        extra.push((observed - alone) / events * 1e6);
        base.push(alone / events * 1e6);
    }
    Figure::new("a notification to observe, over a native subscriber", "µs", median(&mut extra))
        .target("at most", 1.0)
        .with("native subscriber µs", median(&mut base))
        .with("notifications in a batch", median(&mut batches))
        .print();
    Ok(())
}

/// Measures an event that the predicate refuses, beyond the cost of its ingest. Such an event must not enter wasm.
fn predicates(
    arguments: &Arguments,
    name: &str,
    native: &mut NativeSubscriber,
    plugin: &mut Plugin,
) -> Result<(), String> {
    let mut extra = Vec::new();
    let mut marks = 0;
    let before = plugin.mark()?.0;
    for _ in 0..arguments.rounds {
        let chunks = pods::round(arguments.objects);
        let alone = cpu(|| native.round(&chunks))?;
        let refused = cpu(|| plugin.round(&chunks))?;
        marks += 1;
        extra.push((refused - alone) / (arguments.objects as f64 + 1.0) * 1e6);
    }
    let entered = plugin.last_mark()?.0 - before - marks;
    let title = format!("an event that the {name} refuses, over ingest");
    let figure =
        Figure::new(&title, "µs", median(&mut extra)).with("times that it entered wasm", entered as f64);
    // There is no target for predicates that read the object, which build a tree of what they read.
    if name == "predicate" { figure.target("at most", 1.0) } else { figure }.print();
    if entered > 0 {
        return Err(format!("{title}: the guest was entered {entered} times"));
    }
    Ok(())
}

/// Measures reconciles on one core, with the plugin's queue and worker.
fn reconciles(
    arguments: &Arguments,
    title: &str,
    watch: &str,
    native: &mut NativeSubscriber,
    plugin: &mut Plugin,
    bare: &mut bare::Bare,
) -> Result<(), String> {
    let (mut rates, mut ratios, mut events) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..arguments.rounds {
        let chunks = pods::round(arguments.objects);
        let alone = cpu(|| native.round(&chunks))?;
        let worked = cpu(|| plugin.round(&chunks))?;
        events.push((worked - alone) / (arguments.objects as f64 + 1.0) * 1e6);

        plugin.fill()?;
        let before = plugin.last_mark()?.0;
        let full = cpu(|| plugin.wait_for_mark())?;
        let count = (plugin.last_mark()?.0 - before - 1) as f64;
        if count < arguments.objects as f64 {
            return Err(format!("{count} of {} keys were reconciled", arguments.objects));
        }
        let bare =
            cpu(|| bare.reconcile_all(watch, arguments.objects).map_err(|error| format!("{error:?}")))?;
        rates.push(count / full);
        ratios.push((full / count) / (bare / arguments.objects as f64));
    }
    Figure::new(title, "/s", median(&mut rates))
        .target("at least", 250_000.0)
        .with("times as long as on bare wasmtime", median(&mut ratios))
        .with("from event to reconciled, over ingest, µs", median(&mut events))
        .print();
    Ok(())
}

/// Measures `cache.get`, reading one field, and closing the handle.
fn reads(arguments: &Arguments, plugin: &mut Plugin, bare: &mut bare::Bare) -> Result<(), String> {
    const READS: usize = 200_000;
    let mut core = core::Core::new().map_err(|error| format!("{error:?}"))?;
    let (mut times, mut bare_ratios, mut core_ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..arguments.rounds {
        let full = cpu(|| plugin.read(READS + 1))? - cpu(|| plugin.read(1))?;
        let bare_read =
            |bare: &mut bare::Bare, times| cpu(|| bare.read(times).map_err(|error| format!("{error:?}")));
        let bare_time = bare_read(bare, READS + 1)? - bare_read(bare, 1)?;
        let core_time = cpu(|| core.read(READS).map_err(|error| format!("{error:?}")))?;
        times.push(full / READS as f64 * 1e6);
        bare_ratios.push(full / bare_time);
        core_ratios.push(full / core_time);
    }
    let title = "cache.get and one field, against the same calls on bare wasmtime";
    Figure::new(title, "×", median(&mut bare_ratios))
        .target("at most", 1.5)
        .with("µs", median(&mut times))
        .with("against one core function that copies the value from a table, ×", median(&mut core_ratios))
        .print();
    Ok(())
}
