//! The kube-rs peer of the ingest and latency benchmarks: reflectors and a controller that read from the fixture server.
//!
//!     kube-rs --server URL --objects N --events M --mode typed|dynamic|controller [--latency] [--strip-managed-fields]
//!
//! It prints `{"at":"listed"}` when its cache is complete and `{"at":"done",…}` when it has received the last event, and then keeps its cache
//! until its standard input is closed.

use std::sync::Arc;

use clap::{Parser, ValueEnum};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject};
use kube::{Api, Client, Config};
use kube_rs_peers as _; // Sets the allocator.
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

mod controller;
mod progress;
mod reflector;

use progress::Progress;

#[derive(Clone, Debug, Parser)]
struct Arguments {
    /// The URL of the fixture server.
    #[arg(long)]
    server: String,
    /// The number of objects that the server lists.
    #[arg(long)]
    objects: usize,
    /// The number of events that the server sends.
    #[arg(long)]
    events: usize,
    #[arg(long, value_enum, default_value = "typed")]
    mode: Mode,
    /// Measure the latency of every event. Each event contains the time at which it was sent.
    #[arg(long)]
    latency: bool,
    /// Remove managedFields from objects before they are cached, as kube's documentation recommends to save memory. Not with --mode controller.
    #[arg(long)]
    strip_managed_fields: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// A reflector of Pods.
    Typed,
    /// A reflector of `DynamicObject`s.
    Dynamic,
    /// A Controller of Pods.
    Controller,
}

type Error = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let arguments = Arguments::parse();
    let client = Client::try_from(Config::new(arguments.server.parse()?))?;
    let progress = Arc::new(Progress::new(&arguments));
    match arguments.mode {
        Mode::Typed => reflector::run(Api::<Pod>::all(client), (), &arguments, &progress).await?,
        Mode::Dynamic => {
            let pods = ApiResource::erase::<Pod>(&());
            let api = Api::<DynamicObject>::all_with(client, &pods);
            reflector::run(api, pods, &arguments, &progress).await?;
        }
        Mode::Controller if arguments.strip_managed_fields => {
            return Err("--strip-managed-fields cannot be used with --mode controller".into());
        }
        Mode::Controller => controller::run(Api::<Pod>::all(client), &arguments, progress).await?,
    }
    let mut rest = Vec::new();
    tokio::io::stdin().read_to_end(&mut rest).await?;
    // The process ends although background tasks still run.
    std::process::exit(0);
}

/// Checks that the cache has all objects, and prints that it is complete.
fn print_listed(cached: usize, arguments: &Arguments) -> Result<(), Error> {
    if cached != arguments.objects {
        let wanted = arguments.objects;
        return Err(format!(
            "the cache is complete with {cached} objects, not {wanted}: was the server started with the same --objects?"
        )
        .into());
    }
    println!("{}", json!({"at": "listed"}));
    Ok(())
}

fn print_done(mut done: Value, cached: usize) {
    done["at"] = "done".into();
    done["cached"] = cached.into();
    println!("{done}");
}
