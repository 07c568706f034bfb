//! What a plugin's guests can see and do: the [`Host`] of one version of one plugin.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pilothouse_informer::Priority;
use pilothouse_model::{Object, ObjectKey};
use pilothouse_plugin::{
    ApiError, CacheFilter, CachePage, Call, DeleteOptions, Host, ListOptions, LivePage, LogLevel, LogLine,
    MetricSample, Misuse, ObjectType, Patch, PluginEvent, Reason,
};
use rand::Rng;
use tokio::time::Instant;

use crate::guest_metrics::GuestMetrics;
use crate::logs::PluginLogs;
use crate::metrics::PluginMetrics;
use crate::name::PluginName;
use crate::queue::{Item, PluginQueue};
use crate::server::{EventRecorder, LiveClient, NewEvent, Written};
use crate::views::Views;

/// What a version needs besides its watches: the same for all versions of a plugin.
#[derive(Clone)]
pub(crate) struct GuestServices {
    pub(crate) name: PluginName,
    pub(crate) queue: PluginQueue,
    pub(crate) events: EventRecorder,
    pub(crate) logs: PluginLogs,
    pub(crate) metrics: Arc<PluginMetrics>,
    pub(crate) guest_metrics: GuestMetrics,
    pub(crate) started: Instant,
}

/// The host of one version.
pub(crate) struct GuestHost {
    services: GuestServices,
    /// The sidecar's `config` as JSON.
    config: Arc<str>,
    /// Absent while the plugin describes itself or computes index values: then it may log, no more.
    granted: Option<Granted>,
}

/// What a version may use once it is described.
pub(crate) struct Granted {
    pub(crate) views: Arc<Views>,
    pub(crate) client: LiveClient,
}

impl GuestHost {
    pub(crate) fn for_describe(services: GuestServices, config: Arc<str>) -> Self {
        Self { services, config, granted: None }
    }

    pub(crate) fn new(services: GuestServices, config: Arc<str>, granted: Granted) -> Self {
        Self { services, config, granted: Some(granted) }
    }

    fn views(&self, call: &Call, function: &'static str) -> Result<&Views, Misuse> {
        match &self.granted {
            Some(granted) => Ok(&granted.views),
            None => Err(Misuse::NotNow { function, call: call.name() }),
        }
    }

    fn client(&self, call: &Call) -> Result<&LiveClient, ApiError> {
        self.granted.as_ref().map(|granted| &granted.client).ok_or_else(|| {
            ApiError::Unavailable(format!("the client is not available during {}", call.name()))
        })
    }

    /// Puts a write where the plugin's own reads find it, and gives the guest the new state.
    async fn wrote(&self, written: Written) -> Result<Object, ApiError> {
        if let Some(granted) = &self.granted {
            granted.views.record(&written).await;
        }
        match written {
            Written::Object(_, object) | Written::Ended(_, object) => Ok(object),
            Written::Deleted(_, key, _) => Err(ApiError::NotFound(format!("{key} is gone"))),
        }
    }
}

#[async_trait]
impl Host for GuestHost {
    fn config(&self) -> &str {
        &self.config
    }

    fn cache_get(&self, call: &Call, watch: &str, key: &ObjectKey) -> Result<Option<Object>, Misuse> {
        Ok(self.views(call, "cache.get")?.get(watch)?.object(key))
    }

    fn cache_list(&self, call: &Call, watch: &str, filter: &CacheFilter) -> Result<CachePage, Misuse> {
        Ok(self.views(call, "cache.list")?.get(watch)?.page(filter))
    }

    fn cache_by_index(
        &self,
        call: &Call,
        watch: &str,
        index: &str,
        value: &str,
    ) -> Result<Vec<Object>, Misuse> {
        self.views(call, "cache.by-index")?.get(watch)?.by_index(index, value)
    }

    fn cache_index_keys(
        &self,
        call: &Call,
        watch: &str,
        index: &str,
        value: &str,
    ) -> Result<Vec<ObjectKey>, Misuse> {
        self.views(call, "cache.index-keys")?.get(watch)?.index_keys(index, value)
    }

    fn cache_index_values(&self, call: &Call, watch: &str, index: &str) -> Result<Vec<String>, Misuse> {
        self.views(call, "cache.index-values")?.get(watch)?.index_values(index)
    }

    fn cache_has_synced(&self, call: &Call, watch: &str) -> Result<bool, Misuse> {
        Ok(self.views(call, "cache.has-synced")?.get(watch)?.has_synced())
    }

