//! Runs a host with many plugins on one watch against its own fixture server.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::{Value, json};

use super::super::process::{ALLOCATOR_RELEASE_TIME, PipedProcess, Usage, Workload, pause, serve};
use super::files;

/// What the first plugin does with an event. The predicates of the others reject every event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeMode {
    /// Queues a key and reconciles it.
    Reconcile,
    /// Observes a notification in a batch.
    Observe,
}

/// The programs to run, and a folder for the plugins and their compiled code.
pub(super) struct Scenario<'a> {
    pub(super) host: &'a Path,
    pub(super) fixture: &'a Path,
    /// Path of the guest `probe`.
    pub(super) guest: PathBuf,
    pub(super) folder: PathBuf,
}

/// The results of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Measurement {
    /// Usage of the idle host after the list.
    pub(super) ready: Usage,
    /// Usage of the idle host after the events.
    pub(super) done: Usage,
    /// Seconds from the start of the events until the first plugin has processed the last one.
    pub(super) seconds: f64,
    /// The first plugin's latency in nanoseconds: 50th, 90th, 99th and 100th percentile.
    pub(super) latency: [f64; 4],
    /// Number of reconciles or notifications behind the percentiles.
    pub(super) measured: f64,
    /// Number of watch requests that the server received.
    pub(super) watches: f64,
    /// Bytes of lists and watches that the host has read.
    pub(super) received: f64,
    /// Bytes of cached objects in all informers.
    pub(super) cached: f64,
    /// Number of notifications that were merged into a later one because a plugin could not keep up.
    pub(super) merged: f64,
}

impl Measurement {
    /// Returns the host's CPU time for the events in seconds.
    pub(super) fn cpu_seconds(&self) -> f64 {
        self.done.cpu_seconds - self.ready.cpu_seconds
    }
}

/// Time limit for any step, among them the compilation of a thousand plugins.
const TIMEOUT: Duration = Duration::from_secs(1800);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

impl Scenario<'_> {
    #[expect(clippy::disallowed_methods, reason = "another process works meanwhile, in real time")]
    pub(super) fn run(&self, plugins: usize, mode: ProbeMode, work: &Workload) -> Result<Measurement> {
        let directory = self.folder.join("plugins");
        self.create_plugins(&directory, plugins, mode, work)?;
        let (_fixture, server) = serve(self.fixture, work)?;
        let host = Host::start(self.host, &self.folder, &directory, &server)?;
        host.wait_for_list(plugins, work.objects)?;
        host.wait_idle()?;
        if work.rate.is_none() {
            // These runs compare memory, which must not include what the list has allocated and freed.
            pause(ALLOCATOR_RELEASE_TIME);
        }
        let ready = host.process.usage()?;
        let log = follow_log(&format!("{}/api/logs?plugin=plugin-0&follow=true", host.status))?;
        let start = std::time::SystemTime::now();
        ureq::post(&format!("{server}/fixture/start")).send_empty().context("start the events")?;
        let percentiles = read_percentiles(log)?;
        let seconds = start.elapsed().unwrap_or_default().as_secs_f64();
        host.wait_idle()?;
        let done = host.process.usage()?;
        let metrics = get_text(&format!("{}/metrics", host.status))?;
        let watches = get_json(&format!("{server}/fixture/watches"))?;
        let [p50, p90, p99, max, measured] = percentiles;
        Ok(Measurement {
            ready,
            done,
            seconds,
            latency: [p50, p90, p99, max],
            measured,
            watches: watches["opened"].as_f64().context("the fixture reports no number of watches")?,
            received: sum_metric(&metrics, "pilothouse_informer_received_bytes_total"),
            cached: sum_metric(&metrics, "pilothouse_informer_store_bytes"),
            merged: sum_metric(&metrics, "pilothouse_informer_merged_notifications_total"),
        })
    }

    /// Recreates the plugins directory with distinct files and a sidecar for each.
    fn create_plugins(
        &self,
        directory: &Path,
        plugins: usize,
        mode: ProbeMode,
        work: &Workload,
    ) -> Result<()> {
        if directory.exists() {
            fs::remove_dir_all(directory).with_context(|| format!("remove {}", directory.display()))?;
        }
        files::distinct(&self.guest, directory, plugins).map_err(|problem| {
            anyhow!("{problem}; if the guest is missing, run `cargo xtask build-guests probe`")
        })?;
        for number in 0..plugins {
            let config = if number > 0 {
                // Rejects every event, because Pods have no generation that could change.
                json!({"predicate": "generationChanged()"})
            } else {
                let last = work.objects + work.events;
                json!({"observes": mode == ProbeMode::Observe,
                       "latency": {"after": work.objects + work.events / 20, "until": last}})
            };
            let sidecar = format!("workers: 1\nconfig: {config}\n");
            let path = directory.join(format!("plugin-{number}.yaml"));
            fs::write(&path, sidecar).with_context(|| format!("write {}", path.display()))?;
        }
        Ok(())
    }
}

/// A running host.
pub(crate) struct Host {
    pub(crate) process: PipedProcess,
    /// URL of the status server.
    pub(crate) status: String,
}

