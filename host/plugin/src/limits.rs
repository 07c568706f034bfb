//! What one instance may use.

use std::time::Duration;

/// The longest duration that a guest can name: QuickJS clips larger numbers, so nobody gets more.
pub const MAX_MILLISECONDS: u32 = 2_147_483_647;

/// What one instance of a plugin may use. Every fault that a limit causes names the limit as the sidecar spells it.
///
/// The defaults hold every guest language that there is an SDK for, with room for its work; docs/limits.md has the measure of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `memory`: bytes of linear memory, all memories of the instance together. Growing beyond traps.
    pub memory: usize,
    /// `tableElements`: elements of all tables of the instance together. Growing beyond traps.
    pub table_elements: usize,
    /// `instances`: core instances, memories and tables that a component may be made of, each.
    pub instances: usize,
    /// `reconcileTimeout`: for one `reconcile`, waiting for host calls included; also the CPU time it may use.
    pub reconcile_timeout: Duration,
    /// `observeTimeout`: for one `observe`.
    pub observe_timeout: Duration,
    /// `describeTimeout`: for instantiation and `describe`, each.
    pub describe_timeout: Duration,
    /// `indexTimeout`: for one `index.values`.
    pub index_timeout: Duration,
    /// `handles`: open handles (objects and batches; of WASI's resources as many again). Opening one more traps; an instance that still
    /// holds more than half of them after a call is retired, because it leaks.
    pub handles: u32,
    /// `messageSize`: bytes that one call may carry either way, all its arguments or all of its answer together.
    pub message_size: usize,
    /// `objectSize`: bytes of a manifest or patch that the guest sends. A longer one is refused as the API server would, with 413.
    pub object_size: usize,
    /// `logLinesPerSecond`: lines in the log, of the guest and of the host about it, after a burst of ten times as many. The
    /// [`Host`](crate::Host) holds it, because it knows all lines of a plugin.
    pub log_lines_per_second: u32,
    /// `logBytesPerSecond`: bytes of all those lines together, as they are written, after a burst of ten times as many.
    pub log_bytes_per_second: usize,
    /// `logLineSize`: bytes of one message, field or line of output; what is longer is cut.
    pub log_line_size: usize,
    /// Bytes of the body of one HTTP request, and of one response. A larger one ends with an error for the guest.
    pub http_body: usize,
    /// HTTP requests under way: from when one is sent until its response's body has been read or dropped. One more fails.
    pub http_requests: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            table_elements: 100_000,
            instances: 100,
            reconcile_timeout: Duration::from_secs(30),
            observe_timeout: Duration::from_secs(30),
            describe_timeout: Duration::from_secs(5),
            index_timeout: Duration::from_secs(1),
            handles: 10_000,
            message_size: 16 << 20,
            object_size: 3 << 20,
            log_lines_per_second: 100,
            log_bytes_per_second: 128 << 10,
            log_line_size: 16 << 10,
            http_body: 4 << 20,
            http_requests: 8,
        }
    }
}
