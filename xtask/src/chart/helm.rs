//! Runs helm on the chart.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result};

use super::{CHART, RELEASE};

/// The version of Kubernetes for which the chart is rendered. A helm that `go install` built takes an old one by default.
const KUBE_VERSION: &str = "1.33.0";

/// A helm without the user's plugins and repositories.
pub(crate) struct Helm {
    program: PathBuf,
    chart: PathBuf,
    folder: PathBuf,
}

impl Helm {
    /// Creates the empty folder `target/NAME`, for helm's own files and for those of the tests.
    pub(crate) fn new(program: PathBuf, root: &Path, name: &str) -> Result<Self> {
        let folder = root.join("target").join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        Ok(Self { program, chart: root.join(CHART), folder })
    }

    /// The folder for files of the tests.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Renders the chart. Returns the manifests, or helm's error if it refuses the values.
    pub(super) fn template(&self, arguments: &[&str]) -> Result<Result<String, String>> {
        self.run(
            self.command()
                .args(["template", RELEASE])
                .arg(&self.chart)
                .args(["--namespace", RELEASE, "--kube-version", KUBE_VERSION])
                .args(arguments),
        )
    }

    /// Returns a line if `helm lint` finds something.
    pub(super) fn lint(&self) -> Result<Vec<String>> {
        println!("chart: helm lint");
        let result = self.run(
            self.command().args(["lint", "--strict", "--kube-version", KUBE_VERSION]).arg(&self.chart),
        )?;
        Ok(result.err().map(|error| format!("helm lint: {error}")).into_iter().collect())
    }

    /// Runs a command on the release in the cluster of a kubeconfig.
    pub(crate) fn release(
        &self,
        kubeconfig: &Path,
        command: &str,
        arguments: &[&str],
    ) -> Result<Result<String, String>> {
        let mut helm = self.command();
        helm.args([command, RELEASE]);
        if command != "uninstall" {
            helm.arg(&self.chart);
        }
        self.run(helm.args(["--namespace", RELEASE]).args(arguments).arg("--kubeconfig").arg(kubeconfig))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        for (variable, folder) in
            [("HELM_CACHE_HOME", "cache"), ("HELM_CONFIG_HOME", "config"), ("HELM_DATA_HOME", "data")]
        {
            command.env(variable, self.folder.join("helm").join(folder));
        }
        command.env_remove("KUBECONFIG");
        command
    }

    fn run(&self, command: &mut Command) -> Result<Result<String, String>> {
        let output = command.output().with_context(|| format!("start {}", self.program.display()))?;
        result_of(output)
    }
}

/// Returns what a program printed: its output if it succeeded, otherwise its errors, or its output if it printed none.
pub(super) fn result_of(output: Output) -> Result<Result<String, String>> {
    let text = |bytes| String::from_utf8(bytes).context("the output of a program is not UTF-8");
    let (stdout, stderr) = (text(output.stdout)?, text(output.stderr)?);
    let problems = if stderr.trim().is_empty() { &stdout } else { &stderr };
    Ok(if output.status.success() { Ok(stdout) } else { Err(problems.trim().to_owned()) })
}
