//! `cargo xtask prometheus`: tests the alerts and dashboards with a real Prometheus.
//!
//! `promtool` runs the unit tests of the alerts. Then Prometheus scrapes a host at work, and every query of the dashboards must return data.
//! What is not installed is left out with a line that says so.

use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::demo::{Api, Dev};
use crate::{host, loopback, monitoring};

/// The plugin that the host runs.
const PLUGIN: &str = "sample-controller";
const FOO: &str = "/apis/samplecontroller.k8s.io/v1alpha1/namespaces/default/foos/example-foo";

/// Runs all tests for which the programs are installed.
pub(crate) fn run(root: &Path) -> Result<()> {
    if !is_installed("promtool") {
        println!(
            "prometheus: promtool is not installed (Debian: apt install prometheus); its tests are left out"
        );
        return Ok(());
    }
    promtool(root, &["check", "rules", monitoring::ALERTS])?;
    promtool(root, &["test", "rules", monitoring::ALERT_TESTS])?;
    if !is_installed("prometheus") {
        println!("prometheus: prometheus is not installed; no host is scraped");
        return Ok(());
    }
    let (binary, plugin) = host::build_with_plugin(root, PLUGIN, None, None)?;
    let folder = empty_folder(root)?;
    fs::copy(&plugin, folder.join(format!("plugins/{PLUGIN}.wasm")))
        .with_context(|| format!("copy {}", plugin.display()))?;
    let dev = Dev::start(&binary, &folder)?;
    let manifest = root.join("examples/sample-controller/manifests/foo.yaml");
    let manifest = fs::read_to_string(&manifest).with_context(|| format!("read {}", manifest.display()))?;
    let server = Api::of_kubeconfig(&dev.kubeconfig)?;
    // The CRD is served once the plugin has brought it.
    server.wait("the kind Foo", |server| Ok(server.apply(FOO, &manifest).ok()))?;
    let prometheus = Prometheus::start(root, &folder, &dev.status)?;
    prometheus.wait_for_data(&server)?;
    prometheus.wait_for_rules()?;
    println!("prometheus: every query of the dashboards returned data, and every alert was evaluated");
    dev.stop()
}

fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn promtool(root: &Path, arguments: &[&str]) -> Result<()> {
    let status =
        Command::new("promtool").current_dir(root).args(arguments).status().context("start promtool")?;
    ensure!(status.success(), "promtool {} failed (see above)", arguments.join(" "));
    Ok(())
}

/// Creates an empty folder for this run, with a folder `plugins` in it.
fn empty_folder(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/prometheus");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    let plugins = folder.join("plugins");
    fs::create_dir_all(&plugins).with_context(|| format!("create {}", plugins.display()))?;
    Ok(folder)
}

/// A running Prometheus. Dropping this kills the process.
struct Prometheus {
    child: Child,
    api: Api,
    log: PathBuf,
}

impl Prometheus {
    /// Starts a Prometheus that scrapes the host's status port every second.
    fn start(root: &Path, folder: &Path, status: &str) -> Result<Self> {
        let target = status.trim_start_matches("http://");
        let config = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [root.join(monitoring::ALERTS)],
            "scrape_configs": [{"job_name": "pilothouse", "static_configs": [{"targets": [target]}]}],
        });
        let (config_file, log) = (folder.join("prometheus.yaml"), folder.join("prometheus.log"));
        // JSON is YAML.
        fs::write(&config_file, config.to_string())
            .with_context(|| format!("write {}", config_file.display()))?;
        let address = loopback::free_address()?;
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", config_file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--enable-feature=exemplar-storage")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).with_context(|| format!("create {}", log.display()))?)
            .spawn()
            .context("start prometheus")?;
        Ok(Self { child, api: Api::new(&format!("http://{address}")), log })
    }

    /// Changes an object of the plugin again and again, until every query has returned data.
    fn wait_for_data(&self, server: &Api) -> Result<()> {
        let missing = RefCell::new(monitoring::queries());
        let replicas = Cell::new(1);
        let waited = self.api.wait("data in all panels", |api| {
            replicas.set(replicas.get() % 3 + 1);
            server.merge(FOO, &json!({"spec": {"replicas": replicas.get()}}))?;
            missing.borrow_mut().retain(|(_, query)| !has_data(api, query));
            Ok(missing.borrow().is_empty().then_some(()))
        });
        let missing = missing.into_inner();
        let lines: Vec<_> = missing.iter().map(|(panel, query)| format!("{panel}: {query}")).collect();
        waited.with_context(|| {
            format!("these queries return no data (log: {}):\n  {}", self.log.display(), lines.join("\n  "))
        })
    }

    /// Waits until Prometheus has evaluated every alert without an error.
    fn wait_for_rules(&self) -> Result<()> {
        self.api.wait("the evaluation of all alerts", |api| {
            let Some(answer) = api.get("/api/v1/rules")? else { return Ok(None) };
            let rules = answer["data"]["groups"][0]["rules"].as_array().cloned().unwrap_or_default();
            for rule in &rules {
                ensure!(rule["health"] != "err", "{}: {}", rule["name"], rule["lastError"]);
            }
            let is_complete = !rules.is_empty() && rules.iter().all(|rule| rule["health"] == "ok");
            Ok(is_complete.then_some(()))
        })
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns whether a query returns at least one series. Errors count as none: Prometheus may not listen yet.
fn has_data(api: &Api, query: &str) -> bool {
    let query = percent_encoded(&without_variables(query));
    let answer = api.get(&format!("/api/v1/query?query={query}")).ok().flatten().unwrap_or(Value::Null);
    answer["data"]["result"].as_array().is_some_and(|series| !series.is_empty())
}

/// Replaces the variables of a dashboard as Grafana does if everything is selected.
fn without_variables(query: &str) -> String {
    let query = query.replace("$__rate_interval", "10s").replace("$__range", "1m");
    ["$job", "$instance", "$plugin"].iter().fold(query, |query, variable| query.replace(variable, ".+"))
}

fn percent_encoded(text: &str) -> String {
    let encode = |byte: u8| {
        if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_a_query_select_everything() {
        let query = r#"sum(rate(a_total{job=~"$job", instance=~"$instance", controller=~"$plugin"}[$__rate_interval]))"#;
        let expected = r#"sum(rate(a_total{job=~".+", instance=~".+", controller=~".+"}[10s]))"#;
        assert_eq!(without_variables(query), expected);
        assert_eq!(percent_encoded(r#"a{b=".+"}"#), "a%7Bb%3D%22%2E%2B%22%7D");
        assert!(monitoring::queries().iter().all(|(_, query)| !without_variables(query).contains('$')));
    }
}
