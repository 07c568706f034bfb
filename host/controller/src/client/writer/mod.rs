//! Sends a plugin's writes. A key whose write has no response is held back until a live get has shown the result.
//!
//! A request cannot be recalled once it was sent, but its guest may be cut off and its version swapped out. So each write has a task of
//! its own, which continues without them and holds the key meanwhile. The outcome stays unknown, and the key is released, if the API server
//! denies the get, if no running version watches the resource, or if the name was generated (`generateName`): the response had the name.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use pilothouse_model::{ObjectKey, ResourceType};
use pilothouse_plugin::{ApiError, HostMemoryCharge, HostMemoryKind, LogLevel};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::client::fence::Fence;
use crate::client::in_flight::InFlightRequest;
use crate::client::{
    ApiClient, Discovery, Payload, ReconcileContext, WriteOutcome, parse_creation, parse_deletion,
    parse_object, parse_update,
};
use crate::explain::journal::{JournalWrite, WriteVerb};
use crate::guest_host::PluginServices;
use crate::logs::PluginLog;
use crate::runtime::queue::ReconcileKey;
use crate::trace::{OpenSpan, ReconcileTrace};

/// Timeout of a response. API servers abort a request after 60 s.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(65);
/// The delay between a request without a response and the first live get: the server may still be working on
/// it.
const FIRST_GET_DELAY: Duration = Duration::from_secs(1);
/// The maximum delay between two live gets.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);

/// What a write is charged beside its payload until its task has ended: the task, its request and its place in the queue. A server that answers
/// no write leaves a task for each.
const TASK_MEMORY: usize = 4096;

/// Sends the writes of one version of one plugin.
pub(crate) struct Writer {
    server: ApiClient,
    discovery: Discovery,
    fence: Fence,
    plugin: PluginServices,
}

/// One write.
pub(crate) struct Write {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) payload: Payload,
    pub(crate) resource: ResourceType,
    /// The object; without a name if the server generates one.
    pub(crate) key: ObjectKey,
    /// Whether the write is to a subresource.
    pub(crate) subresource: bool,
    /// The charge of the payload. `None` for a payload that the host made.
    pub(crate) charge: Option<HostMemoryCharge>,
}

impl Writer {
    pub(crate) fn new(server: ApiClient, discovery: Discovery, fence: Fence, plugin: PluginServices) -> Self {
        Self { server, discovery, fence, plugin }
    }

    /// The log of the plugin.
    pub(super) fn log(&self) -> &PluginLog {
        &self.plugin.log
    }

    /// Returns the UID of the object with this key that the plugin has written, or that its watches have; "" without one.
    pub(super) fn uid(&self, resource: &ResourceType, key: &ObjectKey) -> String {
        self.plugin.writes.uid(resource, key)
    }

    /// Sends a write on behalf of a reconcile. Returns its outcome once the plugin's own reads show it.
    ///
    /// # Cancellation safety
    /// A request that was sent continues and holds the key. A request that was not sent yet is not sent.
    pub(crate) async fn send(
        &self,
        caller: ReconcileContext<'_>,
        mut write: Write,
    ) -> Result<WriteOutcome, ApiError> {
        let ReconcileContext { item, trace } = caller;
        let flight = item.map(|item| self.plugin.queue.in_flight().begin(item));
        let (result_sender, result) = oneshot::channel();
        let task = WriteTask {
            server: self.server.clone(),
            discovery: self.discovery.clone(),
            fence: self.fence.clone(),
            plugin: self.plugin.clone(),
            item: item.cloned(),
            trace: trace.cloned(),
            _payload_charge: write.charge.take(),
            _task_charge: self.plugin.host_memory.charge(HostMemoryKind::OwnWrites, TASK_MEMORY),
            write,
            _flight: flight,
        };
        tokio::spawn(task.run(result_sender));
        let shutdown_error = |_| Err(ApiError::Unavailable("the process is stopping".to_owned()));
        result.await.unwrap_or_else(shutdown_error)
    }
}

type ResponseSender = oneshot::Sender<Result<WriteOutcome, ApiError>>;

struct WriteTask {
    server: ApiClient,
    discovery: Discovery,
    fence: Fence,
    plugin: PluginServices,
    item: Option<ReconcileKey>,
    trace: Option<Arc<ReconcileTrace>>,
    write: Write,
    /// Holds the key until the task has ended.
    _flight: Option<InFlightRequest>,
    /// Charges the payload, which outlives the guest's call.
    _payload_charge: Option<HostMemoryCharge>,
    _task_charge: HostMemoryCharge,
}

/// The outcome of a request.
enum RequestResult {
    Answered(Result<WriteOutcome, ApiError>),
    /// The write was carried out, but the response is of another kind than the object, as for the `scale`
    /// subresource.
    OtherKind(WriteOutcome),
    /// It is not known whether the write was carried out, or what the resulting object is.
    Unknown(ApiError),
}

