//! Runs one scenario: a fresh API server, a host with the plugin, and the steps one after the other.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_apiserver::ApiServer;
use pilothouse_controller::{GrantMode, PluginHost, PluginName, PluginState, PluginStatus};
use pilothouse_plugin::Engine;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::attempt::{Attempt, Goal, Problem};
use super::cluster::{Cluster, Lookup, describe};
use super::failure_details;
use super::report::{Failure, ScenarioResult, TestKind};
use super::scenario::{Action, Deletion, Scenario, Step};
use crate::CommandError;
use crate::cli::{AuthMode, TestHooks};
use crate::commands::developer_tools::apply::Manifest;
use crate::commands::developer_tools::staged_plugin::StagedPlugin;
use crate::commands::host::{HostFlags, RunningHost};

/// How often it is checked whether an expectation holds. The API server is in this process, so a check costs little.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Runs a scenario. Cancelling `stop` ends it.
///
/// # Errors
/// Errors if the host cannot be started, or the scenario was interrupted.
pub(super) async fn run(
    scenario: &Scenario,
    plugin: &StagedPlugin,
    engine: &Engine,
    stop: &CancellationToken,
) -> Result<ScenarioResult, CommandError> {
    let started = Instant::now();
    let shutdown = CancellationToken::new();
    // Stops the server and the host even if this future is dropped.
    let _stop_all = shutdown.clone().drop_guard();
    let server = ApiServer::builder().build();
    let _controllers = server.run_controllers(shutdown.clone());
    let client = kube::Client::new(server.service(), "default");
    let failure = match apply_served(&scenario.objects, &client).await {
        Err(problem) => {
            Some(Failure { summary: format!("{}: {problem}", scenario.file.display()), details: Vec::new() })
        }
        Ok(pending) => {
            let host_shutdown = shutdown.child_token();
            let (running, _metrics) =
                RunningHost::start(host_flags(plugin, engine), client.clone(), host_shutdown.clone())?;
            let (host, name) = (running.host().clone(), plugin.name().clone());
            let mut execution = Execution { cluster: Cluster::new(client), host, plugin: name, stop };
            let failure = Box::pin(execution.run(scenario, &pending)).await;
            host_shutdown.cancel();
            running.wait().await?;
            failure
        }
    };
    if stop.is_cancelled() {
        return Err(CommandError::Failure("interrupted".to_owned()));
    }
    Ok(ScenarioResult {
        kind: TestKind::Scenario,
        name: scenario.name.clone(),
        duration: started.elapsed(),
        notes: Vec::new(),
        failure,
    })
}

/// Applies the manifests. Returns those of kinds that are not served yet: the plugin may bring their CRDs.
async fn apply_served<'a>(
    manifests: &'a [Manifest],
    client: &kube::Client,
) -> Result<Vec<&'a Manifest>, String> {
    let mut pending = Vec::new();
    for manifest in manifests {
        match manifest.try_apply(client).await {
            Ok(true) => {}
            Ok(false) => pending.push(manifest),
            Err(error) => {
                return Err(format!("cannot apply {}: {}", manifest.short_name(), describe(&error)));
            }
        }
    }
    Ok(pending)
}

/// Returns the settings of a host that runs the plugin as `pilothouse dev` would.
fn host_flags(plugin: &StagedPlugin, engine: &Engine) -> HostFlags {
    HostFlags {
        plugins: plugin.folder().to_owned(),
        provided: None,
        allowed_hosts: Vec::new(),
        auth: AuthMode::None,
        api_server: "embedded".to_owned(),
        grant_crds: true,
        grants: GrantMode::default(),
        engine: engine.clone(),
        cache_compression: None,
        streaming_lists: true,
        plugin_resource: None,
        #[cfg(feature = "traces")]
        traces: None,
        recording: None,
        shadows: Vec::new(),
        startup: Arc::default(),
        metrics: prometheus_client::registry::Registry::default(),
        test: TestHooks { test_no_requeue_on_reload: false, test_review_every: None },
    }
}

/// A scenario that is being run.
struct Execution<'a> {
    cluster: Cluster,
    host: PluginHost,
    plugin: PluginName,
    stop: &'a CancellationToken,
}

