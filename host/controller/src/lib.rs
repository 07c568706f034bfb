//! Runs the plugins of a directory, each as a controller of its own.
//!
//! A plugin's descriptor declares what it watches. [`PluginHost`] loads the plugin, subscribes to shared informers, queues the keys that
//! changes trigger, and reconciles them with instances of the plugin. [`check()`] does the first part without running the plugin.
//!
//! ```text
//! directory ─▶ load (compile, describe, CRDs, subscribe, sync) ─▶ version ─▶ swap
//! informers ─▶ dispatch (predicate, targets) ─▶ queue ─▶ worker ─▶ instance ─▶ live client ─▶ API server
//! ```

mod access;
mod cache;
mod check;
mod client;
mod config;
mod directory;
mod environment;
mod explain;
mod guest_host;
mod host;
mod lifecycle;
mod load;
mod logs;
mod metrics;
mod name;
mod outgoing;
mod plugin_resource;
mod private_file;
pub mod recording;
mod rollout;
mod runtime;
mod shadow;
pub mod stable_hash;
mod timestamp;
mod trace;

pub use access::{AccountError, ServiceAccount};
pub use check::{
    Availability, CheckError, CheckReport, CheckServers, CheckedLimits, CheckedRule, CheckedWatch,
    RequiredPermission, check, review_permissions, sidecar_warnings,
};
pub use client::clients::Clients;
pub use client::{FIELD_MANAGER as CRD_FIELD_MANAGER, RequestOrigin, ResourceLists};
pub use config::sidecar::GrantMode;
pub use config::{descriptor, limits, sidecar};
pub use environment::{Environment, Randomness, WallClock};
pub use explain::{
    CachedObject, Cause, EntryDetail, Explanation, HotLoopSituation, JournalEntry, MissingPrerequisite,
    PluginSituation, PredicatePart, PredicateSituation, PredicateValue, PrerequisiteKind, QueueSituation,
    ServerObject, Situation, TriggerSituation, VersionSituation, WatchSituation,
};
pub use guest_host::{CallRecorderFactory, ObservedVersion};
pub use host::{
    HostOptions, InMemoryPlugin, LoadProgress, PluginHost, ProvidedFailure, ProvidedPlugins, ProvidedReport,
    Verification,
};
pub use lifecycle::{HostMemoryStatus, LastError, PluginOrigin, PluginState, PluginStatus, StateChange};
pub use logs::{HOST_SOURCE, LogChunk, PluginLogLine, PluginLogs, printable, printable_quoted};
pub use metrics::Metrics;
pub use metrics::guest::GuestMetrics;
pub use name::{NameError, PluginName};
pub use outgoing::{HttpTransport, PatternError};
pub use pilothouse_informer::Compression;
pub use plugin_resource::{ObjectPlugin, ObjectPlugins, OtherNamespaces, PluginResource, plugin_crd};
pub use rollout::{CanaryStatus, HeldBackStatus, ProbationStatus, RolloutStatus, VersionStatus};
pub use runtime::predicate;
pub use runtime::slow_reconciles::SlowReconcile;
pub use runtime::{
    ControlError, KeyStateName, PluginDetails, PluginGrants, PluginKeys, QueuedKey, WatchDetails,
};
pub use shadow::{ShadowDifference, ShadowStatus};
pub use trace::{
    Attribute, AttributeValue, Span, SpanContext, SpanId, SpanKind, SpanReceiver, TraceId, TraceOptions,
    Tracer,
};
