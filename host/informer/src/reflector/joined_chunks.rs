//! Joins the small chunks of a watch that are ready at the same time.
//!
//! An API server sends each event in a chunk of its own. Decoding, queueing and applying many events at a time costs less than one at a
//! time: the stored objects of all of them can be prefetched, and the task's other futures run once for all. A connection passes on one
//! chunk at a time, so the stream yields to it between two chunks. When no further chunk has arrived after that, the joined ones are
//! returned. So a single event waits only for the other tasks that are ready to run, and never for another event.
//!
//! Meanwhile a flag is set, so that the consumer of the events does not wake its subscribers for each batch.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt};

use crate::failure::Failure;
use crate::list_watch::ByteStream;

/// The most bytes that are joined. An allocator keeps buffers of this size at hand.
const MAX_BYTES: usize = 32 * 1024;
/// The most chunks that are joined.
const MAX_CHUNKS: usize = 64;

/// A body whose small chunks are joined. Larger chunks are passed on without a copy.
pub(super) struct JoinedChunks {
    body: ByteStream,
    /// The chunks that have arrived and have not been returned.
    chunks: Vec<Bytes>,
    bytes: usize,
    /// What the body returned after `chunks`, if that cannot be joined to them.
    next: Option<Option<Result<Bytes, Failure>>>,
    /// Whether other tasks had a turn since the last chunk arrived.
    has_yielded: bool,
    /// Set while `chunks` wait for more.
    incoming: Arc<AtomicBool>,
}

impl JoinedChunks {
    /// Wraps a body. `incoming` is set while chunks have arrived that will be returned after the other tasks had a turn.
    pub(super) fn new(body: ByteStream, incoming: Arc<AtomicBool>) -> Self {
        Self { body, chunks: Vec::new(), bytes: 0, next: None, has_yielded: false, incoming }
    }

    /// Whether chunks have arrived that were not returned yet.
    pub(super) fn has_chunks(&self) -> bool {
        !self.chunks.is_empty()
    }

    fn can_join(&self, chunk: &Bytes) -> bool {
        self.bytes + chunk.len() <= MAX_BYTES && self.chunks.len() < MAX_CHUNKS
    }

    fn pop_joined(&mut self) -> Bytes {
        self.has_yielded = false;
        self.incoming.store(false, Ordering::Relaxed);
        let bytes = std::mem::take(&mut self.bytes);
        if self.chunks.len() == 1
            && let Some(only) = self.chunks.pop()
        {
            return only;
        }
        let mut joined = BytesMut::with_capacity(bytes);
        self.chunks.drain(..).for_each(|chunk| joined.extend_from_slice(&chunk));
        joined.freeze()
    }
}

impl Drop for JoinedChunks {
    fn drop(&mut self) {
        self.incoming.store(false, Ordering::Relaxed);
    }
}

