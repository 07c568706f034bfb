//! Where identifiers and times come from.

use std::time::SystemTime;

use crate::environment::Environment;

/// The source of randomness and of the time of day. Tests have one with known values.
pub(super) trait TraceSource: Send + Sync {
    /// Fills the buffer with random bytes.
    fn fill(&self, bytes: &mut [u8]);

    /// Returns the time of day.
    fn now(&self) -> SystemTime;
}

impl TraceSource for Environment {
    fn fill(&self, bytes: &mut [u8]) {
        self.randomness.fill(bytes);
    }

    fn now(&self) -> SystemTime {
        self.clock.system_time()
    }
}
