//! The reflector's driver: sends the requests that the state machine asks for, decodes the responses and queues the deltas.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use pilothouse_model::{Delta, ObjectReader};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::idle::{IdleTimer, ListPace, idle_failure};
use super::joined_chunks::JoinedChunks;
use super::reuse::reuse_unchanged;
use super::server_recovery::ServerRecovery;
use super::state_machine::{Action, Input, StateMachine};
use crate::InformerKey;
use crate::decode::{
    DecodeError, EventDecoder, LineHandler, LineSplitter, ListDecoder, ObjectFormat, Prefetcher, WatchEvent,
};
use crate::delta_queue::DeltaQueue;
use crate::failure::{Failure, FailureKind, RequestName};
use crate::list_watch::{ListParams, ListWatch, WatchParams};
use crate::options::InformerOptions;
use crate::status::{InformerPhase, InformerStatus};

/// Keeps a delta queue up to date with a collection of the API server (client-go's `Reflector`). The
/// [module documentation](super) describes its state machine.
///
/// An [`InformerRegistry`](crate::InformerRegistry) runs one for each informer. To run one without a registry:
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = pilothouse_apiserver::ApiServer::builder().build();
/// # let client = kube::Client::new(server.service(), "default");
/// use std::sync::Arc;
/// use k8s_openapi::api::core::v1::Namespace;
/// use pilothouse_informer::{
///     Delta, DeltaQueue, InformerKey, InformerOptions, InformerStatus, KubeListWatch, ObjectKey, Reflector, Store,
/// };
/// use tokio_util::sync::CancellationToken;
///
/// let key = InformerKey::of::<Namespace>();
/// let store = Arc::new(Store::new());
/// let queue = Arc::new(DeltaQueue::new(Arc::clone(&store), 1024));
/// let status = tokio::sync::watch::Sender::new(InformerStatus::default());
/// let list_watch = Arc::new(KubeListWatch::new(client, key.clone()));
/// let reflector = Reflector::new(&key, list_watch, Arc::clone(&queue), &InformerOptions::default(), status);
///
/// let first = queue.pop(|delta| match delta {
///     Delta::Replaced(list) => store.replace_all(&list.items, &list.resource_version),
///     other => panic!("the first delta is a whole list, not {other:?}"),
/// });
/// let stop = CancellationToken::new();
/// tokio::select! {
///     () = reflector.run(&stop) => panic!("nobody stopped it"),
///     popped = first => assert!(popped.is_some()),
/// }
/// assert!(store.get(&ObjectKey::new("", "default")).is_some());
/// # });
/// ```
pub struct Reflector {
    list_watch: Arc<dyn ListWatch>,
    queue: Arc<DeltaQueue>,
    format: ObjectFormat,
    /// The bytes that were received of the current list, or of the last one.
    list_bytes: usize,
    /// Decodes the objects of watch events.
    reader: ObjectReader,
    options: InformerOptions,
    status: watch::Sender<InformerStatus>,
    machine: StateMachine,
    /// Deltas of the current chunk.
    deltas: Vec<Delta>,
    recovery: Option<Arc<ServerRecovery>>,
    list_name: Arc<RequestName>,
    watch_name: Arc<RequestName>,
}

impl Reflector {
    /// Creates a reflector, which reports to `status` once it runs.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the only random number of an informer without a seed")]
    pub fn new(
        key: &InformerKey,
        list_watch: Arc<dyn ListWatch>,
        queue: Arc<DeltaQueue>,
        options: &InformerOptions,
        status: watch::Sender<InformerStatus>,
    ) -> Self {
        // Informers with the same options must not retry in step with each other.
        let seed = options.seed.map_or_else(rand::random, |seed| seed ^ fixed_hash(key));
        let name =
            |verb| Arc::new(RequestName { verb, resource: key.resource.to_string(), path: key.url_path() });
        let watch_name = name("watch");
        Self {
            list_watch,
            queue,
            format: ObjectFormat::new(key, options.compression.is_some()),
            list_bytes: 0,
            reader: ObjectReader::default(),
            options: options.clone(),
            status,
            machine: StateMachine::new(options, seed, Arc::clone(&watch_name)),
            deltas: Vec::new(),
            recovery: None,
            list_name: name("list"),
            watch_name,
        }
    }

    /// Shares the server probe with other reflectors.
    pub(crate) fn with_recovery(self, recovery: Option<Arc<ServerRecovery>>) -> Self {
        Self { recovery, ..self }
    }

    /// Continues from a previous reflector that reported this status: the first list is not older than its last version.
    pub(crate) fn resuming_from(mut self, status: &InformerStatus) -> Self {
        self.machine.resume_after(status.resource_version.clone(), status.failures);
        self
    }

