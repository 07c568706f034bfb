//! Detects a connection on which nothing has arrived for too long.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use tokio::time::{Instant, Sleep, sleep};

use crate::failure::{Failure, FailureKind};
use crate::list_watch::ByteStream;

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
        body: &mut ByteStream,
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

/// Returns the failure of a request on which nothing arrived for `limit`.
pub(super) fn idle_failure(limit: Duration) -> Failure {
    Failure::new(FailureKind::TimedOut, format!("no data received for {} s", limit.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_stream::wrappers::ReceiverStream;

    #[tokio::test(start_paused = true)]
    async fn the_idle_timeout_counts_from_the_last_chunk() {
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        let mut body: ByteStream = ReceiverStream::new(receiver).boxed();
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
