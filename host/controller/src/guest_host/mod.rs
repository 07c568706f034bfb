//! The host functions that a plugin's guests can call: the [`Host`] of one version of one plugin.

mod call_recorder;
mod functions;
mod logged_excesses;
mod reconcile_context;
pub(crate) mod services;
mod traced_http;

use std::sync::Arc;
use std::time::Duration;

use pilothouse_plugin::{Call, CallRecorder, LogLevel, Misuse};

use crate::cache::views::Views;
use crate::client::LiveClient;
use crate::config::limits::PluginLimits;
use crate::guest_host::call_recorder::BothRecorders;
pub use crate::guest_host::call_recorder::{CallRecorderFactory, ObservedVersion};
pub(crate) use crate::guest_host::logged_excesses::LoggedExcesses;
pub(crate) use crate::guest_host::services::PluginServices;
use crate::outgoing::HttpClient;

/// How long an instance may be idle before it is dropped.
pub(crate) const INSTANCE_IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// The host functions of one version.
pub(crate) struct GuestHost {
    services: PluginServices,
    /// The sidecar's `config` as JSON.
    config: Arc<str>,
    /// `None` while the plugin describes itself or computes index values. It may only log then.
    capabilities: Option<Capabilities>,
    /// Records the guests' calls.
    recorder: Option<Arc<dyn CallRecorder>>,
}

/// What the guests of a version may use when they reconcile or observe.
pub(crate) struct Capabilities {
    pub(crate) views: Arc<Views>,
    pub(crate) client: LiveClient,
    pub(crate) http: HttpClient,
    /// The limits that all guests of the version share. The plugin's `RateLimiters` enforce the rates.
    pub(crate) plugin_limits: PluginLimits,
    pub(crate) logged_excesses: LoggedExcesses,
}

impl GuestHost {
    /// Creates the host functions for guests that describe the plugin or compute index values.
    pub(crate) fn for_describe(services: PluginServices, config: Arc<str>) -> Self {
        Self { services, config, capabilities: None, recorder: None }
    }

    /// Creates the host functions for guests that reconcile or observe.
    pub(crate) fn new(services: PluginServices, config: Arc<str>, capabilities: Capabilities) -> Self {
        Self { services, config, capabilities: Some(capabilities), recorder: None }
    }

    /// Reports the calls of the guests, which run the code with this digest, to the recorder of all plugins, if there is one.
    pub(crate) fn recorded(self, digest: &str) -> Self {
        let version = ObservedVersion { plugin: &self.services.name, digest, config: &self.config };
        let recorder =
            self.services.recorder_factory.as_ref().and_then(|factory| factory.recorder_for(&version));
        Self { recorder, ..self }
    }

    /// Also reports the calls of the guests to this recorder.
    pub(crate) fn also_recorded_by(self, other: Arc<dyn CallRecorder>) -> Self {
        let recorder: Arc<dyn CallRecorder> = match self.recorder {
            Some(first) => Arc::new(BothRecorders(first, other)),
            None => other,
        };
        Self { recorder: Some(recorder), ..self }
    }

    /// Returns the services that all versions of the plugin share.
    pub(crate) fn services(&self) -> &PluginServices {
        &self.services
    }

    fn views(&self, call: &Call, function: &'static str) -> Result<&Views, Misuse> {
        match &self.capabilities {
            Some(capabilities) => Ok(&capabilities.views),
            None => Err(Misuse::UnavailableInCall { function, call: call.name() }),
        }
    }

    /// Logs a warning about the plugin, in its log and in the host's.
    fn warn(&self, message: &str) {
        self.services.log.host(LogLevel::Warn, format_args!("{message}"), &[]);
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_plugin::Host;

    use super::*;
    use crate::environment::{Environment, Randomness, WallClock};

    fn host(environment: Environment) -> GuestHost {
        let server = pilothouse_apiserver::ApiServer::builder().build();
        let services = PluginServices::for_test("dice", kube::Client::new(server.service(), "default"));
        GuestHost::for_describe(PluginServices { environment, ..services }, "{}".into())
    }

    #[tokio::test(start_paused = true)]
    async fn guests_see_the_time_and_the_randomness_of_the_environment() {
        let start = "2026-01-02T03:04:05Z".parse().expect("a time");
        let seeded =
            || Environment { clock: WallClock::starting_at(start), randomness: Randomness::from_seed(7) };
        let (first, second) = (host(seeded()), host(seeded()));
        let random = |host: &GuestHost| {
            let mut bytes = [0; 16];
            host.random(&mut bytes);
            bytes
        };
        assert_eq!(random(&first), random(&second));
        assert_ne!(random(&first), random(&host(Environment::default())));
        let before = first.wall_clock();
        tokio::time::advance(Duration::from_secs(7)).await;
        assert_eq!(first.wall_clock() - before, Duration::from_secs(7));
        assert_eq!(before, second.wall_clock() - Duration::from_secs(7));
    }
}