    /// Runs until `stop` is cancelled. Then the current request is dropped at once and nothing more is queued.
    ///
    /// # Cancellation safety
    /// Dropping the future has the same effect as cancelling `stop`.
    pub async fn run(mut self, stop: &CancellationToken) {
        let status = self.status.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.drive() => {}
        }
        status.send_modify(|status| status.phase = InformerPhase::Stopped);
    }

    async fn drive(&mut self) {
        let mut action = self.step(Input::Start);
        loop {
            self.flush().await;
            action = match action {
                Action::Wait(wait) => {
                    self.report(InformerPhase::BackingOff, |_| {});
                    self.wait(wait).await;
                    self.step(Input::Elapsed)
                }
                Action::List(params) => {
                    self.report(InformerPhase::Listing, |status| status.list_requests += 1);
                    self.list(&params).await
                }
                Action::Watch(params) => {
                    let phase = if params.send_initial_events {
                        InformerPhase::Listing
                    } else {
                        InformerPhase::Watching
                    };
                    self.report(phase, |status| status.watch_requests += 1);
                    self.watch(&params).await
                }
                // Not reached, because only `watch` reads.
                Action::Read => self.step(Input::Ended),
            };
        }
    }

    /// Waits. After a connection failure, the wait ends early when the server is back, plus a random delay that spreads the
    /// informers.
    async fn wait(&mut self, wait: Duration) {
        let resume_jitter = self.machine.resume_jitter();
        match self.recovery.as_ref().filter(|_| self.machine.is_server_unavailable()) {
            None => sleep(wait).await,
            Some(recovery) => {
                let recovered = async {
                    recovery.wait_until_back().await;
                    sleep(resume_jitter).await;
                };
                let _ = timeout(wait, recovered).await;
            }
        }
    }

    async fn list(&mut self, params: &ListParams) -> Action {
        let input = match self.read_list(params).await {
            Ok(input) => input,
            Err(failure) => Input::Failed(self.log_failure(failure, &Arc::clone(&self.list_name))),
        };
        self.step(input)
    }

    async fn read_list(&mut self, params: &ListParams) -> Result<Input, Failure> {
        let idle = self.options.idle_timeout;
        let mut pace = ListPace::start(&self.options);
        if params.continue_token.is_none() {
            self.list_bytes = 0;
        }
        let mut body =
            timeout(idle, self.list_watch.list(params)).await.map_err(|_| idle_failure(idle))??;
        let mut decoder = ListDecoder::new(self.options.max_object_bytes);
        let mut items = Vec::new();
        while let Some(chunk) = timeout(idle, body.next()).await.map_err(|_| idle_failure(idle))? {
            let (first_new, chunk) = (items.len(), chunk?);
            pace.record(&chunk)?;
            self.list_bytes += chunk.len();
            self.format.note_cache_bytes(self.list_bytes);
            decoder.feed(&chunk, &self.format, &mut items)?;
            let limit = self.options.max_list_items;
            if items.len() > limit {
                return Err(DecodeError::TooMany { limit }.into());
            }
            reuse_unchanged(self.queue.store(), &mut items[first_new..]);
        }
        Ok(Input::Page { page: decoder.finish()?, items })
    }

    async fn watch(&mut self, params: &WatchParams) -> Action {
        let idle = self.opening_timeout();
        let opened = timeout(idle, self.list_watch.watch(params)).await;
        let mut body = match opened.unwrap_or_else(|_| Err(idle_failure(idle))) {
            Ok(body) => JoinedChunks::new(body, self.queue.incoming_flag()),
            Err(failure) => return self.watch_failed(failure),
        };
        let action = self.step(Input::Opened);
        if action != Action::Read {
            return action;
        }
        self.report_state();
        let mut lines = LineSplitter::new(self.options.max_object_bytes);
        let mut idle = IdleTimer::start(self.idle_timeout());
        let mut pace = ListPace::start(&self.options);
        self.list_bytes = 0;
        loop {
            let chunk = match idle.next(&mut body, self.idle_timeout()).await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => return self.step(Input::Ended),
                Err(failure)
                    if failure.kind == FailureKind::TimedOut
                        && self.machine.verification_idle_timeout().is_some() =>
                {
                    return self.step(Input::VerificationDue);
                }
                Err(failure) => return self.watch_failed(failure),
            };
            if self.machine.is_streaming() {
                if let Err(failure) = pace.record(&chunk) {
                    return self.watch_failed(failure);
                }
                self.list_bytes += chunk.len();
            }
            match self.read_chunk(&chunk, &mut lines) {
                Ok(Action::Read) => {}
                Ok(action) => return action,
                Err(failure) => return self.watch_failed(failure),
            }
            self.flush().await;
            self.advance_queue();
            self.report_state();
        }
    }

    /// Tells the queue that it holds everything up to the last version seen, bookmarks included.
    fn advance_queue(&self) {
        if !self.machine.is_streaming()
            && let Some(version) = &self.machine.reported().last_version
        {
            self.queue.advance_to(version);
        }
    }

    /// Processes the events that the chunk completes. Stops at the first one that ends the watch.
    fn read_chunk(&mut self, chunk: &[u8], lines: &mut LineSplitter) -> Result<Action, Failure> {
        let store = self.queue.store();
        self.format.note_cache_bytes(self.list_bytes.max(store.memory_size()));
        let mut events = ChunkEvents {
            decoder: EventDecoder { format: &self.format, reader: &mut self.reader, store },
            machine: &mut self.machine,
            deltas: &mut self.deltas,
            request: &self.watch_name,
            now: Instant::now(),
            events_read: 0,
            prefetcher: Prefetcher::default(),
        };
        let result = lines.feed(chunk, &mut events);
        let events_read = events.events_read;
        self.status.send_if_modified(|status| {
            status.events += events_read;
            false
        });
        match result {
            Ok(()) => Ok(Action::Read),
            Err(StopReading::Action(action)) => Ok(action),
            Err(StopReading::Failure(error)) => Err(error.into()),
        }
    }

    fn watch_failed(&mut self, failure: Failure) -> Action {
        let failure = self.log_failure(failure, &Arc::clone(&self.watch_name));
        self.step(Input::Failed(failure))
    }

    /// Names the request in the failure and logs it.
    fn log_failure(&self, failure: Failure, request: &Arc<RequestName>) -> Failure {
        let failure = failure.in_request(request);
        match failure.kind {
            // Expected in the life of a watch.
            FailureKind::Expired | FailureKind::Connection | FailureKind::TimedOut => {
                tracing::debug!("{failure}");
            }
            FailureKind::Rejected if self.machine.is_streaming() => tracing::debug!("{failure}"),
            _ => tracing::warn!("{failure}"),
        }
        failure
    }

    /// Returns how long the body of a watch may be idle.
    fn idle_timeout(&self) -> Duration {
        match self.machine.verification_idle_timeout() {
            Some(silence) => silence.min(self.opening_timeout()),
            None => self.opening_timeout(),
        }
    }

    /// Returns how long the response head of a watch may take.
    fn opening_timeout(&self) -> Duration {
        if self.machine.is_streaming() {
            self.options.initial_events_timeout
        } else {
            self.options.idle_timeout
        }
    }

    fn step(&mut self, input: Input) -> Action {
        self.machine.step(input, Instant::now(), &mut self.deltas)
    }

    /// Queues the deltas. Nothing more is read until the queue has room for all of them (backpressure), so the queue merges
    /// none: merging would apply changes to the store in a different order than the server made them.
    async fn flush(&mut self) {
        self.queue.push_with_backpressure(self.deltas.drain(..)).await;
    }

    /// Publishes the state before a request or a wait. `update` changes the request counters.
    fn report(&self, phase: InformerPhase, update: impl FnOnce(&mut InformerStatus)) {
        let reported = self.machine.reported();
        self.status.send_modify(|status| {
            status.phase = phase;
            status.resource_version.clone_from(&reported.last_version);
            status.error.clone_from(&reported.error);
            status.failures = reported.failures;
            update(status);
        });
    }

    /// Publishes the state after a chunk. Receivers are not woken if only the version changed.
    fn report_state(&self) {
        let phase =
            if self.machine.is_streaming() { InformerPhase::Listing } else { InformerPhase::Watching };
        let reported = self.machine.reported();
        self.status.send_if_modified(|status| {
            let changed = status.phase != phase
                || status.failures != reported.failures
                || status.error.is_some() != reported.error.is_some();
            status.phase = phase;
            status.failures = reported.failures;
            status.resource_version.clone_from(&reported.last_version);
            status.error.clone_from(&reported.error);
            changed
        });
    }
}

