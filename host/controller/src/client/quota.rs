//! Rate limits for what a plugin does at the expense of others: a token bucket with the time passed in, and a
//! queue for it.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

/// A token bucket whose rate may change. Pure: the time is passed in.
#[derive(Debug)]
pub(crate) struct QuotaBucket {
    per_second: f64,
    capacity: f64,
    tokens: f64,
    refilled: Instant,
}

impl QuotaBucket {
    /// A full bucket.
    pub(crate) fn new(per_second: u32, burst: u32, now: Instant) -> Self {
        let (per_second, capacity) = (f64::from(per_second.max(1)), f64::from(burst.max(1)));
        Self { per_second, capacity, tokens: capacity, refilled: now }
    }

    /// Changes the rate and the burst. What was used of the burst stays used.
    pub(crate) fn set_rate(&mut self, per_second: u32, burst: u32, now: Instant) {
        self.refill(now);
        let used = self.capacity - self.tokens;
        (self.per_second, self.capacity) = (f64::from(per_second.max(1)), f64::from(burst.max(1)));
        self.tokens = (self.capacity - used).max(0.0);
    }

    fn refill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.refilled).as_secs_f64();
        self.refilled = self.refilled.max(now);
        self.tokens = (self.tokens + elapsed * self.per_second).min(self.capacity);
    }

    /// Takes a token.
    ///
    /// # Errors
    /// Errors if no token is left, with the time after which there will be one unless another client takes it.
    pub(crate) fn take(&mut self, now: Instant) -> Result<(), Duration> {
        self.refill(now);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        let missing = (1.0 - self.tokens) / self.per_second;
        // One more millisecond, the timer's resolution, so that a caller that has waited finds its token.
        Err(Duration::from_secs_f64(missing) + Duration::from_millis(1))
    }
}

/// A token bucket for which callers wait in the order of arrival.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    /// Locked by the first caller while it waits.
    bucket: Mutex<QuotaBucket>,
    /// A rate and a burst that the next caller sets in the bucket.
    new_rate: parking_lot::Mutex<Option<(u32, u32)>>,
}

impl RateLimiter {
    /// A limiter whose burst is not used yet.
    pub(crate) fn new(per_second: u32, burst: u32, now: Instant) -> Self {
        let bucket = Mutex::new(QuotaBucket::new(per_second, burst, now));
        Self { bucket, new_rate: parking_lot::Mutex::new(None) }
    }

    /// Changes the rate and the burst. What was used of the burst stays used. A caller that waits already, waits at the old rate.
    pub(crate) fn set_rate(&self, per_second: u32, burst: u32) {
        *self.new_rate.lock() = Some((per_second, burst));
    }

    /// Waits for a token. `on_wait` is called once before the first wait, if there is one.
    ///
    /// # Cancellation safety
    /// Safe: a dropped caller takes no token, and the next one is served. The lock is fair, and the first
    /// caller holds it while waiting.
    pub(crate) async fn acquire(&self, on_wait: impl FnOnce()) {
        let mut on_wait = Some(on_wait);
        let mut wait = || on_wait.take().into_iter().for_each(|on_wait| on_wait());
        let mut bucket = match self.bucket.try_lock() {
            Ok(bucket) => bucket,
            Err(_) => {
                wait();
                self.bucket.lock().await
            }
        };
        let new_rate = self.new_rate.lock().take();
        if let Some((per_second, burst)) = new_rate {
            bucket.set_rate(per_second, burst, Instant::now());
        }
        while let Err(missing) = bucket.take(Instant::now()) {
            wait();
            sleep(missing).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_then_its_rate_and_never_more_than_the_burst() {
        let start = Instant::now();
        let mut bucket = QuotaBucket::new(10, 3, start);
        for _ in 0..3 {
            assert_eq!(bucket.take(start), Ok(()));
        }
        assert_eq!(bucket.take(start), Err(Duration::from_millis(101)));
        assert_eq!(bucket.take(start + Duration::from_millis(50)), Err(Duration::from_millis(51)));
        assert_eq!(bucket.take(start + Duration::from_millis(101)), Ok(()));
        let later = start + Duration::from_hours(1);
        let taken = (0..10).filter(|_| bucket.take(later).is_ok()).count();
        assert_eq!(taken, 3);
    }

    #[test]
    fn another_rate_keeps_what_was_used_of_the_burst() {
        let start = Instant::now();
        let mut bucket = QuotaBucket::new(10, 3, start);
        bucket.set_rate(1, 5, start);
        assert_eq!((0..10).filter(|_| bucket.take(start).is_ok()).count(), 5, "nothing was used");
        bucket.set_rate(1, 7, start);
        assert_eq!((0..10).filter(|_| bucket.take(start).is_ok()).count(), 2);
        bucket.set_rate(1, 2, start);
        assert!(bucket.take(start).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn callers_are_served_in_order_at_the_rate() {
        let start = Instant::now();
        let limiter = Arc::new(RateLimiter::new(10, 2, start));
        let (sender, mut served) = tokio::sync::mpsc::unbounded_channel();
        for number in 0..5 {
            let (limiter, sender) = (Arc::clone(&limiter), sender.clone());
            tokio::spawn(async move {
                let mut waited = false;
                limiter.acquire(|| waited = true).await;
                sender.send((number, waited)).expect("the test listens");
            });
            tokio::task::yield_now().await;
        }
        let mut order = Vec::new();
        for _ in 0..5 {
            order.push(served.recv().await.expect("all are served"));
        }
        assert_eq!(order, [(0, false), (1, false), (2, true), (3, true), (4, true)]);
        assert!(start.elapsed() >= Duration::from_millis(300));
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_caller_takes_no_token_and_lets_the_next_one_pass() {
        let limiter = RateLimiter::new(1, 1, Instant::now());
        limiter.acquire(|| ()).await;
        let mut first = tokio_test::task::spawn(limiter.acquire(|| ()));
        assert!(first.poll().is_pending());
        let mut second = tokio_test::task::spawn(limiter.acquire(|| ()));
        assert!(second.poll().is_pending());
        drop(first);
        assert!(second.is_woken());
        assert!(second.poll().is_pending());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(second.poll().is_ready());
    }
}