impl RequestResult {
    /// Returns the HTTP status, 0 without a response, and the resource version of the result, "" if there is none.
    fn code_and_version(&self, method: &Method) -> (u16, &str) {
        match self {
            Self::Answered(Ok(written)) | Self::OtherKind(written) => {
                (if *method == Method::POST { 201 } else { 200 }, written.resource_version())
            }
            Self::Answered(Err(error)) => (error.status().unwrap_or_default(), ""),
            Self::Unknown(_) => (0, ""),
        }
    }
}

/// The result of a live get.
enum LiveState {
    Known(WriteOutcome),
    /// A get cannot tell: it is denied, the name is unknown, or no running version reads the object.
    Undecidable,
    Unknown(String),
}

impl WriteTask {
    async fn run(self, result_sender: ResponseSender) {
        // Checked last before sending: neither a version that was swapped out nor a guest that was cut off
        // sends anything more.
        if result_sender.is_closed() {
            return;
        }
        let Some(permit) = self.fence.enter() else {
            let replaced_error =
                ApiError::Unavailable("this version of the plugin has been replaced".to_owned());
            // The receiver may be gone, here and below.
            let _ = result_sender.send(Err(replaced_error));
            return;
        };
        // Taken before the write is sent: a response without a UID is about this object, or about one that is
        // unknown here.
        let uid = self.plugin.writes.uid(&self.write.resource, &self.write.key);
        let span = self.begin_span();
        let result = self.request(&uid, span.as_ref()).await;
        self.record_in_journal(&result);
        if let Some(span) = span {
            end_span(span, &result, &self.write.method);
        }
        match result {
            RequestResult::Answered(Ok(response @ WriteOutcome::Response(..))) => {
                let _ = result_sender.send(Ok(response));
            }
            RequestResult::Answered(Ok(written)) => {
                self.record(&written, &uid).await;
                drop(permit);
                let _ = result_sender.send(Ok(written));
            }
            RequestResult::Answered(Err(error)) => drop(result_sender.send(Err(error))),
            RequestResult::OtherKind(written) => {
                drop(permit);
                let live = self.live_state(&uid).await;
                self.resolve(live, &uid, || drop(result_sender.send(Ok(written)))).await;
            }
            RequestResult::Unknown(error) => {
                drop(permit);
                self.plugin.metrics.unknown_writes.inc();
                self.log_unknown_outcome(&error);
                let _ = result_sender.send(Err(error));
                if !self.plugin.write_guarantees {
                    return;
                }
                sleep(FIRST_GET_DELAY).await;
                let live = self.live_state(&uid).await;
                self.resolve(live, &uid, || {}).await;
            }
        }
    }

    async fn request(&self, uid: &str, span: Option<&OpenSpan>) -> RequestResult {
        let Write { method, path, payload, resource, key, .. } = &self.write;
        let plugin = self.plugin.name.to_shared();
        let server = self.server.for_plugin_request(&plugin, self.item.as_ref(), span);
        let request = server.request(method.clone(), path, Some(payload.clone()));
        match timeout(RESPONSE_TIMEOUT, request).await {
            Ok(Ok(body)) => self.read(&body, uid),
            Ok(Err(error)) if error.leaves_outcome_open() => RequestResult::Unknown(error.into_api_error()),
            Ok(Err(error)) => {
                if error.is_unknown_resource() {
                    self.discovery.invalidate(&resource.group, &resource.version);
                }
                RequestResult::Answered(Err(error.into_api_error()))
            }
            Err(_) => RequestResult::Unknown(ApiError::Unavailable(format!(
                "no response about {resource} {key} in {} s",
                RESPONSE_TIMEOUT.as_secs()
            ))),
        }
    }

    /// Begins the span of the write, if the reconcile is traced.
    fn begin_span(&self) -> Option<OpenSpan> {
        let Write { method, path, resource, .. } = &self.write;
        let mut span = self.trace.as_ref()?.request("k8s.write", method);
        span.text("url.path", path.split('?').next().unwrap_or_default());
        span.text("pilothouse.resource", &resource.to_string());
        Some(span)
    }

    fn read(&self, body: &Bytes, uid: &str) -> RequestResult {
        let Write { method, resource, key, subresource, .. } = &self.write;
        if *method == Method::POST {
            return match parse_creation(body, resource.clone(), *subresource) {
                Ok(written) => RequestResult::Answered(Ok(written)),
                Err(error) => RequestResult::Unknown(error),
            };
        }
        if *method == Method::DELETE {
            return RequestResult::Answered(Ok(match parse_deletion(body, resource.clone(), key) {
                WriteOutcome::Deleted(resource, key, response_uid) if response_uid.is_empty() => {
                    WriteOutcome::Deleted(resource, key, uid.to_owned())
                }
                written => written,
            }));
        }
        match parse_update(body, resource.clone()) {
            Ok(WriteOutcome::Object(_, object)) if object.kind() != resource.kind => {
                RequestResult::OtherKind(WriteOutcome::Object(resource.clone(), object))
            }
            Ok(written) => RequestResult::Answered(Ok(written)),
            Err(error) => RequestResult::Unknown(error),
        }
    }

