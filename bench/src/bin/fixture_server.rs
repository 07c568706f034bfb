//! Serves Pods for the benchmarks; see [`pilothouse_bench::fixture`].
//!
//! Prints the line `{"listening":"http://…"}` and serves until it is killed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use pilothouse_bench::fixture::{FixtureOptions, Framing, TrafficKind, start};

/// A fake API server that sends Pods as fast as they are read.
#[derive(Parser)]
struct Arguments {
    /// The number of Pods.
    #[arg(long)]
    objects: usize,
    /// The number of events that the watch sends.
    #[arg(long)]
    events: usize,
    /// What the Pods and the events are like.
    #[arg(long, default_value = "uniform")]
    traffic: TrafficArgument,
    /// How events are split into HTTP chunks.
    #[arg(long, default_value = "packed")]
    framing: FramingArgument,
    /// Send this many events per second, each with the time at which it was sent. Default: as fast as they are read.
    #[arg(long)]
    rate: Option<u32>,
    /// Serve objects of 300 bytes instead of 3.5 KB, with uniform traffic.
    #[arg(long)]
    small: bool,
    /// A directory with protobuf bodies, for clients that accept them.
    #[arg(long)]
    protobuf_dir: Option<PathBuf>,
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

#[derive(Clone, Copy, ValueEnum)]
enum FramingArgument {
    Packed,
    Chunked,
}

#[derive(Clone, Copy, ValueEnum)]
enum TrafficArgument {
    /// Changes of many kinds to Pods of 400 workloads, as in clusters.
    Realistic,
    /// Versions that differ in the resource version and two timestamps.
    Uniform,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.small && matches!(arguments.traffic, TrafficArgument::Realistic) {
        eprintln!("fixture_server: --small cannot be used with --traffic realistic");
        return ExitCode::FAILURE;
    }
    let options = FixtureOptions {
        objects: arguments.objects,
        events: arguments.events,
        framing: match arguments.framing {
            FramingArgument::Packed => Framing::Packed,
            FramingArgument::Chunked => Framing::Chunked,
        },
        traffic: match arguments.traffic {
            TrafficArgument::Realistic => TrafficKind::Realistic,
            TrafficArgument::Uniform => TrafficKind::Uniform,
        },
        rate: arguments.rate,
        small: arguments.small,
        protobuf: arguments.protobuf_dir,
        listen: arguments.listen,
    };
    match start(options) {
        Ok(address) => {
            println!(r#"{{"listening":"http://{address}"}}"#);
            loop {
                std::thread::park();
            }
        }
        Err(error) => {
            eprintln!("fixture_server: {error}");
            ExitCode::FAILURE
        }
    }
}
