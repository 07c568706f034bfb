//! Loads a plugin file as the host would, without running it. Used by `check`, `rbac` and, as the last step, `build`.

use std::future::Future;
use std::path::Path;

use futures::{Stream, StreamExt, stream};
use pilothouse_controller::{CheckError, CheckReport, CheckServers, GrantMode, check};
use pilothouse_plugin::{Compiler, Engine, EngineOptions};
use serde_json::Value;
use tokio_util::task::AbortOnDropHandle;

use crate::{CommandError, cluster};

/// Checks plugins, as many at once as the machine runs threads. Returns the results in the order of the plugins.
///
/// Dropping the stream ends the checks at their next await point.
///
/// # Panics
/// Panics when a check panics.
pub(crate) fn check_each<P, F>(plugins: Vec<P>, check: impl Fn(P) -> F) -> impl Stream<Item = (P, F::Output)>
where
    P: Clone,
    F: Future + Send + 'static,
    F::Output: Send,
{
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    check_up_to(threads, plugins, check)
}

fn check_up_to<P, F>(
    at_once: usize,
    plugins: Vec<P>,
    check: impl Fn(P) -> F,
) -> impl Stream<Item = (P, F::Output)>
where
    P: Clone,
    F: Future + Send + 'static,
    F::Output: Send,
{
    let started = move |plugin: P| {
        let task = AbortOnDropHandle::new(tokio::spawn(check(plugin.clone())));
        async move {
            let result = task.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
            (plugin, result)
        }
    };
    stream::iter(plugins).map(started).buffered(at_once)
}

/// Checks a plugin file. With a kubeconfig, also looks up its kinds in that cluster and reviews the user's permissions there.
///
/// # Errors
/// Errors if the file cannot be loaded; the text names the file, the position in it and what to do. A plugin that loads but
/// would not run is not an error: the report lists its problems.
#[cfg(feature = "developer-tools")]
pub(crate) async fn check_file(file: &Path, kubeconfig: Option<&Path>) -> Result<CheckReport, CommandError> {
    check_file_for(file, kubeconfig, Vec::new(), (false, GrantMode::Declared)).await
}

/// Checks a plugin file for a host with these defaults: whether it applies CRDs, and its grant mode. The plugin may also watch the kinds of
/// `crds`.
///
/// # Errors
/// Errors if the file cannot be loaded; the text names the file, the position in it and what to do. A plugin that loads but
/// would not run is not an error: the report lists its problems.
pub(crate) async fn check_file_for(
    file: &Path,
    kubeconfig: Option<&Path>,
    crds: Vec<Value>,
    host: (bool, GrantMode),
) -> Result<CheckReport, CommandError> {
    let attempt = attempt_of(file, kubeconfig, host).await?;
    CheckAttempt { crds, ..attempt }.run_with_any_compiler(None).await
}

/// Checks a plugin file like [`check_file_for`], with a client of the cluster.
///
/// # Errors
/// See [`check_file_for`].
pub(crate) async fn check_in(
    file: &Path,
    cluster: Option<kube::Client>,
    (grant_crds, grants): (bool, GrantMode),
) -> Result<CheckReport, CommandError> {
    if let Some(problem) = wrong_path(file) {
        return Err(CommandError::Usage(problem));
    }
    let review_permissions = cluster.is_some();
    let crds = Vec::new();
    CheckAttempt { file, cluster, review_permissions, crds, grant_crds, grants }
        .run_with_any_compiler(None)
        .await
}

/// Checks a plugin file like [`check_in`], but does not review permissions.
///
/// # Errors
/// See [`check_in`].
pub(crate) async fn check_with_client(
    file: &Path,
    client: kube::Client,
    (grant_crds, grants): (bool, GrantMode),
) -> Result<CheckReport, CommandError> {
    if let Some(problem) = wrong_path(file) {
        return Err(CommandError::Usage(problem));
    }
    let (cluster, crds) = (Some(client), Vec::new());
    let attempt = CheckAttempt { file, cluster, review_permissions: false, crds, grant_crds, grants };
    attempt.run_with_any_compiler(None).await
}

/// Checks a plugin file like [`check_file`], but with the engine of a host, whose cache has the compiled code afterwards.
///
/// # Errors
/// See [`check_file`]. Also errors if only another compiler than the engine's supports the plugin.
#[cfg(feature = "developer-tools")]
pub(crate) async fn check_file_with(engine: &Engine, file: &Path) -> Result<CheckReport, CommandError> {
    attempt_of(file, None, (false, GrantMode::Declared)).await?.run_with_any_compiler(Some(engine)).await
}

/// Checks a plugin file like [`check_file_for`], but does not review the permissions of the kubeconfig's user. `host` holds the
/// host's defaults for what a sidecar leaves open: whether it applies CRDs, and its grant mode.
///
/// # Errors
/// See [`check_file_for`].
pub(crate) async fn check_file_without_review(
    file: &Path,
    kubeconfig: Option<&Path>,
    host: (bool, GrantMode),
) -> Result<CheckReport, CommandError> {
    let attempt = attempt_of(file, kubeconfig, host).await?;
    CheckAttempt { review_permissions: false, ..attempt }.run_with_any_compiler(None).await
}

/// Returns the check of a file, with a review of permissions and without CRDs of others.
async fn attempt_of<'a>(
    file: &'a Path,
    kubeconfig: Option<&Path>,
    (grant_crds, grants): (bool, GrantMode),
) -> Result<CheckAttempt<'a>, CommandError> {
    if let Some(problem) = wrong_path(file) {
        return Err(CommandError::Usage(problem));
    }
    let cluster = match kubeconfig {
        Some(path) => Some(cluster::reachable_client(Some(path), None).await?),
        None => None,
    };
    let crds = Vec::new();
    Ok(CheckAttempt { file, cluster, review_permissions: true, crds, grant_crds, grants })
}

