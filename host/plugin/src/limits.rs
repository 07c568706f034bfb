//! The resource limits of an instance.

use std::time::Duration;

/// The longest duration that a guest can pass, in milliseconds: 2³¹ - 1, because QuickJS clips larger numbers.
pub const MAX_MILLISECONDS: u32 = 2_147_483_647;

/// The limits of an instance, and the log limits, which all instances of a plugin share. The fault for an exceeded limit names the limit as the sidecar spells it.
///
/// The defaults suffice for every guest language that has an SDK, with room for the plugin's own work; docs/limits.md has the measurements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceLimits {
    /// `memory`: bytes of linear memory, all memories of the instance together. The guest traps when it grows its memory beyond; default 64
    /// MiB.
    pub memory: usize,
    /// `tableElements`: elements of all tables of the instance together. The guest traps when it grows a table beyond; default 100,000.
    pub table_elements: usize,
    /// `instances`: core instances, memories and tables of a component, each; default 100.
    pub instances: usize,
    /// `reconcileTimeout`: time of one `reconcile`, including waiting for host calls, and also its CPU time; default 30 s.
    pub reconcile_timeout: Duration,
    /// `observeTimeout`: time of one `observe`; default 30 s.
    pub observe_timeout: Duration,
    /// `describeTimeout`: time of the instantiation and of `describe`, each; default 5 s.
    pub describe_timeout: Duration,
    /// `indexTimeout`: time of one `index.values`; default 1 s.
    pub index_timeout: Duration,
    /// `handles`: open handles of objects and batches, and as many again of WASI's resources, but at most 1,024 of those; default 10,000.
    /// The guest traps when it opens one more. An instance that holds more than half of them after a call leaks handles, and is replaced.
    pub handles: u32,
    /// `messageSize`: bytes of all arguments of one call, and of its result; default 16 MiB.
    pub message_size: usize,
    /// `objectSize`: bytes of a manifest or patch that the guest sends; default 3 MiB. A larger one is refused with status 413, as by the
    /// API server.
    pub object_size: usize,
    /// `logLinesPerSecond`: lines in the log, both of the guest and of the host about the guest; default 100. Bursts may be ten times as
    /// large. The [`Host`](crate::Host) enforces this limit, because it knows all lines of a plugin.
    pub log_lines_per_second: u32,
    /// `logBytesPerSecond`: bytes of those lines as they are written; default 128 KiB. Bursts may be ten times as large.
    pub log_bytes_per_second: usize,
    /// `logLineSize`: bytes of one message, of all fields of a line, or of a line of output; default 16 KiB. Longer ones are cut.
    pub log_line_size: usize,
    /// `httpBody`: bytes of the body of one HTTP request, and of one response; default 4 MiB. A larger body ends with an error for the
    /// guest.
    pub http_body: usize,
    /// `httpRequests`: HTTP requests in flight, from when they are sent until the response's body has been read or dropped; default 8. One
    /// more fails.
    pub http_requests: u32,
}

impl Default for InstanceLimits {
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
