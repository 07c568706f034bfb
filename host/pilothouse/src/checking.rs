//! Loading a plugin's file as the host would, without running it: what `check` and `rbac` report and `build` ends with.

use std::path::Path;

use pilothouse_apiserver::ApiServer;
use pilothouse_controller::{CheckReport, CheckServers, GrantMode, check};
use pilothouse_plugin::{Compiler, Engine, EngineOptions};

use crate::{Failed, cluster};

/// Checks the file, and asks the server of the kubeconfig where one is given.
///
/// # Errors
/// The file cannot be loaded: the line has the file, the place in it and the remedy. A plugin that loads and would not run
/// is a report with problems.
pub(crate) async fn report(file: &Path, kubeconfig: Option<&Path>) -> Result<CheckReport, Failed> {
    look(file, kubeconfig, true, (false, GrantMode::Declared)).await
}

/// As [`report`], without asking what the kubeconfig's user may do, and for a host that may apply CRDs, and gives so much, where no
/// sidecar says otherwise.
///
/// # Errors
/// As [`report`].
pub(crate) async fn discovered(
    file: &Path,
    kubeconfig: Option<&Path>,
    host: (bool, GrantMode),
) -> Result<CheckReport, Failed> {
    look(file, kubeconfig, false, host).await
}

async fn look(
    file: &Path,
    kubeconfig: Option<&Path>,
    review_rights: bool,
    (grant_crds, grants): (bool, GrantMode),
) -> Result<CheckReport, Failed> {
    if !file.is_file() {
        return Err(Failed::Usage(format!("{}: there is no such file; give a .wasm", file.display())));
    }
    let cluster = match kubeconfig {
        Some(path) => Some(cluster::client(Some(path), None).await?),
        None => None,
    };
    let attempt = async |compiler: Compiler| {
        let engine = Engine::new(EngineOptions { compiler, ..EngineOptions::default() });
        let engine = engine.map_err(|error| format!("the wasm engine: {error}"))?;
        let embedded = kube::Client::new(ApiServer::builder().build().service(), "default");
        let servers = CheckServers { embedded, cluster: cluster.clone(), review_rights, grant_crds, grants };
        // A large future: all that a load does.
        Box::pin(check(&engine, file, servers)).await
    };
    // The quick compiler is enough to look at a plugin; a refusal must be that of the compiler that would run it.
    let report = match attempt(Compiler::Winch).await {
        Ok(report) => Ok(report),
        Err(_) => attempt(Compiler::Cranelift).await,
    };
    report.map_err(|problem| Failed::Work(format!("{}: {problem}", file.display())))
}

/// As [`report`], for those to whom a plugin that would not run is a failure.
///
/// # Errors
/// As [`report`]; or what keeps the plugin from running.
pub(crate) async fn passed(file: &Path) -> Result<CheckReport, Failed> {
    let report = report(file, None).await?;
    if report.runs { Ok(report) } else { Err(failed(file, &report)) }
}

/// What keeps the plugin from running, in one line.
pub(crate) fn failed(file: &Path, report: &CheckReport) -> Failed {
    Failed::Work(format!("{}: {}", file.display(), report.problems.join("; ")))
}
