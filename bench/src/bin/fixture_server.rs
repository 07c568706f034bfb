//! Serves Pods for the benchmarks; see [`pilothouse_bench::fixture`].
//!
//! Prints one line, `{"listening":"http://…"}`, and serves until it is killed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use pilothouse_bench::fixture::{FixtureOptions, Framing, start};

/// A pretend API server that sends Pods as fast as they are read.
#[derive(Parser)]
struct Arguments {
    /// How many Pods there are.
    #[arg(long)]
    objects: usize,
    /// How many MODIFIED events the watch sends.
    #[arg(long)]
    events: usize,
    /// How events are put into HTTP chunks.
    #[arg(long, default_value = "packed")]
    framing: FramingArgument,
    /// Events per second, each with the time at which it was sent.
    #[arg(long)]
    rate: Option<u32>,
    /// Objects of 300 bytes instead of 3.5 KB.
    #[arg(long)]
    small: bool,
    /// A directory with protobuf bodies, for clients that ask for them.
    #[arg(long)]
    protobuf_dir: Option<PathBuf>,
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

#[derive(Clone, Copy, ValueEnum)]
enum FramingArgument {
    Packed,
    Chunked,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let options = FixtureOptions {
        objects: arguments.objects,
        events: arguments.events,
        framing: match arguments.framing {
            FramingArgument::Packed => Framing::Packed,
            FramingArgument::Chunked => Framing::Chunked,
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
