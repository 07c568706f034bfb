//! The attackers by host calls, memory, output and rights at once, beside a healthy plugin under load. `cargo xtask hostile` runs them for
//! longer, and measures.

use std::time::Duration;

use tokio::time::Instant;

use super::{Arena, Attack, host_calls, memory, output, rights};
use crate::harness::{Host, Options};

/// The variable that sets for how many seconds the siege lasts.
const SECONDS: &str = "PILOTHOUSE_SIEGE_SECONDS";
/// Pieces of work that the healthy plugin does during a short siege.
const ROUNDS: u32 = 30;
/// Attackers, objects and their retries take more together than one at a time.
const GROWTH: usize = 1536 << 20;

fn attackers() -> Vec<Attack> {
    let mut attackers = host_calls::attacks();
    attackers.extend(memory::attacks());
    attackers.extend(output::attacks());
    attackers.extend(rights::cluster_scoped());
    attackers
}

/// How long pieces of work took, in order of length.
struct Latencies(Vec<Duration>);

impl Latencies {
    async fn of(arena: &mut Arena, rounds: u32, seconds: Option<u64>) -> Self {
        let begin = Instant::now();
        let mut latencies = Vec::new();
        let goes_on = |done: usize| match seconds {
            Some(seconds) => begin.elapsed() < Duration::from_secs(seconds),
            None => done < rounds as usize,
        };
        while goes_on(latencies.len()) {
            let start = Instant::now();
            arena.neighbour.works(&arena.host, "a siege").await;
            latencies.push(start.elapsed());
        }
        latencies.sort();
        Self(latencies)
    }

    /// For a person to read: nothing is asserted of times.
    fn print(&self, when: &str) {
        let at = |percent: usize| self.0.get(self.0.len() * percent / 100).copied().unwrap_or_default();
        println!("{when}: {} pieces of work, p50 {:?}, p99 {:?}", self.0.len(), at(50), at(99));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_plugin_keeps_working_during_combined_attacks() {
    let seconds = std::env::var(SECONDS).ok().and_then(|seconds| seconds.parse().ok());
    let host = Host::start_with(Options { no_requeue_on_reload: true, ..Options::default() }).await;
    let mut arena = Arena::on(host).await;
    let alone = Latencies::of(&mut arena, ROUNDS, seconds.map(|seconds: u64| seconds.div_ceil(10))).await;
    let attackers = attackers();
    for attacker in &attackers {
        attacker.begin(&arena.host).await;
    }
    for attacker in &attackers {
        attacker.is_named(&arena.host).await;
    }
    let besieged = Latencies::of(&mut arena, ROUNDS, seconds).await;
    arena.neighbour.is_unharmed(&arena.host).await;
    assert_eq!(arena.host.get("/healthz").await.0, 200);
    let (before, after) = (arena.memory_before, arena.host.resident_memory());
    if let (Some(before), Some(after)) = (before, after) {
        println!("memory: {} MiB before, {} MiB after", before >> 20, after >> 20);
        assert!(after < before + GROWTH, "{before} bytes of memory before, {after} after");
    }
    alone.print("alone");
    besieged.print("besieged");
    let start = Instant::now();
    arena.ends().await;
    println!("ended {:?} after SIGTERM", start.elapsed());
}
