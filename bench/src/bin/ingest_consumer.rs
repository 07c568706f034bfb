//! Pilothouse's informer as a consumer of the fixture server, with the same interface as the benchmark's peers:
//! `ingest_consumer --server URL --objects N --events M --mode every|merge|drain [--latency] [--compression none|zstd]`.
//!
//! Prints `{"at":"listed"}` when its cache is synced and has all objects, and `{"at":"done",…}` when it has received the last event. Then it
//! keeps its cache until its standard input ends.

use std::process::ExitCode;

use clap::Parser;
use pilothouse_bench::consumer::{ConsumerArguments, run};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[cfg(not(any(feature = "mimalloc", feature = "system-allocator")))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let consumer = ConsumerArguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(run(consumer)),
        Err(error) => Err(error.to_string()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ingest_consumer: {error}");
            ExitCode::FAILURE
        }
    }
}
