//! Compares the roles of the chart with those that `pilothouse rbac` prints for the same plugins.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};

use super::RELEASE;
use super::helm::{Helm, result_of};
use super::server::Server;
use crate::guests::Guest;

/// The plugins, the second of which acts as an account of its own in one namespace.
pub(super) const PLUGINS: [&str; 2] = ["ingress-tls", "label-propagator"];
const SIDECAR: &str = "serviceAccount: bots/a
grants:
  watches: [{apiGroups: ['*'], resources: ['*'], namespaces: [shop]}]
  writes: [{apiGroups: ['*'], resources: ['*'], verbs: ['*'], namespaces: [shop]}]
";

/// Roles and bindings by kind, namespace and name, each with its rules, role and subjects.
type Roles = BTreeMap<(String, String, String), Value>;

/// Returns a line for each role or binding that differs.
pub(super) fn differences(
    helm: &Helm,
    server: &Server,
    pilothouse: &Path,
    guests: &[Guest],
) -> Result<Vec<String>> {
    println!("chart: roles of {}", PLUGINS.join(" and "));
    let folder = helm.folder();
    let mut files = Vec::new();
    for name in PLUGINS {
        let guest = guests.iter().find(|guest| guest.name == name);
        let guest = guest.with_context(|| format!("the plugin {name} was not built"))?;
        let file = folder.join(format!("{name}.wasm"));
        fs::copy(&guest.wasm, &file).with_context(|| format!("copy {}", guest.wasm.display()))?;
        files.push(file);
    }
    let sidecar = folder.join(format!("{}.yaml", PLUGINS[1]));
    fs::write(&sidecar, SIDECAR).with_context(|| format!("write {}", sidecar.display()))?;
    let print = |format: &str| -> Result<String> {
        let output = Command::new(pilothouse).arg("rbac").args(&files).args(["--format", format]).output();
        let output = output.with_context(|| format!("start {}", pilothouse.display()))?;
        result_of(output)?.map_err(|error| anyhow!("pilothouse rbac: {error}"))
    };
    let values = folder.join("rbac.yaml");
    fs::write(&values, print("helm-values")?).with_context(|| format!("write {}", values.display()))?;
    // `pilothouse rbac` was not asked for the roles of the status port.
    let arguments = ["--show-only", "templates/rbac.yaml", "--values", &values.to_string_lossy()];
    let arguments = [&arguments[..], &["--set", "status.auth=none"]].concat();
    let rendered =
        helm.template(&arguments)?.map_err(|error| anyhow!("the output of pilothouse rbac: {error}"))?;
    let mut of_chart = roles(server, folder, &rendered)?;
    // What the host needs without any plugin.
    of_chart.retain(|(_, _, name), _| *name != format!("{RELEASE}-host"));
    let printed = roles(server, folder, &print("manifests")?)?;
    let names = of_chart.keys().chain(printed.keys()).collect::<std::collections::BTreeSet<_>>();
    let differs = |name: &&&(String, String, String)| of_chart.get(**name) != printed.get(**name);
    Ok(names
        .iter()
        .filter(differs)
        .map(|name| {
            let (chart, printed) = (of_chart.get(*name), printed.get(*name));
            format!("{name:?} of the chart is {chart:?}, and `pilothouse rbac` prints {printed:?}")
        })
        .collect())
}

/// Parses manifests with kubectl, which creates nothing.
fn roles(server: &Server, folder: &Path, manifests: &str) -> Result<Roles> {
    let file = folder.join("roles.yaml");
    fs::write(&file, manifests).with_context(|| format!("write {}", file.display()))?;
    let arguments = ["create", "--dry-run=client", "--output=json", "--filename", &file.to_string_lossy()];
    let parsed = server.kubectl(&arguments)?.map_err(|error| anyhow!("kubectl: {error}"))?;
    let mut roles = Roles::new();
    // kubectl prints one document after the other.
    for document in serde_json::Deserializer::from_str(&parsed).into_iter::<Value>() {
        let document = document.context("parse the output of kubectl")?;
        let items = document["items"].as_array().cloned().unwrap_or_else(|| vec![document]);
        for item in items {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let name = &item["metadata"]["name"];
            let key = (text(&item["kind"]), text(&item["metadata"]["namespace"]), text(name));
            roles.insert(key, json!([item["rules"], item["roleRef"], item["subjects"]]));
        }
    }
    Ok(roles)
}
