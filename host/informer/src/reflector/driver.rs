use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use pilothouse_model::{Delta, ObjectReader};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::idle::{IdleTimer, idle_failure};
use super::state_machine::{Action, Input, StateMachine};
use super::recovery::ServerRecovery;
use super::reuse::reuse_unchanged;
use crate::InformerKey;
use crate::decode::{
    Prefetcher, DecodeError, EventDecoder, LineSplitter, ListDecoder, ObjectFormat, LineHandler, WatchEvent,
};
use crate::delta_queue::DeltaQueue;
use crate::failure::{Failure, FailureKind, RequestName};
use crate::list_watch::{ListParams, ListWatch, WatchParams};
use crate::options::InformerOptions;
use crate::status::{InformerPhase, InformerStatus};

/// Keeps a delta queue up to date with a collection of the API server (client-go's `Reflector`). See the
/// [module documentation](super) for what it does when.
///
/// An [`InformerRegistry`](crate::InformerRegistry) runs one for each informer. By itself:
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = pilothouse_apiserver::ApiServer::builder().build();
/// # let client = kube::Client::new(server.service(), "default");
/// use std::sync::Arc;
/// use pilothouse_informer::{
///     DeltaQueue, InformerKey, InformerOptions, InformerStatus, KubeListWatch, Reflector, Store,
/// };
/// use pilothouse_model::{Delta, ObjectKey, ResourceType};
/// use tokio_util::sync::CancellationToken;
///
/// let key = InformerKey::new(ResourceType {
///     group: String::new(), version: "v1".into(), kind: "Namespace".into(), plural: "namespaces".into(), namespaced: false,
/// });
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
    /// What the events of the watch are like.
    reader: ObjectReader,
    options: InformerOptions,
    status: watch::Sender<InformerStatus>,
    machine: StateMachine,
    /// Deltas of the chunk being read.
    deltas: Vec<Delta>,
    recovery: Option<Arc<ServerRecovery>>,
    list_name: Arc<RequestName>,
    watch_name: Arc<RequestName>,
}

