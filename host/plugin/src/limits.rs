//! What one instance may use.

use std::time::Duration;

/// The longest duration that a guest can name: QuickJS clips larger numbers, so nobody gets more.
pub const MAX_MILLISECONDS: u32 = 2_147_483_647;

/// What one instance of a plugin may use. Every fault that a limit causes names the limit as the sidecar spells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of linear memory, all memories of the instance together. Growing beyond traps.
    pub memory: usize,
    /// For one `reconcile`, waiting for host calls included; also the CPU time it may use.
    pub reconcile_timeout: Duration,
    /// For one `observe`.
    pub observe_timeout: Duration,
    /// For instantiation and `describe`, each.
    pub describe_timeout: Duration,
    /// For one `index.values`.
    pub index_timeout: Duration,
    /// Open handles (objects and batches). Opening one more traps; an instance that still holds more than half of them after a call is
    /// retired, because it leaks.
    pub handles: u32,
    /// Bytes that one host call may carry out of the guest, all its arguments together; that an export's result may have; and that the
    /// values of one `cache.list-fields` may have.
    pub message_size: usize,
    /// Log lines per second (from `log` and the standard streams together) after a burst of ten times as many.
    pub log_lines_per_second: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            reconcile_timeout: Duration::from_secs(30),
            observe_timeout: Duration::from_secs(30),
            describe_timeout: Duration::from_secs(5),
            index_timeout: Duration::from_secs(1),
            handles: 10_000,
            message_size: 16 << 20,
            log_lines_per_second: 100,
        }
    }
}
