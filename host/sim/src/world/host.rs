//! Starts the real host in a world: its plugins, its clients behind the gates, and its environment.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_apiserver::Controllers;
use pilothouse_controller::{
    Clients, Environment, GrantMode, HostOptions, InMemoryPlugin, Metrics, PluginHost, Randomness,
    ResourceLists, WallClock,
};
use pilothouse_plugin::Engine;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::call_recorder::WorldRecorder;
use super::gate::{RequestGate, WatchGate};
use super::http::Services;
use super::shared::Shared;
use super::{WorldLimits, WorldPlugin};
use crate::WorldError;

/// What a host is made of.
pub(super) struct Setup<'a> {
    pub(super) engine: &'a Engine,
    pub(super) metrics: &'a Metrics,
    pub(super) resource_lists: &'a ResourceLists,
    pub(super) plugins: &'a [WorldPlugin],
    pub(super) controllers: &'a Controllers,
    pub(super) http: &'a Services,
    pub(super) limits: WorldLimits,
    pub(super) guarantees: bool,
    pub(super) seed: u64,
}

/// Returns the plugins as the host gets them after so many reloads.
pub(super) fn in_memory(plugins: &[WorldPlugin], reloads: u32) -> Result<Vec<InMemoryPlugin>, WorldError> {
    let plugin = |plugin: &WorldPlugin| {
        let version = plugin.upgrade.as_ref().filter(|_| reloads > 0).unwrap_or(&plugin.code);
        let mut sidecar = plugin.sidecar.clone();
        if reloads > 0 {
            // A version is loaded again only if its files differ.
            sidecar.push_str(&format!("\n# reload {reloads}\n"));
        }
        Ok(InMemoryPlugin {
            name: plugin.name.clone(),
            code: version.code.clone(),
            sidecar: sidecar.into(),
            descriptor: version.descriptor.as_ref().ok().cloned(),
        })
    };
    plugins.iter().map(plugin).collect()
}

/// Starts the host with this number, which counts from 1.
pub(super) fn start_host(
    setup: &Setup<'_>,
    shared: &Shared,
    plugins: watch::Receiver<Vec<InMemoryPlugin>>,
    number: u32,
) -> PluginHost {
    let seed = setup.seed ^ u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let randomness = Randomness::from_seed(seed);
    shared.lock().randomness.push(randomness.clone());
    let environment = Environment { clock: WallClock::starting_at(shared.clock().time_of_day()), randomness };
    let options = HostOptions {
        plugins: "simulation".into(),
        api_server: "simulation".to_owned(),
        grant_crds: true,
        grants: GrantMode::default(),
        instance: "simulation".to_owned(),
        namespace: "default".to_owned(),
        settle: Duration::ZERO,
        file_events: false,
        access_review_interval: Duration::from_secs(30),
        informer_runtime: None,
        cache_compression: None,
        streaming_lists: false,
        requeue_on_reload: true,
        name_request_origins: true,
        environment,
    };
    let clients = Clients {
        requests: kube::Client::new(RequestGate::new(shared.clone()), "default"),
        watches: kube::Client::new(WatchGate::new(shared.clone()), "default"),
    };
    let host = PluginHost::new(options, clients, setup.engine.clone(), setup.metrics.clone());
    host.share_resource_lists(setup.resource_lists.clone());
    if !setup.guarantees {
        host.disable_write_guarantees();
    }
    if shared.lock().withholds_reasons {
        host.withhold_reasons();
    }
    host.set_http_transport(Arc::new(setup.http.clone()));
    host.set_recorder_factory(Arc::new(WorldRecorder(shared.clone())));
    let running = host.clone();
    // The host is never shut down: its process ends, or the run does.
    tokio::spawn(async move { running.run_in_memory(plugins, CancellationToken::new()).await });
    host
}
