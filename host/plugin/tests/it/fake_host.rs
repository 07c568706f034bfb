//! A fake host with objects that a test puts in, which records the calls that change something.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use pilothouse_model::{Object, ObjectKey};
use pilothouse_plugin::{
    ApiError, CacheFilter, CachePage, Call, DeleteOptions, Host, HostMemory, HostMemoryCharge,
    HostMemoryKind, IndexCursor, IndexPage, ListOptions, LivePage, LogLevel, LogLine, LogSource,
    MetricSample, Misuse, ObjectType, Patch, PluginEvent,
};

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) call: &'static str,
    pub(crate) level: LogLevel,
    pub(crate) source: LogSource,
    pub(crate) message: String,
}

/// What the API server does with a write.
#[derive(Default)]
pub(crate) enum Server {
    /// Stores the manifest and returns it.
    #[default]
    Accepts,
    /// Answers with this error.
    Refuses(ApiError),
    /// Never answers. The request holds a clone of the guard until it is dropped.
    Hangs(Arc<()>),
}

#[derive(Default)]
pub(crate) struct FakeHost {
    server: Server,
    config: Option<String>,
    objects: Mutex<BTreeMap<ObjectKey, Object>>,
    lines: Mutex<Vec<Line>>,
    calls: Mutex<Vec<String>>,
    pub(crate) host_memory: HostMemory,
    queued: Mutex<Vec<HostMemoryCharge>>,
    /// Whether searches of the cache have no end.
    is_endless: bool,
    /// The log lines that the host writes before it drops further ones; `None` for all.
    allowed_lines: Option<usize>,
    /// The lines that the caller of `log` dropped.
    pub(crate) dropped_lines: AtomicU64,
}

impl FakeHost {
    pub(crate) fn with_server(server: Server) -> Self {
        Self { server, ..Self::default() }
    }

    pub(crate) fn with_config(config: &str) -> Self {
        Self { config: Some(config.to_owned()), ..Self::default() }
    }

    /// Limits the plugin's host memory.
    pub(crate) fn with_host_memory(self, bytes: usize) -> Self {
        self.host_memory.set_limit(bytes);
        self
    }

    /// Makes the host drop the log lines after this many.
    pub(crate) fn allowing_lines(self, count: usize) -> Self {
        Self { allowed_lines: Some(count), ..self }
    }

    /// Makes searches of the cache endless.
    pub(crate) fn endless(self) -> Self {
        Self { is_endless: true, ..self }
    }

    pub(crate) fn put(&self, json: &str) {
        let object = Object::from_json(json).expect("a valid object");
        self.objects.lock().insert(object.key().clone(), object);
    }

    pub(crate) fn put_wish(&self, name: &str, wish: &str) {
        let wish = format!("{wish:?}");
        self.put(&format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","namespace":"default"}},"data":{{"wish":{wish}}}}}"#
        ));
    }

    pub(crate) fn lines(&self) -> Vec<Line> {
        self.lines.lock().clone()
    }

    pub(crate) fn messages(&self, source: LogSource) -> Vec<String> {
        self.lines().into_iter().filter(|line| line.source == source).map(|line| line.message).collect()
    }

    /// Returns all calls for the API server, the queue, Events and metrics, in order.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.calls.lock().clone()
    }

    fn record(&self, call: String) {
        self.calls.lock().push(call);
    }

    /// Returns a part of a search that finds nothing and never ends, or that there is no such index.
    fn endless_part<T>(&self, watch: &str, index: &str) -> Result<IndexPage<T>, Misuse> {
        if self.is_endless {
            return Ok(IndexPage { found: Vec::new(), next: Some(IndexCursor::default()) });
        }
        Err(Misuse::UnknownIndex { watch: watch.to_owned(), index: index.to_owned(), declared: Vec::new() })
    }

    fn check(watch: &str) -> Result<(), Misuse> {
        match watch {
            "configmaps" => Ok(()),
            _ => {
                Err(Misuse::UnknownWatch { watch: watch.to_owned(), declared: vec!["configmaps".to_owned()] })
            }
        }
    }
}

#[async_trait]
impl Host for FakeHost {
    fn config(&self) -> &str {
        self.config.as_deref().unwrap_or("{}")
    }

    fn host_memory(&self) -> HostMemory {
        self.host_memory.clone()
    }

    fn is_cached(&self, object: &Object) -> bool {
        self.objects.lock().get(object.key()).is_some_and(|cached| cached.ptr_eq(object))
    }

    fn cache_get(&self, _: &Call, watch: &str, key: &ObjectKey) -> Result<Option<Object>, Misuse> {
        Self::check(watch)?;
        Ok(self.objects.lock().get(key).cloned())
    }

    fn cache_list(&self, _: &Call, watch: &str, filter: &CacheFilter) -> Result<CachePage, Misuse> {
        Self::check(watch)?;
        let objects = self.objects.lock();
        let mut items: Vec<_> = objects
            .values()
            .filter(|object| filter.after.as_ref().is_none_or(|after| object.key() > after))
            .filter(|object| {
                filter.namespace.as_ref().is_none_or(|namespace| object.namespace() == namespace)
            })
            .filter(|object| filter.labels.matches_object(object))
            .cloned()
            .collect();
        let limit = filter.limit.unwrap_or(usize::MAX);
        if self.is_endless {
            let items: Vec<_> = objects.values().cycle().take(limit).cloned().collect();
            return Ok(CachePage { items, more: true, searched_to: None });
        }
        let more = items.len() > limit;
        items.truncate(limit);
        Ok(CachePage { items, more, searched_to: None })
    }

