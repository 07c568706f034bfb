//! Benchmarks what an operator asks of a host with many plugins: `explain`, the status page, metrics, a support bundle, and a rollback.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::{Value, json};

use super::Scale;
use super::plot::number;
use super::plugins::{Host, files, get_json};
use super::process::{UNIFORM, Workload, pause, serve};
use super::programs::Programs;
use super::report::machine;
use crate::guests;

/// Number of Pods in the cluster, and of requests for an explanation.
const PODS: usize = 1_000;
const EXPLANATIONS: usize = 200;
/// Number of rollbacks, and of requests for the page and the metrics.
const REPETITIONS: usize = 20;
/// How often the host is asked whether another version runs.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
const MOST_POLLS: usize = 60_000;

/// A measured figure with its target.
struct Figure {
    name: String,
    value: f64,
    target: Option<f64>,
}

/// The results of this benchmark.
pub(super) struct Operation {
    plugins: usize,
    figures: Vec<Figure>,
}

impl Operation {
    pub(super) fn measure(root: &Path, programs: &Programs, scale: Scale) -> Result<Self> {
        let folder = root.join("target/bench/operation");
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
        }
        let built = guests::build_small(root, &["probe"])?;
        let guest = built.into_iter().next().context("the probe was not built")?.wasm;
        let work = Workload {
            objects: PODS,
            events: 0,
            traffic: UNIFORM,
            framing: "packed",
            rate: None,
            small: false,
            protobuf: None,
        };
        let (_fixture, server) = serve(&programs.fixture, &work)?;
        let mut figures = with_many_plugins(programs, &folder, &guest, &server, scale.compiled)?;
        figures.extend(rollbacks(programs, &folder, &guest, &server)?);
        fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
        Ok(Self { plugins: scale.compiled, figures })
    }

    pub(super) fn results(&self) -> Value {
        let figures = self
            .figures
            .iter()
            .map(|Figure { name, value, target }| json!({"figure": name, "value": value, "target": target}));
        json!({"plugins": self.plugins, "figures": figures.collect::<Vec<_>>()})
    }

    pub(super) fn section(&self) -> String {
        let mut text = format!(
            "## Operation\n\nA host with {} plugins, each in its own file, which have reconciled {} Pods; rollbacks of a host with one plugin. The clients run \
             on the same machine.\n\n{}\n\n| what | target | reached |\n|---|---|---|\n",
            number(self.plugins as f64),
            number(PODS as f64),
            machine()
        );
        for Figure { name, value, target } in &self.figures {
            let target = target.map_or_else(String::new, |target| format!("≤ {}", number(target)));
            let _ = writeln!(text, "| {name} | {target} | {} |", number(*value));
        }
        text.push('\n');
        text
    }
}

/// Measures a host with many plugins.
fn with_many_plugins(
    programs: &Programs,
    folder: &Path,
    guest: &Path,
    server: &str,
    plugins: usize,
) -> Result<Vec<Figure>> {
    let directory = folder.join("plugins");
    create_plugins(guest, &directory, plugins)?;
    println!("bench: the operation of {plugins} plugins");
    let host = Host::start(&programs.host, folder, &directory, server)?;
    host.wait_for_list(plugins, PODS)?;
    let key = first_key(server)?;
    let explain = format!("{}/api/explain?plugin=plugin-1&key={}", host.status, key.replace('/', "%2F"));
    let explained = repeat(EXPLANATIONS, || get(&explain).map(drop))?;
    let mut page_bytes = 0;
    let page = repeat(REPETITIONS, || {
        page_bytes = get(&format!("{}/", host.status))?.len();
        Ok(())
    })?;
    let mut metrics_bytes = 0;
    let metrics = repeat(REPETITIONS, || {
        metrics_bytes = get(&format!("{}/metrics", host.status))?.len();
        Ok(())
    })?;
    let file = folder.join("bundle.tar.gz");
    let bundle = repeat(1, || make_bundle(programs, folder, &directory, &host.status, &file))?;
    let bundle_bytes = file.metadata().with_context(|| format!("read {}", file.display()))?.len();
    let figure =
        |name: &str, value: f64, target: Option<f64>| Figure { name: name.to_owned(), value, target };
    Ok(vec![
        figure("`explain`, median, ms", percentile(&explained, 50), Some(50.0)),
        figure("the same, 99th percentile, ms", percentile(&explained, 99), Some(50.0)),
        figure("the status page, median, ms", percentile(&page, 50), Some(200.0)),
        figure("its size, KiB", page_bytes as f64 / 1024.0, Some(300.0)),
        figure("the metrics, median, ms", percentile(&metrics, 50), None),
        figure("their size, KiB", metrics_bytes as f64 / 1024.0, None),
        figure("`bundle`, s", bundle[0] / 1e3, Some(10.0)),
        figure("its size, MiB", bundle_bytes as f64 / 1024.0 / 1024.0, Some(20.0)),
    ])
}

