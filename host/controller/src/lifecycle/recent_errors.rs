//! How many calls of a plugin's guests have failed since the last one that succeeded, and the last error, for `status`.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use parking_lot::Mutex;

use super::status::LastError;
use crate::environment::WallClock;
use crate::logs::format_prefix;
use crate::timestamp::rfc_3339;

/// The number of calls that fail in a row before a plugin counts as failing. One object that cannot be reconciled is not enough.
const FAILING_AFTER: u64 = 3;
/// The maximum size in bytes of the message that is kept.
const MAX_MESSAGE_SIZE: usize = 1 << 10;

/// The failed calls of one plugin: reconciles and deliveries to its observer. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct RecentErrors(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Calls that failed since the last one that succeeded.
    in_a_row: AtomicU64,
    last: Mutex<Option<LastError>>,
    clock: WallClock,
}

impl RecentErrors {
    /// Creates an empty record whose errors have the times of this clock.
    pub(crate) fn new(clock: WallClock) -> Self {
        Self(Arc::new(Shared { clock, ..Shared::default() }))
    }

    /// Records a call that succeeded. Takes no lock, and writes nothing unless calls have failed.
    pub(crate) fn record_success(&self) {
        if self.0.in_a_row.load(Ordering::Relaxed) > 0 {
            self.0.in_a_row.store(0, Ordering::Relaxed);
        }
    }

    /// Records a call that failed at an object of a watch. `key` is "" if the call was about several objects.
    pub(crate) fn record_error(&self, watch: &str, key: &str, error: &dyn Display) {
        self.record_error_at(watch, key, error, self.0.clock.now());
    }

    fn record_error_at(&self, watch: &str, key: &str, error: &dyn Display, now: Timestamp) {
        self.0.in_a_row.fetch_add(1, Ordering::Relaxed);
        *self.0.last.lock() = Some(LastError {
            time: rfc_3339(now),
            watch: watch.to_owned(),
            key: key.to_owned(),
            message: format_prefix(format_args!("{error}"), MAX_MESSAGE_SIZE),
        });
    }

    /// Forgets the errors, because another version runs from now on.
    pub(crate) fn forget(&self) {
        self.0.in_a_row.store(0, Ordering::Relaxed);
        *self.0.last.lock() = None;
    }

    /// The number of calls that failed since the last one that succeeded.
    pub(crate) fn in_a_row(&self) -> u64 {
        self.0.in_a_row.load(Ordering::Relaxed)
    }

    /// Whether all of the last calls failed.
    pub(crate) fn is_failing(&self) -> bool {
        self.in_a_row() >= FAILING_AFTER
    }

    /// The last error since the version runs, even if calls have succeeded since.
    pub(crate) fn last(&self) -> Option<LastError> {
        self.0.last.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_fails_once_several_calls_in_a_row_have_failed() {
        let errors = RecentErrors::default();
        for _ in 0..FAILING_AFTER {
            assert!(!errors.is_failing());
            errors.record_error("foos", "shop/a", &"401: Unauthorized");
        }
        assert_eq!((errors.is_failing(), errors.in_a_row()), (true, FAILING_AFTER));
        errors.record_success();
        assert_eq!((errors.is_failing(), errors.in_a_row()), (false, 0));
        assert_eq!(errors.last().expect("it is kept").message, "401: Unauthorized");
        errors.record_error("foos", "shop/a", &"again");
        errors.forget();
        assert_eq!((errors.in_a_row(), errors.last()), (0, None));
    }

    #[test]
    fn the_last_error_has_its_object_and_a_bounded_message() {
        let errors = RecentErrors::default();
        let now: Timestamp = "2026-01-02T03:04:05.678Z".parse().expect("a time");
        errors.record_error_at("foos", "shop/a", &"x".repeat(1 << 20), now);
        let last = errors.last().expect("an error");
        assert_eq!(
            (last.time.as_str(), last.watch.as_str(), last.key.as_str()),
            ("2026-01-02T03:04:05Z", "foos", "shop/a")
        );
        assert_eq!(last.message.len(), MAX_MESSAGE_SIZE);
    }
}