    fn cache_by_index(
        &self,
        _: &Call,
        watch: &str,
        index: &str,
        _: &str,
        _: &IndexCursor,
    ) -> Result<IndexPage<Object>, Misuse> {
        self.endless_part(watch, index)
    }

    fn cache_index_values(
        &self,
        _: &Call,
        watch: &str,
        index: &str,
        _: &IndexCursor,
    ) -> Result<IndexPage<String>, Misuse> {
        self.endless_part(watch, index)
    }

    fn cache_has_synced(&self, _: &Call, watch: &str) -> Result<bool, Misuse> {
        Self::check(watch).map(|()| true)
    }

    async fn client_get(
        &self,
        call: &Call,
        target: &ObjectType,
        key: &ObjectKey,
        _: &str,
    ) -> Result<Object, ApiError> {
        self.record(format!("{}: get {} {} {key}", call.name(), target.api_version, target.kind));
        // A new object and not the cache's, as always when an object comes from the server.
        let object =
            self.objects.lock().get(key).map(|cached| Object::from_json(cached.json()).expect("an object"));
        object.ok_or_else(|| ApiError::NotFound(format!("{} {key}", target.kind)))
    }

    async fn client_list(
        &self,
        call: &Call,
        target: &ObjectType,
        options: &ListOptions,
    ) -> Result<LivePage, ApiError> {
        let ListOptions { namespace, limit, .. } = options;
        self.record(format!("{}: list {} in {namespace}, at most {limit}", call.name(), target.kind));
        Ok(LivePage { items: self.objects.lock().values().cloned().collect(), next: String::new() })
    }

    async fn client_create(
        &self,
        call: &Call,
        manifest: String,
        _: &str,
        _charge: HostMemoryCharge,
    ) -> Result<Object, ApiError> {
        // A network does not answer at once.
        tokio::task::yield_now().await;
        self.record(format!("{}: create {manifest}", call.name()));
        match &self.server {
            Server::Accepts => Object::from_json(&manifest).map_err(|error| {
                ApiError::Invalid(vec![pilothouse_plugin::Cause {
                    field: String::new(),
                    reason: "FieldValueInvalid".to_owned(),
                    message: error.to_string(),
                }])
            }),
            Server::Refuses(error) => Err(error.clone()),
            Server::Hangs(guard) => {
                let _guard = guard.clone();
                std::future::pending().await
            }
        }
    }

    async fn client_update(
        &self,
        call: &Call,
        manifest: String,
        subresource: &str,
        charge: HostMemoryCharge,
    ) -> Result<Object, ApiError> {
        self.client_create(call, manifest, subresource, charge).await
    }

    async fn client_patch(
        &self,
        call: &Call,
        target: &ObjectType,
        key: &ObjectKey,
        patch: Patch,
        subresource: &str,
        _charge: HostMemoryCharge,
    ) -> Result<Object, ApiError> {
        let Patch { patch_type, body } = patch;
        let kind = &target.kind;
        self.record(format!("{}: patch {kind} {key} {subresource} {patch_type:?} {body}", call.name()));
        Err(ApiError::TooManyRequests { retry_after_ms: u32::MAX })
    }

    async fn client_delete(
        &self,
        call: &Call,
        target: &ObjectType,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        let ObjectType { api_version, kind } = target;
        self.record(format!("{}: delete {api_version} {kind} {key} {options:?}", call.name()));
        Ok(())
    }

    fn queue_add(&self, call: &Call, watch: &str, key: ObjectKey) -> Result<(), Misuse> {
        self.queue_add_after(call, watch, key, Duration::ZERO)
    }

    fn queue_add_after(
        &self,
        call: &Call,
        watch: &str,
        key: ObjectKey,
        delay: Duration,
    ) -> Result<(), Misuse> {
        Self::check(watch)?;
        let bytes = key.as_str().len();
        self.record(format!("{}: queue {watch} {key} after {delay:?}", call.name()));
        self.queued.lock().push(self.host_memory.try_charge(HostMemoryKind::QueuedKeys, bytes)?);
        Ok(())
    }

    fn publish_event(&self, call: &Call, event: PluginEvent<'_>) {
        let key = event.regarding.key();
        self.record(format!("{}: event {key} {} {}", call.name(), event.warning, event.note));
    }

    fn log(&self, call: &Call, line: LogLine<'_>) -> bool {
        let mut lines = self.lines.lock();
        lines.push(Line {
            call: call.name(),
            level: line.level,
            source: line.source,
            message: line.message.to_owned(),
        });
        self.allowed_lines.is_none_or(|allowed| lines.len() <= allowed)
    }

    fn log_dropped(&self, _: &Call, lines: u64) {
        self.dropped_lines.fetch_add(lines, Ordering::Relaxed);
    }

    fn metric(&self, call: &Call, sample: MetricSample<'_>) {
        self.record(format!("{}: {:?} {} {}", call.name(), sample.kind, sample.name, sample.value));
    }

    fn wall_clock(&self) -> Duration {
        Duration::from_secs(1_800_000_000)
    }

    fn monotonic_clock(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn random(&self, buffer: &mut [u8]) {
        buffer.fill(4);
    }
}
