//! A host that answers from a recording.

use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use pilothouse_model::{Object, ObjectKey};
use pilothouse_plugin::{
    ApiError, CacheFilter, CachePage, Call, DeleteOptions, Host, HostAnswer, HostMemoryCharge, HostRequest,
    HttpBody, HttpError, HttpTimeouts, IndexCursor, IndexPage, ListOptions, LivePage, LogLine, MetricSample,
    Misuse, ObjectType, Patch, PluginEvent,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::script::Script;

/// The guest's error for a call that has no answer.
const NO_ANSWER: &str = "the replay ends here, because the recording has no answer to this call";

/// A host that answers from the recording of one reconcile.
pub(super) struct RecordedHost {
    config: String,
    /// The time of the reconcile, for the clocks before it begins.
    now: Duration,
    state: Mutex<ReplayState>,
}

struct ReplayState {
    /// `None` until the reconcile begins. The start code of a new instance, which is not recorded, must not use up its answers.
    script: Option<Script>,
    /// For random bytes that are not recorded. The same in every replay.
    random: SmallRng,
}

impl RecordedHost {
    pub(super) fn new(config: String, now: Duration) -> Self {
        let state = ReplayState { script: None, random: SmallRng::seed_from_u64(0) };
        Self { config, now, state: Mutex::new(state) }
    }

    /// Answers from this script from now on.
    pub(super) fn begin(&self, script: Script) {
        self.state.lock().script = Some(script);
    }

    /// Ends the replay and returns its script.
    pub(super) fn end(&self) -> Option<Script> {
        self.state.lock().script.take()
    }

    /// Returns what `accept` makes of the recorded answer; `None` if there is none. An answer that `accept` refuses is of another function.
    fn answer<T>(&self, request: &HostRequest, accept: impl FnOnce(HostAnswer) -> Option<T>) -> Option<T> {
        let mut state = self.state.lock();
        let script = state.script.as_mut()?;
        let accepted = accept(script.answer(request)?);
        if accepted.is_none() {
            script.wrong_answer(request);
        }
        accepted
    }

    /// Answers a function that traps the guest if it fails.
    fn cache<T>(
        &self,
        request: &HostRequest,
        accept: impl FnOnce(HostAnswer) -> Option<T>,
    ) -> Result<T, Misuse> {
        let accept = |answer: HostAnswer| match answer {
            HostAnswer::Misuse(misuse) => Some(Err(misuse)),
            other => accept(other).map(Ok),
        };
        self.answer(request, accept)
            .unwrap_or_else(|| Err(Misuse::Recorded { message: NO_ANSWER.to_owned() }))
    }

    /// Answers a request to the API server.
    fn client<T>(
        &self,
        request: &HostRequest,
        accept: impl FnOnce(HostAnswer) -> Option<T>,
    ) -> Result<T, ApiError> {
        let accept = |answer: HostAnswer| match answer {
            HostAnswer::ApiError(error) => Some(Err(error)),
            other => accept(other).map(Ok),
        };
        self.answer(request, accept).unwrap_or_else(|| Err(ApiError::Unavailable(NO_ANSWER.to_owned())))
    }

    /// Answers a request whose answer is an object.
    fn client_object(&self, request: &HostRequest) -> Result<Object, ApiError> {
        self.client(request, |answer| answer.into_object().flatten())
    }
}

#[async_trait]
impl Host for RecordedHost {
    fn config(&self) -> &str {
        &self.config
    }

    fn cache_get(&self, _: &Call, watch: &str, key: &ObjectKey) -> Result<Option<Object>, Misuse> {
        let request = HostRequest::CacheGet { watch: watch.to_owned(), key: key.clone() };
        self.cache(&request, HostAnswer::into_object)
    }

    fn cache_list(&self, _: &Call, watch: &str, filter: &CacheFilter) -> Result<CachePage, Misuse> {
        let request = HostRequest::CacheList { watch: watch.to_owned(), filter: filter.clone() };
        self.cache(&request, HostAnswer::into_cache_page)
    }

    fn cache_by_index(
        &self,
        _: &Call,
        watch: &str,
        index: &str,
        value: &str,
        from: &IndexCursor,
    ) -> Result<IndexPage<Object>, Misuse> {
        let request = HostRequest::CacheByIndex {
            watch: watch.to_owned(),
            index: index.to_owned(),
            value: value.to_owned(),
            from: from.clone(),
        };
        self.cache(&request, HostAnswer::into_objects)
    }

    fn cache_index_keys(
        &self,
        _: &Call,
        watch: &str,
        index: &str,
        value: &str,
        from: &IndexCursor,
    ) -> Result<IndexPage<ObjectKey>, Misuse> {
        let request = HostRequest::CacheIndexKeys {
            watch: watch.to_owned(),
            index: index.to_owned(),
            value: value.to_owned(),
            from: from.clone(),
        };
        self.cache(&request, HostAnswer::into_keys)
    }

    fn cache_index_values(
        &self,
        _: &Call,
        watch: &str,
        index: &str,
        from: &IndexCursor,
    ) -> Result<IndexPage<String>, Misuse> {
        let request = HostRequest::CacheIndexValues {
            watch: watch.to_owned(),
            index: index.to_owned(),
            from: from.clone(),
        };
        self.cache(&request, HostAnswer::into_values)
    }

    fn cache_has_synced(&self, _: &Call, watch: &str) -> Result<bool, Misuse> {
        let request = HostRequest::CacheHasSynced { watch: watch.to_owned() };
        self.cache(&request, HostAnswer::into_has_synced)
    }

    async fn client_get(
        &self,
        _: &Call,
        target: &ObjectType,
        key: &ObjectKey,
        subresource: &str,
    ) -> Result<Object, ApiError> {
        let subresource = subresource.to_owned();
        self.client_object(&HostRequest::ClientGet { target: target.clone(), key: key.clone(), subresource })
    }

    async fn client_list(
        &self,
        _: &Call,
        target: &ObjectType,
        options: &ListOptions,
    ) -> Result<LivePage, ApiError> {
        let request = HostRequest::ClientList { target: target.clone(), options: options.clone() };
        self.client(&request, HostAnswer::into_live_page)
    }

    async fn client_create(
        &self,
        _: &Call,
        manifest: String,
        subresource: &str,
        _: HostMemoryCharge,
    ) -> Result<Object, ApiError> {
        self.client_object(&HostRequest::ClientCreate { manifest, subresource: subresource.to_owned() })
    }

    async fn client_update(
        &self,
        _: &Call,
        manifest: String,
        subresource: &str,
        _: HostMemoryCharge,
    ) -> Result<Object, ApiError> {
        self.client_object(&HostRequest::ClientUpdate { manifest, subresource: subresource.to_owned() })
    }

    async fn client_patch(
        &self,
        _: &Call,
        target: &ObjectType,
        key: &ObjectKey,
        patch: Patch,
        subresource: &str,
        _: HostMemoryCharge,
    ) -> Result<Object, ApiError> {
        self.client_object(&HostRequest::ClientPatch {
            target: target.clone(),
            key: key.clone(),
            patch,
            subresource: subresource.to_owned(),
        })
    }

    async fn client_delete(
        &self,
        _: &Call,
        target: &ObjectType,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        let request =
            HostRequest::ClientDelete { target: target.clone(), key: key.clone(), options: options.clone() };
        self.client(&request, HostAnswer::into_nothing)
    }

    fn queue_add(&self, _: &Call, watch: &str, key: ObjectKey) -> Result<(), Misuse> {
        self.cache(&HostRequest::QueueAdd { watch: watch.to_owned(), key }, HostAnswer::into_nothing)
    }

    fn queue_add_after(&self, _: &Call, watch: &str, key: ObjectKey, delay: Duration) -> Result<(), Misuse> {
        self.cache(
            &HostRequest::QueueAddAfter { watch: watch.to_owned(), key, delay },
            HostAnswer::into_nothing,
        )
    }

    fn publish_event(&self, _: &Call, event: PluginEvent<'_>) {
        let request = HostRequest::PublishEvent {
            regarding: event.regarding.clone(),
            warning: event.warning,
            reason: event.reason.to_owned(),
            action: event.action.to_owned(),
            note: event.note.to_owned(),
        };
        self.answer(&request, HostAnswer::into_nothing);
    }

    fn log(&self, _: &Call, _: LogLine<'_>) -> bool {
        true
    }

    fn metric(&self, _: &Call, _: MetricSample<'_>) {}

    async fn http_send(
        &self,
        _: &Call,
        request: http::Request<HttpBody>,
        _: &HttpTimeouts,
    ) -> Result<http::Response<HttpBody>, HttpError> {
        // Reconciles with HTTP requests are not replayed, so this is one that the recorded reconcile did not send.
        let request =
            HostRequest::HttpSend { method: request.method().to_string(), url: request.uri().to_string() };
        self.answer(&request, |_| None::<()>);
        Err(HttpError::Denied("a replay sends no HTTP requests".to_owned()))
    }

    fn wall_clock(&self) -> Duration {
        self.state.lock().script.as_mut().map_or(self.now, Script::wall_clock)
    }

    fn monotonic_clock(&self) -> Duration {
        self.state.lock().script.as_mut().map_or(Duration::ZERO, Script::monotonic_clock)
    }

    fn random(&self, buffer: &mut [u8]) {
        let mut state = self.state.lock();
        let is_recorded = state.script.as_mut().is_some_and(|script| script.random(buffer));
        if !is_recorded {
            state.random.fill_bytes(buffer);
        }
    }
}
