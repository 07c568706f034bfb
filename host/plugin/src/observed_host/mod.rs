//! Observes guests: what they are called with, what they ask the host, what it answers, and what they return.
//!
//! A [`Host`] that returns a recorder from [`Host::call_recorder`] has all calls of its instances observed. Without one, nothing is copied
//! and no host is wrapped.

mod canonical;
mod guest_call;
mod host_call;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use pilothouse_model::{Object, ObjectKey};

pub use guest_call::{GuestCall, GuestResult};
pub use host_call::{HostAnswer, HostCall, HostRequest};

use crate::{
    ApiError, CacheFilter, CachePage, Call, DeleteOptions, Host, HostMemory, HostMemoryCharge, HttpBody,
    HttpError, HttpTimeouts, IndexCursor, IndexPage, ListOptions, LivePage, LogLine, MetricSample, Misuse,
    ObjectType, Patch, PluginEvent,
};

/// Records the calls of the guests of one version. One value serves all instances, from several threads at once.
pub trait CallRecorder: Send + Sync + 'static {
    /// Called at the beginning of each call of a guest. `None` if that call need not be recorded.
    fn begin(&self, call: GuestCall) -> Option<Box<dyn GuestCallRecorder>>;
}

/// Records one call of a guest. It is dropped without [`end`](Self::end) if the call is abandoned.
///
/// The functions run on the guest's thread, so they must neither wait nor compute for long.
pub trait GuestCallRecorder: Send {
    /// Called after each call of a host function, in the order in which the functions returned. HTTP requests of a guest overlap with its
    /// other calls, so their place in that order means nothing.
    fn host_call(&mut self, call: HostCall);

    /// Called once at the end of the guest's call.
    fn end(self: Box<Self>, result: GuestResult);
}

/// The recorder of one instance; empty if the instance is not observed.
pub(crate) struct InstanceRecorder(Option<Arc<ObservedInstance>>);

struct ObservedInstance {
    recorder: Arc<dyn CallRecorder>,
    running: Mutex<RunningCall>,
}

/// The running call. An instance serves one call at a time.
#[derive(Default)]
struct RunningCall {
    /// The number of calls that have begun. An HTTP request may end after the call that it belongs to, when the next one runs already.
    number: u64,
    /// `None` if the call is not observed.
    recorder: Option<Box<dyn GuestCallRecorder>>,
}

impl InstanceRecorder {
    /// Creates the recorder of a new instance of this host.
    pub(crate) fn of(host: &dyn Host) -> Self {
        Self(
            host.call_recorder()
                .map(|recorder| Arc::new(ObservedInstance { recorder, running: Mutex::default() })),
        )
    }

    /// Returns the host that the instance is to use.
    pub(crate) fn wrap(&self, inner: Arc<dyn Host>) -> Arc<dyn Host> {
        match &self.0 {
            Some(instance) => Arc::new(ObservedHost { inner, instance: Arc::clone(instance) }),
            None => inner,
        }
    }

    /// Begins a call of the guest.
    pub(crate) fn begin(&self, call: impl FnOnce() -> GuestCall) -> ObservedGuestCall {
        let Some(instance) = &self.0 else { return ObservedGuestCall(None) };
        let recorder = instance.recorder.begin(call());
        let mut running = instance.running.lock();
        *running = RunningCall { number: running.number + 1, recorder };
        drop(running);
        ObservedGuestCall(Some(Arc::clone(instance)))
    }
}

/// A running call of a guest. Dropping this without [`end`](Self::end) abandons the call.
pub(crate) struct ObservedGuestCall(Option<Arc<ObservedInstance>>);

impl ObservedGuestCall {
    /// Ends the call.
    pub(crate) fn end(self, result: impl FnOnce() -> GuestResult) {
        let running = self.0.as_ref().and_then(|instance| instance.running.lock().recorder.take());
        if let Some(running) = running {
            running.end(result());
        }
    }
}

