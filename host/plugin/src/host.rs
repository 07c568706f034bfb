//! All that a guest can observe of the world.

use std::time::Duration;

use async_trait::async_trait;
use pilothouse_model::{LabelSelector, Object, ObjectKey};

use crate::{ApiError, Call, HostMemory, HttpBody, HttpError, HttpTimeouts, Misuse};

/// Everything that guests of one plugin version can see and do, implemented by the controller crate (and by fakes in tests).
///
/// Nothing else reaches a guest: objects, time, randomness and the results of writes all pass through here, so that an implementation
/// can record a run and play it back. One value serves all instances of a plugin, from several threads at once.
///
/// Functions that are not `async` run on the guest's thread and must not wait: they answer from memory. The futures of `async` functions
/// are dropped when the guest's call times out or is abandoned: an implementation that must know what became of a request has to send it
/// from a task of its own.
#[async_trait]
pub trait Host: Send + Sync + 'static {
    /// The operator's configuration of the plugin as JSON text, "{}" for none: what `describe` is called with, and what the `config`
    /// import answers. The same for as long as this value lives.
    fn config(&self) -> &str;

    /// The account of what the host holds for the plugin, the same for all its versions. One that nobody shares is the default.
    fn host_memory(&self) -> HostMemory {
        HostMemory::default()
    }

    /// Whether the cache holds this very version of the object, so that a handle on it keeps nothing else alive. Asked only when
    /// handles are charged.
    fn is_cached(&self, object: &Object) -> bool {
        let _ = object;
        false
    }

    /// The object with this key in the watch, own writes included.
    fn cache_get(&self, call: &Call, watch: &str, key: &ObjectKey) -> Result<Option<Object>, Misuse>;

    /// Objects in the order of namespace and name, those after `filter.after` only, at most `filter.limit`.
    fn cache_list(&self, call: &Call, watch: &str, filter: &CacheFilter) -> Result<CachePage, Misuse>;

    /// All objects with this index value, in the order of namespace and name.
    fn cache_by_index(
        &self,
        call: &Call,
        watch: &str,
        index: &str,
        value: &str,
    ) -> Result<Vec<Object>, Misuse>;

    /// The keys of [`cache_by_index`](Self::cache_by_index).
    fn cache_index_keys(
        &self,
        call: &Call,
        watch: &str,
        index: &str,
        value: &str,
    ) -> Result<Vec<ObjectKey>, Misuse> {
        let objects = self.cache_by_index(call, watch, index, value)?;
        Ok(objects.iter().map(|object| object.key().clone()).collect())
    }

    /// The values that at least one object has, in order.
    fn cache_index_values(&self, call: &Call, watch: &str, index: &str) -> Result<Vec<String>, Misuse>;

    /// Whether the watch's first list has been taken in.
    fn cache_has_synced(&self, call: &Call, watch: &str) -> Result<bool, Misuse>;

    /// The object as the server has it; `subresource` is "" for the object itself.
    async fn client_get(
        &self,
        call: &Call,
        target: &ObjectType,
        key: &ObjectKey,
        subresource: &str,
    ) -> Result<Object, ApiError>;

    /// One page of objects as the server has them.
    async fn client_list(
        &self,
        call: &Call,
        target: &ObjectType,
        options: &ListOptions,
    ) -> Result<LivePage, ApiError>;

    /// Creates the object in `manifest`, any text the guest sent.
    async fn client_create(
        &self,
        call: &Call,
        manifest: String,
        subresource: &str,
    ) -> Result<Object, ApiError>;

    /// Replaces the object by `manifest`, any text the guest sent.
    async fn client_update(
        &self,
        call: &Call,
        manifest: String,
        subresource: &str,
    ) -> Result<Object, ApiError>;

    /// Patches the object; the body is any text the guest sent.
    async fn client_patch(
        &self,
        call: &Call,
        target: &ObjectType,
        key: &ObjectKey,
        patch: Patch,
        subresource: &str,
    ) -> Result<Object, ApiError>;

    /// Asks for the object's deletion.
    async fn client_delete(
        &self,
        call: &Call,
        target: &ObjectType,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<(), ApiError>;

    /// Queues a key of a target watch.
    fn queue_add(&self, call: &Call, watch: &str, key: ObjectKey) -> Result<(), Misuse>;

    /// Queues a key of a target watch after a delay of at most [`MAX_MILLISECONDS`](crate::MAX_MILLISECONDS).
    fn queue_add_after(
        &self,
        call: &Call,
        watch: &str,
        key: ObjectKey,
        delay: Duration,
    ) -> Result<(), Misuse>;

    /// Records a Kubernetes Event, in the background.
    fn publish_event(&self, call: &Call, event: PluginEvent<'_>);

    /// Takes one line of the plugin's log. Rate-limited already.
    fn log(&self, call: &Call, line: LogLine<'_>);

    /// Takes one use of a metric. Its name and label keys are well formed and its value finite; whether they fit earlier uses is for the
    /// implementation to judge.
    fn metric(&self, call: &Call, sample: MetricSample<'_>);

    /// Sends an HTTP request of a guest that may call for it now, if it is granted, and gives the response once its head is there. The
    /// response's body brings its connection along: dropping it, or this future, closes it. Not the body of the request, but everything
    /// else of it is any text the guest sent.
    ///
    /// Implementations hold the first two of the time-outs. That nobody gets anywhere is the default.
    async fn http_send(
        &self,
        call: &Call,
        request: http::Request<HttpBody>,
        timeouts: &HttpTimeouts,
    ) -> Result<http::Response<HttpBody>, HttpError> {
        let (_, _, _) = (call, request, timeouts);
        Err(HttpError::Denied("this host sends no HTTP requests".to_owned()))
    }

    /// Told once of each HTTP request how it ended: with a response, or how not. The guest's log has it already.
    fn http_ended(&self, call: &Call, result: Result<http::StatusCode, &HttpError>) {
        let (_, _) = (call, result);
    }

    /// The time since the Unix epoch, as `wasi:clocks/wall-clock` tells it.
    fn wall_clock(&self) -> Duration {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
    }

    /// A time that never goes backwards, from any origin, as `wasi:clocks/monotonic-clock` tells it.
    fn monotonic_clock(&self) -> Duration;

    /// Fills the buffer for `wasi:random`. Guests may rely on it for secrets.
    fn random(&self, buffer: &mut [u8]);
}

/// Which objects of a watch.
#[derive(Clone, Debug)]
pub struct CacheFilter {
    /// None for all namespaces of the watch.
    pub namespace: Option<String>,
    /// What the labels must satisfy.
    pub labels: LabelSelector,
    /// Only objects after this key.
    pub after: Option<ObjectKey>,
    /// At most so many; None for all.
    pub limit: Option<usize>,
}

/// Some objects of a watch.
#[derive(Clone, Debug, Default)]
pub struct CachePage {
    /// In the order of namespace and name.
    pub items: Vec<Object>,
    /// Whether the limit left some out.
    pub more: bool,
}

/// One kind of object in one API version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectType {
    /// As in a manifest: "apps/v1".
    pub api_version: String,
    /// As in a manifest: "Deployment".
    pub kind: String,
}

/// Which objects of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListOptions {
    /// "" for all namespaces.
    pub namespace: String,
    /// "" for all; not checked, the server judges.
    pub label_selector: String,
    /// "" for all; not checked, the server judges.
    pub field_selector: String,
    /// Between 1 and 500.
    pub limit: u32,
    /// "" for the first page, else the server's continue token.
    pub cursor: String,
}

/// A page of objects from the server.
#[derive(Clone, Debug, Default)]
pub struct LivePage {
    /// In the server's order.
    pub items: Vec<Object>,
    /// The server's continue token, "" after the last page.
    pub next: String,
}

/// A change to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// The form of the body.
    pub patch_type: PatchType,
    /// JSON, if the guest is right.
    pub body: String,
}

