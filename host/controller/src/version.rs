//! One version of a plugin: its code with all that it needs to run.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_informer::{InformerKey, Subscription};
use pilothouse_plugin::InstancePool;

use crate::descriptor::Descriptor;
use crate::fence::Fence;
use crate::predicate::Predicate;
use crate::targets::Targets;
use crate::views::Views;

/// A described, synced version.
pub(crate) struct Version {
    pub(crate) descriptor: Descriptor,
    /// SHA-256 of the .wasm.
    pub(crate) digest: String,
    /// The sidecar's text, "" without one.
    pub(crate) sidecar_text: String,
    pub(crate) workers: usize,
    pub(crate) pool: InstancePool,
    pub(crate) views: Arc<Views>,
    pub(crate) routes: Vec<Route>,
    pub(crate) fence: Fence,
}

/// What becomes of one subscription's notifications.
pub(crate) struct Route {
    pub(crate) watch: Arc<str>,
    pub(crate) subscribed: Subscribed,
    /// Absent for a watch that only fills the cache.
    pub(crate) work: Option<Work>,
}

/// A subscription and what was asked for, by which the next version recognises that it needs the same.
#[derive(Clone)]
pub(crate) struct Subscribed {
    pub(crate) key: InformerKey,
    pub(crate) resync: Option<Duration>,
    pub(crate) subscription: Arc<Subscription>,
}

/// The work that a change starts.
pub(crate) struct Work {
    pub(crate) predicate: Predicate,
    pub(crate) targets: Targets,
    pub(crate) target_watch: Arc<str>,
}

impl Version {
    /// Whether these are the files that this version was made of.
    pub(crate) fn is_of(&self, digest: &str, sidecar_text: &str) -> bool {
        self.digest == digest && self.sidecar_text == sidecar_text
    }

    /// What it watches, for people: `foos (foos.v1.example.com), …`.
    pub(crate) fn watching(&self) -> String {
        let watches: Vec<_> =
            self.views.by_name.iter().map(|(name, view)| format!("{name} ({})", view.resource)).collect();
        watches.join(", ")
    }
}
