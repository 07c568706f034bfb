//! Measures the first start of a host with many distinct plugins, none of which was compiled before.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::Value;

use super::super::plugins::{Host, files, get_json};
use super::super::process::{PipedProcess, pause};
use super::super::programs::Programs;
use crate::guests;

/// The kernel counts CPU time in hundredths of a second.
const TICK: f64 = 0.01;
/// How often the host is asked for its progress.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How often it is asked at most.
const MOST_POLLS: usize = 3_600;

/// The results.
pub(super) struct FirstStart {
    pub(super) plugins: usize,
    /// Seconds from the start of the process until all plugins ran.
    pub(super) seconds: f64,
    /// CPU time of the compiler processes in seconds.
    pub(super) compiler_cpu_seconds: f64,
    /// The progress that the host reported: the seconds since its start, the plugins that were loaded, and all plugins.
    pub(super) progress: Vec<(f64, u64, u64)>,
    /// Seconds until all plugins ran when their code was in the cache.
    pub(super) cached_seconds: f64,
}

impl FirstStart {
    /// Checks that the progress never went back, and ended with all plugins.
    pub(super) fn check(&self) -> Result<()> {
        let counts: Vec<u64> = self.progress.iter().map(|(_, done, _)| *done).collect();
        ensure!(counts.is_sorted(), "the progress went back: {counts:?}");
        let all = self.plugins as u64;
        ensure!(counts.last() == Some(&all), "the progress ended with {:?} of {all} plugins", counts.last());
        Ok(())
    }

    /// Returns the time of the start, relative to the CPU time of the compilers. It is 1 if one core compiles all the time.
    pub(super) fn per_core(&self) -> f64 {
        self.seconds / self.compiler_cpu_seconds
    }
}

pub(super) fn measure(root: &Path, programs: &Programs, plugins: usize) -> Result<FirstStart> {
    let folder = root.join("target/bench/scale");
    if folder.exists() {
        // Also removes the compiled code of an earlier run.
        fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    let directory = folder.join("plugins");
    let guest =
        guests::build_small(root, &["probe"])?.into_iter().next().context("the probe was not built")?;
    files::distinct(&guest.wasm, &directory, plugins).map_err(|problem| anyhow!("{problem}"))?;
    let served = ["--objects", "10", "--events", "0"].map(str::to_owned);
    let mut server = PipedProcess::start(&programs.scale_server, &served)?;
    let listening = server.read_json()?;
    let url = listening["listening"].as_str().context("the scale server did not print its address")?;
    println!("bench: the first start of {plugins} plugins");
    let started = start(&programs.host, &folder, &directory, url, plugins)?;
    let compiler_cpu_seconds = children_cpu_seconds(started.host.process.id())?;
    let Started { seconds, progress, host } = started;
    drop(host);
    println!("bench: the second start of {plugins} plugins");
    let cached_seconds = start(&programs.host, &folder, &directory, url, plugins)?.seconds;
    fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
    Ok(FirstStart { plugins, seconds, compiler_cpu_seconds, progress, cached_seconds })
}

struct Started {
    host: Host,
    seconds: f64,
    progress: Vec<(f64, u64, u64)>,
}

/// Starts a host and waits until all plugins run.
#[expect(clippy::disallowed_methods, reason = "another process works meanwhile, in real time")]
fn start(host: &Path, folder: &Path, directory: &Path, server: &str, plugins: usize) -> Result<Started> {
    let begun = SystemTime::now();
    let elapsed = || begun.elapsed().unwrap_or_default().as_secs_f64();
    let host = Host::start(host, folder, directory, server)?;
    let mut progress = Vec::new();
    for _ in 0..MOST_POLLS {
        let status = get_json(&format!("{}/api/plugins", host.status))?;
        let (seconds, all) =
            (elapsed(), status["plugins"].as_array().context("/api/plugins has no plugins")?);
        let count = |name: &str| status["loading"][name].as_u64();
        let (done, total) = count("done").zip(count("total")).context("/api/plugins has no progress")?;
        progress.push((seconds, done, total));
        let has_failed = |plugin: &Value| plugin["state"] == "failed";
        ensure!(!all.iter().any(has_failed), "a plugin failed: {:.2000}", status.to_string());
        if all.len() == plugins && all.iter().all(|plugin| plugin["state"] == "running") {
            return Ok(Started { host, seconds, progress });
        }
        pause(POLL_INTERVAL);
    }
    bail!("timed out waiting for {plugins} plugins to run; the last progress is {:?}", progress.last())
}

/// Returns the CPU time of the child processes that have ended.
fn children_cpu_seconds(process: u32) -> Result<f64> {
    let path = format!("/proc/{process}/stat");
    let stat = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    children_ticks(&stat)
        .map(|ticks| ticks * TICK)
        .with_context(|| format!("{path} has no times of children"))
}

/// Returns the children's user and system time in ticks.
fn children_ticks(stat: &str) -> Option<f64> {
    // Skips the name, which is in parentheses and may contain spaces. The 14th and 15th of the following fields are the times.
    let fields: Vec<_> = stat.rsplit(')').next()?.split_ascii_whitespace().collect();
    Some(fields.get(13)?.parse::<f64>().ok()? + fields.get(14)?.parse::<f64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_childrens_times_are_read_behind_a_name_with_spaces() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 1 2 3 4 10 20 300 40 25 5 3 0 100 0 0";
        assert_eq!(children_ticks(stat), Some(340.0));
        assert_eq!(children_ticks("7 (a) S 1"), None);
    }

    #[test]
    fn progress_must_grow_up_to_all_plugins() {
        let with = |counts: &[u64]| FirstStart {
            plugins: 3,
            seconds: 6.0,
            compiler_cpu_seconds: 3.0,
            progress: counts.iter().map(|done| (1.0, *done, 3)).collect(),
            cached_seconds: 1.0,
        };
        assert!(with(&[0, 1, 3]).check().is_ok());
        assert!(with(&[0, 2, 1, 3]).check().is_err());
        assert!(with(&[0, 2]).check().is_err());
        assert_eq!(with(&[3]).per_core(), 2.0);
    }
}
