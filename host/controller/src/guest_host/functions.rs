//! The functions that guests import, for a running host.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pilothouse_informer::Priority;
use pilothouse_model::{Object, ObjectKey};
use pilothouse_plugin::{
    ApiError, CacheFilter, CachePage, Call, CallRecorder, DeleteOptions, Host, HostMemory, HostMemoryCharge,
    HostMemoryKind, HttpBody, HttpError, HttpTimeouts, IndexCursor, IndexPage, ListOptions, LivePage,
    LogLine, LogSource, MetricSample, Misuse, ObjectType, Patch, PluginEvent, Reason,
};
use tokio::time::Instant;

use super::reconcile_context::{self, OwnedReconcileContext};
use super::traced_http::send_traced;
use super::{Capabilities, GuestHost, PluginServices};
use crate::cache::views::{INDEX_STEP, PAGE_STEP};
use crate::client::{LiveClient, NewEvent, WriteOutcome};
use crate::config::limits::PluginLimits;
use crate::runtime::queue::ReconcileKey;

impl GuestHost {
    /// Waits until the plugin may send a request, and returns the client. The wait counts towards the call's time limit.
    async fn client(&self, call: &Call) -> Result<&LiveClient, ApiError> {
        let Some(capabilities) = &self.capabilities else {
            let name = call.name();
            return Err(ApiError::Unavailable(format!("the client is not available during {name}")));
        };
        let on_wait = || {
            self.services.metrics.throttled.inc();
            if capabilities.logged_excesses.requests_waited.try_acquire(Instant::now()) {
                let PluginLimits { client_qps, client_burst, .. } = capabilities.plugin_limits;
                self.warn(&format!(
                    "requests wait: limits.clientQps is {client_qps}, limits.clientBurst {client_burst}"
                ));
            }
        };
        self.services.rate_limiters.requests.acquire(on_wait).await;
        match capabilities.views.access.operator_suspension() {
            None => Ok(&capabilities.client),
            Some(reason) => Err(ApiError::Unavailable(reason)),
        }
    }

    /// Queues a key for a guest.
    fn enqueue(
        &self,
        call: &Call,
        function: &'static str,
        watch: &str,
        key: ObjectKey,
        delay: Duration,
    ) -> Result<(), Misuse> {
        let views = self.views(call, function)?;
        let watch = views.target(watch)?;
        let is_cached = views.get(&watch)?.object(&key).is_some();
        let (queue, item) = (&self.services.queue, ReconcileKey { watch, key });
        match (is_cached, delay) {
            (true, Duration::ZERO) => queue.add(item, Reason::Requeue, Priority::Normal),
            (true, delay) => queue.add_after(item, delay, Reason::Requeue),
            (false, delay) => queue.add_uncached(item, delay, Reason::Requeue, Priority::Normal)?,
        }
        Ok(())
    }

    /// Counts a write that the API server has accepted, if a change led to the call.
    fn record_write(&self, call: &Call) {
        if let Call::Reconcile(request) = call
            && let Some(event_at) = request.event_at
        {
            let labels = reconcile_context::trace(call).and_then(|trace| trace.sampled_labels());
            self.services.metrics.event_to_write.observe(event_at.elapsed().as_secs_f64(), labels, None);
        }
    }
}

#[async_trait]
impl Host for GuestHost {
    fn config(&self) -> &str {
        &self.config
    }

    fn call_recorder(&self) -> Option<Arc<dyn CallRecorder>> {
        self.recorder.clone()
    }

    fn host_memory(&self) -> HostMemory {
        self.services.host_memory.clone()
    }

    fn is_cached(&self, object: &Object) -> bool {
        self.capabilities.as_ref().is_some_and(|capabilities| capabilities.views.has_cached(object))
    }

    fn cache_get(&self, call: &Call, watch: &str, key: &ObjectKey) -> Result<Option<Object>, Misuse> {
        Ok(self.views(call, "cache.get")?.readable(watch)?.object(key))
    }

    fn cache_list(&self, call: &Call, watch: &str, filter: &CacheFilter) -> Result<CachePage, Misuse> {
        Ok(self.views(call, "cache.list")?.readable(watch)?.page(filter, PAGE_STEP))
    }