impl Drop for ObservedGuestCall {
    fn drop(&mut self) {
        if let Some(instance) = &self.0 {
            // Dropped after the lock was released.
            let running = instance.running.lock().recorder.take();
            drop(running);
        }
    }
}

impl ObservedInstance {
    /// Reports a call that has returned.
    fn report(&self, call: impl FnOnce() -> HostCall) {
        if let Some(recorder) = &mut self.running.lock().recorder {
            recorder.host_call(call());
        }
    }

    /// Begins a call that waits for its answer.
    fn begin(&self, request: impl FnOnce() -> HostRequest) -> WaitingCall<'_> {
        let running = self.running.lock();
        let (number, is_observed) = (running.number, running.recorder.is_some());
        drop(running);
        WaitingCall { instance: self, number, request: is_observed.then(request) }
    }
}

/// A call of a host function that waits for its answer. The guest's time limit may drop it.
struct WaitingCall<'a> {
    instance: &'a ObservedInstance,
    /// The guest's call that it belongs to.
    number: u64,
    /// `None` once the call was reported, and if it is not observed.
    request: Option<HostRequest>,
}

impl WaitingCall<'_> {
    fn end(mut self, answer: impl FnOnce() -> HostAnswer) {
        self.report(answer);
    }

    /// Reports the call, unless it was reported, or the guest's call that it belongs to has ended.
    fn report(&mut self, answer: impl FnOnce() -> HostAnswer) {
        let Some(request) = self.request.take() else { return };
        let mut running = self.instance.running.lock();
        let is_same = running.number == self.number;
        if let Some(recorder) = running.recorder.as_mut().filter(|_| is_same) {
            recorder.host_call(HostCall { request, answer: answer() });
        }
    }
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        self.report(|| HostAnswer::Abandoned);
    }
}

/// Passes all calls on to another host, and reports them.
struct ObservedHost {
    inner: Arc<dyn Host>,
    instance: Arc<ObservedInstance>,
}

#[async_trait]
impl Host for ObservedHost {
    fn config(&self) -> &str {
        self.inner.config()
    }

    fn host_memory(&self) -> HostMemory {
        self.inner.host_memory()
    }

    fn is_cached(&self, object: &Object) -> bool {
        self.inner.is_cached(object)
    }

    fn cache_get(&self, call: &Call, watch: &str, key: &ObjectKey) -> Result<Option<Object>, Misuse> {
        let result = self.inner.cache_get(call, watch, key);
        self.instance.report(|| HostCall {
            request: HostRequest::CacheGet { watch: watch.to_owned(), key: key.clone() },
            answer: HostAnswer::of_cache(&result, HostAnswer::Object),
        });
        result
    }

    fn cache_list(&self, call: &Call, watch: &str, filter: &CacheFilter) -> Result<CachePage, Misuse> {
        let result = self.inner.cache_list(call, watch, filter);
        self.instance.report(|| HostCall {
            request: HostRequest::CacheList { watch: watch.to_owned(), filter: filter.clone() },
            answer: HostAnswer::of_cache(&result, HostAnswer::CachePage),
        });
        result
    }

    fn cache_by_index(
        &self,
        call: &Call,
        watch: &str,
        index: &str,
        value: &str,
        from: &IndexCursor,
    ) -> Result<IndexPage<Object>, Misuse> {
        let result = self.inner.cache_by_index(call, watch, index, value, from);
        self.instance.report(|| HostCall {
            request: HostRequest::CacheByIndex {
                watch: watch.to_owned(),
                index: index.to_owned(),
                value: value.to_owned(),
                from: from.clone(),
            },
            answer: HostAnswer::of_cache(&result, HostAnswer::Objects),
        });
        result
    }

    fn cache_index_keys(
        &self,
        call: &Call,
        watch: &str,
        index: &str,
        value: &str,
        from: &IndexCursor,
    ) -> Result<IndexPage<ObjectKey>, Misuse> {
        let result = self.inner.cache_index_keys(call, watch, index, value, from);
        self.instance.report(|| HostCall {
            request: HostRequest::CacheIndexKeys {
                watch: watch.to_owned(),
                index: index.to_owned(),
                value: value.to_owned(),
                from: from.clone(),
            },
            answer: HostAnswer::of_cache(&result, HostAnswer::Keys),
        });
        result
    }

