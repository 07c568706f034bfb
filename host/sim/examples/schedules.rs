//! Measures how many schedules of a plugin one thread executes per second, and how much of that is the set-up of a run:
//!
//! ```text
//! cargo run --release -p pilothouse-sim --example schedules -- PLUGIN.wasm OBJECT.json [RUNS]
//! ```
//!
//! `OBJECT.json` is the object that a user creates, with the plural name of its resource in the member `plural`. Its resource may be that of
//! a CRD of the plugin.
#![allow(clippy::disallowed_methods, reason = "it measures real time")]

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use pilothouse_controller::PluginName;
use pilothouse_model::ResourceType;
use pilothouse_sim::actor::{Actor, ActorPoll, ActorWrite, ObjectView, Operation, PollMoment, WriteOutcome};
use pilothouse_sim::plan::{Deviation, Fault, Moment};
use pilothouse_sim::run::{Author, EventKind, Run};
use pilothouse_sim::world::{CompiledPlugins, PluginFile, World, WorldOptions};
use pilothouse_sim::{Plan, Simulator};
use serde_json::{Value, json};

/// Creates the object at the first rest and deletes it at the next one.
struct User {
    resource: ResourceType,
    object: Value,
    step: u32,
}

impl Actor for User {
    fn name(&self) -> &str {
        "user"
    }

    fn poll(&mut self, _: &dyn ObjectView, moment: PollMoment) -> ActorPoll {
        if !moment.at_rest {
            return ActorPoll::Wait { until: None, for_rest: true };
        }
        self.step += 1;
        let operation = match self.step {
            1 => Operation::Create(self.object.clone()),
            2 => Operation::MergePatch(json!({"metadata": {"labels": {"changed": "yes"}}})),
            3 => Operation::Delete { propagation: None, uid: None },
            _ => return ActorPoll::Done,
        };
        ActorPoll::Write(Box::new(ActorWrite {
            step: self.step,
            resource: self.resource.clone(),
            subresource: String::new(),
            namespace: self.object["metadata"]["namespace"].as_str().unwrap_or("default").to_owned(),
            name: self.object["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            operation,
        }))
    }

    fn written(&mut self, outcome: &WriteOutcome, _: u64) {
        assert!(outcome.status < 300, "{outcome:?}");
    }

    fn take_next_step(&mut self) {}

    fn unfinished(&self) -> Option<String> {
        (self.step < 4).then(|| format!("step {}", self.step + 1))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().collect();
    let [_, plugin, object, rest @ ..] = arguments.as_slice() else {
        return Err("usage: schedules PLUGIN.wasm OBJECT.json [RUNS]".into());
    };
    let runs: u32 = rest.first().map_or(Ok(300), |runs| runs.parse())?;
    let mut object: Value = serde_json::from_slice(&std::fs::read(object)?)?;
    let api_version = object["apiVersion"].as_str().unwrap_or_default().to_owned();
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let resource = ResourceType {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: object["kind"].as_str().unwrap_or_default().to_owned(),
        plural: object["plural"].take().as_str().unwrap_or_default().to_owned(),
        namespaced: true,
    };
    object.as_object_mut().ok_or("the object is no JSON object")?.remove("plural");
    let name = PluginName::of_file(Path::new(plugin))?;
    let file = PluginFile { name, wasm: std::fs::read(plugin)?, upgrade: None, sidecar: String::new() };
    let compiled = CompiledPlugins::compile(vec![file])?;
    let options = WorldOptions {
        actors: Box::new(move |_| {
            let user = User { resource: resource.clone(), object: object.clone(), step: 0 };
            vec![Box::new(user) as Box<dyn Actor>]
        }),
        ..WorldOptions::default()
    };
    let mut world = World::new(compiled.clone(), options)?;
    let reference = world.run(&Plan::default())?;
    describe(&reference);
    let writes = plugin_writes(&reference);
    let time = measure(runs, |index| {
        let (verb, resource) = writes[index % writes.len().max(1)].clone();
        let fault = if index % 2 == 0 { Fault::CrashBefore } else { Fault::LoseAnswer };
        let at = Moment::Request { verb, resource, occurrence: 1 };
        world.run(&Plan { seed: index as u64, deviations: vec![Deviation { at, fault }] }).map(drop)
    })?;
    report("with one fault", runs, time);
    let time =
        measure(runs, |index| world.run(&Plan { seed: index as u64, deviations: Vec::new() }).map(drop))?;
    report("without faults", runs, time);
    let mut idle = World::new(compiled, WorldOptions::default())?;
    let time =
        measure(runs, |index| idle.run(&Plan { seed: index as u64, deviations: Vec::new() }).map(drop))?;
    report("set-up only", runs, time);
    Ok(())
}

fn measure<E>(runs: u32, mut run: impl FnMut(usize) -> Result<(), E>) -> Result<Duration, E> {
    let started = Instant::now();
    for index in 0..runs {
        run(index as usize)?;
    }
    Ok(started.elapsed())
}

fn report(what: &str, runs: u32, time: Duration) {
    let each = time / runs;
    println!("{what}: {:.0} runs per second, {each:.1?} each", f64::from(runs) / time.as_secs_f64());
}

fn describe(run: &Run) {
    println!("the reference run has {} events and ends {:?}", run.events.len(), run.end);
    for event in &run.events {
        if let EventKind::Request(request) = &event.kind {
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
