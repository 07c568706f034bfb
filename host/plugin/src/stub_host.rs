//! A host without an API server or caches, for describing, measuring and fuzzing plugins.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use pilothouse_model::{Object, ObjectKey};
use rand::Rng;
use tokio::time::Instant;

use crate::{
    ApiError, CacheFilter, CachePage, Call, CallRecorder, DeleteOptions, Host, HostMemoryCharge, IndexCursor,
    IndexPage, ListOptions, LivePage, LogLine, MetricSample, Misuse, ObjectType, Patch, PluginEvent,
};

/// A [`Host`] without an API server or caches, for `describe`, and for measuring and fuzzing guests.
///
/// Reads of the cache and additions to the queue trap in every call, as they do during `describe`. With [`with_object`](Self::with_object)
/// they succeed instead.
pub struct StubHost {
    config: String,
    object: Option<Object>,
    repeatable: bool,
    recorder: Option<Arc<dyn CallRecorder>>,
    lines: Mutex<Vec<String>>,
    started: Instant,
}

impl StubHost {
    /// Maximum number of log lines that are kept, so that a guest that runs for long takes no memory here.
    const MAX_LINES: usize = 1_000;

    /// Creates a host with this configuration, as JSON text.
    #[must_use]
    pub fn new(config: impl Into<String>) -> Self {
        Self {
            config: config.into(),
            object: None,
            repeatable: false,
            recorder: None,
            lines: Mutex::default(),
            started: Instant::now(),
        }
    }

    /// Makes this object the only one of every watch, and lets the queue accept every key.
    #[must_use]
    pub fn with_object(self, object: Object) -> Self {
        Self { object: Some(object), ..self }
    }

    /// Stops the clocks and makes the random bytes constant, so that runs are repeatable.
    #[must_use]
    pub fn repeatable(self) -> Self {
        Self { repeatable: true, ..self }
    }

    /// Reports all calls of guests to this recorder.
    #[must_use]
    pub fn recorded_by(self, recorder: Arc<dyn CallRecorder>) -> Self {
        Self { recorder: Some(recorder), ..self }
    }

    /// Returns the lines that the plugin logged so far.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().clone()
    }

    /// Returns the object. Errors if there is none.
    fn read(&self, call: &Call, function: &'static str) -> Result<&Object, Misuse> {
        self.object.as_ref().ok_or_else(|| Misuse::UnavailableInCall { function, call: call.name() })
    }
}

fn unavailable<T>() -> Result<T, ApiError> {
    Err(ApiError::Unavailable("this host has no API server: the plugin runs only for a trial".to_owned()))
}

#[async_trait]
impl Host for StubHost {
    fn config(&self) -> &str {
        &self.config
    }

    fn call_recorder(&self) -> Option<Arc<dyn CallRecorder>> {
        self.recorder.clone()
    }

    fn cache_get(&self, call: &Call, _: &str, key: &ObjectKey) -> Result<Option<Object>, Misuse> {
        let object = self.read(call, "cache.get")?;
        Ok((object.key() == key).then(|| object.clone()))
    }

    fn cache_list(&self, call: &Call, _: &str, _: &CacheFilter) -> Result<CachePage, Misuse> {
        Ok(CachePage { items: vec![self.read(call, "cache.list")?.clone()], ..CachePage::default() })
    }

    fn cache_by_index(
        &self,
        call: &Call,
        _: &str,
        _: &str,
        _: &str,
        _: &IndexCursor,
    ) -> Result<IndexPage<Object>, Misuse> {
        self.read(call, "cache.by-index").map(|_| IndexPage::default())
    }

    fn cache_index_values(
        &self,
        call: &Call,
        _: &str,
        _: &str,
        _: &IndexCursor,
    ) -> Result<IndexPage<String>, Misuse> {
        self.read(call, "cache.index-values").map(|_| IndexPage::default())
    }

    fn cache_has_synced(&self, call: &Call, _: &str) -> Result<bool, Misuse> {
        self.read(call, "cache.has-synced").map(|_| true)
    }

    async fn client_get(&self, _: &Call, _: &ObjectType, _: &ObjectKey, _: &str) -> Result<Object, ApiError> {
        unavailable()
    }

    async fn client_list(&self, _: &Call, _: &ObjectType, _: &ListOptions) -> Result<LivePage, ApiError> {
        unavailable()
    }

    async fn client_create(
        &self,
        _: &Call,
        _: String,
        _: &str,
        _: HostMemoryCharge,
    ) -> Result<Object, ApiError> {
        unavailable()
    }

    async fn client_update(
        &self,
        _: &Call,
        _: String,
        _: &str,
        _: HostMemoryCharge,
    ) -> Result<Object, ApiError> {
        unavailable()
    }

    async fn client_patch(
        &self,
        _: &Call,
        _: &ObjectType,
        _: &ObjectKey,
        _: Patch,
        _: &str,
        _: HostMemoryCharge,
    ) -> Result<Object, ApiError> {
        unavailable()
    }

    async fn client_delete(
        &self,
        _: &Call,
        _: &ObjectType,
        _: &ObjectKey,
        _: &DeleteOptions,
    ) -> Result<(), ApiError> {
        unavailable()
    }

    fn queue_add(&self, call: &Call, _: &str, _: ObjectKey) -> Result<(), Misuse> {
        self.read(call, "queue.add").map(drop)
    }

    fn queue_add_after(&self, call: &Call, _: &str, _: ObjectKey, _: Duration) -> Result<(), Misuse> {
        self.read(call, "queue.add-after").map(drop)
    }

    fn publish_event(&self, _: &Call, _: PluginEvent<'_>) {}

    fn log(&self, _: &Call, line: LogLine<'_>) -> bool {
        let mut lines = self.lines.lock();
        let is_written = lines.len() < Self::MAX_LINES;
        if is_written {
            lines.push(line.message.to_owned());
        }
        is_written
    }

    fn metric(&self, _: &Call, _: MetricSample<'_>) {}

    #[expect(clippy::disallowed_methods, reason = "commands and benchmarks without a host run in real time")]
    fn wall_clock(&self) -> Duration {
        if self.repeatable {
            return Duration::from_secs(1_800_000_000);
        }
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
    }

    fn monotonic_clock(&self) -> Duration {
        if self.repeatable { Duration::from_secs(1) } else { self.started.elapsed() }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "commands and benchmarks without a host have no other source"
    )]
    fn random(&self, buffer: &mut [u8]) {
        if self.repeatable { buffer.fill(4) } else { rand::rng().fill_bytes(buffer) }
    }
}
