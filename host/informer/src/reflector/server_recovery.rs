//! Detects that an unreachable server is back, with one probe shared by all informers of that server, so that none of them has
//! to sit out a long backoff.
//!
//! Every informer that waits after a connection failure takes part. One of them sends the probes, at intervals that grow to one
//! second; when it leaves, another one continues. A recovery is a successful probe after a failed one. If a server answers
//! every probe but fails other requests, only the backoff decides.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, watch};
use tokio::time::{sleep, timeout};

use crate::list_watch::ServerProbe;
use crate::work_queue::ExponentialBackoff;

/// The delay before the first probe.
const FIRST_DELAY: Duration = Duration::from_millis(250);
/// The longest delay between two probes.
const MAX_DELAY: Duration = Duration::from_secs(1);
/// A probe without a response after this time counts as failed.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Probes the server of a registry's informers and tells all waiting informers when it is back.
pub(crate) struct ServerRecovery {
    probe: Arc<dyn ServerProbe>,
    /// Locked by the informer that sends the probes.
    reachability: Mutex<Reachability>,
    /// The number of recoveries so far.
    recoveries: watch::Sender<u64>,
}

/// The results of the probes.
#[derive(Debug, Default)]
struct Reachability {
    is_down: bool,
    /// Probes since the last recovery.
    probes: u32,
}

impl Reachability {
    /// Returns the delay before the next probe.
    fn delay(&self) -> Duration {
        ExponentialBackoff::new(FIRST_DELAY, MAX_DELAY).delay(self.probes)
    }

    /// Records the result of a probe. Returns whether the server has recovered: it is ready now and was not before.
    fn record(&mut self, is_ready: bool) -> bool {
        self.probes = self.probes.saturating_add(1);
        let is_back = is_ready && self.is_down;
        self.is_down = !is_ready;
        if is_back {
            self.probes = 0;
        }
        is_back
    }
}

impl ServerRecovery {
    pub(crate) fn new(probe: Arc<dyn ServerProbe>) -> Self {
        Self { probe, reachability: Mutex::default(), recoveries: watch::Sender::new(0) }
    }

    /// Waits until the server has recovered.
    ///
    /// # Cancellation safety
    /// This method is cancel safe: another waiting informer continues to probe.
    pub(crate) async fn wait_until_back(&self) {
        let mut recoveries = self.recoveries.subscribe();
        tokio::select! {
            biased;
            _ = recoveries.changed() => {}
            () = self.probe_until_back() => {}
        }
    }

    async fn probe_until_back(&self) {
        let mut reachability = self.reachability.lock().await;
        loop {
            sleep(reachability.delay()).await;
            let is_ready = timeout(PROBE_TIMEOUT, self.probe.is_ready()).await.unwrap_or(false);
            if reachability.record(is_ready) {
                tracing::info!("the API server is ready again; informers resume");
                self.recoveries.send_modify(|recoveries| *recoveries += 1);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use async_trait::async_trait;
    use futures::future::join_all;
    use tokio::time::Instant;

    use super::*;

    #[derive(Default)]
    struct Server {
        is_ready: AtomicBool,
        hangs: AtomicBool,
        probes: AtomicU32,
    }

    #[async_trait]
    impl ServerProbe for Server {
        async fn is_ready(&self) -> bool {
            self.probes.fetch_add(1, Ordering::Relaxed);
            if self.hangs.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            self.is_ready.load(Ordering::Relaxed)
        }
    }

    fn recovery() -> (Arc<Server>, Arc<ServerRecovery>) {
        let server = Arc::new(Server::default());
        (Arc::clone(&server), Arc::new(ServerRecovery::new(server)))
    }

    #[test]
    fn probe_delays_grow_to_a_second_and_only_a_recovery_counts() {
        let mut reachability = Reachability::default();
        assert!(!reachability.record(true), "it was never unreachable");
        reachability = Reachability::default();
        let mut delays = Vec::new();
        for _ in 0..40 {
            delays.push(reachability.delay());
            assert!(!reachability.record(false));
        }
        assert_eq!(delays[..4], [250, 500, 1000, 1000].map(Duration::from_millis));
        assert_eq!(delays[39], MAX_DELAY);
        assert!(reachability.record(true));
        assert!(!reachability.record(true), "it recovered once");
        assert!(!reachability.record(false));
        assert!(reachability.record(true), "and once more");
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_informers_share_one_probe_and_learn_of_the_recovery_within_a_second() {
        let (server, recovery) = recovery();
        let waiting: Vec<_> = (0..200)
            .map(|_| {
                let recovery = Arc::clone(&recovery);
                tokio::spawn(async move { recovery.wait_until_back().await })
            })
            .collect();
        sleep(Duration::from_secs(30)).await;
        assert!(waiting.iter().all(|task| !task.is_finished()));
        let probes = server.probes.load(Ordering::Relaxed);
        assert!((25..=32).contains(&probes), "{probes} probes in 30 s");
        let ready = Instant::now();
        server.is_ready.store(true, Ordering::Relaxed);
        join_all(waiting).await;
        assert!(ready.elapsed() <= MAX_DELAY, "{:?}", ready.elapsed());
        assert_eq!(server.probes.load(Ordering::Relaxed), probes + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn another_informer_continues_probing_when_the_probing_one_leaves() {
        let (server, recovery) = recovery();
        let first = tokio::spawn({
            let recovery = Arc::clone(&recovery);
            async move { recovery.wait_until_back().await }
        });
        sleep(Duration::from_secs(3)).await;
        let second = tokio::spawn({
            let recovery = Arc::clone(&recovery);
            async move { recovery.wait_until_back().await }
        });
        sleep(Duration::from_secs(3)).await;
        first.abort();
        server.is_ready.store(true, Ordering::Relaxed);
        timeout(Duration::from_secs(2), second).await.expect("in time").expect("no panic");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_was_always_ready_does_not_shorten_a_backoff() {
        let (server, recovery) = recovery();
        server.is_ready.store(true, Ordering::Relaxed);
        let waited = timeout(Duration::from_secs(30), recovery.wait_until_back()).await;
        assert!(waited.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_without_an_answer_counts_as_failed() {
        let (server, recovery) = recovery();
        server.hangs.store(true, Ordering::Relaxed);
        let task = tokio::spawn({
            let recovery = Arc::clone(&recovery);
            async move { recovery.wait_until_back().await }
        });
        sleep(Duration::from_secs(10)).await;
        server.is_ready.store(true, Ordering::Relaxed);
        server.hangs.store(false, Ordering::Relaxed);
        let ready = Instant::now();
        task.await.expect("no panic");
        assert!(ready.elapsed() <= PROBE_TIMEOUT + MAX_DELAY, "{:?}", ready.elapsed());
    }
}
