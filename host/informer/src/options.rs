use std::time::Duration;

/// How informers list, watch and deliver. The defaults are what a controller against a real API server wants.
///
/// ```
/// use pilothouse_informer::InformerOptions;
///
/// // Smaller pages and less waiting for the store, for a host with little memory.
/// let options = InformerOptions { page_size: 100, delta_capacity: 128, ..InformerOptions::default() };
/// assert!(options.streaming_list);
/// ```
#[derive(Clone, Debug)]
pub struct InformerOptions {
    /// Whether to try a streaming list (`WatchList`) first. A server without it costs one refused request.
    pub streaming_list: bool,
    /// How many items a page of a consistent list has (B01).
    pub page_size: u32,
    /// How many deltas may wait for the store before the reflector stops reading.
    pub delta_capacity: usize,
    /// After how long without a byte a list or watch counts as dead (B02). A real server sends a bookmark each minute.
    pub idle_timeout: Duration,
    /// After how long without a byte a streaming list counts as not understood by the server (B07).
    pub initial_events_timeout: Duration,
    /// The largest object that is read, in bytes of JSON. It bounds the memory that a broken server can take.
    pub max_object_bytes: usize,
    /// The most items of one list, all pages together: more than any cluster has. It ends a list that never ends.
    pub max_list_items: usize,
    /// Whether caches are compressed. It makes them several times smaller; what is read has to be unpacked first.
    pub compression: Option<Compression>,
    /// The runtime that informers run on; that of whoever subscribes when there is none. On one with a single thread, a
    /// connection and its informer take turns without waking another thread for each chunk.
    pub runtime: Option<tokio::runtime::Handle>,
    /// Seed of the jitter, so that a test or a replay repeats. `None` draws one.
    pub seed: Option<u64>,
}

/// How caches are compressed: each object for itself, by zstd with a dictionary of what a cache's objects have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// Bytes of objects, in JSON, that a dictionary is made of. A cache with fewer stays as it is.
    pub training_bytes: usize,
}

impl Default for Compression {
    fn default() -> Self {
        Self { training_bytes: 1024 * 1024 }
    }
}

impl Default for InformerOptions {
    fn default() -> Self {
        Self {
            streaming_list: true,
            page_size: 500,
            delta_capacity: 1024,
            idle_timeout: Duration::from_secs(120),
            initial_events_timeout: Duration::from_secs(10),
            max_object_bytes: 32 * 1024 * 1024,
            max_list_items: 10_000_000,
            compression: None,
            runtime: None,
            seed: None,
        }
    }
}
