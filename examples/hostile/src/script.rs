//! The steps of a script: one per import of the contract, and a few that use no import.

use serde::Deserialize;

use crate::text::Text;

/// One step of a script, repeated `times` times (1 by default).
#[derive(Debug, Deserialize)]
pub(crate) struct Step {
    /// How often the step is performed, each time with its own `{turn}`.
    #[serde(default = "once")]
    pub(crate) times: u32,
    /// Whether the results are not logged.
    #[serde(default)]
    pub(crate) quiet: bool,
    #[serde(flatten)]
    pub(crate) action: Action,
}

fn once() -> u32 {
    1
}

/// A key and its value: a label or a log field.
#[derive(Debug, Deserialize)]
pub(crate) struct Pair(pub(crate) Text, pub(crate) Text);

/// An object on the server.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Target {
    pub(crate) api_version: Text,
    pub(crate) kind: Text,
    pub(crate) namespace: Text,
    pub(crate) name: Text,
    pub(crate) subresource: Text,
}

/// Selects objects of a watch.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Filter {
    pub(crate) watch: Text,
    pub(crate) namespace: Text,
    pub(crate) selector: Text,
    pub(crate) limit: u32,
    pub(crate) cursor: Text,
}

/// What a step does.
#[derive(Debug, Deserialize)]
#[serde(tag = "do")]
pub(crate) enum Action {
    #[serde(rename = "cache.get")]
    CacheGet {
        watch: Text,
        #[serde(default)]
        namespace: Text,
        name: Text,
        /// Whether the handle stays open for the lifetime of the instance.
        #[serde(default)]
        keep: bool,
        /// A pointer at which the object is read.
        #[serde(default)]
        pointer: Option<Text>,
    },
    #[serde(rename = "cache.list")]
    CacheList {
        #[serde(flatten)]
        filter: Filter,
    },
    #[serde(rename = "cache.list-fields")]
    CacheListFields {
        #[serde(flatten)]
        filter: Filter,
        pointer: Text,
        #[serde(default = "once")]
        pointers: u32,
    },
    #[serde(rename = "cache.by-index")]
    CacheByIndex { watch: Text, index: Text, value: Text },
    #[serde(rename = "cache.index-keys")]
    CacheIndexKeys { watch: Text, index: Text, value: Text },
    #[serde(rename = "cache.index-values")]
    CacheIndexValues { watch: Text, index: Text },
    #[serde(rename = "client.get")]
    ClientGet {
        #[serde(flatten)]
        target: Target,
        #[serde(default)]
        keep: bool,
    },
    #[serde(rename = "client.list")]
    ClientList {
        #[serde(flatten)]
        target: Target,
        #[serde(default)]
        label_selector: Text,
        #[serde(default)]
        field_selector: Text,
        #[serde(default)]
        cursor: Text,
        #[serde(default)]
        keep: bool,
    },
    #[serde(rename = "client.create")]
    ClientCreate {
        manifest: Text,
        #[serde(default)]
        subresource: Text,
    },
    #[serde(rename = "client.update")]
    ClientUpdate {
        manifest: Text,
        #[serde(default)]
        subresource: Text,
    },
    #[serde(rename = "client.patch")]
    ClientPatch {
        #[serde(flatten)]
        target: Target,
        /// `json`, `merge`, `strategic` or `apply`.
        form: String,
        body: Text,
        #[serde(default)]
        manager: Text,
        #[serde(default)]
        force: bool,
    },
    #[serde(rename = "client.delete")]
    ClientDelete {
        #[serde(flatten)]
        target: Target,
        #[serde(default)]
        uid: Text,
        #[serde(default)]
        resource_version: Text,
    },
    #[serde(rename = "queue.add")]
    QueueAdd {
        watch: Text,
        #[serde(default)]
        namespace: Text,
        name: Text,
    },
    #[serde(rename = "queue.add-after")]
    QueueAddAfter {
        watch: Text,
        #[serde(default)]
        namespace: Text,
        name: Text,
        milliseconds: u32,
    },
    /// Publishes an Event about the object of the request.
    #[serde(rename = "events.publish")]
    Publish { reason: Text, action: Text, note: Text },
    #[serde(rename = "log")]
    Log {
        message: Text,
        #[serde(default)]
        fields: Vec<Pair>,
    },
    #[serde(rename = "metrics.counter")]
    Counter { name: Text, labels: Vec<Pair>, value: f64 },
    #[serde(rename = "metrics.gauge")]
    Gauge { name: Text, labels: Vec<Pair>, value: f64 },
    #[serde(rename = "metrics.histogram")]
    Histogram { name: Text, labels: Vec<Pair>, value: f64 },
    #[serde(rename = "stdout")]
    Stdout { text: Text },
    #[serde(rename = "stderr")]
    Stderr { text: Text },
    /// Reads the object of the request at a pointer.
    #[serde(rename = "field")]
    Field { pointer: Text },
    /// Reads the object of the request at several pointers in one call.
    #[serde(rename = "fields")]
    Fields { pointer: Text, pointers: u32 },
    /// Keeps a handle to the object of the request open for the lifetime of the instance.
    #[serde(rename = "keep")]
    Keep,
    /// Allocates this many bytes and never frees them.
    #[serde(rename = "allocate")]
    Allocate { bytes: usize },
    /// Computes without end.
    #[serde(rename = "loop")]
    Loop,
    /// Traps.
    #[serde(rename = "trap")]
    Trap,
    /// Ends the call with an error that is retried.
    #[serde(rename = "fail")]
    Fail { message: Text },
    /// Ends the call and requeues the key after this many milliseconds.
    #[serde(rename = "requeue")]
    Requeue { milliseconds: u32 },
}
