//! A running Prometheus, and what the tests ask it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::demo::Api;
use crate::loopback;

/// A host that Prometheus scrapes.
pub(super) struct Target<'a> {
    /// URL of its status port.
    pub(super) status: &'a str,
    /// The label `host` of everything it serves.
    pub(super) host: &'a str,
}

/// A running Prometheus. Dropping this kills the process.
pub(super) struct Prometheus {
    child: Child,
    api: Api,
    log: PathBuf,
}

impl Prometheus {
    /// Starts a Prometheus that scrapes the hosts and evaluates the rules every second. Its storage keeps exemplars.
    pub(super) fn start(folder: &Path, rules: &Path, targets: &[Target<'_>]) -> Result<Self> {
        let targets: Vec<_> = targets
            .iter()
            .map(|target| {
                json!({"targets": [target.status.trim_start_matches("http://")], "labels": {"host": target.host}})
            })
            .collect();
        let config = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [rules],
            "scrape_configs": [{"job_name": "pilothouse", "static_configs": targets}],
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

    pub(super) fn api(&self) -> &Api {
        &self.api
    }

    pub(super) fn log(&self) -> &Path {
        &self.log
    }

    /// Returns the series of a query now. Errors count as none: Prometheus may not listen yet.
    pub(super) fn query(&self, query: &str) -> Vec<Value> {
        self.data(&format!("/api/v1/query?query={}", percent_encoded(query)), "/result")
    }

    /// Returns the series of a metric that have exemplars, with them.
    pub(super) fn exemplars(&self, metric: &str) -> Vec<Value> {
        self.data(&format!("/api/v1/query_exemplars?query={}", percent_encoded(metric)), "")
    }

    fn data(&self, path: &str, pointer: &str) -> Vec<Value> {
        let answer = self.api.get(path).ok().flatten().unwrap_or_default();
        answer["data"].pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default()
    }

    /// Waits until Prometheus has evaluated every alert without an error.
    pub(super) fn wait_for_rules(&self) -> Result<()> {
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
    fn a_query_is_encoded() {
        assert_eq!(percent_encoded(r#"a{b=".+"}"#), "a%7Bb%3D%22%2E%2B%22%7D");
    }
}