    fn cache_by_index(
        &self,
        call: &Call,
        watch: &str,
        index: &str,
        value: &str,
        from: &IndexCursor,
    ) -> Result<IndexPage<Object>, Misuse> {
        let view = self.views(call, "cache.by-index")?.readable(watch)?;
        with_watch_name(watch, view.by_index(index, value, from, INDEX_STEP))
    }

    fn cache_index_keys(
        &self,
        call: &Call,
        watch: &str,
        index: &str,
        value: &str,
        from: &IndexCursor,
    ) -> Result<IndexPage<ObjectKey>, Misuse> {
        let view = self.views(call, "cache.index-keys")?.readable(watch)?;
        with_watch_name(watch, view.index_keys(index, value, from, INDEX_STEP))
    }

    fn cache_index_values(
        &self,
        call: &Call,
        watch: &str,
        index: &str,
        from: &IndexCursor,
    ) -> Result<IndexPage<String>, Misuse> {
        let view = self.views(call, "cache.index-values")?.readable(watch)?;
        with_watch_name(watch, view.index_values(index, from, INDEX_STEP))
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
        let (client, origin) = (self.client(call).await?, OwnedReconcileContext::of(call));
        client.get(origin.caller(), target, key, subresource).await
    }

    async fn client_list(
        &self,
        call: &Call,
        target: &ObjectType,
        options: &ListOptions,
    ) -> Result<LivePage, ApiError> {
        let (client, origin) = (self.client(call).await?, OwnedReconcileContext::of(call));
        client.list(origin.caller(), target, options).await
    }

    async fn client_create(
        &self,
        call: &Call,
        manifest: String,
        subresource: &str,
        charge: HostMemoryCharge,
    ) -> Result<Object, ApiError> {
        let (client, origin) = (self.client(call).await?, OwnedReconcileContext::of(call));
        let written = client.create(origin.caller(), manifest, subresource, Some(charge)).await?;
        self.record_write(call);
        state(written)
    }

    async fn client_update(
        &self,
        call: &Call,
        manifest: String,
        subresource: &str,
        charge: HostMemoryCharge,
    ) -> Result<Object, ApiError> {
        let (client, origin) = (self.client(call).await?, OwnedReconcileContext::of(call));
        let written = client.update(origin.caller(), manifest, subresource, Some(charge)).await?;
        self.record_write(call);
        state(written)
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
        let (client, origin) = (self.client(call).await?, OwnedReconcileContext::of(call));
        let written = client.patch(origin.caller(), target, key, patch, subresource, Some(charge)).await?;
        self.record_write(call);
        state(written)
    }

    async fn client_delete(
        &self,
        call: &Call,
        target: &ObjectType,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        let (client, origin) = (self.client(call).await?, OwnedReconcileContext::of(call));
        client.delete(origin.caller(), target, key, options).await?;
        self.record_write(call);
        Ok(())
    }

    fn queue_add(&self, call: &Call, watch: &str, key: ObjectKey) -> Result<(), Misuse> {
        self.enqueue(call, "queue.add", watch, key, Duration::ZERO)
    }

    fn queue_add_after(
        &self,
        call: &Call,
        watch: &str,
        key: ObjectKey,
        delay: Duration,
    ) -> Result<(), Misuse> {
        self.enqueue(call, "queue.add-after", watch, key, delay)
    }

    fn publish_event(&self, _: &Call, event: PluginEvent<'_>) {
        if let Some(Capabilities { plugin_limits, logged_excesses, views, .. }) = &self.capabilities {
            if views.access.is_suspended() {
                self.services.metrics.events_dropped.inc();
                return;
            }
            let now = Instant::now();
            let is_too_fast = self.services.rate_limiters.events.lock().take(now).is_err();
            if is_too_fast {
                self.services.metrics.events_dropped.inc();
                if logged_excesses.events_dropped.try_acquire(now) {
                    let allowed = plugin_limits.events_per_second;
                    self.warn(&format!("Events are dropped: limits.eventsPerSecond is {allowed}"));
                }
                return;
            }
        }
        let event = NewEvent {
            plugin: self.services.name.to_shared(),
            regarding: event.regarding.clone(),
            warning: event.warning,
            reason: event.reason.to_owned(),
            action: event.action.to_owned(),
            note: event.note.to_owned(),
        };
        if !self.services.events.record_charged(event, &self.services.host_memory) {
            self.services.metrics.events_dropped.inc();
        }
    }

