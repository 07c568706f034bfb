//! A thousand informers as a consumer of the scale server: `informers_consumer --server URL --kinds K --objects N --events M`.
//!
//! Prints `{"at":"listed"}` when all caches are synced, and `{"at":"done",…}` when the last event was received. Then it keeps its caches until
//! its standard input ends.

use std::process::ExitCode;

use clap::Parser;
use pilothouse_bench::informers::{InformersArguments, run};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let consumer = InformersArguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(run(consumer)),
        Err(error) => Err(error.to_string()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("informers_consumer: {error}");
            ExitCode::FAILURE
        }
    }
}
