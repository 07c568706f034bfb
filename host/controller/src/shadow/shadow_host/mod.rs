//! The host of a shadow: reads get the answers of the running version, and writes are compared instead of sent.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use pilothouse_model::{Object, ObjectKey};
use pilothouse_plugin::{
    ApiError, CacheFilter, CachePage, Call, DeleteOptions, Host, HostAnswer, HostMemory, HostMemoryCharge,
    HostRequest, HttpBody, HttpError, HttpTimeouts, IndexCursor, IndexPage, ListOptions, LivePage, LogLine,
    MetricSample, Misuse, ObjectType, Patch, PluginEvent,
};

use super::script::{ReadAnswer, ShadowScript};
use super::watch_names::WatchNames;

/// The error that the guest gets once the comparison is over.
const ENDED: &str = "the comparison with the running version is over";

/// The host of one reconcile of a shadow.
pub(super) struct ShadowHost {
    /// The host of the running version. It answers what that version did not read.
    running: Arc<dyn Host>,
    /// What the shadow's guest makes the host keep. Not the account of the running version: if that were full because of the shadow, the
    /// running version's calls would fail.
    memory: HostMemory,
    watches: Arc<WatchNames>,
    /// `None` until the reconcile begins: the start code of a new instance must not use up the answers.
    script: Mutex<Option<ShadowScript>>,
}

impl ShadowHost {
    pub(super) fn new(running: Arc<dyn Host>, watches: Arc<WatchNames>) -> Self {
        let memory = HostMemory::new(running.host_memory().limit());
        Self { running, memory, watches, script: Mutex::new(None) }
    }

    /// Follows this script from now on.
    pub(super) fn begin(&self, script: ShadowScript) {
        *self.script.lock() = Some(script);
    }

    /// Returns the script at the end of the reconcile.
    pub(super) fn end(&self) -> Option<ShadowScript> {
        self.script.lock().take()
    }

    fn read(&self, request: &HostRequest) -> ReadAnswer {
        self.script.lock().as_mut().map_or(ReadAnswer::Ended, |script| script.read(request))
    }

    /// Answers a read that traps the guest if it fails. `accept` takes the recorded answer, and `otherwise` reads.
    fn cache<T>(
        &self,
        request: &HostRequest,
        accept: impl FnOnce(HostAnswer) -> Option<T>,
        otherwise: impl FnOnce() -> Result<T, Misuse>,
    ) -> Result<T, Misuse> {
        match self.read(request) {
            ReadAnswer::Recorded(HostAnswer::Misuse(misuse)) => Err(misuse),
            ReadAnswer::Recorded(answer) => accept(answer).map_or_else(otherwise, Ok),
            ReadAnswer::Unknown => {
                let result = otherwise();
                if matches!(result, Err(Misuse::ReadForbidden { .. })) {
                    self.skip();
                }
                result
            }
            ReadAnswer::Ended => Err(Misuse::Recorded { message: ENDED.to_owned() }),
        }
    }

    /// Ends the comparison, because a call cannot get the answer that it would get in the running version.
    fn skip(&self) {
        if let Some(script) = self.script.lock().as_mut() {
            script.skip();
        }
    }

    /// Ends the comparison if a request has failed for a reason that the running version did not meet. A refused request may be granted once
    /// the new version runs, because the grants are those that the running version declares.
    fn skip_if_not_comparable<T>(&self, result: &Result<T, ApiError>) {
        let is_skipped = matches!(
            result,
            Err(ApiError::Unavailable(_)
                | ApiError::TooManyRequests { .. }
                | ApiError::Forbidden(_)
                | ApiError::Denied(_))
        );
        if is_skipped {
            self.skip();
        }
    }

    /// Returns the recorded answer of a request to the API server; `None` if it must be sent.
    fn client<T>(
        &self,
        request: &HostRequest,
        accept: impl FnOnce(HostAnswer) -> Option<T>,
    ) -> Option<Result<T, ApiError>> {
        match self.read(request) {
            ReadAnswer::Recorded(HostAnswer::ApiError(error)) => Some(Err(error)),
            ReadAnswer::Recorded(answer) => accept(answer).map(Ok),
            ReadAnswer::Unknown => None,
            ReadAnswer::Ended => Some(Err(ended())),
        }
    }

    /// Compares a write. Returns the answer that the running version got.
    fn write(&self, request: &HostRequest) -> Result<HostAnswer, ApiError> {
        match self.script.lock().as_mut().and_then(|script| script.write(request)) {
            Some(HostAnswer::ApiError(error)) => Err(error),
            Some(answer) => Ok(answer),
            None => Err(ended()),
        }
    }

    /// Compares a write whose answer is an object.
    fn write_object(&self, request: &HostRequest) -> Result<Object, ApiError> {
        self.write(request)?.into_object().flatten().ok_or_else(ended)
    }
}

fn ended() -> ApiError {
    ApiError::Unavailable(ENDED.to_owned())
}

#[async_trait]
impl Host for ShadowHost {
    fn config(&self) -> &str {
        self.running.config()
    }

    fn host_memory(&self) -> HostMemory {
        self.memory.clone()
    }

    fn is_cached(&self, object: &Object) -> bool {
        self.running.is_cached(object)
    }