    fn cache_index_values(
        &self,
        call: &Call,
        watch: &str,
        index: &str,
        from: &IndexCursor,
    ) -> Result<IndexPage<String>, Misuse> {
        let result = self.inner.cache_index_values(call, watch, index, from);
        self.instance.report(|| HostCall {
            request: HostRequest::CacheIndexValues {
                watch: watch.to_owned(),
                index: index.to_owned(),
                from: from.clone(),
            },
            answer: HostAnswer::of_cache(&result, HostAnswer::Values),
        });
        result
    }

    fn cache_has_synced(&self, call: &Call, watch: &str) -> Result<bool, Misuse> {
        let result = self.inner.cache_has_synced(call, watch);
        self.instance.report(|| HostCall {
            request: HostRequest::CacheHasSynced { watch: watch.to_owned() },
            answer: HostAnswer::of_cache(&result, HostAnswer::HasSynced),
        });
        result
    }

    async fn client_get(
        &self,
        call: &Call,
        target: &ObjectType,
        key: &ObjectKey,
        subresource: &str,
    ) -> Result<Object, ApiError> {
        let waiting = self.instance.begin(|| HostRequest::ClientGet {
            target: target.clone(),
            key: key.clone(),
            subresource: subresource.to_owned(),
        });
        let result = self.inner.client_get(call, target, key, subresource).await;
        waiting.end(|| HostAnswer::of_client(&result, |object| HostAnswer::Object(Some(object))));
        result
    }

    async fn client_list(
        &self,
        call: &Call,
        target: &ObjectType,
        options: &ListOptions,
    ) -> Result<LivePage, ApiError> {
        let waiting = self
            .instance
            .begin(|| HostRequest::ClientList { target: target.clone(), options: options.clone() });
        let result = self.inner.client_list(call, target, options).await;
        waiting.end(|| HostAnswer::of_client(&result, HostAnswer::LivePage));
        result
    }

    async fn client_create(
        &self,
        call: &Call,
        manifest: String,
        subresource: &str,
        charge: HostMemoryCharge,
    ) -> Result<Object, ApiError> {
        let waiting = self.instance.begin(|| HostRequest::ClientCreate {
            manifest: manifest.clone(),
            subresource: subresource.to_owned(),
        });
        let result = self.inner.client_create(call, manifest, subresource, charge).await;
        waiting.end(|| HostAnswer::of_client(&result, |object| HostAnswer::Object(Some(object))));
        result
    }

    async fn client_update(
        &self,
        call: &Call,
        manifest: String,
        subresource: &str,
        charge: HostMemoryCharge,
    ) -> Result<Object, ApiError> {
        let waiting = self.instance.begin(|| HostRequest::ClientUpdate {
            manifest: manifest.clone(),
            subresource: subresource.to_owned(),
        });
        let result = self.inner.client_update(call, manifest, subresource, charge).await;
        waiting.end(|| HostAnswer::of_client(&result, |object| HostAnswer::Object(Some(object))));
        result
    }

    async fn client_patch(
        &self,
        call: &Call,
        target: &ObjectType,
        key: &ObjectKey,
        patch: Patch,
        subresource: &str,
        charge: HostMemoryCharge,
    ) -> Result<Object, ApiError> {
        let waiting = self.instance.begin(|| HostRequest::ClientPatch {
            target: target.clone(),
            key: key.clone(),
            patch: patch.clone(),
            subresource: subresource.to_owned(),
        });
        let result = self.inner.client_patch(call, target, key, patch, subresource, charge).await;
        waiting.end(|| HostAnswer::of_client(&result, |object| HostAnswer::Object(Some(object))));
        result
    }

