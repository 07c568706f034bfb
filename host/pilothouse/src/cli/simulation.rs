//! The flags of `sim`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, FromArgMatches, ValueEnum};
use pilothouse_sim::search::{Budget, FaultClass, Strategy};

/// The number of runs without `--seeds` and `--time`.
const DEFAULT_RUNS: u64 = 2_000;
/// The longest `--time`.
const MAX_TIME: Duration = Duration::from_hours(24);
/// The largest number of threads.
const MAX_THREADS: u16 = 256;

#[derive(Clone, Debug, Args)]
pub(crate) struct Sim {
    /// Plugins to simulate together: .wasm files, or folders of projects, which are built. By default, those that the scenario names. A
    /// sidecar next to a file or in a folder is applied.
    #[arg(value_name = "DIR|FILE.wasm", required_unless_present_any = ["scenario", "rules", "diff"])]
    pub(crate) plugins: Vec<PathBuf>,
    /// Search in this scenario; can be repeated. By default, in those in the folder `simulations` of the project, if one is named. Without
    /// any, objects of the kinds that the plugins watch are generated.
    #[arg(long, env = "PILOTHOUSE_SCENARIO", value_name = "FILE")]
    pub(crate) scenario: Vec<PathBuf>,
    /// Without a scenario: take the objects from the manifests in this folder where it has any of a kind.
    #[arg(long, env = "PILOTHOUSE_OBJECTS", value_name = "DIR", conflicts_with = "scenario")]
    pub(crate) objects: Option<PathBuf>,
    /// Number of runs for each scenario, without those for shrinking; a run that does not come to rest counts as ten. By default 2000, unless
    /// --time is given.
    #[arg(long, env = "PILOTHOUSE_SEEDS", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seeds: Option<u64>,
    /// Search for this long in each scenario, such as 30s or 10m. How many runs that are depends on the machine. With --seeds, the search
    /// ends with whichever is used up first.
    #[arg(long, env = "PILOTHOUSE_TIME", value_name = "DURATION", value_parser = parse_time)]
    pub(crate) time: Option<Duration>,
    /// Master seed, decimal or 0x… in hexadecimal. Everything follows from it.
    #[arg(long, env = "PILOTHOUSE_SEED", value_name = "S", default_value = "0x1", value_parser = parse_seed)]
    pub(crate) seed: u64,
    /// Strategies: plans, pairs, random, exhaustive. The reference is always run.
    #[arg(
        long,
        env = "PILOTHOUSE_STRATEGY",
        value_name = "LIST",
        value_delimiter = ',',
        default_values = ["reference", "plans", "pairs", "random"],
        value_parser = parse_strategy
    )]
    pub(crate) strategy: Vec<Strategy>,
    /// Faults: all, none, or a list of crash, stale, relist, conflict, 5xx, 429, unknown, reload, delay and order.
    #[arg(
        long,
        env = "PILOTHOUSE_FAULTS",
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "all",
        value_parser = parse_faults
    )]
    pub(crate) faults: Vec<FaultList>,
    /// Whether the host gives its guarantees: a plugin sees its own writes at once, and the outcome of a write without an answer is settled. By
    /// default, what the scenario says, or else `on`.
    #[arg(long, env = "PILOTHOUSE_GUARANTEES", value_enum, value_name = "MODE")]
    pub(crate) guarantees: Option<Guarantees>,
    /// Switch an oracle off for this reason, as `oracles` of a scenario does; can be repeated. Names with spaces need quotes.
    #[arg(long, env = "PILOTHOUSE_IGNORE", value_name = "ORACLE=REASON", value_parser = parse_ignored)]
    pub(crate) ignore: Vec<IgnoredOracle>,
    /// The file to which a reload changes the first plugin. By default, it reloads the same file.
    #[arg(long, env = "PILOTHOUSE_UPGRADE", value_name = "FILE.wasm")]
    pub(crate) upgrade: Option<PathBuf>,
    /// Replay a trace that an earlier search has saved.
    #[arg(long, env = "PILOTHOUSE_REPLAY", value_name = "TRACE", conflicts_with_all = ["diff", "check_determinism"])]
    pub(crate) replay: Option<PathBuf>,
    /// With --replay: the plugin, or the scenario, is another version than that of the trace, for example with a fix. Without this flag, such
    /// a trace is refused.
    #[arg(long, env = "PILOTHOUSE_OTHER_VERSION", requires = "replay")]
    pub(crate) other_version: bool,
    /// With --replay: if the error happens again, write a folder from which it can be provoked on a real API server.
    #[arg(long, env = "PILOTHOUSE_EXPORT", value_name = "DIR", requires = "replay")]
    pub(crate) export: Option<PathBuf>,
    /// Compare two versions of a plugin: both go through the same runs.
    #[arg(long, env = "PILOTHOUSE_DIFF", num_args = 2, value_names = ["OLD.wasm", "NEW.wasm"], conflicts_with_all = ["plugins", "upgrade"])]
    pub(crate) diff: Vec<PathBuf>,
    /// Replay a recording of `run --record` with the plugin, up to the first call that differs.
    #[arg(long, env = "PILOTHOUSE_RECORDING", value_name = "PATH", conflicts_with_all = ["scenario", "replay", "diff"])]
    pub(crate) recording: Option<PathBuf>,
    /// Print findings as they were found, without looking for fewer faults that suffice.
    #[arg(long, env = "PILOTHOUSE_NO_SHRINK")]
    pub(crate) no_shrink: bool,
    /// Make the default run and runs with faults in two processes, and report the first call that differs.
    #[arg(long, env = "PILOTHOUSE_CHECK_DETERMINISM")]
    pub(crate) check_determinism: bool,
    /// Number of threads; each runs a world of its own. By default, the number of cores. It does not change what is found.
    #[arg(long, env = "PILOTHOUSE_THREADS", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_THREADS)))]
    pub(crate) threads: Option<u16>,
    /// Folder in which to save the traces of findings, as finding-N.trace.
    #[arg(long, env = "PILOTHOUSE_TRACES", value_name = "DIR", default_value = ".")]
    pub(crate) traces: PathBuf,
    /// Directory in which to cache compiled plugins. By default, `pilothouse` in $XDG_CACHE_HOME or ~/.cache.
    #[arg(long, env = "PILOTHOUSE_CACHE_DIR", value_name = "DIR")]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Write the hash and the plan of each run to this file, one line each, to compare machines or builds.
    #[arg(long, env = "PILOTHOUSE_HASHES", value_name = "FILE", conflicts_with_all = ["replay", "check_determinism", "diff", "recording"])]
    pub(crate) hashes: Option<PathBuf>,
    /// Print the calls of the default run in the scenario with this position, counted from 0: what `--check-determinism` compares.
    #[arg(long, env = "PILOTHOUSE_PRINT_CALLS", value_name = "POSITION", hide = true)]
    pub(crate) print_calls: Option<usize>,
    /// Format of the results.
    #[arg(long, short, env = "PILOTHOUSE_OUTPUT", value_enum, default_value = "text", value_name = "FORMAT")]
    pub(crate) output: SimOutput,
    /// Print the table of fault rules and the table of oracles, and exit.
    #[arg(long, env = "PILOTHOUSE_RULES")]
    pub(crate) rules: bool,
    /// Set by the commands that simulate, and not by the user.
    #[arg(skip)]
    pub(crate) derived: Derived,
}

