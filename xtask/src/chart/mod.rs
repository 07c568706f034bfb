//! `cargo xtask chart`: writes what is generated from the Helm chart in `deploy/chart`, and checks the chart.
//!
//! [`problems`] needs no other program and runs with every test. [`test`] needs helm and kubectl, and runs with `cargo xtask test --full` and
//! `cargo xtask chart --test`.

mod arguments;
mod helm;
mod manifests;
mod readme;
mod roles;
mod schema;
mod server;
mod value_sets;
mod values;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::guests::{self, Guest};
use crate::{host, tools};
pub(crate) use helm::Helm;
pub(crate) use server::Server;

/// The chart, relative to the root of the repository.
pub(crate) const CHART: &str = "deploy/chart";

/// The release's name and namespace in the manifests and in the tests.
pub(crate) const RELEASE: &str = "pilothouse";

/// Writes the table of values into the chart's README and renders the manifests in `deploy/manifests`. Builds helm if it is missing.
///
/// # Errors
/// Errors if helm cannot be built, or the chart cannot be rendered.
pub(crate) fn run(root: &Path) -> Result<()> {
    let chart = Chart::read(root)?;
    readme::write(root, &chart.values)?;
    for path in manifests::write(root, &Helm::new(tools::HELM.install()?, root, "chart")?)? {
        println!("chart: {}", path.display());
    }
    Ok(())
}

/// Returns a line for each problem that can be found without helm.
///
/// # Errors
/// Errors if a file of the chart cannot be read or parsed.
pub(crate) fn problems(root: &Path) -> Result<Vec<String>> {
    let chart = Chart::read(root)?;
    let read = |path: &str| fs::read_to_string(root.join(path)).with_context(|| format!("read {path}"));
    let mut found = values::undocumented(&chart.values);
    found.extend(schema::differences(&chart.values, &chart.schema));
    found.extend(schema::open_objects(&chart.schema));
    let members = read("host/pilothouse/tests/snapshots/yaml-members.txt")?;
    found.extend(schema::unlike_host(&chart.schema, &members));
    let help = read("host/pilothouse/tests/snapshots/help.txt")?;
    let deployment = read(&format!("{CHART}/templates/deployment.yaml"))?;
    found.extend(arguments::unknown_flags(&deployment, &help));
    found.extend(version_problem(&read(&format!("{CHART}/Chart.yaml"))?, &read("Cargo.toml")?));
    found.extend(readme::problem(root, &chart.values)?);
    found.extend(manifests::stale(root)?);
    Ok(found)
}

/// Builds `pilothouse` and some plugins, and tests the chart with them.
///
/// # Errors
/// Errors if something does not build, and as [`test`].
pub(crate) fn build_and_test(root: &Path, host: Option<&Path>) -> Result<()> {
    let pilothouse = host::given_or_built(root, host)?;
    let guests = guests::build(root, &roles::PLUGINS, || Ok(pilothouse.clone()))?;
    test(root, &pilothouse, &guests)
}

/// Tests the chart with helm, kubectl and the embedded API server of `pilothouse`.
///
/// # Errors
/// Errors if a program is missing, or with a list of everything that is wrong.
pub(crate) fn test(root: &Path, pilothouse: &Path, guests: &[Guest]) -> Result<()> {
    let helm = Helm::new(tools::HELM.install()?, root, "chart")?;
    let operator = tools::PROMETHEUS_OPERATOR.download()?;
    let server = Server::start(pilothouse, helm.folder())?;
    server.prepare(&operator)?;
    let mut found = helm.lint()?;
    found.extend(manifests::outdated(root, &helm)?);
    found.extend(value_sets::test(root, &helm, &server)?);
    found.extend(roles::differences(&helm, &server, pilothouse, guests)?);
    found.extend(server.install(&helm)?);
    ensure!(found.is_empty(), "the chart:\n  {}", found.join("\n  "));
    println!("chart: no problems found");
    Ok(())
}

/// The parts of the chart that several checks read.
struct Chart {
    values: Vec<values::Value>,
    schema: serde_json::Value,
}

impl Chart {
    fn read(root: &Path) -> Result<Self> {
        let read = |name: &str| {
            let path = root.join(CHART).join(name);
            fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
        };
        let values = values::parse(&read("values.yaml")?).context("parse values.yaml of the chart")?;
        let schema =
            serde_json::from_str(&read("values.schema.json")?).context("parse values.schema.json")?;
        Ok(Self { values, schema })
    }
}

/// Returns a line if the chart's `appVersion`, the default tag of the image, is not the version of the workspace.
fn version_problem(chart: &str, workspace: &str) -> Option<String> {
    let chart = chart.lines().find_map(|line| line.strip_prefix("appVersion: "));
    let workspace = workspace.lines().find_map(|line| line.strip_prefix("version = "));
    let workspace = workspace.map(|version| version.trim_matches('"'));
    (chart != workspace).then(|| {
        let (chart, workspace) = (chart.unwrap_or("none"), workspace.unwrap_or("none"));
        format!("{CHART}/Chart.yaml: appVersion is {chart}, and the version in Cargo.toml is {workspace}")
    })
}

/// Returns the files below a folder, sorted by path. A folder that does not exist has none.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop().filter(|folder| folder.exists()) {
        for entry in fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
            let path = entry.with_context(|| format!("read {}", folder.display()))?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_has_the_version_of_the_host() {
        let workspace = "[workspace.package]\nversion = \"1.2.0\"\n";
        assert_eq!(version_problem("version: 0.1.0\nappVersion: 1.2.0\n", workspace), None);
        let problem = version_problem("appVersion: 1.1.0\n", workspace).expect("a problem");
        assert!(problem.contains("is 1.1.0, and") && problem.ends_with("is 1.2.0"), "{problem}");
    }

    #[test]
    fn files_are_found_in_the_order_of_their_paths() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("b")).expect("created");
        for name in ["c", "b/a", "a"] {
            fs::write(path(name), "").expect("written");
        }
        assert_eq!(files(folder.path()).expect("read"), [path("a"), path("b/a"), path("c")]);
        assert_eq!(files(&path("absent")).expect("read"), Vec::<PathBuf>::new());
    }
}
