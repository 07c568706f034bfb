//! Applies the CRDs and the example manifests of other projects with kubectl, and compares what kubectl prints with what it printed for a
//! kube-apiserver.

mod answers;
mod files;
mod normalize;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use self::answers::{Answer, Answers};
use super::outcome::Outcomes;
use super::server::TestServer;
use crate::demo::Api;
use crate::tools;

/// The folder of the recorded answers, in the repository.
const FOLDER: &str = "xtask/peers-manifests";

/// The ways in which each file is applied, in this order, with the arguments of kubectl. The server-side apply merges with the client-side one,
/// and the last apply reads what both of them left.
const WAYS: [(&str, &[&str]); 3] = [
    ("apply", &["apply"]),
    ("apply --server-side", &["apply", "--server-side"]),
    ("apply --dry-run=server", &["apply", "--dry-run=server"]),
];

/// A project whose module has its CRDs and examples.
pub(super) struct Project {
    /// The name of the file with its recorded answers.
    pub(super) name: &'static str,
    pub(super) module: &'static tools::Module,
    /// Folders with CRDs, which are applied first.
    pub(super) crds: &'static [&'static str],
    /// Folders with other manifests.
    pub(super) examples: &'static [&'static str],
}

impl Project {
    /// Returns the file with the recorded answers.
    pub(super) fn recorded(&self, root: &Path) -> PathBuf {
        root.join(FOLDER).join(format!("{}.json", self.name))
    }

    /// Applies the manifests on a server and compares the answers with those that were recorded in `root`. `record` replaces the recorded answers.
    ///
    /// # Errors
    /// Errors if the module cannot be downloaded, kubectl is missing, a CRD is not served, or the recorded answers are invalid.
    pub(super) fn run(
        &self,
        server: &TestServer,
        root: &Path,
        report: &Path,
        record: bool,
    ) -> Result<Outcomes> {
        let module = self.module.download()?;
        let kubeconfig = server.kubeconfig();
        let kubectl = Kubectl { kubeconfig, folder: module.clone(), cache: report.join("kubectl-cache") };
        let (crds, examples) = (files::find(&module, self.crds)?, files::find(&module, self.examples)?);
        ensure!(!crds.is_empty(), "{} has no CRDs in {:?}", module.display(), self.crds);
        let mut answers = Answers::default();
        for name in files::namespaces(&module, &examples)? {
            // Some exist from the start.
            kubectl.run(&["create", "namespace", &name])?;
        }
        kubectl.apply_all(&crds, &mut answers)?;
        wait_until_crds_are_served(&Api::of_kubeconfig(&kubectl.kubeconfig)?)?;
        // An example may be in a folder of the CRDs.
        let examples: Vec<String> = examples.into_iter().filter(|file| !crds.contains(file)).collect();
        kubectl.apply_all(&examples, &mut answers)?;
        let file = self.recorded(root);
        if record {
            answers.write(&file)?;
        }
        Ok(answers.compare(&Answers::read(&file)?))
    }
}

/// Runs kubectl in the folder of a module, so that messages have relative paths.
struct Kubectl {
    kubeconfig: PathBuf,
    folder: PathBuf,
    cache: PathBuf,
}

impl Kubectl {
    fn apply_all(&self, files: &[String], answers: &mut Answers) -> Result<()> {
        for file in files {
            for (way, arguments) in WAYS {
                let answer = self.run(&[arguments, &["--filename", file.as_str()][..]].concat())?;
                answers.insert(format!("{file}: {way}"), answer);
            }
        }
        Ok(())
    }

    fn run(&self, arguments: &[&str]) -> Result<Answer> {
        let output = Command::new("kubectl")
            .current_dir(&self.folder)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--cache-dir")
            .arg(&self.cache)
            // A server that does not answer is a failure, not a hang.
            .arg("--request-timeout=30s")
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .context("start kubectl: install kubectl 1.30 or newer")?;
        let Some(code) = output.status.code() else {
            bail!("kubectl {} was ended by a signal", arguments.join(" "));
        };
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let lines = stdout.lines().chain(stderr.lines());
        Ok(Answer { code, output: lines.map(normalize::line).collect() })
    }
}

/// Waits until every version of every CRD is served, and its group is in the list of groups.
fn wait_until_crds_are_served(api: &Api) -> Result<()> {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let crds = api.get(path)?.context("the server has no CRDs")?;
    for crd in crds["items"].as_array().context("the list of CRDs has no items")? {
        let spec = &crd["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
        for version in spec["versions"].as_array().into_iter().flatten() {
            if version["served"] == true {
                let path = format!("/apis/{group}/{}/{plural}", text(&version["name"]));
                // Errors mean that it is not served yet.
                api.wait(&path, |api| Ok(api.get(&path).unwrap_or(None)))?;
            }
        }
        api.wait(&format!("the group {group}"), |api| {
            let groups = api.get("/apis")?.context("the server has no /apis")?;
            let mut groups = groups["groups"].as_array().into_iter().flatten();
            Ok(groups.any(|listed| listed["name"] == group.as_str()).then_some(()))
        })?;
    }
    Ok(())
}