/// Processes the events of one chunk.
struct ChunkEvents<'a> {
    decoder: EventDecoder<'a>,
    machine: &'a mut StateMachine,
    deltas: &'a mut Vec<Delta>,
    request: &'a Arc<RequestName>,
    now: Instant,
    events_read: u64,
    prefetcher: Prefetcher,
}

/// Why the rest of a chunk is not read.
enum StopReading {
    Action(Action),
    Failure(DecodeError),
}

impl From<DecodeError> for StopReading {
    fn from(error: DecodeError) -> Self {
        Self::Failure(error)
    }
}

impl ChunkEvents<'_> {
    fn step(&mut self, mut event: WatchEvent) -> Result<(), StopReading> {
        if let WatchEvent::Added(object) = &mut event
            && self.machine.is_streaming()
        {
            reuse_unchanged(self.decoder.store, std::slice::from_mut(object));
        }
        if let WatchEvent::Error(failure) = event {
            let failure = failure.in_request(self.request);
            tracing::debug!("{failure}");
            event = WatchEvent::Error(failure);
        }
        match self.machine.step(Input::Event(event), self.now, self.deltas) {
            Action::Read => Ok(()),
            action => Err(StopReading::Action(action)),
        }
    }
}

impl LineHandler for ChunkEvents<'_> {
    type Error = StopReading;

    fn read_prefix(&mut self, text: &str) -> Result<Option<usize>, StopReading> {
        let line_len = self.prefetcher.prefetch(text, &self.decoder);
        let Some((event, len)) = self.decoder.decode_first(text, line_len) else { return Ok(None) };
        self.events_read += 1;
        self.step(event)?;
        Ok(Some(len))
    }

    fn read_line(&mut self, line: &[u8]) -> Result<(), StopReading> {
        self.events_read += 1;
        let event = self.decoder.decode(line)?;
        self.step(event)
    }
}

/// Returns a hash of the key that is the same in every process.
fn fixed_hash(key: &InformerKey) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(key)
}