impl Execution<'_> {
    /// Runs the scenario. `pending` are the manifests that are applied once their kinds are served.
    async fn run(&mut self, scenario: &Scenario, pending: &[&Manifest]) -> Option<Failure> {
        let file = scenario.file.display();
        if let Err(problem) = self.prepare(scenario, pending).await {
            return Some(self.failure(&file.to_string(), problem));
        }
        for step in &scenario.steps {
            if let Err(problem) = self.perform(step).await {
                return Some(self.failure(&format!("{file}:{}: {}", step.line, step.title), problem));
            }
        }
        None
    }

    /// Waits until the plugin runs, and until the remaining objects are applied.
    async fn prepare(&mut self, scenario: &Scenario, pending: &[&Manifest]) -> Result<(), Problem> {
        if !scenario.starts_without_plugin() {
            self.wait_until_running(scenario.start_timeout).await?;
        }
        for manifest in pending {
            self.reach(&Goal::Applied(manifest), scenario.start_timeout).await?;
        }
        Ok(())
    }

    async fn perform(&mut self, step: &Step) -> Result<(), Problem> {
        let timeout = step.timeout;
        match &step.action {
            Action::Apply(manifests) => {
                for manifest in manifests {
                    self.reach(&Goal::Applied(manifest), timeout).await?;
                }
                Ok(())
            }
            Action::Create(manifests) => {
                for manifest in manifests {
                    self.reach(&Goal::Created(manifest), timeout).await?;
                }
                Ok(())
            }
            Action::Patch(patch) => self.reach(&Goal::Patched(patch), timeout).await,
            Action::Delete(deletion) => self.delete(deletion, timeout).await,
            Action::Expect(expectation) => self.reach(&Goal::Object(expectation), timeout).await,
            Action::ExpectAbsent(object) => self.reach(&Goal::Absent(object), timeout).await,
            Action::ExpectEvent(event) => self.reach(&Goal::Event(event), timeout).await,
            Action::ExpectPlugin(expectation) => self.reach(&Goal::Plugin(expectation), timeout).await,
            Action::ExpectLog(text) => self.reach(&Goal::Log(text), timeout).await,
        }
    }

    async fn delete(&mut self, deletion: &Deletion, timeout: Duration) -> Result<(), Problem> {
        let object = &deletion.object;
        let uid = match self.cluster.get(object).await.map_err(Problem::new)? {
            Lookup::Found(found) => found["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
            Lookup::Absent | Lookup::NotServed => {
                return Err(Problem::new(
                    "there is no such object; expect it in a step before this one".to_owned(),
                ));
            }
        };
        self.cluster.delete(object, &uid).await.map_err(Problem::new)?;
        if deletion.wait { self.reach(&Goal::Gone { object, uid: &uid }, timeout).await } else { Ok(()) }
    }

    /// Waits until the goal is reached.
    ///
    /// # Errors
    /// Returns the last problem once the timeout has passed, at once if the goal cannot be reached any more.
    async fn reach(&mut self, goal: &Goal<'_>, timeout: Duration) -> Result<(), Problem> {
        let deadline = Instant::now() + timeout;
        loop {
            match goal.attempt(&mut self.cluster, &self.host, &self.plugin).await {
                Attempt::Reached => return Ok(()),
                Attempt::Failed(problem) => return Err(problem),
                Attempt::NotYet(problem) if Instant::now() >= deadline => return Err(problem.after(timeout)),
                Attempt::NotYet(_) => self.pause().await?,
            }
        }
    }

    /// Waits until the plugin runs. Compiling it may take minutes, so only the time in which the plugin waits for something is limited.
    async fn wait_until_running(&self, timeout: Duration) -> Result<(), Problem> {
        let mut waiting_since = None;
        loop {
            match self.status().map(|status| status.state) {
                Some(PluginState::Running) => return Ok(()),
                None | Some(PluginState::Found | PluginState::Compiling | PluginState::Describing) => {
                    waiting_since = None;
                }
                Some(PluginState::Waiting) => {
                    let since = *waiting_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= timeout {
                        return Err(Problem::new("the plugin does not run".to_owned()).after(timeout));
                    }
                }
                Some(
                    PluginState::Draining
                    | PluginState::Stopped
                    | PluginState::Failed
                    | PluginState::BackingOff,
                ) => {
                    return Err(Problem::new("the plugin does not run".to_owned()));
                }
            }
            self.pause().await?;
        }
    }

    /// Waits for [`POLL_INTERVAL`].
    ///
    /// # Errors
    /// Errors if the command is interrupted.
    async fn pause(&self) -> Result<(), Problem> {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(Problem::new("interrupted".to_owned())),
            () = sleep(POLL_INTERVAL) => Ok(()),
        }
    }

    fn status(&self) -> Option<PluginStatus> {
        self.host.status().into_iter().find(|status| status.name == self.plugin.as_str())
    }

    /// Returns the report of a problem, with what the host knows of the plugin.
    fn failure(&self, place: &str, problem: Problem) -> Failure {
        let summary = format!("{place}: {}", problem.text);
        let mut details = problem.into_details();
        let lines = self.host.logs().after(0, Some(&self.plugin));
        details.extend(failure_details::of_plugin(self.status().as_ref(), &lines));
        Failure { summary, details }
    }
}
