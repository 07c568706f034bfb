//! Attacks by plugins, descriptors, files, objects and web pages, each beside a healthy plugin: the host lives, its memory stays within
//! bounds, the healthy plugin's work goes on, the host ends when it is told to, and the culprit is named. docs/security.md has the promises
//! that these tests hold.
//!
//! The attacks of one file run one after another against one host, so that what each leaves behind adds up.

mod attack;
mod descriptors;
mod expressions;
mod files;
mod host_calls;
mod memory;
mod healthy_plugin;
mod output;
mod requests;
mod revocation;
mod rights;
mod combined;
mod web_pages;

use attack::Attack;
use healthy_plugin::HealthyPlugin;

use crate::harness::Host;

/// What the host's resident memory may grow by during the attacks of one file. The accounts of the plugins and one compilation fit into
/// it; what the attacks would take without bounds does not by far.
const GROWTH: usize = 512 << 20;

/// A host with a healthy plugin, whose memory is watched.
struct Arena {
    host: Host,
    neighbour: HealthyPlugin,
    memory_before: Option<usize>,
}

impl Arena {
    async fn start() -> Self {
        Self::on(Host::start().await).await
    }

    async fn on(host: Host) -> Self {
        let neighbour = HealthyPlugin::start(&host).await;
        let memory_before = host.resident_memory();
        Self { host, neighbour, memory_before }
    }

    /// Runs one attack from its beginning to its end.
    async fn withstands(&mut self, attack: &Attack) {
        attack.begin(&self.host).await;
        attack.is_named(&self.host).await;
        self.goes_on(attack.name()).await;
        attack.end(&self.host).await;
    }

    /// Asserts that the host is alive within its memory, and that the neighbour does a piece of work.
    async fn goes_on(&mut self, beside: &str) {
        self.neighbour.works(&self.host, beside).await;
        self.neighbour.is_unharmed(&self.host).await;
        assert_eq!(self.host.get("/healthz").await.0, 200, "{beside}");
        if let (Some(before), Some(after)) = (self.memory_before, self.host.resident_memory()) {
            assert!(after < before + GROWTH, "{beside}: {before} bytes of memory before, {after} after");
        }
    }

    /// Asserts that the host ends when it is told to, and by itself.
    async fn ends(self) {
        let status = self.host.terminate().await;
        assert!(status.success(), "the host ended with {status}");
    }
}

/// Runs the attacks in order against one host, and ends it.
async fn withstand(attacks: impl IntoIterator<Item = Attack>) {
    let mut arena = Arena::start().await;
    for attack in attacks {
        arena.withstands(&attack).await;
    }
    arena.ends().await;
}
