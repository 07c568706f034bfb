//! The [`Host`] trait: everything that a guest can see and do.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pilothouse_model::{LabelSelector, Object, ObjectKey};

use crate::{
    ApiError, Call, CallRecorder, HostMemory, HostMemoryCharge, HttpBody, HttpError, HttpTimeouts, Misuse,
};

/// Everything that guests of one plugin version can see and do. The controller crate implements it, and tests have fakes.
///
/// Nothing else reaches a guest: objects, time, randomness and the results of writes all come from here, so that an implementation can
/// record a run and replay it. One value serves all instances of a plugin, from several threads at once.
///
/// Functions that are not `async` run on the guest's thread and must answer from memory, without waiting. The futures of `async` functions
/// are dropped when the guest's call times out or is abandoned. An implementation that must know the outcome of a request therefore has to
/// send it from a task of its own.
#[async_trait]
pub trait Host: Send + Sync + 'static {
    /// Returns the operator's configuration of the plugin as JSON text, "{}" for none. It is the argument of `describe` and the result of
    /// the `config` import, and does not change during the life of this value.
    fn config(&self) -> &str;

    /// Returns the recorder of the guests' calls; `None`, the default, for none. Called once for each new instance.
    fn call_recorder(&self) -> Option<Arc<dyn CallRecorder>> {
        None
    }

    /// Returns the account of the memory that the host holds for the plugin, shared by all versions of the plugin. The default is a new
    /// account.
    fn host_memory(&self) -> HostMemory {
        HostMemory::default()
    }

    /// Returns whether the cache holds exactly this version of the object, so that a handle on it keeps nothing else alive. Called only
    /// when handles are charged.
    fn is_cached(&self, object: &Object) -> bool {
        let _ = object;
        false
    }

    /// Returns the object with this key in the watch, the plugin's own writes included.
    fn cache_get(&self, call: &Call, watch: &str, key: &ObjectKey) -> Result<Option<Object>, Misuse>;

    /// Returns at most `filter.limit` objects after `filter.after`, in the order of namespace and name. Looks at a bounded number of objects.
    fn cache_list(&self, call: &Call, watch: &str, filter: &CacheFilter) -> Result<CachePage, Misuse>;

    /// Returns objects with this index value, a part of them in each call: the first part is that of the default cursor. The parts are in
    /// any order. An object that is in two of them counts once.
    fn cache_by_index(
        &self,
        call: &Call,
        watch: &str,
        index: &str,
        value: &str,
        from: &IndexCursor,
    ) -> Result<IndexPage<Object>, Misuse>;

    /// Returns the keys of the objects that [`cache_by_index`](Self::cache_by_index) returns.
    fn cache_index_keys(
        &self,
        call: &Call,
        watch: &str,
        index: &str,
        value: &str,
        from: &IndexCursor,
    ) -> Result<IndexPage<ObjectKey>, Misuse> {
        let IndexPage { found, next } = self.cache_by_index(call, watch, index, value, from)?;
        Ok(IndexPage { found: found.iter().map(|object| object.key().clone()).collect(), next })
    }

    /// Returns index values that at least one object has, a part of them in each call. A value may be in several parts.
    fn cache_index_values(
        &self,
        call: &Call,
        watch: &str,
        index: &str,
        from: &IndexCursor,
    ) -> Result<IndexPage<String>, Misuse>;

    /// Returns whether the watch's initial list is in the cache.
    fn cache_has_synced(&self, call: &Call, watch: &str) -> Result<bool, Misuse>;

    /// Gets the object from the server. `subresource` is "" for the object itself.
    async fn client_get(
        &self,
        call: &Call,
        target: &ObjectType,
        key: &ObjectKey,
        subresource: &str,
    ) -> Result<Object, ApiError>;

    /// Lists one page of objects from the server.
    async fn client_list(
        &self,
        call: &Call,
        target: &ObjectType,
        options: &ListOptions,
    ) -> Result<LivePage, ApiError>;

    /// Creates the object in `manifest`, which is unchecked text from the guest. `charge` is for the bytes of the manifest: an implementation
    /// whose request outlives the guest's call keeps it until the request has ended.
    async fn client_create(
        &self,
        call: &Call,
        manifest: String,
        subresource: &str,
        charge: HostMemoryCharge,
    ) -> Result<Object, ApiError>;

    /// Replaces the object by `manifest`, which is unchecked text from the guest. `charge` is as in [`client_create`](Self::client_create).
    async fn client_update(
        &self,
        call: &Call,
        manifest: String,
        subresource: &str,
        charge: HostMemoryCharge,
    ) -> Result<Object, ApiError>;

    /// Patches the object. The body is unchecked text from the guest. `charge` is as in [`client_create`](Self::client_create).
    async fn client_patch(
        &self,
        call: &Call,
        target: &ObjectType,
        key: &ObjectKey,
        patch: Patch,
        subresource: &str,
        charge: HostMemoryCharge,
    ) -> Result<Object, ApiError>;

    /// Deletes the object.
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

    /// Publishes a Kubernetes Event in the background.
    fn publish_event(&self, call: &Call, event: PluginEvent<'_>);

    /// Logs one line of the plugin. The implementation enforces `limits.logLinesPerSecond` and `limits.logBytesPerSecond`. Returns `false` if
    /// it dropped the line because of them.
    fn log(&self, call: &Call, line: LogLine<'_>) -> bool;

    /// Counts lines that the caller dropped because they followed a dropped line in the same write.
    fn log_dropped(&self, call: &Call, lines: u64) {
        let (_, _) = (call, lines);
    }

    /// Records one sample of a metric. Its name and label keys are well-formed and its value is finite. The implementation checks that the
    /// sample is consistent with earlier ones.
    fn metric(&self, call: &Call, sample: MetricSample<'_>);

    /// Sends an HTTP request of a guest if it is granted, and returns the response once its head has arrived. The body of the response owns
    /// the connection: dropping the body, or this future, closes it. Method, URL and headers of the request are unchecked text from the
    /// guest.
    ///
    /// The implementation enforces `timeouts.connect` and `timeouts.first_byte`. By default all requests are denied.
    async fn http_send(
        &self,
        call: &Call,
        request: http::Request<HttpBody>,
        timeouts: &HttpTimeouts,
    ) -> Result<http::Response<HttpBody>, HttpError> {
        let (_, _, _) = (call, request, timeouts);
        Err(HttpError::Denied("this host sends no HTTP requests".to_owned()))
    }

    /// Called once at the end of each HTTP request, with the status of the response or the error. Errors are in the guest's log already.
    fn http_request_finished(&self, call: &Call, result: Result<http::StatusCode, &HttpError>) {
        let (_, _) = (call, result);
    }

    /// Returns the time since the Unix epoch, for `wasi:clocks/wall-clock`.
    fn wall_clock(&self) -> Duration;

    /// Returns a time with an arbitrary origin that never goes backwards, for `wasi:clocks/monotonic-clock`.
    fn monotonic_clock(&self) -> Duration;

    /// Fills the buffer for `wasi:random`. Guests may rely on it for secrets.
    fn random(&self, buffer: &mut [u8]);
}

/// Selects objects of a watch.
#[derive(Clone, Debug)]
pub struct CacheFilter {
    /// Only objects of this namespace; `None` for all namespaces of the watch.
    pub namespace: Option<String>,
    /// Only objects with matching labels.
    pub labels: LabelSelector,
    /// Only objects after this key.
    pub after: Option<ObjectKey>,
    /// At most this many objects; `None` for all.
    pub limit: Option<usize>,
}

/// A page of objects of a watch.
#[derive(Clone, Debug, Default)]
pub struct CachePage {
    /// The objects, in the order of namespace and name.
    pub items: Vec<Object>,
    /// Whether there are further objects, beyond the limit or after `searched_to`.
    pub more: bool,
    /// The key up to which the host has searched, if it stopped before the page was full. The search continues after it; otherwise, after the
    /// last item.
    pub searched_to: Option<ObjectKey>,
}

/// Where a search of an index continues. Only the [`Host`] that returned it knows what it means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexCursor {
    /// Which of several caches is searched.
    pub reader: usize,
    /// The last value that was looked at.
    pub value: Option<String>,
    /// The last object that was looked at.
    pub key: Option<ObjectKey>,
}

/// A page of what an index contains. A host looks at a bounded number of objects for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexPage<T> {
    /// What was found, possibly nothing.
    pub found: Vec<T>,
    /// Where the search continues; `None` after the last page.
    pub next: Option<IndexCursor>,
}

