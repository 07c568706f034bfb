//! A host that reports the calls of its functions.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pilothouse_model::{Object, ObjectKey};

use super::{HostAnswer, HostCall, HostRequest, RecordedInstance};
use crate::{
    ApiError, CacheFilter, CachePage, Call, DeleteOptions, Host, HostMemory, HostMemoryCharge, HttpBody,
    HttpError, HttpTimeouts, IndexCursor, IndexPage, ListOptions, LivePage, LogLine, MetricSample, Misuse,
    ObjectType, Patch, PluginEvent,
};

/// Passes all calls on to another host, and reports them.
pub(super) struct RecordingHost {
    pub(super) inner: Arc<dyn Host>,
    pub(super) instance: Arc<RecordedInstance>,
}

#[async_trait]
impl Host for RecordingHost {
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
