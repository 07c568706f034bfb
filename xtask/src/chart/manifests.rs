//! The manifests in `deploy/manifests`, which are rendered from the chart for users without Helm.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::helm::Helm;
use super::{CHART, RELEASE, files};

const FOLDER: &str = "deploy/manifests";

/// Files and folders of the chart from which the manifests are rendered.
const INPUTS: [&str; 4] = ["Chart.yaml", "values.yaml", "files", "templates"];

/// Lines about Helm, which did not install these objects.
const LINES_OF_HELM: [&str; 3] = ["# Source: ", "helm.sh/chart: ", "app.kubernetes.io/managed-by: "];

/// The namespace admits only pods that are hardened like the host's.
const NAMESPACE: &str = "apiVersion: v1
kind: Namespace
metadata:
  name: pilothouse
  labels:
    pod-security.kubernetes.io/enforce: restricted
";

/// Renders the manifests and writes them. Returns their paths.
///
/// # Errors
/// Errors if the chart cannot be rendered, or a file cannot be written.
pub(super) fn write(root: &Path, helm: &Helm) -> Result<Vec<PathBuf>> {
    let rendered = render(root, helm)?;
    fs::create_dir_all(root.join(FOLDER)).with_context(|| format!("create {FOLDER}"))?;
    for (path, text) in &rendered {
        fs::write(root.join(path), text).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(rendered.into_iter().map(|(path, _)| path).collect())
}

/// Returns a line for each manifest that was rendered from other files than those of the chart. Needs no helm, because the manifests name
/// a checksum of these files.
///
/// # Errors
/// Errors if a file cannot be read.
pub(super) fn stale(root: &Path) -> Result<Vec<String>> {
    let header = header(root)?;
    let is_stale =
        |path: &PathBuf| !fs::read_to_string(root.join(path)).is_ok_and(|text| text.starts_with(&header));
    Ok([service_path(), monitoring_path(), crd_path()]
        .iter()
        .filter(|path| is_stale(path))
        .map(|path| problem(path))
        .collect())
}

/// Returns a line for each manifest that the chart renders differently.
///
/// # Errors
/// Errors if the chart cannot be rendered.
pub(super) fn outdated(root: &Path, helm: &Helm) -> Result<Vec<String>> {
    let is_outdated = |(path, text): &(PathBuf, String)| {
        !fs::read_to_string(root.join(path)).is_ok_and(|written| written == *text)
    };
    let rendered = render(root, helm)?;
    Ok(rendered.iter().filter(|manifest| is_outdated(manifest)).map(|(path, _)| problem(path)).collect())
}

fn problem(path: &Path) -> String {
    format!("{}: differs from the chart; run `cargo xtask chart`", path.display())
}

fn service_path() -> PathBuf {
    Path::new(FOLDER).join("pilothouse.yaml")
}

fn monitoring_path() -> PathBuf {
    Path::new(FOLDER).join("monitoring.yaml")
}

fn crd_path() -> PathBuf {
    Path::new(FOLDER).join("plugin-crd.yaml")
}

fn render(root: &Path, helm: &Helm) -> Result<Vec<(PathBuf, String)>> {
    let header = header(root)?;
    let template = |arguments: &[&str]| {
        let rendered = helm.template(arguments)?.map_err(anyhow::Error::msg);
        rendered.map(|text| without_helm(&text)).context("render the manifests")
    };
    let service = template(&["--set", "helmTest.enabled=false"])?;
    // Unlike a PodMonitor, it needs no Secret: Prometheus sends the token of its own service account.
    let mut arguments = vec!["--set", "prometheus.serviceMonitor.enabled=true"];
    arguments.extend(["--show-only", "templates/servicemonitor.yaml"]);
    let chart = root.join(CHART);
    if chart.join("files/alerts.yaml").exists() {
        arguments.extend(["--set", "prometheus.rules.enabled=true"]);
        arguments.extend(["--show-only", "templates/prometheusrule.yaml"]);
    }
    if !files(&chart.join("files/dashboards"))?.is_empty() {
        arguments.extend(["--set", "dashboards.enabled=true"]);
        arguments.extend(["--show-only", "templates/dashboards.yaml"]);
    }
    let monitoring = template(&arguments)?;
    let of_crd = ["--set", "pluginResource.enabled=true", "--set", "pluginResource.crd.keep=false"];
    let crd = template(&[&of_crd[..], &["--show-only", "templates/plugincrd.yaml"]].concat())?;
    Ok(vec![
        (service_path(), format!("{header}{NAMESPACE}{service}")),
        (monitoring_path(), format!("{header}{monitoring}")),
        (crd_path(), format!("{header}{crd}")),
    ])
}

/// Returns the first lines of each manifest, with a checksum of the files that it was rendered from.
fn header(root: &Path) -> Result<String> {
    let chart = root.join(CHART);
    let mut checksum = Checksum::new();
    for input in INPUTS.map(|name| chart.join(name)) {
        let paths = if input.is_file() { vec![input] } else { files(&input)? };
        for path in paths {
            let name = path.strip_prefix(&chart).unwrap_or(&path);
            checksum.add(name.to_string_lossy().as_bytes());
            checksum.add(&fs::read(&path).with_context(|| format!("read {}", path.display()))?);
        }
    }
    let checksum = checksum.0;
    Ok(format!(
        "# Rendered from {CHART} by `cargo xtask chart`, for the namespace {RELEASE}. Checksum of the chart: {checksum:016x}\n"
    ))
}

/// Returns the text without lines about Helm.
fn without_helm(text: &str) -> String {
    let is_kept = |line: &&str| !LINES_OF_HELM.iter().any(|start| line.trim_start().starts_with(start));
    text.lines().filter(is_kept).flat_map(|line| [line, "\n"]).collect()
}

/// FNV-1a with 64 bits. It finds accidental changes only, which is enough here.
struct Checksum(u64);

impl Checksum {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Adds bytes and their number, so that moving a byte from one text to the next changes the checksum.
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().chain(&(bytes.len() as u64).to_le_bytes()) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chart without manifests.
    fn chart() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        let chart = root.path().join(CHART);
        fs::create_dir_all(chart.join("templates")).expect("created");
        fs::create_dir_all(root.path().join(FOLDER)).expect("created");
        for name in ["Chart.yaml", "values.yaml", "templates/a.yaml"] {
            fs::write(chart.join(name), name).expect("written");
        }
        root
    }

    #[test]
    fn a_manifest_is_stale_after_a_change_of_the_chart() {
        let root = chart();
        let root = root.path();
        let write = |path: PathBuf| {
            let text = header(root).expect("a header") + "kind: Service\n";
            fs::write(root.join(path), text).expect("written");
        };
        write(service_path());
        write(crd_path());
        let problems = stale(root).expect("checked");
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("monitoring.yaml"), "{problems:?}");
        write(monitoring_path());
        assert_eq!(stale(root).expect("checked"), Vec::<String>::new());
        fs::write(root.join(CHART).join("templates/a.yaml"), "changed").expect("written");
        assert_eq!(stale(root).expect("checked").len(), 3);
    }

    #[test]
    fn lines_about_helm_are_left_out() {
        let text = "---\n# Source: pilothouse/templates/a.yaml\nkind: A\n  helm.sh/chart: a-1\n  app.kubernetes.io/managed-by: Helm\n# Why.\n";
        assert_eq!(without_helm(text), "---\nkind: A\n# Why.\n");
    }
}
