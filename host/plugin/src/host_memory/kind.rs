//! What host memory is used for.

/// A use of host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostMemoryKind {
    /// Versions of objects that only the plugin's handles keep alive.
    Handles,
    /// Values of the plugin's indexes.
    IndexValues,
    /// Queued keys without a cached object.
    QueuedKeys,
    /// The plugin's own writes, until its watches deliver them.
    OwnWrites,
    /// Kubernetes Events that wait to be sent.
    Events,
    /// Series of the plugin's own metrics.
    Metrics,
    /// Log lines that are kept for `pilothouse logs`.
    LogLines,
    /// What happened to the plugin's keys, for `pilothouse explain`.
    Journal,
    /// The changes that queued the plugin's keys, for traces.
    Traces,
    /// HTTP requests, responses and headers that the plugin's instances hold.
    HttpMessages,
}

/// The number of kinds.
pub(super) const KINDS: usize = 10;

impl HostMemoryKind {
    /// All kinds.
    pub const ALL: [Self; KINDS] = [
        Self::Handles,
        Self::IndexValues,
        Self::QueuedKeys,
        Self::OwnWrites,
        Self::Events,
        Self::Metrics,
        Self::LogLines,
        Self::Journal,
        Self::Traces,
        Self::HttpMessages,
    ];

    /// Returns the name in `/api/plugins` and in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Handles => "handles",
            Self::IndexValues => "indexValues",
            Self::QueuedKeys => "queuedKeys",
            Self::OwnWrites => "ownWrites",
            Self::Events => "events",
            Self::Metrics => "metrics",
            Self::LogLines => "logLines",
            Self::Journal => "journal",
            Self::Traces => "traces",
            Self::HttpMessages => "httpMessages",
        }
    }

    /// Returns what is held, for errors.
    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Handles => "objects behind handles",
            Self::IndexValues => "index values",
            Self::QueuedKeys => "queued keys",
            Self::OwnWrites => "own writes",
            Self::Events => "Events",
            Self::Metrics => "metrics",
            Self::LogLines => "log lines",
            Self::Journal => "the journal of its keys",
            Self::Traces => "the changes that queued its keys",
            Self::HttpMessages => "HTTP messages",
        }
    }

    /// Returns what an author can do to hold less, for errors.
    pub(super) fn remedy(self) -> &'static str {
        match self {
            Self::Handles => {
                "close handles of objects that are no longer needed, and keep none between calls"
            }
            Self::IndexValues => "have fewer indexes, or fewer or shorter index values",
            Self::QueuedKeys => "queue objects that exist, or fewer keys at a time",
            Self::OwnWrites => {
                "send fewer writes at a time; own writes are released when the watch delivers them"
            }
            Self::Events => "publish fewer Events",
            Self::Metrics => "use fewer metrics and label values",
            Self::LogLines => "log less",
            Self::Journal => "raise limits.hostMemory; without room, the journal has fewer keys",
            Self::Traces => "raise limits.hostMemory; without room, traces lack changes",
            Self::HttpMessages => {
                "drop requests, responses and headers that are no longer needed, and keep none between calls"
            }
        }
    }

    pub(super) fn position(self) -> usize {
        self as usize
    }
}
