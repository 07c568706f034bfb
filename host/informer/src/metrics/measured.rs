//! A list-watch that counts what goes through it, so that the reflector need not.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{Stream, StreamExt};
use tokio::time::Instant;

use super::Counters;
use crate::failure::Failure;
use crate::list_watch::{ByteStream, ListParams, ListWatch, WatchParams};

/// A watch that ends sooner, without an event, is counted as short (B05).
const VERY_SHORT_WATCH: Duration = Duration::from_secs(1);

pub(crate) struct Measured {
    pub(crate) list_watch: Arc<dyn ListWatch>,
    pub(crate) counters: Arc<Counters>,
}

#[async_trait]
impl ListWatch for Measured {
    async fn list(&self, params: &ListParams) -> Result<ByteStream, Failure> {
        self.counters.lists.add(1);
        let begun = Instant::now();
        let body = self.list_watch.list(params).await?;
        Ok(Body::of(body, &self.counters, Kind::List, begun).boxed())
    }

    async fn watch(&self, params: &WatchParams) -> Result<ByteStream, Failure> {
        self.counters.watches.add(1);
        let body = self.list_watch.watch(params).await?;
        Ok(Body::of(body, &self.counters, Kind::Watch, Instant::now()).boxed())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    List,
    Watch,
}

/// A body that is observed when it is dropped: that is how reading ends, whoever ended it.
struct Body {
    body: ByteStream,
    counters: Arc<Counters>,
    kind: Kind,
    begun: Instant,
    events: u64,
    whole: bool,
}

impl Body {
    fn of(body: ByteStream, counters: &Arc<Counters>, kind: Kind, begun: Instant) -> Self {
        Self { body, counters: Arc::clone(counters), kind, begun, events: 0, whole: false }
    }

    fn note(&mut self, chunk: &Bytes) {
        self.counters.received_bytes.add(chunk.len() as u64);
        if self.kind == Kind::Watch {
            // One event a line.
            let events = memchr::memchr_iter(b'\n', chunk).count() as u64;
            self.counters.events.add(events);
            self.events += events;
        }
    }
}

impl Stream for Body {
    type Item = Result<Bytes, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.body.poll_next_unpin(context);
        match &polled {
            Poll::Ready(Some(Ok(chunk))) => self.note(chunk),
            Poll::Ready(None) => self.whole = true,
            _ => {}
        }
        polled
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        let lasted = self.begun.elapsed();
        match self.kind {
            Kind::List if self.whole => self.counters.list_duration.observe_duration(lasted),
            Kind::List => {}
            Kind::Watch => {
                self.counters.watch_duration.observe_duration(lasted);
                self.counters.items_per_watch.observe_items(self.events);
                if self.events == 0 && lasted < VERY_SHORT_WATCH {
                    self.counters.short_watches.add(1);
                }
            }
        }
    }
}
