//! A host with so many plugins on one watch, at work against a fixture server of its own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::{Value, json};

use super::super::process::{GIVEN_BACK, Running, Usage, Work, pause, serve};
use super::files;

/// What the first plugin does with an event. The others refuse it by a predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// A key in its queue, which it reconciles.
    Reconcile,
    /// A notification in a batch, which it observes.
    Observe,
}

/// The programs, and a folder for the plugins and their compiled code.
pub(super) struct Crowd<'a> {
    pub(super) host: &'a Path,
    pub(super) fixture: &'a Path,
    /// The guest `probe`.
    pub(super) guest: PathBuf,
    pub(super) folder: PathBuf,
}

/// What a run came to.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// With all plugins at rest behind the list.
    pub(super) ready: Usage,
    /// With all plugins at rest behind the events.
    pub(super) done: Usage,
    /// From the start of the events until the first plugin has seen the last of them.
    pub(super) seconds: f64,
    /// Of the first plugin: the 50th, 90th, 99th and 100th percentile, in nanoseconds.
    pub(super) latency: [f64; 4],
    /// Of how many reconciles or notifications.
    pub(super) measured: f64,
    /// Watch requests that the server has seen.
    pub(super) watches: f64,
    /// Bytes of lists and watches that the host has read.
    pub(super) received: f64,
    /// Bytes of the objects that it caches, of all informers.
    pub(super) cached: f64,
    /// Notifications that became one with a later one, because a plugin was behind.
    pub(super) merged: f64,
}

impl Outcome {
    /// Seconds of CPU time that the host took for the events.
    pub(super) fn cpu(&self) -> f64 {
        self.done.cpu_seconds - self.ready.cpu_seconds
    }
}

/// How long anything may take before it is taken for stuck: a thousand plugins are compiled first.
const PATIENCE: Duration = Duration::from_secs(1800);
const LOOK: Duration = Duration::from_millis(200);

impl Crowd<'_> {
    pub(super) fn run(&self, plugins: usize, way: Way, work: &Work) -> Result<Outcome> {
        let directory = self.folder.join("plugins");
        self.fill(&directory, plugins, way, work)?;
        let (_fixture, server) = serve(self.fixture, work)?;
        let host = Host::start(self, &directory, &server)?;
        host.wait_for_list(plugins, work.objects)?;
        host.rest()?;
        if work.rate.is_none() {
            // Here memory is compared, and what the list took and left is no part of it.
            pause(GIVEN_BACK);
        }
        let ready = host.process.usage()?;
        let log = follow(&format!("{}/api/logs?plugin=plugin-0&follow=true", host.status))?;
        let begun = std::time::SystemTime::now();
        ureq::post(&format!("{server}/fixture/start")).send_empty().context("start the events")?;
        let percentiles = percentiles(log)?;
        let seconds = begun.elapsed().unwrap_or_default().as_secs_f64();
        host.rest()?;
        let done = host.process.usage()?;
        let metrics = text(&format!("{}/metrics", host.status))?;
        let watches = json(&format!("{server}/fixture/watches"))?;
        let [p50, p90, p99, max, measured] = percentiles;
        Ok(Outcome {
            ready,
            done,
            seconds,
            latency: [p50, p90, p99, max],
            measured,
            watches: watches["opened"].as_f64().context("the fixture tells no number of watches")?,
            received: sum(&metrics, "pilothouse_informer_received_bytes_total"),
            cached: sum(&metrics, "pilothouse_informer_store_bytes"),
            merged: sum(&metrics, "pilothouse_informer_merged_notifications_total"),
        })
    }

    /// Makes the directory of plugins anew: distinct files, each with its sidecar.
    fn fill(&self, directory: &Path, plugins: usize, way: Way, work: &Work) -> Result<()> {
        if directory.exists() {
            fs::remove_dir_all(directory).with_context(|| format!("remove {}", directory.display()))?;
        }
        files::distinct(&self.guest, directory, plugins).map_err(|problem| {
            anyhow!("{problem}; if the guest is missing, `cargo xtask build-guests probe` makes it")
        })?;
        for number in 0..plugins {
            let config = if number > 0 {
                // Pods have no generation, so that it never changes.
                json!({"predicate": "generationChanged()"})
            } else {
                let last = work.objects + work.events;
                json!({"observes": way == Way::Observe,
                       "latency": {"after": work.objects + work.events / 20, "until": last}})
            };
            let sidecar = format!("workers: 1\nconfig: {config}\n");
            let path = directory.join(format!("plugin-{number}.yaml"));
            fs::write(&path, sidecar).with_context(|| format!("write {}", path.display()))?;
        }
        Ok(())
    }
}

struct Host {
    process: Running,
    /// Where its status surface is.
    status: String,
}