impl Stream for JoinedChunks {
    type Item = Result<Bytes, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let next = match self.next.take() {
                Some(next) => next,
                None => match self.body.poll_next_unpin(context) {
                    Poll::Ready(next) => next,
                    Poll::Pending if self.chunks.is_empty() => return Poll::Pending,
                    Poll::Pending if self.has_yielded => return Poll::Ready(Some(Ok(self.pop_joined()))),
                    Poll::Pending => {
                        // Yields by waking itself: `tokio::task::yield_now` would poll the I/O driver before this task runs again.
                        self.has_yielded = true;
                        self.incoming.store(true, Ordering::Relaxed);
                        context.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                },
            };
            match next {
                Some(Ok(chunk)) if self.can_join(&chunk) => {
                    self.has_yielded = false;
                    self.bytes += chunk.len();
                    self.chunks.push(chunk);
                }
                next if self.chunks.is_empty() => return Poll::Ready(next),
                next => {
                    self.next = Some(next);
                    return Poll::Ready(Some(Ok(self.pop_joined())));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;
    use crate::failure::FailureKind;

    /// What a poll of the body returns.
    #[derive(Clone)]
    enum Step {
        Chunk(usize),
        Wait,
        Failure,
    }
    use Step::{Chunk, Failure as Failed, Wait};

    /// Polls until the end. Returns the lengths of the chunks, with 0 for a failure, and the number of polls that found nothing.
    fn read(steps: &[Step]) -> (Vec<usize>, usize) {
        let mut steps: Vec<_> = steps.iter().rev().cloned().collect();
        let mut number = 0;
        let body = stream::poll_fn(move |_| match steps.pop() {
            Some(Chunk(len)) => {
                number += 1;
                Poll::Ready(Some(Ok(Bytes::from(vec![number; len]))))
            }
            Some(Wait) => Poll::Pending,
            Some(Failed) => Poll::Ready(Some(Err(Failure::new(FailureKind::Connection, "cut")))),
            None => Poll::Ready(None),
        });
        let incoming = Arc::new(AtomicBool::new(false));
        let mut joined = JoinedChunks::new(body.boxed(), Arc::clone(&incoming));
        let mut context = Context::from_waker(std::task::Waker::noop());
        let (mut lengths, mut waits, mut last) = (Vec::new(), 0, 0);
        loop {
            match joined.poll_next_unpin(&mut context) {
                Poll::Pending => {
                    assert_eq!(incoming.load(Ordering::Relaxed), joined.has_chunks());
                    waits += 1;
                }
                Poll::Ready(None) => return (lengths, waits),
                Poll::Ready(Some(Err(_))) => lengths.push(0),
                Poll::Ready(Some(Ok(chunk))) => {
                    assert!(!incoming.load(Ordering::Relaxed) && !joined.has_chunks());
                    assert!(chunk.first().is_none_or(|first| *first == last + 1));
                    assert!(chunk.is_sorted(), "in order");
                    last = chunk.last().copied().unwrap_or(last);
                    lengths.push(chunk.len());
                }
            }
        }
    }

    #[test]
    fn small_chunks_that_are_ready_are_joined() {
        assert_eq!(read(&[Chunk(3), Chunk(4), Wait, Wait, Chunk(5), Wait, Wait]), (vec![7, 5], 2));
    }

    #[test]
    fn a_chunk_that_arrives_while_other_tasks_run_is_joined() {
        let steps = [Chunk(3), Wait, Chunk(4), Wait, Chunk(5), Wait, Wait, Wait, Chunk(6)];
        assert_eq!(read(&steps), (vec![12, 6], 4));
    }

    #[test]
    fn a_large_chunk_is_passed_on_alone() {
        assert_eq!(read(&[Chunk(40_000), Chunk(50_000)]), (vec![40_000, 50_000], 0));
        assert_eq!(read(&[Chunk(3), Chunk(40_000), Chunk(4)]), (vec![3, 40_000, 4], 0));
        assert_eq!(read(&[Chunk(20_000), Chunk(20_000)]), (vec![20_000, 20_000], 0));
    }

    #[test]
    fn the_number_of_chunks_is_bounded() {
        assert_eq!(read(&vec![Chunk(1); 150]), (vec![64, 64, 22], 0));
        assert_eq!(read(&vec![Chunk(0); 150]).0, [0, 0, 0]);
    }

    #[test]
    fn a_failure_or_the_end_comes_after_the_chunks_before_it() {
        assert_eq!(read(&[Chunk(3), Chunk(4), Failed, Chunk(5)]), (vec![7, 0, 5], 0));
        assert_eq!(read(&[Failed]), (vec![0], 0));
        assert_eq!(read(&[]), (vec![], 0));
    }

    #[test]
    fn the_task_is_woken_after_it_yielded() {
        let first = stream::iter([Ok(Bytes::from_static(b"x"))]);
        let incoming = Arc::new(AtomicBool::new(false));
        let body = first.chain(stream::pending()).boxed();
        let mut task = tokio_test::task::spawn(JoinedChunks::new(body, Arc::clone(&incoming)));
        assert!(task.poll_next().is_pending() && task.is_woken());
        assert!(matches!(task.poll_next(), Poll::Ready(Some(Ok(chunk))) if &*chunk == b"x"));
        assert!(task.poll_next().is_pending() && !task.is_woken(), "it waits for the body");

        let first = stream::iter([Ok(Bytes::from_static(b"x"))]);
        let body = first.chain(stream::pending()).boxed();
        let mut task = tokio_test::task::spawn(JoinedChunks::new(body, Arc::clone(&incoming)));
        assert!(task.poll_next().is_pending() && incoming.load(Ordering::Relaxed));
        drop(task);
        assert!(!incoming.load(Ordering::Relaxed), "nothing comes from a body that was dropped");
    }
}
