//! A list-watch that measures the requests and bodies that pass through it, so that the reflector does not have to.
//!
//! The reflector counts the failures (`InformerStatus::failures`), because a complete body may still fail to decode.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{Stream, StreamExt};
use tokio::sync::watch;
use tokio::time::Instant;

use super::Counters;
use crate::failure::Failure;
use crate::list_watch::{ByteStream, ListParams, ListWatch, WatchParams};
use crate::status::InformerStatus;

/// A watch that ends sooner and without an event counts as short.
const VERY_SHORT_WATCH: Duration = Duration::from_secs(1);

/// Wraps a list-watch and counts its requests, bytes and events.
pub(crate) struct MeasuredListWatch {
    pub(crate) list_watch: Arc<dyn ListWatch>,
    pub(crate) counters: Arc<Counters>,
    /// The reflector's status, which has the number of events read. Counting them here would mean to scan the bytes again.
    pub(crate) status: watch::Receiver<InformerStatus>,
}

impl MeasuredListWatch {
    fn body(&self, body: ByteStream, kind: RequestKind, started_at: Instant) -> ByteStream {
        let (counters, status) = (Arc::clone(&self.counters), self.status.clone());
        let events_before = status.borrow().events;
        MeasuredBody {
            body,
            counters,
            status,
            kind,
            started_at,
            events_before,
            events_counted: events_before,
            read_to_end: false,
        }
        .boxed()
    }
}

#[async_trait]
impl ListWatch for MeasuredListWatch {
    async fn list(&self, params: &ListParams) -> Result<ByteStream, Failure> {
        self.counters.lists.add(1);
        let started_at = Instant::now();
        let body = self.list_watch.list(params).await?;
        Ok(self.body(body, RequestKind::List, started_at))
    }

    async fn watch(&self, params: &WatchParams) -> Result<ByteStream, Failure> {
        self.counters.watches.add(1);
        let body = self.list_watch.watch(params).await?;
        Ok(self.body(body, RequestKind::Watch, Instant::now()))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RequestKind {
    List,
    Watch,
}

/// A body that records its metrics when it is dropped, because every read ends with a drop, whichever side ended it.
struct MeasuredBody {
    body: ByteStream,
    counters: Arc<Counters>,
    status: watch::Receiver<InformerStatus>,
    kind: RequestKind,
    started_at: Instant,
    /// Events that had been read when the body was opened.
    events_before: u64,
    /// Events that have been counted so far, including `events_before`.
    events_counted: u64,
    read_to_end: bool,
}

impl MeasuredBody {
    /// Counts the events of the previous chunk: the next chunk is polled only after all of the previous one was processed.
    fn count_events(&mut self) {
        let events = self.status.borrow().events;
        self.counters.events.add(events - self.events_counted);
        self.events_counted = events;
    }
}

impl Stream for MeasuredBody {
    type Item = Result<Bytes, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.count_events();
        let polled = self.body.poll_next_unpin(context);
        match &polled {
            Poll::Ready(Some(Ok(chunk))) => self.counters.received_bytes.add(chunk.len() as u64),
            Poll::Ready(None) => self.read_to_end = true,
            _ => {}
        }
        polled
    }
}

impl Drop for MeasuredBody {
    fn drop(&mut self) {
        self.count_events();
        let (duration, events) = (self.started_at.elapsed(), self.events_counted - self.events_before);
        match self.kind {
            RequestKind::List if self.read_to_end => self.counters.list_duration.observe_duration(duration),
            RequestKind::List => {}
            RequestKind::Watch => {
                self.counters.watch_duration.observe_duration(duration);
                self.counters.items_per_watch.observe_items(events);
                if events == 0 && duration < VERY_SHORT_WATCH {
                    self.counters.short_watches.add(1);
                }
            }
        }
    }
}