    async fn client_get(
        &self,
        call: &Call,
        target: &ObjectType,
        key: &ObjectKey,
        subresource: &str,
    ) -> Result<Object, ApiError> {
        self.client(call)?.get(target, key, subresource).await
    }

    async fn client_list(
        &self,
        call: &Call,
        target: &ObjectType,
        options: &ListOptions,
    ) -> Result<LivePage, ApiError> {
        self.client(call)?.list(target, options).await
    }

    async fn client_create(
        &self,
        call: &Call,
        manifest: String,
        subresource: &str,
    ) -> Result<Object, ApiError> {
        let written = self.client(call)?.create(manifest, subresource).await?;
        self.wrote(written).await
    }

    async fn client_update(
        &self,
        call: &Call,
        manifest: String,
        subresource: &str,
    ) -> Result<Object, ApiError> {
        let written = self.client(call)?.update(manifest, subresource).await?;
        self.wrote(written).await
    }

    async fn client_patch(
        &self,
        call: &Call,
        target: &ObjectType,
        key: &ObjectKey,
        patch: Patch,
        subresource: &str,
    ) -> Result<Object, ApiError> {
        let written = self.client(call)?.patch(target, key, patch, subresource).await?;
        self.wrote(written).await
    }

    async fn client_delete(
        &self,
        call: &Call,
        target: &ObjectType,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        let written = self.client(call)?.delete(target, key, options).await?;
        if let Some(granted) = &self.granted {
            granted.views.record(&written).await;
        }
        Ok(())
    }

    fn queue_add(&self, call: &Call, watch: &str, key: ObjectKey) -> Result<(), Misuse> {
        let watch = self.views(call, "queue.add")?.target(watch)?;
        self.services.queue.add(Item { watch, key }, Reason::Requeue, Priority::Normal);
        Ok(())
    }

    fn queue_add_after(
        &self,
        call: &Call,
        watch: &str,
        key: ObjectKey,
        delay: Duration,
    ) -> Result<(), Misuse> {
        let watch = self.views(call, "queue.add-after")?.target(watch)?;
        self.services.queue.add_after(Item { watch, key }, delay, Reason::Requeue);
        Ok(())
    }

    fn publish_event(&self, _: &Call, event: PluginEvent<'_>) {
        let recorded = self.services.events.record(NewEvent {
            plugin: self.services.name.to_shared(),
            regarding: event.regarding.clone(),
            warning: event.warning,
            reason: event.reason.to_owned(),
            action: event.action.to_owned(),
            note: event.note.to_owned(),
        });
        if !recorded {
            self.services.metrics.events_dropped.inc();
        }
    }

    fn log(&self, call: &Call, line: LogLine<'_>) {
        let plugin = self.services.name.as_str();
        let mut fields = line.fields.to_vec();
        if let Call::Reconcile(request) = call {
            fields.push(("watch".into(), request.watch.to_string()));
            fields.push(("key".into(), request.key.to_string()));
        }
        match call {
            Call::Observe(watch) => fields.push(("watch".into(), watch.to_string())),
            Call::IndexValues(index) => fields.push(("index".into(), index.to_string())),
            _ => {}
        }
        self.services.logs.push(plugin, line.level, line.message, &fields);
        let fields = Fields(&fields);
        // Debug formatting escapes control characters, which could otherwise forge lines on a terminal.
        let message = line.message.escape_debug();
        match line.level {
            LogLevel::Debug => tracing::debug!(target: "plugin", plugin, "{message}{fields}"),
            LogLevel::Info => tracing::info!(target: "plugin", plugin, "{message}{fields}"),
            LogLevel::Warn => tracing::warn!(target: "plugin", plugin, "{message}{fields}"),
            LogLevel::Error => tracing::error!(target: "plugin", plugin, "{message}{fields}"),
        }
    }

    fn metric(&self, _: &Call, sample: MetricSample<'_>) {
        if let Err(problem) = self.services.guest_metrics.record(&self.services.name, &sample) {
            tracing::warn!(plugin = %self.services.name, metric = sample.name, "metric not recorded: {problem}");
        }
    }

    fn monotonic_clock(&self) -> Duration {
        self.services.started.elapsed()
    }

    fn random(&self, buffer: &mut [u8]) {
        rand::rng().fill_bytes(buffer);
    }
}

/// `key=value` after a message.
struct Fields<'a>(&'a [(String, String)]);

impl std::fmt::Display for Fields<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|(key, value)| write!(f, " {}={:?}", key.escape_debug(), value))
    }
}