    fn log(&self, call: &Call, line: LogLine<'_>) -> bool {
        let trace_id = match call {
            Call::Reconcile(_) => reconcile_context::trace(call).and_then(|trace| trace.sampled_id()),
            _ => None,
        };
        let mut context: Vec<(&str, &dyn Display)> = Vec::with_capacity(3);
        match call {
            Call::Reconcile(request) => {
                context.push(("watch", &request.watch));
                context.push(("key", &request.key));
            }
            Call::Observe(watch) => context.push(("watch", watch)),
            Call::IndexValues(index) => context.push(("index", index)),
            _ => {}
        }
        if let Some(trace_id) = &trace_id {
            context.push(("trace_id", trace_id));
        }
        let log = &self.services.log;
        match line.source {
            LogSource::Host => {
                log.host(line.level, format_args!("{}", line.message), &context);
                true
            }
            source => log.guest(source, line.level, line.message, &context, line.fields.to_vec()),
        }
    }

    fn log_dropped(&self, _: &Call, lines: u64) {
        self.services.log.count_dropped(lines);
    }

    fn metric(&self, _: &Call, sample: MetricSample<'_>) {
        let Some(Capabilities { plugin_limits, logged_excesses, .. }) = &self.capabilities else { return };
        let PluginServices { name, guest_metrics, metrics, .. } = &self.services;
        match guest_metrics.record(name, &sample, plugin_limits.metric_series) {
            // What there may be of it is bounded by the number of series.
            Ok(added) => self.services.host_memory.add(HostMemoryKind::Metrics, added),
            Err(problem) => {
                metrics.metrics_refused.inc();
                if logged_excesses.record_metric_problem(sample.name, &problem) {
                    self.warn(&format!("metric {:?} not recorded: {problem}", sample.name));
                }
            }
        }
    }

    async fn http_send(
        &self,
        call: &Call,
        request: http::Request<HttpBody>,
        timeouts: &HttpTimeouts,
    ) -> Result<http::Response<HttpBody>, HttpError> {
        match &self.capabilities {
            Some(capabilities) => match reconcile_context::trace(call) {
                Some(trace) => send_traced(&capabilities.http, &trace, request, timeouts).await,
                None => capabilities.http.send(request, timeouts).await,
            },
            None => Err(HttpError::UnavailableInCall { call: call.name() }),
        }
    }

    fn http_request_finished(&self, _: &Call, result: Result<http::StatusCode, &HttpError>) {
        self.services.metrics.http.count(result);
    }

    fn wall_clock(&self) -> Duration {
        self.services.environment.clock.since_epoch()
    }

    fn monotonic_clock(&self) -> Duration {
        self.services.started.elapsed()
    }

    fn random(&self, buffer: &mut [u8]) {
        self.services.environment.randomness.fill(buffer);
    }
}

/// Returns the new state that a write produced. Errors if the object does not exist any more.
fn state(written: WriteOutcome) -> Result<Object, ApiError> {
    match written {
        WriteOutcome::Object(_, object)
        | WriteOutcome::Finalized(_, object)
        | WriteOutcome::Response(_, object) => Ok(object),
        WriteOutcome::Deleted(_, key, _) => Err(ApiError::NotFound(format!("{key} is gone"))),
    }
}

/// Sets the watch's name in an error of its view, which knows only the resource.
fn with_watch_name<T>(watch: &str, result: Result<T, Misuse>) -> Result<T, Misuse> {
    result.map_err(|misuse| match misuse {
        Misuse::UnknownIndex { index, declared, .. } => {
            Misuse::UnknownIndex { watch: watch.to_owned(), index, declared }
        }
        other => other,
    })
}
