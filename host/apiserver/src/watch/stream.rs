//! The stream of a watch.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::encoder::{EventEncoder, error_line};
use super::options::{WatchOptions, WatchStart};
use crate::registry::Endpoint;
use crate::request::{Selection, View};
use crate::state::State;
use crate::status::Status;
use crate::storage::{Event, StoredObject, Table, WatchCut};

/// The maximum number of events read from the history at a time.
const BATCH_SIZE: usize = 256;

/// How long before the timeout of the watch the last bookmark is sent, as in Kubernetes.
const LAST_BOOKMARK_LEAD: Duration = Duration::from_secs(2);

struct Watch {
    table: Arc<Table>,
    encoder: EventEncoder,
    /// The endpoint, if a webhook converts objects to its version.
    converting: Option<Arc<Endpoint>>,
    initial: VecDeque<Arc<StoredObject>>,
    /// Whether `initial` must be converted.
    initial_unconverted: bool,
    /// Whether the bookmark after the initial events remains to be sent.
    initial_bookmark: bool,
    /// Serialized events to send next.
    ready: VecDeque<Bytes>,
    /// Everything up to this revision has been sent or is in `ready`.
    position: u64,
    changed: Receiver<u64>,
    bookmarks: bool,
    bookmark_interval: Duration,
    next_bookmark: Instant,
    deadline: Instant,
    cut: Arc<WatchCut>,
    /// Whether a fault keeps watches of the table from sending anything.
    frozen: Receiver<bool>,
    /// Whether `frozen` must be checked before the next line. A lock per line would slow down many watches.
    check_frozen: bool,
    shutdown: CancellationToken,
    closed: CancellationToken,
    /// Whether the table was closed: the watch sends the remaining events and ends.
    closing: bool,
    /// Whether the watch failed: it sends what is in `ready` and ends.
    failed: bool,
}

/// Starts a watch. Each item of the stream is one line.
///
/// A watch that cannot start sends an ERROR event, like Kubernetes' watch cache: 410 if the history does not reach back to
/// the start, 504 if the start is a future revision.
pub(crate) fn watch(
    state: &State,
    endpoint: &Arc<Endpoint>,
    selection: Selection,
    view: View,
    options: WatchOptions,
    shutdown: CancellationToken,
) -> impl Stream<Item = Bytes> + Send + use<> {
    let table = Arc::clone(&endpoint.resource.table);
    // Subscribed before the state is read, so that no change in between is missed.
    let (changed, cut) = (table.subscribe(), table.cut());
    let started = start(state, &table, selection.namespace.as_deref(), options.start);
    let failed = started.is_err();
    let (initial, position, ready) = match started {
        Ok((initial, position)) => (initial, position, VecDeque::new()),
        Err(status) => (Vec::new(), 0, VecDeque::from([error_line(&status)])),
    };
    let now = Instant::now();
    let watch = Watch {
        encoder: EventEncoder::new(Arc::clone(endpoint), selection, view, Arc::clone(&state.clock)),
        converting: endpoint.webhook.is_some().then(|| Arc::clone(endpoint)),
        initial: initial.into(),
        initial_unconverted: true,
        initial_bookmark: !failed && matches!(options.start, WatchStart::Initial(_)) && options.bookmarks,
        ready,
        position,
        changed,
        bookmarks: options.bookmarks,
        bookmark_interval: state.bookmark_interval,
        next_bookmark: first_bookmark(now, now + options.timeout, state.bookmark_interval),
        deadline: now + options.timeout,
        cut,
        frozen: table.subscribe_frozen(),
        check_frozen: true,
        shutdown,
        closed: table.closed_token(),
        closing: false,
        failed,
        table,
    };
    futures::stream::unfold(watch, |mut watch| async move {
        let line = watch.next().await?;
        Some((line, watch))
    })
}

/// Returns the objects that a watch starts with, and the revision after which it continues.
fn start(
    state: &State,
    table: &Table,
    namespace: Option<&str>,
    start: WatchStart,
) -> Result<(Vec<Arc<StoredObject>>, u64), Status> {
    match start {
        WatchStart::Synthetic => Ok(table.list(namespace)),
        WatchStart::Initial(minimum) => {
            let (objects, revision) = table.list(namespace);
            if minimum > revision {
                return Err(Status::too_large_resource_version(minimum, revision));
            }
            Ok((objects, revision))
        }
        WatchStart::Now => Ok((Vec::new(), state.storage.revision())),
        WatchStart::After(revision) => {
            // kube-apiserver may wait for such a revision instead. This server loses its state on restart, so a client
            // with a revision of an earlier process would receive nothing until that revision was reached.
            let current = state.storage.revision();
            if revision > current {
                return Err(Status::too_large_resource_version(revision, current));
            }
            table
                .events_after(revision, 0)
                .map_err(|error| Status::too_old_resource_version(revision, error.oldest))?;
            Ok((Vec::new(), revision))
        }
    }
}

