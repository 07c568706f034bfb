//! Options of informers and of the compression of their caches.

use std::time::Duration;

/// How informers list, watch and deliver. The defaults suit a controller that talks to a real API server.
///
/// ```
/// use pilothouse_informer::InformerOptions;
///
/// // Smaller pages and a shorter delta queue, for a host with little memory.
/// let options = InformerOptions::default().with_page_size(100).with_delta_capacity(128);
/// assert!(options.streaming_list);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InformerOptions {
    /// Whether to try a streaming list (`WatchList`) first. With a server that does not support it, this costs one
    /// rejected request. Default: true.
    pub streaming_list: bool,
    /// Items in a page of a consistent list (`limit`). Default: 500, as in client-go.
    pub page_size: u32,
    /// Deltas that may be queued for the store before the reflector stops reading. Default: 1024.
    pub delta_capacity: usize,
    /// Time without a received byte after which a list or watch counts as dead. A real server sends a bookmark every
    /// minute. Default: 120 s.
    pub idle_timeout: Duration,
    /// Time without a received byte after which a streaming list counts as unsupported by the server. Default: 10 s.
    pub initial_events_timeout: Duration,
    /// The slowest accepted list, in bytes per second of the time after [`idle_timeout`](Self::idle_timeout). It ends a list that arrives byte by
    /// byte. API servers themselves end a list after a minute. Default: 16 KiB.
    pub min_list_rate: u64,
    /// The largest accepted object, in bytes of JSON. It bounds the memory that a broken server can claim. Default: 32 MiB.
    pub max_object_bytes: usize,
    /// The most items in one list, over all pages: more than any cluster has. It stops a list that never ends. Default:
    /// 10,000,000.
    pub max_list_items: usize,
    /// How caches are compressed; `None` (the default) keeps them uncompressed. Compressed caches are several times
    /// smaller, and objects are decompressed when they are read.
    pub compression: Option<Compression>,
    /// The runtime that informers run on; `None` means the runtime of the first subscriber. On a single-threaded runtime, a
    /// connection and its informer take turns without waking another thread for each chunk.
    pub runtime: Option<tokio::runtime::Handle>,
    /// Seed of the jitter, so that a test or a replay is repeatable. Informers of different resources draw different numbers from it. `None` draws a
    /// random one.
    pub seed: Option<u64>,
}

/// How caches are compressed: each object separately, by zstd with a dictionary trained on the objects of the cache.
///
/// It is created by `Compression::default`, which needs the feature `compressed-cache`. That feature is enabled by default.
///
#[cfg_attr(feature = "compressed-cache", doc = "```")]
#[cfg_attr(not(feature = "compressed-cache"), doc = "```ignore")]
/// use pilothouse_informer::{Compression, InformerOptions};
///
/// let compression = Compression::default().with_training_bytes(256 * 1024);
/// let options = InformerOptions::default().with_compression(compression);
/// assert_eq!(options.compression, Some(compression));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compression {
    /// Bytes of JSON that the dictionary is trained on. A smaller cache stays uncompressed. Default: 1 MiB.
    pub training_bytes: usize,
}

impl InformerOptions {
    /// Sets [`streaming_list`](Self::streaming_list).
    #[must_use]
    pub fn with_streaming_list(mut self, streaming_list: bool) -> Self {
        self.streaming_list = streaming_list;
        self
    }

    /// Sets [`page_size`](Self::page_size).
    #[must_use]
    pub fn with_page_size(mut self, items: u32) -> Self {
        self.page_size = items;
        self
    }

    /// Sets [`delta_capacity`](Self::delta_capacity).
    #[must_use]
    pub fn with_delta_capacity(mut self, deltas: usize) -> Self {
        self.delta_capacity = deltas;
        self
    }

    /// Sets [`idle_timeout`](Self::idle_timeout).
    #[must_use]
    pub fn with_idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// Sets [`initial_events_timeout`](Self::initial_events_timeout).
    #[must_use]
    pub fn with_initial_events_timeout(mut self, timeout: Duration) -> Self {
        self.initial_events_timeout = timeout;
        self
    }

    /// Sets [`min_list_rate`](Self::min_list_rate).
    #[must_use]
    pub fn with_min_list_rate(mut self, bytes_per_second: u64) -> Self {
        self.min_list_rate = bytes_per_second;
        self
    }

    /// Sets [`max_object_bytes`](Self::max_object_bytes).
    #[must_use]
    pub fn with_max_object_bytes(mut self, bytes: usize) -> Self {
        self.max_object_bytes = bytes;
        self
    }

    /// Sets [`max_list_items`](Self::max_list_items).
    #[must_use]
    pub fn with_max_list_items(mut self, items: usize) -> Self {
        self.max_list_items = items;
        self
    }

    /// Sets [`compression`](Self::compression).
    #[must_use]
    pub fn with_compression(mut self, compression: impl Into<Option<Compression>>) -> Self {
        self.compression = compression.into();
        self
    }

    /// Sets [`runtime`](Self::runtime).
    #[must_use]
    pub fn with_runtime(mut self, runtime: impl Into<Option<tokio::runtime::Handle>>) -> Self {
        self.runtime = runtime.into();
        self
    }

    /// Sets [`seed`](Self::seed).
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }
}

impl Compression {
    /// Sets [`training_bytes`](Self::training_bytes).
    #[must_use]
    pub fn with_training_bytes(mut self, bytes: usize) -> Self {
        self.training_bytes = bytes;
        self
    }
}

#[cfg(feature = "compressed-cache")]
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
            min_list_rate: 16 * 1024,
            max_object_bytes: 32 * 1024 * 1024,
            max_list_items: 10_000_000,
            compression: None,
            runtime: None,
            seed: None,
        }
    }
}
