//! The steps of the demo. Each performs an action and waits for its effect.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::Arguments;
use super::api::Api;
use super::process::Dev;
use super::transcript::Transcript;
use crate::guests;

const FOO: &str = "/apis/samplecontroller.k8s.io/v1alpha1/namespaces/default/foos/example-foo";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/example-foo";
const PLUGIN: &str = "sample-controller";
const NEW_IMAGE: &str = "nginx:1.29-alpine";

/// A demo in progress.
pub(crate) struct Demo<'a> {
    root: &'a Path,
    folder: &'a Path,
    arguments: &'a Arguments,
    dev: &'a Dev,
    transcript: &'a Transcript,
    api: Api,
    host: Api,
}

impl<'a> Demo<'a> {
    pub(crate) fn new(
        root: &'a Path,
        folder: &'a Path,
        arguments: &'a Arguments,
        dev: &'a Dev,
        transcript: &'a Transcript,
    ) -> Result<Self> {
        let api = Api::of_kubeconfig(&dev.kubeconfig)?;
        Ok(Self { root, folder, arguments, dev, transcript, api, host: Api::new(&dev.status) })
    }

    pub(crate) fn run(&self) -> Result<()> {
        self.server_is_up()?;
        self.plugin_is_loaded()?;
        self.foo_is_applied()?;
        self.deployment_is_recreated()?;
        self.replicas_are_scaled()?;
        self.plugin_is_reloaded()?;
        self.close();
        Ok(())
    }

    fn server_is_up(&self) -> Result<()> {
        self.transcript.step(1, "A Kubernetes API server is running in the same process as the host");
        let version = self.api.get("/version")?.context("the API server has no /version")?;
        self.transcript.detail(&format!("{} listens on {}", text(&version, "/gitVersion"), self.dev.api));
        self.transcript.detail(&format!("kubeconfig: {}", self.dev.kubeconfig.display()));
        self.transcript.detail(&format!("status page: {}/", self.dev.status));
        Ok(())
    }

    fn plugin_is_loaded(&self) -> Result<()> {
        self.transcript.step(2, "A plugin is copied into the plugins directory and starts automatically");
        self.install_plugin(&self.arguments.plugin)?;
        let plugin = self.wait_for_generation(1)?;
        self.transcript.detail(&format!(
            "{PLUGIN} {} is {}",
            text(&plugin, "/version"),
            text(&plugin, "/state")
        ));
        let check = Command::new(&self.arguments.host)
            .arg("check")
            .arg(self.folder.join("plugins").join(format!("{PLUGIN}.wasm")))
            .output()
            .context("run pilothouse check")?;
        ensure!(
            check.status.success(),
            "`pilothouse check` rejects the plugin: {}",
            String::from_utf8_lossy(&check.stderr)
        );
        let report = String::from_utf8_lossy(&check.stdout);
        for line in report.lines().filter(|line| {
            ["watches", "writes", "installs"].iter().any(|label| line.trim_start().starts_with(label))
        }) {
            self.transcript.detail(line.trim());
        }
        Ok(())
    }

    fn foo_is_applied(&self) -> Result<()> {
        self.transcript.step(3, "A Foo is applied; the plugin creates its Deployment");
        let manifest = self.root.join("examples/sample-controller/manifests/foo.yaml");
        let manifest =
            fs::read_to_string(&manifest).with_context(|| format!("read {}", manifest.display()))?;
        self.api.apply(FOO, &manifest)?;
        let deployment = self.api.wait("the Deployment", |api| api.get(DEPLOYMENT))?;
        self.transcript.detail(&format!(
            "Deployment default/example-foo: {} replica(s) of {}, owned by Foo {}",
            number(&deployment, "/spec/replicas"),
            text(&deployment, "/spec/template/spec/containers/0/image"),
            text(&deployment, "/metadata/ownerReferences/0/name"),
        ));
        let replicas = number(&deployment, "/spec/replicas");
        self.wait_for_status(replicas)
    }

    fn deployment_is_recreated(&self) -> Result<()> {
        self.transcript.step(4, "The Deployment is deleted; the plugin recreates it");
        let before = self.api.get(DEPLOYMENT)?.context("the Deployment is gone already")?;
        self.api.delete(DEPLOYMENT)?;
        let old = text(&before, "/metadata/uid");
        let after = self.api.wait("a new Deployment", |api| {
            Ok(api.get(DEPLOYMENT)?.filter(|deployment| text(deployment, "/metadata/uid") != old))
        })?;
        self.transcript.detail(&format!("the UID was {old} and is now {}", text(&after, "/metadata/uid")));
        Ok(())
    }

