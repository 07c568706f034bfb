//! Whether a plugin's code is being compiled, for its status.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;

use crate::timestamp::rfc_3339;

/// Since when a plugin's code is being compiled. Cheap to clone; all versions of a plugin share it.
#[derive(Clone, Default)]
pub(crate) struct CompileStatus {
    current: Arc<Mutex<Current>>,
}

#[derive(Default)]
struct Current {
    since: Option<Timestamp>,
    /// Counts the compilations, because one that was cancelled may end after the next has begun.
    number: u64,
}

/// Shows a compilation until it is dropped.
#[must_use = "dropping it ends what the status shows"]
pub(crate) struct CompilingGuard {
    status: CompileStatus,
    number: u64,
}

impl CompileStatus {
    /// Shows a compilation that begins now.
    pub(crate) fn begin(&self, now: Timestamp) -> CompilingGuard {
        let mut current = self.current.lock();
        current.number += 1;
        current.since = Some(now);
        CompilingGuard { status: self.clone(), number: current.number }
    }

    /// Returns when the current compilation began, in RFC 3339; `None` if nothing is compiled.
    pub(crate) fn since(&self) -> Option<String> {
        self.current.lock().since.map(rfc_3339)
    }
}

impl Drop for CompilingGuard {
    fn drop(&mut self) {
        let mut current = self.status.current.lock();
        if current.number == self.number {
            current.since = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_cancelled_compilation_does_not_end_the_next() {
        let status = CompileStatus::default();
        let second = |second| Timestamp::from_second(second).expect("a time");
        assert_eq!(status.since(), None);
        let first = status.begin(second(1));
        assert_eq!(status.since().as_deref(), Some("1970-01-01T00:00:01Z"));
        let next = status.clone().begin(second(2));
        drop(first);
        assert_eq!(status.since().as_deref(), Some("1970-01-01T00:00:02Z"));
        drop(next);
        assert_eq!(status.since(), None);
    }
}