/// A check that can be made with several engines.
struct CheckAttempt<'a> {
    file: &'a Path,
    cluster: Option<kube::Client>,
    review_permissions: bool,
    /// CRDs of others whose kinds the plugin may watch.
    crds: Vec<Value>,
    grant_crds: bool,
    grants: GrantMode,
}

impl CheckAttempt<'_> {
    /// Runs with the engine, or else with the quickest compiler. That is enough to inspect a plugin; code that it rejects is compiled again with
    /// the compiler of `run`.
    async fn run_with_any_compiler(&self, engine: Option<&Engine>) -> Result<CheckReport, CommandError> {
        let report = match engine {
            Some(engine) => self.run(engine).await,
            None => match self.run_with_compiler(Compiler::QUICKEST).await {
                Err(CheckError::Code(_)) => self.run_with_compiler(Compiler::Cranelift).await,
                result => result,
            },
        };
        report.map_err(|problem| CommandError::Failure(format!("{}: {problem}", self.file.display())))
    }

    async fn run(&self, engine: &Engine) -> Result<CheckReport, CheckError> {
        let servers = CheckServers {
            embedded: embedded_server(),
            cluster: self.cluster.clone(),
            crds: self.crds.clone(),
            review_permissions: self.review_permissions,
            grant_crds: self.grant_crds,
            grants: self.grants,
        };
        // Boxed because the future of a load is large.
        Box::pin(check(engine, self.file, servers)).await
    }

    async fn run_with_compiler(&self, compiler: Compiler) -> Result<CheckReport, CheckError> {
        let engine = Engine::new(EngineOptions { compiler, ..EngineOptions::default() })
            .map_err(|error| CheckError::Refused(format!("cannot start the wasm engine: {error}")))?;
        self.run(&engine).await
    }
}

/// The number of files in a directory that an error suggests.
const MAX_SUGGESTED: usize = 3;

/// Returns what is wrong with a path that leads to no file. `None` if it leads to one.
fn wrong_path(path: &Path) -> Option<String> {
    let shown = path.display();
    if path.is_dir() {
        let plugins = plugins_in(path);
        let remedy = match plugins.as_slice() {
            [] => format!(
                "give the path of a .wasm file; if it is a project, `pilothouse build {shown}` builds it and checks the result"
            ),
            plugins => format!("did you mean {}?", plugins.join(" or ")),
        };
        return Some(format!("{shown} is a directory; {remedy}"));
    }
    match (path.metadata(), path.read_link()) {
        (Ok(_), _) => None,
        (Err(error), Ok(target)) => Some(format!(
            "{shown} is a symbolic link to {}, which cannot be read: {error}; give the path of a .wasm file",
            target.display()
        )),
        (Err(_), Err(_)) => Some(format!("{shown}: no such file; give the path of a .wasm file")),
    }
}

/// Whether a host takes a file in its plugins directory for a plugin: its name ends in `.wasm`, and it is not hidden.
pub(crate) fn is_plugin_file(path: &Path) -> bool {
    let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    !is_hidden && path.extension().is_some_and(|extension| extension == "wasm")
}

/// Returns the first .wasm files in a directory, in the order of their names.
fn plugins_in(directory: &Path) -> Vec<String> {
    let Ok(entries) = directory.read_dir() else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    let mut plugins: Vec<_> =
        paths.filter(|path| is_plugin_file(path)).map(|path| path.display().to_string()).collect();
    plugins.sort_unstable();
    plugins.truncate(MAX_SUGGESTED);
    plugins
}

/// Returns a client of a new embedded API server.
#[cfg(feature = "embedded-server")]
fn embedded_server() -> Option<kube::Client> {
    let server = pilothouse_apiserver::ApiServer::builder().build();
    Some(kube::Client::new(server.service(), "default"))
}

/// Returns `None`: this build has no embedded API server.
#[cfg(not(feature = "embedded-server"))]
fn embedded_server() -> Option<kube::Client> {
    None
}

/// Returns the report's problems as a one-line error.
pub(crate) fn problems_error(file: &Path, report: &CheckReport) -> CommandError {
    CommandError::Failure(format!("{}: {}", file.display(), report.problems.join("; ")))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::pin::pin;
    use std::sync::Arc;

    use tokio::sync::Notify;

    use super::*;

    fn files(names: &[&str]) -> Vec<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    #[tokio::test]
    async fn results_have_the_order_of_the_plugins_whichever_check_ends_first() {
        let second_ended = Arc::new(Notify::new());
        let checks = check_up_to(2, files(&["a", "b", "c"]), |file| {
            let second_ended = Arc::clone(&second_ended);
            async move {
                match file.to_str() {
                    Some("a") => second_ended.notified().await,
                    Some("b") => second_ended.notify_one(),
                    _ => {}
                }
                file
            }
        });
        let results: Vec<_> = checks.collect().await;
        assert_eq!(
            results,
            files(&["a", "b", "c"]).into_iter().map(|file| (file.clone(), file)).collect::<Vec<_>>()
        );
    }

    #[tokio::test]
    async fn a_dropped_stream_ends_its_checks() {
        let held = Arc::new(());
        {
            let mut checks = pin!(check_up_to(2, files(&["a", "b"]), |_| {
                let held = Arc::clone(&held);
                async move {
                    std::future::pending::<()>().await;
                    drop(held);
                }
            }));
            assert!(futures::poll!(checks.next()).is_pending());
            assert_eq!(Arc::strong_count(&held), 3);
        }
        while Arc::strong_count(&held) > 1 {
            tokio::task::yield_now().await;
        }
    }
}
