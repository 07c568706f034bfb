//! Runs `pilothouse sim`, reads its report, and watches its memory.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::report::Report;

/// How often the memory of the process is read.
const INTERVAL: Duration = Duration::from_millis(50);

/// Runs `pilothouse sim` with further arguments, and saves the traces of its findings in `traces`. Without a scenario, objects are generated.
///
/// # Errors
/// Errors if the simulation cannot run.
pub(crate) fn simulate(
    host: &Path,
    plugin: &Path,
    scenario: Option<&Path>,
    traces: &Path,
    arguments: &[&str],
) -> Result<Report> {
    fs::create_dir_all(traces).with_context(|| format!("create {}", traces.display()))?;
    let mut command = Command::new(host);
    command.arg("sim").arg(plugin).arg("--traces").arg(traces).args(["-o", "json"]).args(arguments);
    if let Some(scenario) = scenario {
        command.arg("--scenario").arg(scenario);
    }
    let ExitedProcess { status, stdout, stderr, peak_mib } =
        ExitedProcess::run(&mut command).with_context(|| format!("run {}", host.display()))?;
    let plugin = plugin.display();
    // 0: nothing was found. 1: something was found. 2: the simulation could not run.
    ensure!(matches!(status.code(), Some(0 | 1)), "`pilothouse sim {plugin}` ended with {status}:\n{stderr}");
    let report = Report::parse(&stdout).with_context(|| {
        format!("the output of `pilothouse sim {plugin}`, which ended with {status}:\n{stderr}")
    })?;
    let count = report.findings.len();
    ensure!(
        (count > 0) == (status.code() == Some(1)),
        "`pilothouse sim {plugin}` has {count} findings, but ended with {status}"
    );
    Ok(Report { peak_mib, ..report })
}

/// A process that has ended.
struct ExitedProcess {
    status: ExitStatus,
    stdout: String,
    stderr: String,
    /// Its largest resident memory in MiB, where the system tells it.
    peak_mib: Option<u64>,
}

impl ExitedProcess {
    /// Runs a command to its end.
    fn run(command: &mut Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let id = child.id();
        let (mut stdout, mut stderr) =
            (child.stdout.take().context("no pipe")?, child.stderr.take().context("no pipe")?);
        let errors = thread::spawn(move || {
            let mut text = Vec::new();
            stderr.read_to_end(&mut text).map(|_| text)
        });
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let mut text = Vec::new();
            let read = stdout.read_to_end(&mut text).map(|_| text);
            // The receiver waits until it gets this.
            let _ = sender.send(read);
        });
        let mut peak_mib = None;
        let stdout = loop {
            match receiver.recv_timeout(INTERVAL) {
                Ok(read) => break read?,
                Err(RecvTimeoutError::Timeout) => peak_mib = peak_of(id).or(peak_mib),
                Err(RecvTimeoutError::Disconnected) => anyhow::bail!("the reader of its output has panicked"),
            }
        };
        let status = child.wait()?;
        let stderr =
            errors.join().map_err(|_| anyhow::anyhow!("the reader of its errors has panicked"))??;
        Ok(Self {
            status,
            stdout: String::from_utf8(stdout).context("its output is not UTF-8")?,
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
            peak_mib,
        })
    }
}

/// Returns the largest resident memory of a process so far, in MiB; `None` once it has ended, and on other systems than Linux.
fn peak_of(id: u32) -> Option<u64> {
    peak_in(&fs::read_to_string(format!("/proc/{id}/status")).ok()?)
}

fn peak_in(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kib.div_ceil(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_of_memory_is_read_from_the_status_of_a_process() {
        assert_eq!(peak_in("Name:\tsim\nVmHWM:\t  204801 kB\nVmRSS:\t  9 kB\n"), Some(201));
        assert_eq!(peak_in("Name:\tsim\n"), None);
    }

    #[test]
    fn a_process_runs_to_its_end() {
        let watched = ExitedProcess::run(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]))
            .expect("sh");
        assert_eq!((watched.stdout.as_str(), watched.stderr.as_str()), ("out\n", "err\n"));
        assert_eq!(watched.status.code(), Some(3));
    }
}
