use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::frame::{Frames, error_line};
use super::options::{Start, WatchOptions};
use crate::registry::Endpoint;
use crate::request::View;
use crate::rest::selection::Selection;
use crate::server::State;
use crate::status::Status;
use crate::storage::{Cut, Stored, Table};

/// How many events are read from the history at a time.
const BATCH: usize = 256;

/// A last bookmark is sent this long before the watch times out, as Kubernetes does.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

struct Watch {
    table: Arc<Table>,
    frames: Frames,
    initial: VecDeque<Arc<Stored>>,
    /// Whether the bookmark after the initial events is due.
    initial_end: bool,
    ready: VecDeque<Bytes>,
    /// Everything up to this revision has been sent or is in `ready`.
    position: u64,
    changed: Receiver<u64>,
    bookmarks: bool,
    bookmark_interval: Duration,
    next_bookmark: Instant,
    deadline: Instant,
    cut: Arc<Cut>,
    shutdown: CancellationToken,
    closed: CancellationToken,
    /// Whether the table was closed: what it still holds is sent, then the watch ends.
    closing: bool,
    /// Whether nothing but what is in `ready` is to be sent.
    failed: bool,
}

/// Starts a watch; what it yields are whole lines. One that cannot start says so in an ERROR event, as Kubernetes' watch
/// cache does: 410 where the history does not reach back to the start, 504 where the start is a version that is in the
/// future.
pub(crate) fn watch(
    state: &State,
    endpoint: &Arc<Endpoint>,
    selection: Selection,
    view: View,
    options: WatchOptions,
    shutdown: CancellationToken,
) -> impl Stream<Item = Bytes> + Send + use<> {
    let table = Arc::clone(&endpoint.resource.table);
    // Taken before the state is read, so that nothing is missed in between.
    let (changed, cut) = (table.subscribe(), table.cut());
    let started = start(state, &table, selection.namespace.as_deref(), options.start);
    let failed = started.is_err();
    let (initial, position, ready) = match started {
        Ok((initial, position)) => (initial, position, VecDeque::new()),
        Err(status) => (Vec::new(), 0, VecDeque::from([error_line(&status)])),
    };
    let now = Instant::now();
    let watch = Watch {
        frames: Frames::new(Arc::clone(endpoint), selection, view, Arc::clone(&state.clock)),
        initial: initial.into(),
        initial_end: !failed && matches!(options.start, Start::Initial(_)) && options.bookmarks,
        ready,
        position,
        changed,
        bookmarks: options.bookmarks,
        bookmark_interval: state.bookmark_interval,
        next_bookmark: first_bookmark(now, now + options.timeout, state.bookmark_interval),
        deadline: now + options.timeout,
        cut,
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

/// The objects that a watch begins with, and the revision after which it goes on.
fn start(
    state: &State,
    table: &Table,
    namespace: Option<&str>,
    start: Start,
) -> Result<(Vec<Arc<Stored>>, u64), Status> {
    match start {
        Start::Synthetic => Ok(table.list(namespace)),
        Start::Initial(wanted) => {
            let (objects, revision) = table.list(namespace);
            if wanted > revision {
                return Err(Status::too_large_version(wanted, revision));
            }
            Ok((objects, revision))
        }
        Start::Now => Ok((Vec::new(), state.storage.revision())),
        Start::After(revision) => {
            // kube-apiserver may wait for such a version instead. This server forgets everything when it is started
            // again, and a client that waited for the old versions would be blind until they were reached.
            let current = state.storage.revision();
            if revision > current {
                return Err(Status::too_large_version(revision, current));
            }
            table.events_after(revision, 0).map_err(|error| Status::too_old(revision, error.oldest))?;
            Ok((Vec::new(), revision))
        }
    }
}

fn first_bookmark(now: Instant, deadline: Instant, interval: Duration) -> Instant {
    let last = deadline.checked_sub(LAST_BOOKMARK).filter(|last| *last > now);
    last.map_or(now + interval, |last| last.min(now + interval))
}

impl Watch {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.shutdown.is_cancelled() {
                return None;
            }
            if self.cut.token.is_cancelled() && !self.failed {
                self.failed = true;
                self.initial.clear();
                self.initial_end = false;
                self.ready = self.cut.error.get().map(error_line).into_iter().collect();
            }
            while let Some(object) = self.initial.pop_front() {
                if let Some(line) = self.frames.initial(&object) {
                    return Some(line);
                }
            }
            if std::mem::take(&mut self.initial_end) {
                return Some(self.frames.bookmark(self.position, true));
            }
            if let Some(line) = self.ready.pop_front() {
                return Some(line);
            }
            if self.failed || Instant::now() >= self.deadline {
                return None;
            }
            self.changed.borrow_and_update();
            // An error means that the client fell behind the history: its watch ends.
            let batch = self.table.events_after(self.position, BATCH).ok()?;
            self.position = batch.complete_to;
            let frames = &mut self.frames;
            self.ready.extend(batch.events.iter().filter_map(|event| frames.event(event)));
            if self.ready.is_empty() && batch.events.len() < BATCH {
                if self.closing {
                    return None;
                }
                self.wait().await?;
            }
        }
    }

    /// Waits for a change or the time of a bookmark; none when the watch is over.
    async fn wait(&mut self) -> Option<()> {
        tokio::select! {
            biased;
            () = self.cut.token.cancelled() => Some(()),
            () = self.shutdown.cancelled() => None,
            () = sleep_until(self.deadline) => None,
            () = self.closed.cancelled() => {
                self.closing = true;
                Some(())
            }
            // Before the changes, so that bookmarks also come where nothing but unselected objects changes.
            () = sleep_until(self.next_bookmark), if self.bookmarks => {
                self.next_bookmark += self.bookmark_interval;
                let last = self.deadline.checked_sub(LAST_BOOKMARK).filter(|last| *last > Instant::now());
                if let Some(last) = last {
                    self.next_bookmark = self.next_bookmark.min(last);
                }
                self.ready.push_back(self.frames.bookmark(self.position, false));
                Some(())
            }
            changed = self.changed.changed() => changed.ok(),
        }
    }
}