impl<T> Default for IndexPage<T> {
    fn default() -> Self {
        Self { found: Vec::new(), next: None }
    }
}

/// A kind of object in one API version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectType {
    /// The `apiVersion` of a manifest, such as "apps/v1".
    pub api_version: String,
    /// The `kind` of a manifest, such as "Deployment".
    pub kind: String,
}

/// Selects objects of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListOptions {
    /// The namespace; "" for all.
    pub namespace: String,
    /// The label selector, "" for none. Unchecked: the server refuses an invalid one.
    pub label_selector: String,
    /// The field selector, "" for none. Unchecked: the server refuses an invalid one.
    pub field_selector: String,
    /// Objects per page, between 1 and 500.
    pub limit: u32,
    /// The server's continue token; "" for the first page.
    pub cursor: String,
}

/// A page of objects from the server.
#[derive(Clone, Debug, Default)]
pub struct LivePage {
    /// The objects, in the server's order.
    pub items: Vec<Object>,
    /// The server's continue token; "" after the last page.
    pub next: String,
}

/// A change to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// The type of the patch.
    pub patch_type: PatchType,
    /// The patch, as unchecked text from the guest.
    pub body: String,
}

/// The type of a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// JSON patch (RFC 6902).
    Json,
    /// JSON merge patch (RFC 7386).
    Merge,
    /// Strategic merge patch.
    Strategic,
    /// Server-side apply.
    Apply {
        /// The field manager; `None` for the plugin's name.
        field_manager: Option<String>,
        /// Whether to take over fields of other managers.
        force: bool,
    },
}

