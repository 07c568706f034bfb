//! Benchmarks the same controller as a plugin, with kube-rs and with controller-runtime, each against its own embedded API server.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::process::{PipedProcess, Usage};
use super::programs::Programs;
use crate::guests;

/// One controller's run.
pub(super) struct EndToEnd {
    pub(super) name: &'static str,
    /// The phases and their durations in seconds.
    pub(super) phases: Vec<(String, f64)>,
    /// Usage of the controller process.
    pub(super) usage: Usage,
}

/// Returns a sidecar that lifts the plugin's rate limits, because the peers have none, and nearly disables Events, because the peers
/// write none.
fn sidecar(workers: u32) -> String {
    format!(
        "workers: {workers}\nlimits: {{clientQps: 1000000, eventsPerSecond: 1, logLinesPerSecond: 1000000}}\n"
    )
}

pub(super) fn measure(root: &Path, programs: &Programs, foos: usize) -> Result<Vec<EndToEnd>> {
    let folder = root.join("target/bench/end-to-end");
    let built = guests::build_small(root, &["sample-controller"])?;
    let guest = built.into_iter().next().context("the sample controller was not built")?.wasm;
    let plugins = |workers| -> Result<String> {
        let plugins = folder.join(format!("plugins-{workers}"));
        fs::create_dir_all(&plugins).with_context(|| format!("create {}", plugins.display()))?;
        fs::copy(&guest, plugins.join("sample-controller.wasm"))
            .with_context(|| format!("copy {}", guest.display()))?;
        fs::write(plugins.join("sample-controller.yaml"), sidecar(workers)).context("write the sidecar")?;
        Ok(plugins.display().to_string())
    };
    let (alone, four, eight) = (plugins(1)?, plugins(4)?, plugins(8)?);
    let host = &programs.host;
    let ours = |folder| vec!["run", "--plugins", folder, "--listen", "127.0.0.1:0"];
    let mut contestants: Vec<(&str, &Path, Vec<&str>)> = vec![
        ("Pilothouse, the plugin, 1 worker", host, ours(&alone)),
        ("Pilothouse, the plugin, 4 workers", host, ours(&four)),
        ("Pilothouse, the plugin, 8 workers", host, ours(&eight)),
        ("kube-rs", &programs.kube_rs_sample, vec!["--no-events"]),
    ];
    if let Some(program) = &programs.controller_runtime {
        contestants.push(("controller-runtime, 1 worker", program, vec!["--no-events"]));
        contestants.push(("controller-runtime, 4 workers", program, vec!["--no-events", "--workers", "4"]));
        contestants.push(("controller-runtime, 8 workers", program, vec!["--no-events", "--workers", "8"]));
    }
    let mut results = Vec::new();
    for (name, program, arguments) in contestants {
        println!("bench: {foos} Foos: {name}");
        results.push(run_one(&folder, programs, name, program, &arguments, foos).with_context(|| name)?);
    }
    Ok(results)
}

fn run_one(
    folder: &Path,
    programs: &Programs,
    name: &'static str,
    program: &Path,
    arguments: &[&str],
    foos: usize,
) -> Result<EndToEnd> {
    let kubeconfig = folder.join("kubeconfig").display().to_string();
    let _ = fs::remove_file(&kubeconfig);
    let owned =
        |arguments: &[&str]| arguments.iter().map(|&argument| argument.to_owned()).collect::<Vec<_>>();
    // The status of Deployments without their Pods, because the load is on the controllers that are measured.
    let controllers = "garbagecollector,namespace,serviceaccount,workload-status";
    let server = [
        "apiserver",
        "--insecure-http",
        "--listen",
        "127.0.0.1:0",
        "--controllers",
        controllers,
        "--kubeconfig-out",
        &kubeconfig,
    ];
    let _server = PipedProcess::start_in_background(&programs.host, &owned(&server))?;
    super::process::wait_for_file(Path::new(&kubeconfig))?;
    let driver = |flags: &[&str]| {
        let output =
            Command::new(&programs.foo_driver).args(["--kubeconfig", &kubeconfig]).args(flags).output();
        let output = output.context("start the driver")?;
        let problem = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "the driver failed: {problem}");
        String::from_utf8(output.stdout).context("the driver's output is not UTF-8")
    };
    driver(&["--install-crd"])?;
    let mut controller_arguments = owned(arguments);
    controller_arguments.extend(owned(&["--kubeconfig", &kubeconfig]));
    let controller = PipedProcess::start_in_background(program, &controller_arguments)?;
    let printed = driver(&["--foos", &foos.to_string()])?;
    let usage = controller.usage()?;
    let mut phases = Vec::new();
    for line in printed.lines() {
        let line: serde_json::Value =
            serde_json::from_str(line).with_context(|| format!("the driver printed {line:?}"))?;
        let (phase, seconds) = (line["phase"].as_str(), line["seconds"].as_f64());
        let (phase, seconds) = phase.zip(seconds).with_context(|| format!("the driver printed {line}"))?;
        phases.push((phase.to_owned(), seconds));
    }
    Ok(EndToEnd { name, phases, usage })
}
