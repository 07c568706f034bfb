//! A server that becomes unreachable and recovers.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;

use super::*;
use crate::list_watch::ServerProbe;

/// A probe that returns a flag of the test.
struct FlagProbe(Arc<AtomicBool>);

#[async_trait]
impl ServerProbe for FlagProbe {
    async fn is_ready(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

fn refused() -> Failure {
    Failure::new(crate::FailureKind::ConnectionRefused, "connection refused")
}

fn informers(count: u64) -> (Arc<AtomicBool>, Vec<RunningReflector>) {
    let ready = Arc::new(AtomicBool::new(false));
    let recovery = Arc::new(ServerRecovery::new(Arc::new(FlagProbe(Arc::clone(&ready)))));
    let start = |seed| {
        start_with(&pods_key(), &InformerOptions { seed: Some(seed), ..plain() }, Some(Arc::clone(&recovery)))
    };
    (ready, (0..count).map(start).collect())
}

#[tokio::test(start_paused = true)]
async fn informers_resume_within_two_seconds_of_the_servers_recovery() {
    let (ready, mut informers) = informers(20);
    let is_ready = &ready;
    let served = informers.iter_mut().map(async |r| {
        let mut refusals = 0;
        loop {
            let (_, request) = r.server.list().await;
            if is_ready.load(Ordering::Relaxed) {
                request.items("5", &[]);
                return (Instant::now(), refusals);
            }
            refusals += 1;
            request.fail(refused());
        }
    });
    let recoveries = async {
        // Long enough that each informer would wait for 15 to 30 s between two attempts.
        tokio::time::sleep(Duration::from_secs(100)).await;
        is_ready.store(true, Ordering::Relaxed);
        Instant::now()
    };
    let (served, returned_at) = tokio::join!(futures::future::join_all(served), recoveries);
    let mut after: Vec<_> = served.iter().map(|(at, _)| *at - returned_at).collect();
    after.sort_unstable();
    assert!(after[19] <= Duration::from_secs(2), "{after:?}");
    assert!(after[19] - after[0] > Duration::from_millis(300), "spread: {after:?}");
    assert!(
        served.iter().all(|(_, refusals)| (5..=12).contains(refusals)),
        "no more requests than with backoff alone: {served:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_only_probes_does_not_shorten_the_backoff() {
    let (ready, mut informers) = informers(1);
    ready.store(true, Ordering::Relaxed);
    let r = &mut informers[0];
    let mut gaps = Vec::new();
    let mut last = Instant::now();
    for _ in 0..7 {
        r.server.list().await.1.fail(refused());
        gaps.push(last.elapsed());
        last = Instant::now();
    }
    assert!(gaps[1..].windows(2).take(4).all(|pair| pair[1] > pair[0]), "growing: {gaps:?}");
    assert!(gaps[6] >= Duration::from_secs(15), "{gaps:?}");
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured_even_if_the_server_becomes_ready() {
    let (ready, mut informers) = informers(1);
    let r = &mut informers[0];
    let (_, request) = r.server.list().await;
    let at = Instant::now();
    request.fail(Failure::response(429, Some("17"), b""));
    ready.store(true, Ordering::Relaxed);
    r.server.list().await;
    assert_eq!(at.elapsed(), Duration::from_secs(17));
}