/// What follows from the flags, or from the command that simulates on behalf of the user.
#[derive(Clone, Debug, Default)]
pub(crate) struct Derived {
    /// The .wasm files in place of `plugins`, some of which are projects that were built. Empty if none is.
    pub(crate) files: Vec<PathBuf>,
    /// What the names of traces begin with, so that those of several scenarios differ.
    pub(crate) trace_prefix: String,
    /// The number of findings after which a search ends; `None` for the default.
    pub(crate) max_findings: Option<usize>,
}

/// Whether the host gives its guarantees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Guarantees {
    /// As in production.
    On,
    /// None: shows what a plugin owes to them.
    None,
}

/// The format of the results of `sim`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SimOutput {
    /// Stories, and the situations that were created.
    Text,
    /// A JSON document.
    Json,
    /// An XML document for CI systems.
    Junit,
}

/// An item of `--faults`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultList {
    /// All classes.
    All,
    /// No class.
    None,
    /// One class.
    One(FaultClass),
}

/// An oracle that is switched off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IgnoredOracle {
    pub(crate) name: String,
    pub(crate) reason: String,
}

impl Sim {
    /// Returns the classes of faults that are enabled.
    pub(crate) fn fault_classes(&self) -> Vec<FaultClass> {
        self.faults
            .iter()
            .flat_map(|item| match item {
                FaultList::All => FaultClass::ALL.to_vec(),
                FaultList::None => Vec::new(),
                FaultList::One(class) => vec![*class],
            })
            .collect()
    }

    /// Returns the budget of a search in one scenario.
    pub(crate) fn budget(&self) -> Budget {
        match (self.seeds, self.time) {
            (None, None) => Budget::Runs(DEFAULT_RUNS),
            (Some(runs), None) => Budget::Runs(runs),
            (None, Some(time)) => Budget::Time(time),
            (Some(runs), Some(time)) => Budget::Both(runs, time),
        }
    }

    /// Returns the .wasm files of the plugins that the command line names.
    pub(crate) fn plugin_files(&self) -> &[PathBuf] {
        if self.derived.files.is_empty() { &self.plugins } else { &self.derived.files }
    }

