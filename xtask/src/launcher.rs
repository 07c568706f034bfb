//! Starts the form of this program that has the command: the one with all commands, or the demo's after its preparations.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use crate::{cargo, guests};

/// The plugin that the demo shows.
const PLUGIN: &str = "sample-controller";

/// Runs the command that `arguments` name and returns its exit code.
///
/// # Errors
/// Errors if a build fails or a program cannot be started.
pub(crate) fn run(root: &Path, arguments: &[OsString]) -> Result<ExitCode> {
    let status = match arguments {
        [command, options @ ..] if command == "demo" && is_valid_for_demo(options) => {
            run_demo(root, options)?
        }
        _ => run_full(root, arguments)?,
    };
    Ok(match status.code() {
        Some(0) => ExitCode::SUCCESS,
        Some(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        None => ExitCode::FAILURE,
    })
}

/// Returns whether the options are complete and known. Others, such as `--help`, are left to the parser of the full form.
fn is_valid_for_demo(options: &[OsString]) -> bool {
    match options {
        [] => true,
        [stay, rest @ ..] if stay == "--stay" => is_valid_for_demo(rest),
        [picture, file, rest @ ..] if picture == "--picture" && !starts_with_dash(file) => {
            is_valid_for_demo(rest)
        }
        _ => false,
    }
}

fn starts_with_dash(argument: &OsStr) -> bool {
    argument.as_encoded_bytes().starts_with(b"-")
}

fn run_full(root: &Path, arguments: &[OsString]) -> Result<ExitStatus> {
    cargo::cargo()
        .current_dir(root)
        .args(["run", "--quiet", "--locked", "--package", "xtask", "--features", "full", "--"])
        .args(arguments)
        .status()
        .context("start cargo to build all commands of xtask")
}

/// Prepares the demo, runs it in the form that was built together with the host, and prints where the time went.
fn run_demo(root: &Path, options: &[OsString]) -> Result<ExitStatus> {
    println!(
        "This builds the host and a plugin, then shows the plugin at work on an embedded API server.\n\
         The first build takes 3 to 8 minutes on two cores; later ones take seconds. Nothing is installed into a cluster."
    );
    let built = build(root)?;
    let started = now();
    let status = Command::new(&built.xtask)
        .arg("demo")
        .args(options)
        .arg("--host")
        .arg(&built.host)
        .arg("--plugin")
        .arg(&built.plugin)
        .status()
        .with_context(|| format!("start {}", built.xtask.display()))?;
    if status.success() {
        println!("\n{}", summary(built.host_time, built.plugin_time, started.elapsed()));
    }
    Ok(status)
}

/// What the demo needs, and how long each part took.
struct Built {
    host: PathBuf,
    xtask: PathBuf,
    plugin: PathBuf,
    host_time: Duration,
    plugin_time: Duration,
}

/// Builds the host and, at the same time, the plugin.
fn build(root: &Path) -> Result<Built> {
    guests::require_rust_toolchain(root)?;
    let (host, plugin) = thread::scope(|scope| {
        let plugin = scope.spawn(|| timed(|| build_plugin(root)));
        let host = timed(|| build_host(root));
        (host, plugin.join().unwrap_or_else(|_| Err(anyhow!("the thread that builds the plugin panicked"))))
    });
    let ((), host_time) = host?;
    let (plugin, plugin_time) = plugin?;
    // The build has replaced the running program's file with that of the demo, next to the host.
    let programs = std::env::current_exe().context("find the path of this program")?;
    let programs = programs.parent().context("the path of this program has no folder")?;
    let program = |name: &str| programs.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    Ok(Built { host: program("pilothouse"), xtask: program("xtask"), plugin, host_time, plugin_time })
}

/// Builds the host and the demo in one run of cargo: cargo unifies the features of what it builds together, and would otherwise compile
/// shared dependencies twice. The host has the system's allocator: compiling jemalloc takes a minute or two. It cannot compress its
/// caches or keep the server's data on disk, because the demo does neither.
fn build_host(root: &Path) -> Result<()> {
    let status = cargo::cargo()
        .current_dir(root)
        .args(["build", "--locked", "--bins"])
        .args(["--package", "pilothouse", "--no-default-features"])
        .args(["--package", "xtask", "--features", "pilothouse/developer-tools,xtask/demo"])
        .status()
        .context("start cargo to build the host")?;
    ensure!(status.success(), "cargo could not build the host (see above): {status}");
    Ok(())
}

fn build_plugin(root: &Path) -> Result<PathBuf> {
    // Two progress bars in one terminal would overwrite each other.
    let built = guests::build_rust(
        root,
        &root.join("examples"),
        &[PLUGIN.to_owned()],
        &[("CARGO_TERM_QUIET", "true")],
    )?;
    Ok(built.into_iter().next().context("cargo built no plugin")?.wasm)
}

fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, Duration)> {
    let started = now();
    work().map(|value| (value, started.elapsed()))
}

fn now() -> Instant {
    #[expect(
        clippy::disallowed_methods,
        reason = "the time that builds of real files take is shown to the user"
    )]
    Instant::now()
}

/// Returns the line that says where the time went.
fn summary(host: Duration, plugin: Duration, demo: Duration) -> String {
    format!(
        "Time: host {}, plugin {} (at the same time), demo {}.",
        minutes(host),
        minutes(plugin),
        minutes(demo)
    )
}

/// Formats a duration in minutes and seconds.
fn minutes(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(list: &[&str]) -> Vec<OsString> {
        list.iter().map(OsString::from).collect()
    }

    #[test]
    fn only_complete_and_known_options_start_the_demo_directly() {
        for valid in [&[][..], &["--stay"], &["--picture", "a.svg"], &["--picture", "a.svg", "--stay"]] {
            assert!(is_valid_for_demo(&arguments(valid)), "{valid:?}");
        }
        for invalid in
            [&["--help"][..], &["--picture"], &["--picture", "--stay"], &["stay"], &["--host", "x"]]
        {
            assert!(!is_valid_for_demo(&arguments(invalid)), "{invalid:?}");
        }
    }

    #[test]
    fn the_summary_names_each_part_with_its_time() {
        let line = summary(Duration::from_secs(245), Duration::from_secs(59), Duration::from_millis(9_900));
        assert_eq!(line, "Time: host 4 min 5 s, plugin 59 s (at the same time), demo 9 s.");
    }
}
