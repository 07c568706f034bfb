//! What stands behind a plugin while it describes itself for a check.

use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_model::ObjectKey;
use pilothouse_plugin::{
    ApiError, CacheFilter, CachePage, Call, DeleteOptions, Host, ListOptions, LivePage, LogLine,
    MetricSample, Misuse, ObjectType, Patch, PluginEvent,
};
use rand::Rng;
use tokio::time::Instant;

/// A host with nothing behind it: a plugin that describes itself may log, no more.
pub(super) struct NothingHost {
    config: String,
    lines: Mutex<Vec<String>>,
    started: Instant,
}

impl NothingHost {
    pub(super) fn new(config: String) -> Arc<Self> {
        Arc::new(Self { config, lines: Mutex::default(), started: Instant::now() })
    }

    /// What the plugin logged so far.
    pub(super) fn lines(&self) -> Vec<String> {
        self.lines.lock().clone()
    }

    fn misuse<T>(call: &Call, function: &'static str) -> Result<T, Misuse> {
        Err(Misuse::NotNow { function, call: call.name() })
    }

    fn unavailable<T>() -> Result<T, ApiError> {
        Err(ApiError::Unavailable("there is no API server while a plugin is checked".into()))
    }
}

#[async_trait::async_trait]
impl Host for NothingHost {
    fn config(&self) -> &str {
        &self.config
    }

    fn cache_get(
        &self,
        call: &Call,
        _: &str,
        _: &ObjectKey,
    ) -> Result<Option<pilothouse_model::Object>, Misuse> {
        Self::misuse(call, "cache.get")
    }

    fn cache_list(&self, call: &Call, _: &str, _: &CacheFilter) -> Result<CachePage, Misuse> {
        Self::misuse(call, "cache.list")
    }

    fn cache_by_index(
        &self,
        call: &Call,
        _: &str,
        _: &str,
        _: &str,
    ) -> Result<Vec<pilothouse_model::Object>, Misuse> {
        Self::misuse(call, "cache.by-index")
    }

    fn cache_index_values(&self, call: &Call, _: &str, _: &str) -> Result<Vec<String>, Misuse> {
        Self::misuse(call, "cache.index-values")
    }

    fn cache_has_synced(&self, call: &Call, _: &str) -> Result<bool, Misuse> {
        Self::misuse(call, "cache.has-synced")
    }

    async fn client_get(
        &self,
        _: &Call,
        _: &ObjectType,
        _: &ObjectKey,
        _: &str,
    ) -> Result<pilothouse_model::Object, ApiError> {
        Self::unavailable()
    }

    async fn client_list(&self, _: &Call, _: &ObjectType, _: &ListOptions) -> Result<LivePage, ApiError> {
        Self::unavailable()
    }

    async fn client_create(
        &self,
        _: &Call,
        _: String,
        _: &str,
    ) -> Result<pilothouse_model::Object, ApiError> {
        Self::unavailable()
    }

    async fn client_update(
        &self,
        _: &Call,
        _: String,
        _: &str,
    ) -> Result<pilothouse_model::Object, ApiError> {
        Self::unavailable()
    }

    async fn client_patch(
        &self,
        _: &Call,
        _: &ObjectType,
        _: &ObjectKey,
        _: Patch,
        _: &str,
    ) -> Result<pilothouse_model::Object, ApiError> {
        Self::unavailable()
    }

    async fn client_delete(
        &self,
        _: &Call,
        _: &ObjectType,
        _: &ObjectKey,
        _: &DeleteOptions,
    ) -> Result<(), ApiError> {
        Self::unavailable()
    }

    fn queue_add(&self, call: &Call, _: &str, _: ObjectKey) -> Result<(), Misuse> {
        Self::misuse(call, "queue.add")
    }

    fn queue_add_after(
        &self,
        call: &Call,
        _: &str,
        _: ObjectKey,
        _: std::time::Duration,
    ) -> Result<(), Misuse> {
        Self::misuse(call, "queue.add-after")
    }

    fn publish_event(&self, _: &Call, _: PluginEvent<'_>) {}

    fn log(&self, _: &Call, line: LogLine<'_>) {
        self.lines.lock().push(line.message.to_owned());
    }

    fn metric(&self, _: &Call, _: MetricSample<'_>) {}

    fn monotonic_clock(&self) -> std::time::Duration {
        self.started.elapsed()
    }

    fn random(&self, buffer: &mut [u8]) {
        rand::rng().fill_bytes(buffer);
    }
}
