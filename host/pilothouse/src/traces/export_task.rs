//! The task that sends spans. It alone waits for the collector: while that does not answer, the queue fills, and further spans are dropped.

use std::time::Duration;

use pilothouse_controller::{Span, SpanReceiver};
use pilothouse_otlp::Exporter;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::convert::to_message;

/// The number of spans from which on a request is sent at once.
const BATCH: usize = 512;
/// How long spans wait for others.
const LINGER: Duration = Duration::from_secs(1);
/// How long the task may take to send the last spans when the host stops.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(300);
/// How often a failure is logged.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The task that sends spans.
pub(crate) struct ExportTask {
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl ExportTask {
    pub(super) fn start(exporter: Exporter, spans: SpanReceiver) -> Self {
        let stop = CancellationToken::new();
        let forwarder = SpanForwarder { exporter, spans, last_log: None };
        Self { task: tokio::spawn(forwarder.run(stop.clone())), stop }
    }

    /// Sends what is queued, for a short time, and ends the task.
    pub(crate) async fn finish(mut self) {
        self.stop.cancel();
        if timeout(FLUSH_TIMEOUT, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

/// Collects spans into requests, and sends these one after the other.
struct SpanForwarder {
    exporter: Exporter,
    spans: SpanReceiver,
    /// When a failure was logged.
    last_log: Option<Instant>,
}

impl SpanForwarder {
    async fn run(mut self, stop: CancellationToken) {
        loop {
            let first = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                first = self.spans.recv() => first,
            };
            let Some(first) = first else { return };
            let batch = self.batch(first, &stop).await;
            self.send(batch).await;
        }
        let rest: Vec<Span> = std::iter::from_fn(|| self.spans.try_recv()).flatten().collect();
        if !rest.is_empty() {
            self.send(rest).await;
        }
    }

    /// Collects spans until there are enough for a request, or until the first ones have waited long enough.
    async fn batch(&mut self, mut batch: Vec<Span>, stop: &CancellationToken) -> Vec<Span> {
        let end = Instant::now() + LINGER;
        while batch.len() < BATCH {
            let next = tokio::select! {
                () = stop.cancelled() => break,
                next = timeout_at(end, self.spans.recv()) => next,
            };
            let Ok(Some(group)) = next else { break };
            batch.extend(group);
        }
        batch
    }

    async fn send(&mut self, batch: Vec<Span>) {
        let size = batch.len();
        let (lost, problem) = match self.exporter.export(batch.into_iter().map(to_message).collect()).await {
            Ok(0) => return,
            // A collector may name any number.
            Ok(refused) => (refused.min(size), "the trace collector refused them".to_owned()),
            Err(error) => (size, error.to_string()),
        };
        self.spans.count_failed(lost);
        if self.last_log.is_none_or(|last| last.elapsed() >= LOG_INTERVAL) {
            self.last_log = Some(Instant::now());
            tracing::warn!(
                "{lost} spans are lost: {problem}; check the trace endpoint and its collector; \
                 pilothouse_trace_spans_dropped_total counts further ones"
            );
        }
    }
}