impl Reflector {
    /// A reflector that has not started. It reports to `status`.
    #[must_use]
    pub fn new(
        key: &InformerKey,
        list_watch: Arc<dyn ListWatch>,
        queue: Arc<DeltaQueue>,
        options: &InformerOptions,
        status: watch::Sender<InformerStatus>,
    ) -> Self {
        let seed = options.seed.unwrap_or_else(rand::random);
        let name =
            |verb| Arc::new(RequestName { verb, resource: key.resource.to_string(), path: key.url_path() });
        let watch_name = name("watch");
        Self {
            list_watch,
            queue,
            format: ObjectFormat::new(key),
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

    /// Shares the probe of the server with other reflectors.
    pub(crate) fn with_recovery(self, recovery: Option<Arc<ServerRecovery>>) -> Self {
        Self { recovery, ..self }
    }

    /// The same, going on after another reflector that reported this status: its first list is not older.
    pub(crate) fn resuming_from(mut self, status: &InformerStatus) -> Self {
        self.machine.resume_after(status.resource_version.clone(), status.failures);
        self
    }

    /// Runs until `stop` is cancelled; then the request under way is dropped at once and nothing more is queued (B08).
    ///
    /// # Cancellation safety
    /// Dropping the future is as good as cancelling `stop`.
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
                Action::Read => self.step(Input::Ended),
            };
        }
    }

    /// Waits, but after a connection failure only until the server is back, and a drawn moment that spreads the informers.
    async fn wait(&mut self, wait: Duration) {
        let resume_jitter = self.machine.resume_jitter();
        match self.recovery.as_ref().filter(|_| self.machine.is_server_unavailable()) {
            None => sleep(wait).await,
            Some(recovery) => {
                let is_back = async {
                    recovery.wait_until_back().await;
                    sleep(resume_jitter).await;
                };
                // Whichever comes first.
                let _ = timeout(wait, is_back).await;
            }
        }
    }

    async fn list(&mut self, params: &ListParams) -> Action {
        let input = match self.read_list(params).await {
            Ok(input) => input,
            Err(failure) => Input::Failed(self.failed(failure, &Arc::clone(&self.list_name))),
        };
        self.step(input)
    }

    async fn read_list(&self, params: &ListParams) -> Result<Input, Failure> {
        let idle = self.options.idle_timeout;
        let mut body = timeout(idle, self.list_watch.list(params)).await.map_err(|_| idle_failure(idle))??;
        let mut decoder = ListDecoder::new(self.options.max_object_bytes);
        let mut items = Vec::new();
        while let Some(chunk) = timeout(idle, body.next()).await.map_err(|_| idle_failure(idle))? {
            let known = items.len();
            decoder.feed(&chunk?, &self.format, &mut items)?;
            let limit = self.options.max_list_items;
            if items.len() > limit {
                return Err(DecodeError::TooMany { limit }.into());
            }
            reuse_unchanged(self.queue.store(), &mut items[known..]);
        }
        Ok(Input::Page { page: decoder.finish()?, items })
    }

    async fn watch(&mut self, params: &WatchParams) -> Action {
        let idle = self.opening_timeout();
        let opened = timeout(idle, self.list_watch.watch(params)).await;
        let mut body = match opened.unwrap_or_else(|_| Err(idle_failure(idle))) {
            Ok(body) => body,
            Err(failure) => return self.watch_failed(failure),
        };
        let action = self.step(Input::Opened);
        if action != Action::Read {
            return action;
        }
        self.report_state();
        let mut lines = LineSplitter::new(self.options.max_object_bytes);
        let mut idle = IdleTimer::start(self.idle_timeout());
        loop {
            let chunk = match idle.next(&mut body, self.idle_timeout()).await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => return self.step(Input::Ended),
                Err(failure)
                    if failure.kind == FailureKind::TimedOut && self.machine.verification_timeout().is_some() =>
                {
                    return self.step(Input::VerificationDue);
                }
                Err(failure) => return self.watch_failed(failure),
            };
            match self.read_chunk(&chunk, &mut lines) {
                Ok(Action::Read) => {}
                Ok(action) => return action,
                Err(failure) => return self.watch_failed(failure),
            }
            self.flush().await;
            self.advance();
            self.report_state();
        }
    }

    /// What was read so far is in the queue: with that, the store is at the last version seen, bookmarks included.
    fn advance(&self) {
        if !self.machine.is_streaming()
            && let Some(version) = &self.machine.reported().last_version
        {
            self.queue.advance_to(version);
        }
    }

    /// Steps through the events that the chunk completes; stops at the first that ends the watch.
    fn read_chunk(&mut self, chunk: &[u8], lines: &mut LineSplitter) -> Result<Action, Failure> {
        let store = self.queue.store();
        let mut events = ChunkEvents {
            decoder: EventDecoder { format: &self.format, reader: &mut self.reader, store },
            machine: &mut self.machine,
            deltas: &mut self.deltas,
            request: &self.watch_name,
            now: Instant::now(),
            count: 0,
            prefetcher: Prefetcher::default(),
        };
        let result = lines.feed(chunk, &mut events);
        let count = events.count;
        self.status.send_if_modified(|status| {
            status.events += count;
            false
        });
        match result {
            Ok(()) => Ok(Action::Read),
            Err(StopReading::Action(action)) => Ok(action),
            Err(StopReading::Failure(error)) => Err(error.into()),
        }
    }

    fn watch_failed(&mut self, failure: Failure) -> Action {
        let failure = self.failed(failure, &Arc::clone(&self.watch_name));
        self.step(Input::Failed(failure))
    }

    fn failed(&self, failure: Failure, request: &Arc<RequestName>) -> Failure {
        let failure = failure.in_request(request);
        match failure.kind {
            // Part of the life of a watch.
            FailureKind::Expired | FailureKind::Connection | FailureKind::TimedOut => {
                tracing::debug!("{failure}");
            }
            FailureKind::Rejected if self.machine.is_streaming() => tracing::debug!("{failure}"),
            _ => tracing::warn!("{failure}"),
        }
        failure
    }

    /// How long the body of a watch may be silent.
    fn idle_timeout(&self) -> Duration {
        match self.machine.verification_timeout() {
            Some(silence) => silence.min(self.opening_timeout()),
            None => self.opening_timeout(),
        }
    }

    /// How long a watch may take to be answered.
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

    /// Backpressure: nothing more is read until the queue has had room for what was. Nothing is merged there either, which
    /// would give the store the changes in another order than the server made them.
    async fn flush(&mut self) {
        self.queue.push_with_backpressure(self.deltas.drain(..)).await;
    }

    fn report(&self, phase: InformerPhase, count: impl FnOnce(&mut InformerStatus)) {
        let reported = self.machine.reported();
        self.status.send_modify(|status| {
            status.phase = phase;
            status.resource_version.clone_from(&reported.last_version);
            status.error.clone_from(&reported.error);
            status.failures = reported.failures;
            count(status);
        });
    }

    /// After each chunk. Those who wait for changes are not woken for a version alone.
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

/// Steps through the events of a chunk.
struct ChunkEvents<'a> {
    decoder: EventDecoder<'a>,
    machine: &'a mut StateMachine,
    deltas: &'a mut Vec<Delta>,
    request: &'a Arc<RequestName>,
    now: Instant,
    /// How many were read.
    count: u64,
    prefetcher: Prefetcher,
}

/// Why no more events of a chunk are read.
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
        self.prefetcher.prefetch(text, &self.decoder);
        let Some((event, len)) = self.decoder.decode_first(text) else { return Ok(None) };
        self.prefetcher.record_length(len);
        self.count += 1;
        self.step(event)?;
        Ok(Some(len))
    }

    fn read_line(&mut self, line: &[u8]) -> Result<(), StopReading> {
        self.count += 1;
        let event = self.decoder.decode(line)?;
        self.step(event)
    }
}
