//! Runs the attacks by host calls, memory, output and permissions at once next to a healthy plugin under load. `cargo xtask hostile` runs them
//! for longer and in release mode.

use std::time::Duration;

use tokio::time::Instant;

use super::{Attack, HostUnderAttack, host_calls, memory, output, permissions};
use crate::harness::{Host, Options};

/// The environment variable with the duration of the combined attacks in seconds.
const SECONDS_VARIABLE: &str = "PILOTHOUSE_COMBINED_ATTACK_SECONDS";
/// Number of rounds of the healthy plugin if no duration is set.
const ROUNDS: u32 = 30;
/// Maximum growth of the resident memory in bytes. Higher than for single attacks, because all attackers and their objects coexist.
const MAX_GROWTH: usize = 1536 << 20;

fn attackers() -> Vec<Attack> {
    let mut attackers = host_calls::attacks();
    attackers.extend(memory::attacks());
    attackers.extend(output::attacks());
    attackers.extend(permissions::cluster_scoped());
    attackers
}

/// The durations of the healthy plugin's rounds, sorted.
struct Latencies(Vec<Duration>);

impl Latencies {
    /// Runs rounds for a number of seconds, or a fixed number of rounds if `seconds` is `None`.
    async fn measure(target: &mut HostUnderAttack, rounds: u32, seconds: Option<u64>) -> Self {
        let begin = Instant::now();
        let mut latencies = Vec::new();
        let has_more = |done: usize| match seconds {
            Some(seconds) => begin.elapsed() < Duration::from_secs(seconds),
            None => done < rounds as usize,
        };
        while has_more(latencies.len()) {
            let start = Instant::now();
            target.healthy.run_round(&target.host, "combined attacks").await;
            latencies.push(start.elapsed());
        }
        latencies.sort();
        Self(latencies)
    }

    /// Prints the percentiles. The test asserts nothing about them.
    fn print(&self, phase: &str) {
        let at = |percent: usize| self.0.get(self.0.len() * percent / 100).copied().unwrap_or_default();
        println!("{phase}: {} rounds, p50 {:?}, p99 {:?}", self.0.len(), at(50), at(99));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_plugin_keeps_working_during_combined_attacks() {
    let seconds = std::env::var(SECONDS_VARIABLE).ok().and_then(|seconds| seconds.parse().ok());
    let host = Host::start_with(Options { no_requeue_on_reload: true, ..Options::default() }).await;
    let mut target = HostUnderAttack::with_host(host).await;
    let alone =
        Latencies::measure(&mut target, ROUNDS, seconds.map(|seconds: u64| seconds.div_ceil(10))).await;
    let attackers = attackers();
    for attacker in &attackers {
        attacker.start(&target.host).await;
    }
    for attacker in &attackers {
        attacker.wait_for_evidence(&target.host).await;
    }
    let under_attack = Latencies::measure(&mut target, ROUNDS, seconds).await;
    target.healthy.assert_unaffected(&target.host).await;
    assert_eq!(target.host.get("/healthz").await.0, 200);
    let (before, after) = (target.memory_before, target.host.resident_memory());
    if let (Some(before), Some(after)) = (before, after) {
        println!("memory: {} MiB before, {} MiB after", before >> 20, after >> 20);
        assert!(after < before + MAX_GROWTH, "{before} bytes of memory before, {after} after");
    }
    alone.print("alone");
    under_attack.print("under attack");
    let start = Instant::now();
    target.stop().await;
    println!("exited {:?} after SIGTERM", start.elapsed());
}