/// Measures rollbacks between two versions of one plugin, from the request to the status that says that the other version runs.
fn rollbacks(programs: &Programs, folder: &Path, guest: &Path, server: &str) -> Result<Vec<Figure>> {
    println!("bench: rollbacks");
    let (directory, versions) = (folder.join("one"), folder.join("versions"));
    create_plugins(guest, &directory, 1)?;
    create_plugins(guest, &versions, 2)?;
    let host = Host::start(&programs.host, folder, &directory, server)?;
    host.wait_for_list(1, PODS)?;
    let first = running_digest(&host)?.context("the plugin does not run")?;
    let file = directory.join("plugin-0.wasm");
    let newer = directory.join(".newer");
    fs::copy(versions.join("plugin-1.wasm"), &newer).context("copy the newer version")?;
    fs::rename(&newer, &file).context("replace the plugin")?;
    let second = wait_for_digest(&host, |digest| digest != first)?;
    let mut digests = [first, second].into_iter().cycle();
    let times = repeat(REPETITIONS, || {
        let digest = digests.next().context("there are two versions")?;
        let url = format!("{}/api/plugins/plugin-0/rollback?digest={digest}", host.status);
        ureq::post(&url).send_empty().with_context(|| format!("post {url}"))?;
        wait_for_digest(&host, |running| running == digest).map(drop)
    })?;
    Ok(vec![
        Figure {
            name: "a rollback, median, ms".to_owned(),
            value: percentile(&times, 50),
            target: Some(100.0),
        },
        Figure { name: "the slowest, ms".to_owned(), value: percentile(&times, 100), target: Some(100.0) },
    ])
}

/// Creates plugins that reconcile every Pod.
fn create_plugins(guest: &Path, directory: &Path, count: usize) -> Result<()> {
    files::distinct(guest, directory, count).map_err(|problem| anyhow!("{problem}"))?;
    for number in 0..count {
        let path = directory.join(format!("plugin-{number}.yaml"));
        let config = json!({"predicate": "generationChanged()"});
        fs::write(&path, format!("workers: 1\nconfig: {config}\n"))
            .with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// Returns the key of the first Pod that the server lists.
fn first_key(server: &str) -> Result<String> {
    let pods = get_json(&format!("{server}/api/v1/pods?limit=1"))?;
    let metadata = &pods["items"][0]["metadata"];
    let (namespace, name) = (metadata["namespace"].as_str(), metadata["name"].as_str());
    Ok(format!("{}/{}", namespace.context("the Pod has no namespace")?, name.context("the Pod has no name")?))
}

fn make_bundle(programs: &Programs, folder: &Path, plugins: &Path, status: &str, file: &Path) -> Result<()> {
    let output = Command::new(&programs.host)
        .args(["bundle", "--interval", "1s", "--server", status, "--plugins"])
        .arg(plugins)
        .arg("--kubeconfig")
        .arg(folder.join("kubeconfig"))
        .arg("--output")
        .arg(file)
        .stdin(Stdio::null())
        .output()
        .context("run `pilothouse bundle`")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`pilothouse bundle` ended with {}:\n{errors}", output.status);
    Ok(())
}

fn wait_for_digest(host: &Host, is_wanted: impl Fn(&str) -> bool) -> Result<String> {
    for _ in 0..MOST_POLLS {
        if let Some(digest) = running_digest(host)?
            && is_wanted(&digest)
        {
            return Ok(digest);
        }
        pause(POLL_INTERVAL);
    }
    bail!("timed out waiting for another version of the plugin")
}

/// Returns the digest of the plugin's version, if it runs.
fn running_digest(host: &Host) -> Result<Option<String>> {
    let status = get_json(&format!("{}/api/plugins", host.status))?;
    let plugin = &status["plugins"][0];
    Ok((plugin["state"] == "running").then(|| plugin["digest"].as_str().unwrap_or_default().to_owned()))
}

fn get(url: &str) -> Result<String> {
    let mut response = ureq::get(url).call().with_context(|| format!("get {url}"))?;
    response.body_mut().with_config().limit(1 << 30).read_to_string().with_context(|| format!("read {url}"))
}

/// Returns the milliseconds that each repetition takes, sorted.
#[expect(clippy::disallowed_methods, reason = "another process works meanwhile, in real time")]
fn repeat(count: usize, mut work: impl FnMut() -> Result<()>) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    for _ in 0..count {
        let begun = SystemTime::now();
        work()?;
        times.push(begun.elapsed().unwrap_or_default().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// Returns a percentile of sorted values.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted[(sorted.len() * percent).div_ceil(100).saturating_sub(1).min(sorted.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_of_the_list() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!([50, 99, 100].map(|percent| percentile(&values, percent)), [100.0, 198.0, 200.0]);
        assert_eq!(percentile(&[7.0], 99), 7.0);
    }

    #[test]
    fn a_figure_has_a_row_with_or_without_a_target() {
        let figure = |target| Figure { name: "f".to_owned(), value: 12.34, target };
        let operation = Operation { plugins: 1_000, figures: vec![figure(Some(50.0)), figure(None)] };
        let section = operation.section();
        for line in ["| f | ≤ 50 | 12.3 |", "| f |  | 12.3 |"] {
            assert!(section.lines().any(|found| found == line), "{line}: {section}");
        }
    }
}
