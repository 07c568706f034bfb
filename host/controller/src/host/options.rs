//! The options of a host.

use std::path::PathBuf;
use std::time::Duration;

use pilothouse_informer::Compression;
use tokio::runtime::Handle;

use crate::config::sidecar::GrantMode;
use crate::environment::Environment;

/// The options of a host.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// The directory with the plugins' .wasm files.
    pub plugins: PathBuf,
    /// The API server as `host:port`; a label of the client metrics.
    pub api_server: String,
    /// Whether the CRDs in plugins are applied, unless a sidecar decides otherwise.
    pub grant_crds: bool,
    /// Whether a plugin gets grants that its sidecar does not mention.
    pub grants: GrantMode,
    /// Identifies this process in Events: their `reportingInstance` ends with it.
    pub instance: String,
    /// The host's own namespace, in which Events about plugins are created.
    pub namespace: String,
    /// How long a file must be unchanged before it is loaded.
    pub settle: Duration,
    /// Whether the file system notifies the host of changes. The directory is polled every two seconds in any case, because network file
    /// systems send no notifications.
    pub file_events: bool,
    /// How often the read permissions of plugins' service accounts are re-checked. A permission that is revoked stays effective for about
    /// that long.
    pub access_review_interval: Duration,
    /// The runtime for informers; `None` for the runtime of the plugins.
    pub informer_runtime: Option<Handle>,
    /// How cached objects are compressed; `None` for not at all.
    pub cache_compression: Option<Compression>,
    /// Whether watches request streaming lists first. API servers compress plain lists, but not streams.
    pub streaming_lists: bool,
    /// Whether a reload queues every object again. Disabled only in tests.
    pub requeue_on_reload: bool,
    /// Whether each request of a plugin has a [`RequestOrigin`](crate::RequestOrigin) among its extensions. Enabled only in simulations.
    pub name_request_origins: bool,
    /// The time of day and randomness. [`Environment::default`] takes them from the operating system.
    pub environment: Environment,
}
