//! One controller per plugin: from its descriptor to its subscriptions, its queue and its workers, and the host that
//! runs the plugins of a directory.
//!
//! ```text
//! directory ─▶ load (compile, describe, CRDs, subscribe, sync) ─▶ version ─▶ swap
//! informers ─▶ dispatch (predicate, targets) ─▶ queue ─▶ worker ─▶ instance ─▶ live client ─▶ API server
//! ```

mod access;
mod clients;
mod compile_metrics;
mod computed;
pub mod descriptor;
mod directory;
mod fence;
mod grants;
mod guest_host;
mod guest_metrics;
mod guest_services;
mod host;
mod hot_loop;
mod in_flight;
mod indexer;
mod informer_metrics;
mod lifecycle;
pub mod limits;
mod load;
mod logs;
mod metrics;
mod name;
mod operator;
mod outgoing;
mod own_writes;
mod pinned;
mod plugin;
mod plugin_file;
pub mod predicate;
mod queue;
mod quota;
mod rest_metrics;
mod server;
pub mod sidecar;
mod targets;
mod task_panics;
mod version;
mod views;
mod writer;

pub use access::{AccountError, ServiceAccount};
pub use clients::Clients;
pub use guest_metrics::GuestMetrics;
pub use host::{HostOptions, PluginHost};
pub use lifecycle::{HostMemoryStatus, PluginState, PluginStatus};
pub use load::check::{CheckReport, CheckServers, CheckedLimits, CheckedWatch, Right, Verdict, check};
pub use logs::{PluginLogLine, PluginLogs, printable};
pub use metrics::Metrics;
pub use name::{NameError, PluginName};
pub use outgoing::PatternError;
pub use sidecar::GrantMode;
