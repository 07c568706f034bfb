//! Measures how many schedules of a scenario one thread executes per second, and how much of that is the set-up of a run:
//!
//! ```text
//! cargo run --release -p pilothouse-sim --example schedules -- PLUGIN.wasm SCENARIO.yaml RUNS [CRD.json]...
//! ```
#![allow(clippy::disallowed_methods, reason = "it measures real time")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pilothouse_controller::PluginName;
use pilothouse_sim::plan::{Deviation, Fault, Moment};
use pilothouse_sim::run::{Author, EventKind, Run};
use pilothouse_sim::scenario::{Kinds, Scenario};
use pilothouse_sim::world::{CompiledPlugins, PluginFile, World, WorldOptions, fix_hash_order};
use pilothouse_sim::{Plan, Simulator};
use serde_json::Value;

fn main() -> Result<(), Box<dyn Error>> {
    fix_hash_order()?;
    let arguments: Vec<_> = std::env::args().collect();
    let [_, plugin, scenario, runs, crds @ ..] = arguments.as_slice() else {
        return Err("usage: schedules PLUGIN.wasm SCENARIO.yaml RUNS [CRD.json]...".into());
    };
    let runs: u32 = runs.parse()?;
    let crds = crds.iter().map(|file| Ok(serde_json::from_slice(&std::fs::read(file)?)?));
    let crds = crds.collect::<Result<Vec<Value>, Box<dyn Error>>>()?;
    let name = PluginName::of_file(Path::new(plugin))?;
    let file = PluginFile { name, wasm: std::fs::read(plugin)?, upgrade: None, sidecar: String::new() };
    let started = Instant::now();
    let compiled = CompiledPlugins::compile(vec![file])?;
    println!("compiled in {:.1?}", started.elapsed());
    let scenario = parse(scenario, &crds)?;
    let world = |scenario: &Arc<Scenario>| -> Result<World, Box<dyn Error>> {
        let mut options = WorldOptions::of_scenario(scenario);
        options.crds.extend(crds.iter().cloned());
        Ok(World::new(compiled.clone(), options)?)
    };
    let mut simulated = world(&scenario)?;
    let reference = simulated.run(&Plan::default())?;
    describe(&reference);
    for judgement in scenario.judge(&reference) {
        println!("invariant {}: {:?}", judgement.invariant, judgement.verdict);
    }
    let mut idle =
        World::new(compiled.clone(), WorldOptions { crds: crds.clone(), ..WorldOptions::default() })?;
    let without_faults = |index: usize| Plan::new(index as u64, Vec::new());
    let writes = plugin_writes(&reference);
    let with_fault = |index: usize| {
        let (verb, resource) = writes.get(index % writes.len().max(1)).cloned().unwrap_or_default();
        let fault = if index.is_multiple_of(2) { Fault::CrashBefore } else { Fault::LoseAnswer };
        let at = Moment::Request { verb, resource, occurrence: 1 };
        Plan::new(index as u64, vec![Deviation { at, fault }])
    };
    report("with one fault", runs, measure(runs, |index| simulated.run(&with_fault(index)).map(drop))?);
    report("without faults", runs, measure(runs, |index| simulated.run(&without_faults(index)).map(drop))?);
    report("without steps", runs, measure(runs, |index| idle.run(&without_faults(index)).map(drop))?);
    Ok(())
}

fn parse(file: &str, crds: &[Value]) -> Result<Arc<Scenario>, Box<dyn Error>> {
    let mut kinds = Kinds::built_in();
    for crd in crds {
        kinds.add_crd(crd)?;
    }
    let folder = Path::new(file).parent().unwrap_or(Path::new(""));
    let read = |path: &Path| {
        let path = if path.exists() { path.to_owned() } else { folder.join(path) };
        std::fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    Ok(Arc::new(Scenario::parse(Path::new(file), &std::fs::read_to_string(file)?, &kinds, &read)?))
}

fn measure<E>(runs: u32, mut run: impl FnMut(usize) -> Result<(), E>) -> Result<Duration, E> {
    let started = Instant::now();
    for index in 0..runs {
        run(index as usize)?;
    }
    Ok(started.elapsed())
}

fn report(what: &str, runs: u32, time: Duration) {
    let each = time / runs.max(1);
    println!("{what}: {:.0} runs per second, {each:.1?} each", f64::from(runs) / time.as_secs_f64());
}

fn describe(run: &Run) {
    println!(
        "the reference run has {} events, ends {:?}, and has the hash {:016x}",
        run.events.len(),
        run.end,
        run.hash
    );
    for event in &run.events {
        if let EventKind::Request(request) = &event.kind
            && event.time > 0
        {
            let (author, verb) = (&request.author, &request.verb);
            println!("{:>8} {author:?} {verb} {} {}", event.time, request.resource, request.name);
        }
    }
}

/// Returns verb and resource of the plugin's writes.
fn plugin_writes(run: &Run) -> Vec<(String, String)> {
    let writes = run.events.iter().filter_map(|event| match &event.kind {
        EventKind::Request(request) if matches!(request.author, Author::Plugin(_)) && request.changed => {
            let subresource = if request.subresource.is_empty() { "" } else { "/" };
            let resource = format!("{}{subresource}{}", request.resource, request.subresource);
            Some((request.verb.clone(), resource))
        }
        _ => None,
    });
    writes.collect()
}
