//! `cargo xtask tracing-test`: sends the traces of a host to an OpenTelemetry collector, which is built from published Go modules, and checks
//! the tree from one plugin's write to another plugin's reconcile.

mod spans;

use std::cell::Cell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::json;

use self::spans::{chain, children, orphans, parse};
use crate::demo::{Api, Dev};
use crate::guests::Guest;
use crate::{host, loopback, tools};

/// The plugin that writes Deployments.
const WRITER: &str = "sample-controller";
/// The plugin that is triggered by them, and does nothing.
const READER: &str = "reader";
/// The guest whose descriptor is its configuration.
const READER_SOURCE: &str = "host/plugin/tests/guests/echo.wat";
const FOOS: &str = "/apis/samplecontroller.k8s.io/v1alpha1/namespaces/default/foos";
/// Names of spans below the reconcile of the writer.
const CHILDREN: [&str; 3] = ["guest.call", "k8s.write", "queue.wait"];

/// Options of `cargo xtask tracing-test`.
#[derive(Debug, Args)]
pub(crate) struct TracingTestArguments {
    /// `pilothouse`. By default, it is built.
    #[arg(long, value_name = "FILE")]
    host: Option<PathBuf>,
    /// sample-controller.wasm. By default, it is built.
    #[arg(long, value_name = "FILE")]
    plugin: Option<PathBuf>,
}

/// Runs the test.
///
/// # Errors
/// Errors if a program cannot be built or started, or if the collector does not receive the tree.
pub(crate) fn run(root: &Path, arguments: &TracingTestArguments) -> Result<()> {
    let (given_host, given_plugin) = (arguments.host.as_deref(), arguments.plugin.as_deref());
    let (pilothouse, plugin) = host::build_with_plugin(root, WRITER, given_host, given_plugin)?;
    test(root, &pilothouse, &plugin)
}

/// Runs the test with a program and plugins that were built before.
///
/// # Errors
/// As [`run`].
pub(crate) fn test_built(root: &Path, pilothouse: &Path, guests: &[Guest]) -> Result<()> {
    let plugin = guests.iter().find(|guest| guest.name == WRITER);
    test(root, pilothouse, &plugin.with_context(|| format!("{WRITER} was not built"))?.wasm)
}

fn test(root: &Path, pilothouse: &Path, plugin: &Path) -> Result<()> {
    let folder = empty_folder(root)?;
    install_plugins(root, plugin, &folder.join("plugins"))?;
    let collector = Collector::start(root, &folder)?;
    let flags = ["--trace-endpoint", &collector.endpoint, "--trace-ratio", "1"];
    let dev = Dev::start_with(pilothouse, &folder, &flags)?;
    let server = Api::of_kubeconfig(&dev.kubeconfig)?;
    collector.wait_for_chain(&server)?;
    println!("tracing-test: the collector has the tree from a write of {WRITER} to a reconcile of {READER}");
    dev.stop()
}

/// Creates an empty folder for this run, with a folder `plugins` in it.
fn empty_folder(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/tracing-test");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    let plugins = folder.join("plugins");
    fs::create_dir_all(&plugins).with_context(|| format!("create {}", plugins.display()))?;
    Ok(folder)
}

fn install_plugins(root: &Path, writer: &Path, plugins: &Path) -> Result<()> {
    let source = root.join(READER_SOURCE);
    let reader = wat::parse_file(&source).with_context(|| format!("assemble {}", source.display()))?;
    let watch =
        json!({"name": "deployments", "apiVersion": "apps/v1", "kind": "Deployment", "trigger": "self"});
    let descriptor = json!({"apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "watches": [watch]});
    // The sidecar comes first, so that no plugin is loaded without its own. JSON is YAML.
    for (name, content) in [
        (format!("{WRITER}.yaml"), json!({"grants": {"crds": true}}).to_string().into_bytes()),
        (format!("{READER}.yaml"), json!({"config": descriptor}).to_string().into_bytes()),
        (format!("{READER}.wasm"), reader),
    ] {
        let file = plugins.join(name);
        fs::write(&file, content).with_context(|| format!("write {}", file.display()))?;
    }
    let file = plugins.join(format!("{WRITER}.wasm"));
    fs::copy(writer, file).with_context(|| format!("copy {}", writer.display()))?;
    Ok(())
}

/// A running collector. Dropping this ends the process.
struct Collector {
    child: Child,
    endpoint: String,
    /// The file into which it writes spans.
    spans: PathBuf,
    log: PathBuf,
}

impl Collector {
    fn start(root: &Path, folder: &Path) -> Result<Self> {
        let program = tools::COLLECTOR.install(root)?;
        let address = loopback::free_address()?;
        let (spans, log) = (folder.join("spans.json"), folder.join("collector.log"));
        let config = json!({
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": address}}}},
            "exporters": {"file": {"path": spans, "flush_interval": "100ms"}},
            "service": {
                "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["file"]}},
                "telemetry": {"metrics": {"level": "none"}},
            },
        });
        let file = folder.join("collector.yaml");
        // JSON is YAML.
        fs::write(&file, config.to_string()).with_context(|| format!("write {}", file.display()))?;
        let child = Command::new(&program)
            .arg(format!("--config=file:{}", file.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).with_context(|| format!("create {}", log.display()))?)
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        Ok(Self { child, endpoint: format!("http://{address}"), spans, log })
    }

    /// Creates objects for the writer until the collector has the whole tree. The event of a write may come before its response; then it leads
    /// nowhere, and another object shows the tree.
    fn wait_for_chain(&self, server: &Api) -> Result<()> {
        let (polls, problem) = (Cell::new(0), Cell::new(String::new()));
        let waited = server.wait("the tree of spans", |server| {
            let number = polls.get();
            polls.set(number + 1);
            if number % 20 == 0 {
                let name = format!("traced-{number}");
                let object = json!({
                    "apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo",
                    "metadata": {"name": name, "namespace": "default"},
                    "spec": {"deploymentName": name, "replicas": 1},
                });
                // Fails until the plugin has brought the CRD.
                let _ = server.apply(&format!("{FOOS}/{name}"), &object.to_string());
            }
            let checked = self.check();
            Ok(checked.map_err(|error| problem.set(error.to_string())).ok())
        });
        waited.with_context(|| {
            format!("{}; the log of the collector is {}", problem.take(), self.log.display())
        })
    }

    /// Errors unless the collector has the tree, and the parents of all spans.
    fn check(&self) -> Result<()> {
        let text = fs::read_to_string(&self.spans).context("the collector has written nothing")?;
        let spans = parse(&text);
        let found = chain(&spans, WRITER, READER);
        let found = found
            .with_context(|| format!("none of {} spans leads from a write to a reconcile", spans.len()))?;
        ensure!(found.event.name == "watch.event", "the event of the write is called {}", found.event.name);
        let names = children(&spans, found.cause);
        ensure!(
            CHILDREN.iter().all(|name| names.contains(name)),
            "the reconcile of {WRITER} has only the children {}",
            names.join(", ")
        );
        let orphans: Vec<_> = orphans(&spans).iter().map(|span| span.name.clone()).collect();
        ensure!(orphans.is_empty(), "these spans have no parent: {}", orphans.join(", "));
        ensure!(spans.iter().all(|span| span.service == "pilothouse"), "a span is that of another service");
        Ok(())
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