fn first_bookmark(now: Instant, deadline: Instant, interval: Duration) -> Instant {
    let last = deadline.checked_sub(LAST_BOOKMARK_LEAD).filter(|last| *last > now);
    last.map_or(now + interval, |last| last.min(now + interval))
}

/// Converts the objects of events to the version of an endpoint.
async fn convert_events(endpoint: &Endpoint, events: &[Arc<Event>]) -> Result<Vec<Event>, Status> {
    let mut objects: Vec<Arc<StoredObject>> = Vec::with_capacity(2 * events.len());
    for event in events {
        objects.push(Arc::clone(&event.object));
        objects.extend(event.previous.clone());
    }
    endpoint.present_all(&mut objects).await?;
    let mut objects = objects.into_iter();
    let mut converted = Vec::with_capacity(events.len());
    for event in events {
        let Some(object) = objects.next() else { break };
        let previous = event.previous.as_ref().and_then(|_| objects.next());
        converted.push(Event::new(event.kind, object, previous));
    }
    Ok(converted)
}

impl Watch {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if std::mem::take(&mut self.check_frozen) {
                self.wait_while_frozen().await;
            }
            if self.shutdown.is_cancelled() {
                return None;
            }
            if self.cut.token.is_cancelled() && !self.failed {
                self.end_with(self.cut.error.get().map(error_line));
            }
            if std::mem::take(&mut self.initial_unconverted)
                && let Err(status) = self.convert_initial().await
            {
                self.fail(&status);
            }
            while let Some(object) = self.initial.pop_front() {
                if let Some(line) = self.encoder.initial(&object) {
                    return Some(line);
                }
            }
            if std::mem::take(&mut self.initial_bookmark) {
                return Some(self.encoder.bookmark(self.position, true));
            }
            if let Some(line) = self.ready.pop_front() {
                return Some(line);
            }
            if self.failed || Instant::now() >= self.deadline {
                return None;
            }
            self.check_frozen = true;
            self.changed.borrow_and_update();
            let Ok(batch) = self.table.events_after(self.position, BATCH_SIZE) else {
                if self.cut.token.is_cancelled() {
                    continue;
                }
                // The client fell behind the history, which ends its watch.
                return None;
            };
            self.position = batch.complete_to;
            let encoder = &mut self.encoder;
            match &self.converting {
                None => self.ready.extend(batch.events.iter().filter_map(|event| encoder.event(event))),
                Some(endpoint) => match convert_events(endpoint, &batch.events).await {
                    Ok(events) => self.ready.extend(events.iter().filter_map(|event| encoder.event(event))),
                    Err(status) => self.fail(&status),
                },
            }
            if self.ready.is_empty() && batch.events.len() < BATCH_SIZE {
                if self.closing {
                    return None;
                }
                self.wait().await?;
            }
        }
    }

    /// Waits while watches of the table are frozen. A frozen watch does not time out. It ends when it is cut.
    async fn wait_while_frozen(&mut self) {
        while *self.frozen.borrow_and_update() {
            tokio::select! {
                biased;
                () = self.shutdown.cancelled() => return,
                () = self.cut.token.cancelled() => return,
                changed = self.frozen.changed() => if changed.is_err() { return },
            }
        }
    }

    async fn convert_initial(&mut self) -> Result<(), Status> {
        let Some(endpoint) = &self.converting else { return Ok(()) };
        endpoint.present_all(self.initial.make_contiguous()).await
    }

    /// Ends the watch with an ERROR event.
    fn fail(&mut self, status: &Status) {
        self.end_with(Some(error_line(status)));
    }

    /// Ends the watch after this line.
    fn end_with(&mut self, line: Option<Bytes>) {
        self.failed = true;
        self.initial.clear();
        self.initial_bookmark = false;
        self.ready = line.into_iter().collect();
    }

    /// Waits for a change or the next bookmark. Returns `None` when the watch ends.
    async fn wait(&mut self) -> Option<()> {
        tokio::select! {
            biased;
            () = self.cut.token.cancelled() => Some(()),
            () = self.shutdown.cancelled() => None,
            // The caller ends the watch, unless it is frozen.
            () = sleep_until(self.deadline) => Some(()),
            () = self.closed.cancelled() => {
                self.closing = true;
                Some(())
            }
            // Polled before changes, so that bookmarks are sent even if unselected objects change all the time.
            () = sleep_until(self.next_bookmark), if self.bookmarks => {
                self.next_bookmark += self.bookmark_interval;
                let last = self.deadline.checked_sub(LAST_BOOKMARK_LEAD).filter(|last| *last > Instant::now());
                if let Some(last) = last {
                    self.next_bookmark = self.next_bookmark.min(last);
                }
                self.ready.push_back(self.encoder.bookmark(self.position, false));
                Some(())
            }
            changed = self.changed.changed() => changed.ok(),
        }
    }
}
