//! Attacks by plugins, descriptors, files, objects and web pages, each next to a healthy plugin. The host must survive with bounded
//! memory, the healthy plugin must keep working, the host must stop on SIGTERM, and the attacker must be reported. These tests verify the
//! statements in docs/security.md.
//!
//! The attacks of one test run one after another against one host, so that leaks add up.

mod attack;
mod combined;
mod descriptors;
mod expressions;
mod files;
mod healthy_plugin;
mod host_calls;
mod memory;
mod output;
mod permissions;
mod requests;
mod revocation;
mod web_pages;

use attack::Attack;
use healthy_plugin::HealthyPlugin;

use crate::harness::Host;

/// Maximum growth of the host's resident memory in bytes during the attacks of one test. It is enough for the plugins' host memory and
/// one compilation, but far less than the attacks would use without limits.
const MAX_GROWTH: usize = 512 << 20;

/// A host with a healthy plugin and a measurement of its initial memory.
struct HostUnderAttack {
    host: Host,
    healthy: HealthyPlugin,
    memory_before: Option<usize>,
}

impl HostUnderAttack {
    async fn start() -> Self {
        Self::with_host(Host::start().await).await
    }

    async fn with_host(host: Host) -> Self {
        let healthy = HealthyPlugin::start(&host).await;
        let memory_before = host.resident_memory();
        Self { host, healthy, memory_before }
    }

    /// Runs one attack: installs the attacker, waits until it is reported, checks the host and removes the attacker.
    async fn run_attack(&mut self, attack: &Attack) {
        attack.start(&self.host).await;
        attack.wait_for_evidence(&self.host).await;
        self.assert_healthy(attack.name()).await;
        attack.remove(&self.host).await;
    }

    /// Asserts that the host responds, that its memory is bounded, and that the healthy plugin works.
    async fn assert_healthy(&mut self, attack: &str) {
        self.healthy.run_round(&self.host, attack).await;
        self.healthy.assert_unaffected(&self.host).await;
        assert_eq!(self.host.get("/healthz").await.0, 200, "{attack}");
        if let (Some(before), Some(after)) = (self.memory_before, self.host.resident_memory()) {
            assert!(after < before + MAX_GROWTH, "{attack}: {before} bytes of memory before, {after} after");
        }
    }

    /// Stops the host with SIGTERM and asserts that it exits successfully.
    async fn stop(self) {
        let status = self.host.terminate().await;
        assert!(status.success(), "the host exited with {status}");
    }
}

/// Runs the attacks in order against one host, then stops it.
async fn run_attacks(attacks: impl IntoIterator<Item = Attack>) {
    let mut target = HostUnderAttack::start().await;
    for attack in attacks {
        target.run_attack(&attack).await;
    }
    target.stop().await;
}
