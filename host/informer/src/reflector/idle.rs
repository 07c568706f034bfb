//! Detects a connection on which nothing has arrived for too long, and a list that arrives too slowly.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use tokio::time::{Instant, Sleep, sleep};

use super::joined_chunks::JoinedChunks;
use crate::failure::{Failure, FailureKind};
use crate::options::InformerOptions;

/// The idle timeout of a body. One timer serves the whole body: each chunk only records its arrival, and the timer checks that
/// when it fires.
pub(super) struct IdleTimer {
    timer: Pin<Box<Sleep>>,
    last: Instant,
}

impl IdleTimer {
    /// Starts the idle time now.
    pub(super) fn start(limit: Duration) -> Self {
        Self { timer: Box::pin(sleep(limit)), last: Instant::now() }
    }

    /// Returns the next chunk, or `None` at the end of the body.
    ///
    /// # Errors
    /// Errors if nothing has arrived for `limit`.
    pub(super) async fn next(
        &mut self,
        body: &mut JoinedChunks,
        limit: Duration,
    ) -> Result<Option<Bytes>, Failure> {
        if self.timer.deadline() > self.last + limit {
            self.timer.as_mut().reset(self.last + limit);
        }
        loop {
            tokio::select! {
                biased;
                chunk = body.next() => {
                    self.last = Instant::now();
                    return chunk.transpose();
                }
                () = self.timer.as_mut() => {
                    if body.has_chunks() {
                        // Chunks that wait to be joined have just been received, so the body is not idle.
                        self.last = Instant::now();
                    }
                    let due = self.last + limit;
                    if due <= Instant::now() {
                        return Err(idle_failure(limit));
                    }
                    self.timer.as_mut().reset(due);
                }
            }
        }
    }
}

/// The time that a list may take: the idle timeout, and more the more of it has arrived.
pub(super) struct ListPace {
    started: Instant,
    /// The time without regard to what has arrived.
    base: Duration,
    /// Bytes per second.
    min_rate: u64,
    received: u64,
}

impl ListPace {
    /// Starts the time now.
    pub(super) fn start(options: &InformerOptions) -> Self {
        Self {
            started: Instant::now(),
            base: options.idle_timeout,
            min_rate: options.min_list_rate.max(1),
            received: 0,
        }
    }

    /// Records the arrival of a chunk.
    ///
    /// # Errors
    /// Errors if the list has taken longer than its bytes allow.
    pub(super) fn record(&mut self, chunk: &[u8]) -> Result<(), Failure> {
        self.received = self.received.saturating_add(chunk.len() as u64);
        let elapsed = self.started.elapsed();
        let allowed = self.base.saturating_add(Duration::from_secs(self.received / self.min_rate));
        if elapsed <= allowed {
            return Ok(());
        }
        let message =
            format!("the list arrives too slowly: {} bytes in {} s", self.received, elapsed.as_secs());
        Err(Failure::new(FailureKind::TimedOut, message))
    }
}

/// Returns the failure of a request on which nothing arrived for `limit`.
pub(super) fn idle_failure(limit: Duration) -> Failure {
    Failure::new(FailureKind::TimedOut, format!("no data received for {} s", limit.as_secs()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use futures::stream;
    use tokio_stream::wrappers::ReceiverStream;

    #[tokio::test(start_paused = true)]
    async fn a_list_may_take_longer_the_more_of_it_arrives() {
        let options = InformerOptions {
            idle_timeout: Duration::from_secs(10),
            min_list_rate: 100,
            ..InformerOptions::default()
        };
        let mut pace = ListPace::start(&options);
        for _ in 0..100 {
            tokio::time::advance(Duration::from_secs(1)).await;
            pace.record(&[0; 100]).expect("it is fast enough");
        }
        let slow = async |bytes: &[u8]| {
            let mut pace = ListPace::start(&options);
            let start = Instant::now();
            while pace.record(bytes).is_ok() {
                tokio::time::advance(Duration::from_secs(1)).await;
            }
            start.elapsed().as_secs()
        };
        assert_eq!(slow(&[0; 1]).await, 11);
        assert_eq!(slow(&[0; 50]).await, 22, "half as fast as it must be");
    }

    #[tokio::test(start_paused = true)]
    async fn a_chunk_that_arrives_when_the_timer_fires_is_returned() {
        let limit = Duration::from_secs(10);
        let chunk = stream::once(async move {
            tokio::time::sleep(limit).await;
            Ok(Bytes::from_static(b"x"))
        });
        let mut body = JoinedChunks::new(chunk.chain(stream::pending()).boxed(), Arc::default());
        let mut idle = IdleTimer::start(limit);
        assert_eq!(idle.next(&mut body, limit).await.expect("a chunk").as_deref(), Some(&b"x"[..]));
    }

    #[tokio::test(start_paused = true)]
    async fn the_idle_timeout_counts_from_the_last_chunk() {
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        let mut body = JoinedChunks::new(ReceiverStream::new(receiver).boxed(), Arc::default());
        let limit = Duration::from_secs(10);
        let mut idle = IdleTimer::start(limit);
        for _ in 0..5 {
            tokio::time::advance(Duration::from_secs(9)).await;
            sender.send(Ok(Bytes::from_static(b"x"))).await.expect("the body is there");
            assert_eq!(idle.next(&mut body, limit).await.expect("a chunk").as_deref(), Some(&b"x"[..]));
        }
        let since = Instant::now();
        let failure = idle.next(&mut body, limit).await.expect_err("nothing arrives any more");
        assert_eq!((failure.kind, since.elapsed().as_secs()), (FailureKind::TimedOut, 10));

        let since = Instant::now();
        let mut idle = IdleTimer::start(Duration::from_secs(100));
        idle.next(&mut body, limit).await.expect_err("a shorter limit counts at once");
        assert_eq!(since.elapsed().as_secs(), 10);
        drop(sender);
        assert!(idle.next(&mut body, Duration::from_secs(100)).await.expect("the end").is_none());
    }
}