/// Options of a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteOptions {
    /// What happens to the object's dependents.
    pub propagation: Propagation,
    /// Precondition: the object's UID.
    pub uid: Option<String>,
    /// Precondition: the object's resource version.
    pub resource_version: Option<String>,
}

/// What happens to the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted after the object.
    Background,
    /// They are deleted before the object.
    Foreground,
    /// They are kept.
    Orphan,
}

/// A Kubernetes Event that a plugin publishes.
#[derive(Clone, Copy, Debug)]
pub struct PluginEvent<'a> {
    /// The object it is about.
    pub regarding: &'a Object,
    /// Whether its type is Warning; otherwise it is Normal.
    pub warning: bool,
    /// In UpperCamelCase, at most 128 bytes.
    pub reason: &'a str,
    /// In UpperCamelCase, at most 128 bytes.
    pub action: &'a str,
    /// At most 1024 bytes.
    pub note: &'a str,
}

/// The severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// For developers of the plugin.
    Debug,
    /// Normal operation.
    Info,
    /// A possible problem.
    Warn,
    /// A failure.
    Error,
}

/// The source of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogSource {
    /// The `log` import.
    Log,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A message of the host about the plugin.
    Host,
}

/// One line of a plugin's log.
#[derive(Clone, Copy, Debug)]
pub struct LogLine<'a> {
    /// The severity. Lines of standard output are Info, lines of standard error Warn.
    pub level: LogLevel,
    /// The source.
    pub source: LogSource,
    /// The message, without a line end. Unchecked text from the guest: escape control characters before showing it in a terminal.
    pub message: &'a str,
    /// Keys and values.
    pub fields: &'a [(String, String)],
}

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only increases: the value of a sample is added, and is not negative.
    Counter,
    /// The value of a sample replaces the last one.
    Gauge,
    /// The value of a sample is counted in a bucket.
    Histogram,
}

/// One sample of a metric.
#[derive(Clone, Copy, Debug)]
pub struct MetricSample<'a> {
    /// The kind of the metric.
    pub kind: MetricKind,
    /// The name, which matches `[a-zA-Z_][a-zA-Z0-9_]*`.
    pub name: &'a str,
    /// The labels; keys match the same pattern.
    pub labels: &'a [(String, String)],
    /// The value, which is finite.
    pub value: f64,
}
