//! The bounded queue of spans between the plugins and the exporter.
//!
//! Nothing waits for the exporter: spans that do not fit are dropped and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;

use super::span::Span;
use crate::metrics::trace::DroppedSpans;

/// The number of spans that wait for the exporter.
pub(super) const MAX_QUEUED: usize = 8192;

/// The end of the queue that plugins use.
pub(super) struct SpanSender {
    groups: mpsc::UnboundedSender<Vec<Span>>,
    queued: Arc<AtomicUsize>,
    pub(super) dropped: DroppedSpans,
}

/// Receives the spans that are to be exported.
pub struct SpanReceiver {
    groups: mpsc::UnboundedReceiver<Vec<Span>>,
    queued: Arc<AtomicUsize>,
    dropped: DroppedSpans,
}

/// Creates a queue.
pub(super) fn queue(dropped: DroppedSpans) -> (SpanSender, SpanReceiver) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let queued = Arc::<AtomicUsize>::default();
    let sender = SpanSender { groups: sender, queued: Arc::clone(&queued), dropped: dropped.clone() };
    (sender, SpanReceiver { groups: receiver, queued, dropped })
}

impl SpanSender {
    /// Queues all of these spans or none, so that no span is exported without its parent. Returns whether they are queued.
    pub(super) fn send(&self, group: Vec<Span>) -> bool {
        let size = group.len();
        let add = |queued: usize| (queued + size <= MAX_QUEUED).then_some(queued + size);
        if self.queued.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_err() {
            self.dropped.by_full_queue(size);
            return false;
        }
        if self.groups.send(group).is_err() {
            // The exporter has ended with the host.
            self.dropped.by_failed_export(size);
            return false;
        }
        true
    }
}

impl SpanReceiver {
    /// Waits for the spans of one reconcile; `None` once the host is gone.
    ///
    /// # Cancellation safety
    /// Safe.
    pub async fn recv(&mut self) -> Option<Vec<Span>> {
        let group = self.groups.recv().await?;
        Some(self.release(group))
    }

    /// Returns the spans of one reconcile if some are queued.
    pub fn try_recv(&mut self) -> Option<Vec<Span>> {
        let group = self.groups.try_recv().ok()?;
        Some(self.release(group))
    }

    /// Counts spans that could not be exported.
    pub fn count_failed(&self, spans: usize) {
        self.dropped.by_failed_export(spans);
    }

    /// Makes room in the queue for others.
    fn release(&self, group: Vec<Span>) -> Vec<Span> {
        self.queued.fetch_sub(group.len(), Ordering::Relaxed);
        group
    }
}