    async fn client_delete(
        &self,
        call: &Call,
        target: &ObjectType,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        let waiting = self.instance.begin(|| HostRequest::ClientDelete {
            target: target.clone(),
            key: key.clone(),
            options: options.clone(),
        });
        let result = self.inner.client_delete(call, target, key, options).await;
        waiting.end(|| HostAnswer::of_client(&result, |()| HostAnswer::Nothing));
        result
    }

    fn queue_add(&self, call: &Call, watch: &str, key: ObjectKey) -> Result<(), Misuse> {
        let result = self.inner.queue_add(call, watch, key.clone());
        self.instance.report(|| HostCall {
            request: HostRequest::QueueAdd { watch: watch.to_owned(), key },
            answer: HostAnswer::of_cache(&result, |()| HostAnswer::Nothing),
        });
        result
    }

    fn queue_add_after(
        &self,
        call: &Call,
        watch: &str,
        key: ObjectKey,
        delay: Duration,
    ) -> Result<(), Misuse> {
        let result = self.inner.queue_add_after(call, watch, key.clone(), delay);
        self.instance.report(|| HostCall {
            request: HostRequest::QueueAddAfter { watch: watch.to_owned(), key, delay },
            answer: HostAnswer::of_cache(&result, |()| HostAnswer::Nothing),
        });
        result
    }

    fn publish_event(&self, call: &Call, event: PluginEvent<'_>) {
        self.inner.publish_event(call, event);
        self.instance.report(|| HostCall {
            request: HostRequest::PublishEvent {
                regarding: event.regarding.clone(),
                warning: event.warning,
                reason: event.reason.to_owned(),
                action: event.action.to_owned(),
                note: event.note.to_owned(),
            },
            answer: HostAnswer::Nothing,
        });
    }

    fn log(&self, call: &Call, line: LogLine<'_>) -> bool {
        let is_written = self.inner.log(call, line);
        self.instance.report(|| HostCall {
            request: HostRequest::Log {
                level: line.level,
                source: line.source,
                message: line.message.to_owned(),
                fields: line.fields.to_vec(),
            },
            answer: HostAnswer::Nothing,
        });
        is_written
    }

    fn log_dropped(&self, call: &Call, lines: u64) {
        self.inner.log_dropped(call, lines);
    }

    fn metric(&self, call: &Call, sample: MetricSample<'_>) {
        self.inner.metric(call, sample);
        self.instance.report(|| HostCall {
            request: HostRequest::Metric {
                kind: sample.kind,
                name: sample.name.to_owned(),
                labels: sample.labels.to_vec(),
                value: sample.value,
            },
            answer: HostAnswer::Nothing,
        });
    }

    async fn http_send(
        &self,
        call: &Call,
        request: http::Request<HttpBody>,
        timeouts: &HttpTimeouts,
    ) -> Result<http::Response<HttpBody>, HttpError> {
        let waiting = self.instance.begin(|| HostRequest::HttpSend {
            method: request.method().to_string(),
            url: request.uri().to_string(),
        });
        let result = self.inner.http_send(call, request, timeouts).await;
        let status = result.as_ref().map(http::Response::status);
        waiting.end(|| HostAnswer::of_http(status));
        result
    }

    fn http_request_finished(&self, call: &Call, result: Result<http::StatusCode, &HttpError>) {
        self.inner.http_request_finished(call, result);
    }

    fn wall_clock(&self) -> Duration {
        let time = self.inner.wall_clock();
        self.instance.report(|| HostCall { request: HostRequest::WallClock, answer: HostAnswer::Time(time) });
        time
    }

    fn monotonic_clock(&self) -> Duration {
        let time = self.inner.monotonic_clock();
        self.instance
            .report(|| HostCall { request: HostRequest::MonotonicClock, answer: HostAnswer::Time(time) });
        time
    }

    fn random(&self, buffer: &mut [u8]) {
        self.inner.random(buffer);
        self.instance.report(|| HostCall {
            request: HostRequest::Random { length: buffer.len() },
            answer: HostAnswer::Random(buffer.to_vec()),
        });
    }
}

#[cfg(test)]
mod tests;