impl Host {
    /// Starts a host with a directory of plugins. `folder` gets the kubeconfig and the compiled code.
    pub(crate) fn start(host: &Path, folder: &Path, plugins: &Path, server: &str) -> Result<Self> {
        let kubeconfig = folder.join("kubeconfig");
        let entry = |kind: &str, value: Value| json!([{"name": "fixture", kind: value}]);
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "fixture",
            "clusters": entry("cluster", json!({"server": server})),
            "users": entry("user", json!({})),
            "contexts": entry("context", json!({"cluster": "fixture", "user": "fixture"})),
        });
        fs::write(&kubeconfig, text.to_string()).context("write the kubeconfig")?;
        let path = |path: &Path| path.display().to_string();
        let arguments = [
            "run".to_owned(),
            "--plugins".to_owned(),
            path(plugins),
            "--kubeconfig".to_owned(),
            path(&kubeconfig),
            "--cache-dir".to_owned(),
            path(&folder.join("cache")),
        ];
        let quiet = ["--listen", "127.0.0.1:0", "--log-level", "error"].map(str::to_owned);
        let mut process = PipedProcess::start(host, &[&arguments[..], &quiet].concat())?;
        loop {
            if let Some(url) = process.read_line()?.strip_prefix("status") {
                let status = url.trim().trim_end_matches('/').to_owned();
                return Ok(Self { process, status });
            }
        }
    }

    /// Waits until all plugins run and have reconciled the list.
    pub(crate) fn wait_for_list(&self, plugins: usize, objects: usize) -> Result<()> {
        let mut response = Value::Null;
        for _ in 0..TIMEOUT.as_millis() / POLL_INTERVAL.as_millis() {
            response = get_json(&format!("{}/api/plugins", self.status))?;
            let all = response["plugins"].as_array().context("/api/plugins has no list of plugins")?;
            let has_listed = |plugin: &&Value| {
                // The first plugin may observe instead of reconcile.
                let reconciles = plugin["counters"]["reconciles"].as_u64().unwrap_or_default();
                let has_all = reconciles >= objects as u64 || plugin["name"] == "plugin-0";
                plugin["state"] == "running" && plugin["queueDepth"] == 0 && has_all
            };
            if all.len() == plugins && all.iter().filter(has_listed).count() == plugins {
                return Ok(());
            }
            ensure!(all.iter().all(|plugin| plugin["state"] != "failed"), "a plugin failed: {response}");
            pause(POLL_INTERVAL);
        }
        bail!("timed out waiting for the plugins to run: {:.2000}", response.to_string())
    }

    /// Waits until the process uses no CPU time. Sends no requests, which would use some.
    fn wait_idle(&self) -> Result<()> {
        let mut before = self.process.usage()?.cpu_seconds;
        for _ in 0..TIMEOUT.as_secs() {
            pause(Duration::from_secs(1));
            let now = self.process.usage()?.cpu_seconds;
            // Allows two ticks per second for timers.
            if now - before <= 0.02 {
                return Ok(());
            }
            before = now;
        }
        bail!("timed out waiting for the host to become idle")
    }
}

/// Returns a reader of a log that is followed.
fn follow_log(url: &str) -> Result<impl BufRead + use<>> {
    let config = ureq::Agent::config_builder().timeout_global(Some(TIMEOUT)).build();
    let response = config.new_agent().get(url).call().with_context(|| format!("get {url}"))?;
    Ok(BufReader::new(response.into_body().into_reader()))
}

/// Reads the log until the probe reports its percentiles, which it does after the last event. The fifth number is the number of
/// measurements.
fn read_percentiles(log: impl BufRead) -> Result<[f64; 5]> {
    for line in log.lines() {
        let line: Value =
            serde_json::from_str(&line.context("read the log")?).context("a line of the log")?;
        let message = line["message"].as_str().unwrap_or_default();
        if let Some(numbers) = message.strip_prefix("latency ") {
            let numbers: Vec<f64> = numbers.split(' ').filter_map(|number| number.parse().ok()).collect();
            return numbers.try_into().map_err(|_| anyhow!("the probe logged {message:?}"));
        }
        println!("bench: the probe logged {message:?}");
    }
    bail!("the log ended before the probe reported its percentiles")
}

fn get_text(url: &str) -> Result<String> {
    let mut response = ureq::get(url).call().with_context(|| format!("get {url}"))?;
    // The metrics of a thousand plugins exceed the default limit.
    response.body_mut().with_config().limit(1 << 30).read_to_string().with_context(|| format!("read {url}"))
}

/// Returns a JSON document.
pub(crate) fn get_json(url: &str) -> Result<Value> {
    serde_json::from_str(&get_text(url)?).with_context(|| format!("parse {url}"))
}

/// Returns the sum of all series of a metric.
fn sum_metric(metrics: &str, name: &str) -> f64 {
    let series = metrics.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
    series.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_series_of_a_metric_are_summed() {
        let metrics =
            "# TYPE a counter\na_total{x=\"1\"} 2\na_total{x=\"2 3\"} 40\na_total_else{x=\"1\"} 500\n";
        assert_eq!(sum_metric(metrics, "a_total"), 42.0);
        assert_eq!(sum_metric(metrics, "b_total"), 0.0);
    }

    #[test]
    fn percentiles_are_read_from_the_probes_log() {
        let log = "{\"message\":\"running\"}\n{\"message\":\"latency 1 2 3 4 5\"}\n{\"message\":\"later\"}\n";
        assert_eq!(read_percentiles(log.as_bytes()).expect("percentiles"), [1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!(read_percentiles("{\"message\":\"latency 1 2\"}\n".as_bytes()).is_err());
        assert!(read_percentiles("".as_bytes()).is_err());
    }
}