    fn cache_get(&self, call: &Call, watch: &str, key: &ObjectKey) -> Result<Option<Object>, Misuse> {
        let request = HostRequest::CacheGet { watch: watch.to_owned(), key: key.clone() };
        self.cache(&request, HostAnswer::into_object, || self.running.cache_get(call, watch, key))
    }

    fn cache_list(&self, call: &Call, watch: &str, filter: &CacheFilter) -> Result<CachePage, Misuse> {
        let request = HostRequest::CacheList { watch: watch.to_owned(), filter: filter.clone() };
        self.cache(&request, HostAnswer::into_cache_page, || self.running.cache_list(call, watch, filter))
    }

    fn cache_by_index(
        &self,
        call: &Call,
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
        self.cache(&request, HostAnswer::into_objects, || {
            self.running.cache_by_index(call, watch, index, value, from)
        })
    }

    fn cache_index_keys(
        &self,
        call: &Call,
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
        self.cache(&request, HostAnswer::into_keys, || {
            self.running.cache_index_keys(call, watch, index, value, from)
        })
    }

    fn cache_index_values(
        &self,
        call: &Call,
        watch: &str,
        index: &str,
        from: &IndexCursor,
    ) -> Result<IndexPage<String>, Misuse> {
        let request = HostRequest::CacheIndexValues {
            watch: watch.to_owned(),
            index: index.to_owned(),
            from: from.clone(),
        };
        self.cache(&request, HostAnswer::into_values, || {
            self.running.cache_index_values(call, watch, index, from)
        })
    }

    fn cache_has_synced(&self, call: &Call, watch: &str) -> Result<bool, Misuse> {
        let request = HostRequest::CacheHasSynced { watch: watch.to_owned() };
        self.cache(&request, HostAnswer::into_has_synced, || self.running.cache_has_synced(call, watch))
    }

    async fn client_get(
        &self,
        call: &Call,
        target: &ObjectType,
        key: &ObjectKey,
        subresource: &str,
    ) -> Result<Object, ApiError> {
        let request = HostRequest::ClientGet {
            target: target.clone(),
            key: key.clone(),
            subresource: subresource.to_owned(),
        };
        let recorded = self.client(&request, |answer| answer.into_object().flatten());
        match recorded {
            Some(result) => result,
            None => {
                let result = self.running.client_get(call, target, key, subresource).await;
                self.skip_if_not_comparable(&result);
                result
            }
        }
    }

    async fn client_list(
        &self,
        call: &Call,
        target: &ObjectType,
        options: &ListOptions,
    ) -> Result<LivePage, ApiError> {
        let request = HostRequest::ClientList { target: target.clone(), options: options.clone() };
        let recorded = self.client(&request, HostAnswer::into_live_page);
        match recorded {
            Some(result) => result,
            None => {
                let result = self.running.client_list(call, target, options).await;
                self.skip_if_not_comparable(&result);
                result
            }
        }
    }

    async fn client_create(
        &self,
        _: &Call,
        manifest: String,
        subresource: &str,
        _: HostMemoryCharge,
    ) -> Result<Object, ApiError> {
        self.write_object(&HostRequest::ClientCreate { manifest, subresource: subresource.to_owned() })
    }

    async fn client_update(
        &self,
        _: &Call,
        manifest: String,
        subresource: &str,
        _: HostMemoryCharge,
    ) -> Result<Object, ApiError> {
        self.write_object(&HostRequest::ClientUpdate { manifest, subresource: subresource.to_owned() })
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
        self.write_object(&HostRequest::ClientPatch {
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
        let (target, key, options) = (target.clone(), key.clone(), options.clone());
        self.write(&HostRequest::ClientDelete { target, key, options }).map(drop)
    }

    fn queue_add(&self, _: &Call, watch: &str, _: ObjectKey) -> Result<(), Misuse> {
        self.watches.check_target(watch)
    }

    fn queue_add_after(&self, _: &Call, watch: &str, _: ObjectKey, _: Duration) -> Result<(), Misuse> {
        self.watches.check_target(watch)
    }

    fn publish_event(&self, _: &Call, _: PluginEvent<'_>) {}

    fn log(&self, _: &Call, _: LogLine<'_>) -> bool {
        true
    }

    fn metric(&self, _: &Call, _: MetricSample<'_>) {}

    async fn http_send(
        &self,
        _: &Call,
        _: http::Request<HttpBody>,
        _: &HttpTimeouts,
    ) -> Result<http::Response<HttpBody>, HttpError> {
        self.skip();
        Err(HttpError::Denied("a shadow sends no HTTP requests".to_owned()))
    }

    fn wall_clock(&self) -> Duration {
        let recorded = self.script.lock().as_mut().and_then(ShadowScript::wall_clock);
        recorded.unwrap_or_else(|| self.running.wall_clock())
    }

    fn monotonic_clock(&self) -> Duration {
        self.running.monotonic_clock()
    }

    fn random(&self, buffer: &mut [u8]) {
        let is_recorded = self.script.lock().as_mut().is_some_and(|script| script.random(buffer));
        if !is_recorded {
            self.running.random(buffer);
        }
    }
}

#[cfg(test)]
mod tests;
