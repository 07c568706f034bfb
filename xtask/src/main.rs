//! The project's own commands: `cargo xtask demo`, `cargo xtask test` and what they are made of.

mod bench;
mod bindings;
mod demo;
mod excerpts;
mod fuzz;
mod guests;
mod host;
mod hostile;
mod languages;
mod mutants;
mod promises;
mod soak;
mod test;
mod tidy;
mod wit;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's own commands")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build everything needed and show a plugin at work on the embedded API server.
    Demo {
        /// Stay up afterwards, until Ctrl-C.
        #[arg(long)]
        stay: bool,
    },
    /// Run every test: guests, host, end to end.
    Test,
    /// Build the example plugins to wasm.
    BuildGuests {
        /// The examples; all when none is named.
        packages: Vec<String>,
        /// Only those in Rust, as they are shipped: by the profile `small`, into `examples/target/guests/small`.
        #[arg(long, requires = "packages")]
        small: bool,
    },
    /// Put known faults into a copy of the informer, one after another: its tests must notice each.
    Mutants {
        /// Only those whose name contains this, such as `B19`.
        only: Option<String>,
    },
    /// Run the informer's convergence test over many seeds, its stuck subscriber over a million events, and a thousand reloads under
    /// load, in release mode.
    Soak {
        /// How many.
        #[arg(long, default_value_t = 10_000)]
        seeds: u64,
    },
    /// Look for inputs that make a reader of foreign bytes panic, hang or answer in several lines.
    Fuzz {
        /// `loader`, `sidecar`, `descriptor`, `selector`, `predicate`, `json_path`, `object` or `imports`; each in turn when none is named.
        target: Option<String>,
        /// How long each runs.
        #[arg(long, default_value_t = 600)]
        seconds: u64,
    },
    /// Run every attack of the suite `hostile` on the host in release mode, and most of them at once beside a healthy plugin.
    Hostile {
        /// Seconds for which they run at once.
        #[arg(long, default_value_t = 300)]
        seconds: u64,
    },
    /// Measure Pilothouse and its peers at the same work, and write bench/REPORT.md.
    Bench {
        /// A little of each, without a report: that everything runs, and which way the ratios point.
        #[arg(long)]
        quick: bool,
        /// Measure this part alone, and put it in the place of what bench/REPORT.md has of it; --quick has no part wasm or density.
        #[arg(long, value_enum)]
        only: Option<bench::Part>,
    },
    /// Count the instructions of the hot paths with valgrind, and compare them with bench/instructions.json.
    Instructions {
        /// Write the file instead.
        #[arg(long)]
        update: bool,
    },
    /// Generate the bindings that the SDKs for C and Go commit, from `wit/`.
    Bindings,
    /// Measure what each guest language costs, and write docs/languages.md.
    Languages,
    /// Write docs/wit.md from the comments in `wit/`.
    WitDoc,
    /// Check what neither compiler nor clippy checks: file sizes, direction of dependencies, leftovers.
    Tidy,
}

fn main() -> ExitCode {
    match run(&root(), Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The chain of causes is for a person; where in xtask it was noticed is not.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(root: &Path, command: Command) -> Result<()> {
    match command {
        Command::Demo { stay } => demo::run(root, stay),
        Command::Test => test::run(root),
        Command::BuildGuests { packages, small } => {
            let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
            let built = match small {
                true => guests::build_small(root, &packages)?,
                false => guests::build(root, &packages, || host::build(root))?,
            };
            for guest in built {
                println!("{}: {}", guest.name, guest.wasm.display());
            }
            Ok(())
        }
        Command::Mutants { only } => mutants::run(root, only.as_deref()),
        Command::Soak { seeds } => soak::run(root, seeds),
        Command::Fuzz { target, seconds } => fuzz::run(root, target.as_deref(), seconds),
        Command::Hostile { seconds } => hostile::run(root, seconds),
        Command::Bench { quick, only } => bench::run(root, quick, only),
        Command::Instructions { update } => bench::instructions::run(root, update),
        Command::Bindings => bindings::run(root),
        Command::Languages => languages::run(root),
        Command::WitDoc => wit::write_document(root),
        Command::Tidy => tidy::run(root),
    }
}

/// The checkout.
fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_owned()
}