/// The form of a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Strategic merge patch.
    Strategic,
    /// Server-side apply.
    Apply {
        /// None for the plugin's own name.
        field_manager: Option<String>,
        /// Take fields over from other managers.
        force: bool,
    },
}

/// How to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteOptions {
    /// What becomes of dependents.
    pub propagation: Propagation,
    /// Only the object with this UID.
    pub uid: Option<String>,
    /// Only this state.
    pub resource_version: Option<String>,
}

/// What becomes of a deleted object's dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// Deleted afterwards.
    Background,
    /// Deleted first.
    Foreground,
    /// Left alone.
    Orphan,
}

/// A Kubernetes Event that a plugin publishes.
#[derive(Clone, Copy, Debug)]
pub struct PluginEvent<'a> {
    /// The object it is about.
    pub regarding: &'a Object,
    /// Warning, or else Normal.
    pub warning: bool,
    /// UpperCamelCase, at most 128 bytes.
    pub reason: &'a str,
    /// UpperCamelCase, at most 128 bytes.
    pub action: &'a str,
    /// At most 1024 bytes.
    pub note: &'a str,
}

/// How much a log line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// For developers.
    Debug,
    /// Normal.
    Info,
    /// Deserves a look.
    Warn,
    /// Something failed.
    Error,
}

/// Where a log line comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogSource {
    /// The `log` import.
    Log,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// The host, about the plugin.
    Host,
}

/// One line of a plugin's log.
#[derive(Clone, Copy, Debug)]
pub struct LogLine<'a> {
    /// How much it matters: lines of standard output are Info, of standard error Warn.
    pub level: LogLevel,
    /// Where it comes from.
    pub source: LogSource,
    /// Without a line end. Any text the guest likes: escape control characters where a terminal shows it.
    pub message: &'a str,
    /// Keys and values.
    pub fields: &'a [(String, String)],
}

/// What a metric counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only rises: the value is added, and not negative.
    Counter,
    /// The value is set.
    Gauge,
    /// The value is observed.
    Histogram,
}

/// One use of a metric.
#[derive(Clone, Copy, Debug)]
pub struct MetricSample<'a> {
    /// What it counts.
    pub kind: MetricKind,
    /// `[a-zA-Z_][a-zA-Z0-9_]*`.
    pub name: &'a str,
    /// Keys are of the same form.
    pub labels: &'a [(String, String)],
    /// Finite.
    pub value: f64,
}