    fn replicas_are_scaled(&self) -> Result<()> {
        self.transcript.step(5, "The Foo is edited to 3 replicas; the plugin scales the Deployment");
        self.api.merge(FOO, &json!({"spec": {"replicas": 3}}))?;
        self.api.wait("3 replicas in the Deployment", |api| {
            Ok(api.get(DEPLOYMENT)?.filter(|deployment| number(deployment, "/spec/replicas") == 3))
        })?;
        self.transcript.detail("Deployment default/example-foo: spec.replicas is 3");
        self.wait_for_status(3)
    }

    fn plugin_is_reloaded(&self) -> Result<()> {
        self.transcript
            .step(6, "One line of the plugin is changed; it is rebuilt and reloaded without a restart");
        let workspace = self.root.join("examples/target/demo");
        let copy = guests::copy_example(self.root, PLUGIN, &workspace)?;
        let (old, new) = ("\"nginx:1.29\"", format!("{NEW_IMAGE:?}"));
        edit(&copy.join("src/lib.rs"), old, &new)?;
        self.transcript.detail(&format!("src/lib.rs: {old} → {new}"));
        let built = guests::build_rust(self.root, &workspace, &[PLUGIN.to_owned()], &[])?;
        let wasm = &built.first().context("no plugin was built")?.wasm;
        self.install_plugin(wasm)?;
        let plugin = self.wait_for_generation(2)?;
        self.transcript.detail(&format!(
            "generation {} is {}; digest {}",
            plugin["generation"],
            text(&plugin, "/state"),
            text(&plugin, "/digest").get(..12).unwrap_or_default()
        ));
        self.transcript.step(7, "The new version has reconciled every Foo and rolled out the new image");
        self.api.wait("the new image in the Deployment", |api| {
            Ok(api
                .get(DEPLOYMENT)?
                .filter(|deployment| text(deployment, "/spec/template/spec/containers/0/image") == NEW_IMAGE))
        })?;
        self.transcript.detail(&format!("Deployment default/example-foo now runs {NEW_IMAGE}"));
        let counters = self.plugin()?.map(|plugin| plugin["counters"].clone()).unwrap_or_default();
        self.transcript
            .detail(&format!("{} reconciles so far, {} errors", counters["reconciles"], counters["errors"]));
        Ok(())
    }

    fn close(&self) {
        println!(
            "\nThe demo is complete. To try it yourself, run `cargo xtask demo --stay` in another terminal, then:\n"
        );
        println!("  export KUBECONFIG={}", self.dev.kubeconfig.display());
        for command in [
            "get foos,deployments",
            "describe foo example-foo",
            "delete deployment example-foo",
            "patch foo example-foo --type merge -p '{\"spec\":{\"replicas\":2}}'",
            "get deployments -w",
        ] {
            println!("  kubectl {command}");
        }
    }

    /// Copies a .wasm file into the plugins directory and renames it into place atomically.
    fn install_plugin(&self, wasm: &Path) -> Result<()> {
        let plugins = self.folder.join("plugins");
        let (partial, whole) = (plugins.join(".incoming"), plugins.join(format!("{PLUGIN}.wasm")));
        fs::copy(wasm, &partial).with_context(|| format!("copy {}", wasm.display()))?;
        fs::rename(&partial, &whole).with_context(|| format!("rename to {}", whole.display()))
    }

    fn plugin(&self) -> Result<Option<Value>> {
        let answer = self.host.get("/api/plugins")?.context("the host has no /api/plugins")?;
        let plugins = answer["plugins"].as_array().cloned().unwrap_or_default();
        Ok(plugins.into_iter().find(|plugin| plugin["name"] == PLUGIN))
    }

    fn wait_for_generation(&self, generation: u64) -> Result<Value> {
        self.host.wait("the plugin to run", |_| {
            let Some(plugin) = self.plugin()? else { return Ok(None) };
            if plugin["state"] == "failed" {
                bail!("the plugin failed: {}", text(&plugin, "/error"));
            }
            let there = plugin["state"] == "running" && plugin["generation"] == generation;
            Ok(there.then_some(plugin))
        })
    }

    /// Waits until the Foo's status reports the number of available replicas.
    fn wait_for_status(&self, available: i64) -> Result<()> {
        self.api.wait("the Foo's status", |api| {
            Ok(api.get(FOO)?.filter(|found| number(found, "/status/availableReplicas") == available))
        })?;
        self.transcript.detail(&format!("Foo default/example-foo: status.availableReplicas is {available}"));
        Ok(())
    }
}

/// Replaces text in a file.
fn edit(file: &Path, from: &str, to: &str) -> Result<()> {
    let source = fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    ensure!(source.contains(from), "{} has no {from} to change", file.display());
    fs::write(file, source.replace(from, to)).with_context(|| format!("write {}", file.display()))
}

fn text(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn number(value: &Value, pointer: &str) -> i64 {
    value.pointer(pointer).and_then(Value::as_i64).unwrap_or(-1)
}