impl Host {
    fn start(crowd: &Crowd<'_>, plugins: &Path, server: &str) -> Result<Self> {
        let kubeconfig = crowd.folder.join("kubeconfig");
        let one = |kind: &str, of: Value| json!([{"name": "fixture", kind: of}]);
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "fixture",
            "clusters": one("cluster", json!({"server": server})),
            "users": one("user", json!({})),
            "contexts": one("context", json!({"cluster": "fixture", "user": "fixture"})),
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
            path(&crowd.folder.join("cache")),
        ];
        let quiet = ["--listen", "127.0.0.1:0", "--log-level", "error"].map(str::to_owned);
        let mut process = Running::start(crowd.host, &[&arguments[..], &quiet].concat())?;
        loop {
            if let Some(url) = process.text()?.strip_prefix("status") {
                let status = url.trim().trim_end_matches('/').to_owned();
                return Ok(Self { process, status });
            }
        }
    }

    /// Waits until all plugins run, and all that reconcile the list have done so.
    fn wait_for_list(&self, plugins: usize, objects: usize) -> Result<()> {
        let mut answer = Value::Null;
        for _ in 0..PATIENCE.as_millis() / LOOK.as_millis() {
            answer = json(&format!("{}/api/plugins", self.status))?;
            let all = answer["plugins"].as_array().context("it lists no plugins")?;
            let has_listed = |plugin: &&Value| {
                // The first may be one that observes.
                let reconciles = plugin["counters"]["reconciles"].as_u64().unwrap_or_default();
                let has_all = reconciles >= objects as u64 || plugin["name"] == "plugin-0";
                plugin["state"] == "running" && plugin["queueDepth"] == 0 && has_all
            };
            if all.len() == plugins && all.iter().filter(has_listed).count() == plugins {
                return Ok(());
            }
            ensure!(all.iter().all(|plugin| plugin["state"] != "failed"), "a plugin cannot run: {answer}");
            pause(LOOK);
        }
        bail!("the plugins do not come to run: {:.2000}", answer.to_string())
    }

    /// Waits until the process uses no CPU, which nothing that it is asked disturbs.
    fn rest(&self) -> Result<()> {
        let mut before = self.process.usage()?.cpu_seconds;
        for _ in 0..PATIENCE.as_secs() {
            pause(Duration::from_secs(1));
            let now = self.process.usage()?.cpu_seconds;
            // Two ticks: what keeps time goes on.
            if now - before <= 0.02 {
                return Ok(());
            }
            before = now;
        }
        bail!("the host does not come to rest")
    }
}

/// The lines of a log that goes on.
fn follow(url: &str) -> Result<impl BufRead + use<>> {
    let config = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).build();
    let answer = config.new_agent().get(url).call().with_context(|| format!("get {url}"))?;
    Ok(BufReader::new(answer.into_body().into_reader()))
}

/// What the probe says once it has seen the last event.
fn percentiles(log: impl BufRead) -> Result<[f64; 5]> {
    for line in log.lines() {
        let line: Value =
            serde_json::from_str(&line.context("read the log")?).context("a line of the log")?;
        let message = line["message"].as_str().unwrap_or_default();
        if let Some(numbers) = message.strip_prefix("latency ") {
            let numbers: Vec<f64> = numbers.split(' ').filter_map(|number| number.parse().ok()).collect();
            return numbers.try_into().map_err(|_| anyhow!("the probe says {message:?}"));
        }
        println!("bench: the probe says {message:?}");
    }
    bail!("the log ended before the probe had seen the last event")
}

fn text(url: &str) -> Result<String> {
    let mut answer = ureq::get(url).call().with_context(|| format!("get {url}"))?;
    // A thousand plugins have more metrics than what is read without a word.
    answer.body_mut().with_config().limit(1 << 30).read_to_string().with_context(|| format!("read {url}"))
}

fn json(url: &str) -> Result<Value> {
    serde_json::from_str(&text(url)?).with_context(|| format!("the answer of {url}"))
}

/// All series of a metric together.
fn sum(metrics: &str, name: &str) -> f64 {
    let series = metrics.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
    series.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_of_a_metric_are_added_up() {
        let metrics =
            "# TYPE a counter\na_total{x=\"1\"} 2\na_total{x=\"2 3\"} 40\na_total_else{x=\"1\"} 500\n";
        assert_eq!(sum(metrics, "a_total"), 42.0);
        assert_eq!(sum(metrics, "b_total"), 0.0);
    }

    #[test]
    fn the_probes_percentiles_are_found_in_its_log() {
        let log = "{\"message\":\"running\"}\n{\"message\":\"latency 1 2 3 4 5\"}\n{\"message\":\"later\"}\n";
        assert_eq!(percentiles(log.as_bytes()).expect("said"), [1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!(percentiles("{\"message\":\"latency 1 2\"}\n".as_bytes()).is_err());
        assert!(percentiles("".as_bytes()).is_err());
    }
}
