//! Serves a million Pods, or a thousand kinds, for the benchmark `scale`; see [`pilothouse_bench::fixture::scale`].
//!
//! Prints the line `{"listening":"http://…"}` and serves until it is killed.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Parser;
use pilothouse_bench::fixture::scale::{ScaleOptions, start};

/// A fake API server that generates objects while it sends them.
#[derive(Parser)]
struct Arguments {
    /// The number of objects of all kinds together.
    #[arg(long)]
    objects: usize,
    /// The number of MODIFIED events that the watches of all kinds send together.
    #[arg(long)]
    events: usize,
    /// Serve this many kinds of custom resources instead of Pods.
    #[arg(long)]
    kinds: Option<usize>,
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

fn main() -> ExitCode {
    let Arguments { objects, events, kinds, listen } = Arguments::parse();
    let kinds_served = kinds.unwrap_or(1);
    if kinds_served == 0 || objects < kinds_served {
        eprintln!("scale_server: --objects must be at least --kinds, and both at least 1");
        return ExitCode::FAILURE;
    }
    match start(ScaleOptions { objects, events, kinds, listen }) {
        Ok(address) => {
            println!(r#"{{"listening":"http://{address}"}}"#);
            loop {
                std::thread::park();
            }
        }
        Err(error) => {
            eprintln!("scale_server: {error}");
            ExitCode::FAILURE
        }
    }
}