    /// Returns the flags of these arguments, for other commands that simulate. Environment variables do not apply to them.
    ///
    /// # Errors
    /// Returns clap's text if the arguments are invalid.
    pub(crate) fn of_arguments<I: IntoIterator<Item = OsString>>(arguments: I) -> Result<Self, String> {
        let command = Self::augment_args(clap::Command::new("sim").no_binary_name(true));
        let command = command.mut_args(|argument| argument.env(None::<&'static str>));
        let matches = command.try_get_matches_from(arguments).map_err(|error| error.to_string())?;
        Self::from_arg_matches(&matches).map_err(|error| error.to_string())
    }
}

fn parse_strategy(text: &str) -> Result<Strategy, String> {
    text.parse()
}

fn parse_faults(text: &str) -> Result<FaultList, String> {
    match text {
        "all" => Ok(FaultList::All),
        "none" => Ok(FaultList::None),
        text => text.parse().map(FaultList::One),
    }
}

fn parse_ignored(text: &str) -> Result<IgnoredOracle, String> {
    let (name, reason) = text
        .split_once('=')
        .filter(|(name, reason)| !name.trim().is_empty() && !reason.trim().is_empty())
        .ok_or("expected the name of an oracle and a reason, such as \"orphan=volumes are kept\"")?;
    Ok(IgnoredOracle { name: name.trim().to_owned(), reason: reason.trim().to_owned() })
}

fn parse_seed(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "expected a number below 2^64, such as 7 or 0x51f2".to_owned())
}

/// Parses a duration of at most a day.
fn parse_time(text: &str) -> Result<Duration, String> {
    let error = || "expected a duration of at most 24h, such as 500ms, 30s, 10m or 2h".to_owned();
    let digits = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| error())?;
    let milliseconds = match unit {
        "ms" => Some(number),
        "s" => number.checked_mul(1_000),
        "m" => number.checked_mul(60_000),
        "h" => number.checked_mul(3_600_000),
        _ => None,
    };
    milliseconds.map(Duration::from_millis).filter(|time| *time <= MAX_TIME).ok_or_else(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_decimal_or_hexadecimal() {
        assert_eq!(parse_seed("7"), Ok(7));
        assert_eq!(parse_seed("0x51f2"), Ok(0x51f2));
        for bad in ["", "0x", "-1", "seven", "99999999999999999999"] {
            assert!(parse_seed(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_time_is_a_duration_of_at_most_a_day() {
        assert_eq!(parse_time("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(parse_time("24h"), Ok(MAX_TIME));
        for bad in ["", "10", "25h", "-1s", "99999999999999999999s"] {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_budget_is_a_number_of_runs_a_time_or_both() {
        let budget = |arguments: &[&str]| {
            let all = ["a.wasm"].iter().chain(arguments).map(OsString::from);
            Sim::of_arguments(all).map(|flags| flags.budget())
        };
        let second = Duration::from_secs(1);
        assert_eq!(budget(&[]), Ok(Budget::Runs(DEFAULT_RUNS)));
        assert_eq!(budget(&["--seeds", "7"]), Ok(Budget::Runs(7)));
        assert_eq!(budget(&["--time", "1s"]), Ok(Budget::Time(second)));
        assert_eq!(budget(&["--seeds", "7", "--time", "1s"]), Ok(Budget::Both(7, second)));
        assert!(budget(&["--seeds", "many"]).is_err());
    }

    #[test]
    fn plugins_are_the_files_of_built_projects_if_there_are_any() {
        let mut flags = Sim::of_arguments([OsString::from("greeter")]).expect("valid");
        assert_eq!(flags.plugin_files(), [PathBuf::from("greeter")]);
        flags.derived.files.push("built/greeter.wasm".into());
        assert_eq!(flags.plugin_files(), [PathBuf::from("built/greeter.wasm")]);
    }

    #[test]
    fn an_oracle_is_ignored_with_a_reason_only() {
        let ignored = parse_ignored("same end=names = order of creation").expect("valid");
        assert_eq!(
            (ignored.name.as_str(), ignored.reason.as_str()),
            ("same end", "names = order of creation")
        );
        for bad in ["orphan", "orphan=", "=because", "orphan= "] {
            assert!(parse_ignored(bad).expect_err(bad).contains("a reason"), "{bad}");
        }
    }

    #[test]
    fn faults_are_all_none_or_classes() {
        assert_eq!(parse_faults("all"), Ok(FaultList::All));
        assert_eq!(parse_faults("crash"), Ok(FaultList::One(FaultClass::Crash)));
        assert!(parse_faults("crush").expect_err("unknown").contains("crash"));
    }
}
