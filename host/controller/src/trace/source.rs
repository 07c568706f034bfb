//! Where identifiers and times come from.

use std::time::SystemTime;

use rand::Rng;

/// The source of randomness and of the time of day. Tests have one with known values.
pub(super) trait TraceSource: Send + Sync {
    /// Fills the buffer with random bytes.
    fn fill(&self, bytes: &mut [u8]);

    /// Returns the time of day.
    fn now(&self) -> SystemTime;
}

/// The source of this machine.
pub(super) struct SystemSource;

impl TraceSource for SystemSource {
    fn fill(&self, bytes: &mut [u8]) {
        rand::rng().fill_bytes(bytes);
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}