    /// Repeats the live get until the outcome is known, starting with the result `live`. Calls `on_first_result` once, after that result was
    /// recorded.
    async fn resolve(&self, mut live: LiveState, uid: &str, on_first_result: impl FnOnce()) {
        if let LiveState::Known(state) = &live {
            self.record(state, uid).await;
        }
        on_first_result();
        let mut wait = FIRST_GET_DELAY;
        while let LiveState::Unknown(problem) = live {
            let (plugin, Write { resource, key, .. }) = (&self.plugin.name, &self.write);
            tracing::debug!(%plugin, %resource, %key, "the outcome of a write is not yet known: {problem}");
            sleep(wait).await;
            wait = (wait * 2).min(MAX_RETRY_DELAY);
            live = self.live_state(uid).await;
            if let LiveState::Known(state) = &live {
                self.record(state, uid).await;
            }
        }
    }

    async fn live_state(&self, uid: &str) -> LiveState {
        let Write { resource, key, .. } = &self.write;
        let writes = &self.plugin.writes;
        if key.name().is_empty() || writes.views().is_none() || !writes.covers(resource, key) {
            return LiveState::Undecidable;
        }
        // The plugin caused this request, too.
        self.plugin.rate_limiters.requests.acquire(|| ()).await;
        match timeout(RESPONSE_TIMEOUT, self.server.get(&resource.object_path(key))).await {
            Ok(Ok(Some(body))) => match parse_object(&body, resource) {
                Ok(object) => LiveState::Known(WriteOutcome::Object(resource.clone(), object)),
                Err(error) => LiveState::Unknown(error.to_string()),
            },
            Ok(Ok(None)) => {
                LiveState::Known(WriteOutcome::Deleted(resource.clone(), key.clone(), uid.to_owned()))
            }
            Ok(Err(error)) if error.is_transient() => LiveState::Unknown(error.to_string()),
            Ok(Err(error)) => {
                self.plugin.log.host(
                    LogLevel::Warn,
                    format_args!("cannot find out the outcome of a write to {resource}: {error}"),
                    &[("key", key)],
                );
                LiveState::Undecidable
            }
            Err(_) => LiveState::Unknown(format!("no response in {} s", RESPONSE_TIMEOUT.as_secs())),
        }
    }

    /// Records the new state for the plugin's reads.
    async fn record(&self, written: &WriteOutcome, uid: &str) {
        self.plugin.hot_loops.record_write(self.item.as_ref(), written);
        if !self.plugin.write_guarantees {
            return;
        }
        match self.plugin.writes.views() {
            Some(views) => views.record(written, uid).await,
            None => self.plugin.writes.record(written, uid),
        }
    }

    fn record_in_journal(&self, result: &RequestResult) {
        let Some(ReconcileKey { watch, key }) = &self.item else { return };
        let method = &self.write.method;
        let verb = match *method {
            Method::POST => WriteVerb::Create,
            Method::PUT => WriteVerb::Update,
            Method::DELETE => WriteVerb::Delete,
            _ => WriteVerb::Patch,
        };
        let (code, version) = result.code_and_version(method);
        let is_own_key = self.write.key == *key;
        let version = version.parse().unwrap_or_default();
        self.plugin.journal.record_write(watch, key, JournalWrite { verb, code, version, is_own_key });
    }

    fn log_unknown_outcome(&self, error: &ApiError) {
        let Write { method, resource, key, .. } = &self.write;
        let follows = if key.name().is_empty() {
            "its name was generated by the server, so it cannot be looked up"
        } else {
            "a live get decides before the key is reconciled again"
        };
        let reconciling = self.item.as_ref().map(|item| item.key.to_string()).unwrap_or_default();
        self.plugin.log.host(
            LogLevel::Warn,
            format_args!(
                "it is not known whether a {method} of {resource} was carried out: {error}; {follows}"
            ),
            &[("key", key), ("reconciling", &reconciling)],
        );
    }
}

/// Ends the span of a write, and remembers it if the write has produced a version that watches deliver.
fn end_span(mut span: OpenSpan, result: &RequestResult, method: &Method) {
    if let RequestResult::Answered(Ok(written)) = result {
        span.record_written(written);
    }
    let (code, version) = result.code_and_version(method);
    if let Ok(version) = version.parse::<i64>() {
        span.number("pilothouse.resource_version", version);
    }
    match code {
        0 => span.finish(None, Some("no_response")),
        code => span.finish(Some(code), None),
    }
}

#[cfg(test)]
mod tests;
