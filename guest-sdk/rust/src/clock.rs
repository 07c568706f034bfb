//! The current time, from the host's clock. `std::time::SystemTime::now` does not work on wasm32-unknown-unknown.

use jiff::Timestamp;

use crate::host::wall_clock;

/// Returns the current time with nanosecond precision, or the Unix epoch when the host's clock is outside the range of a
/// [`Timestamp`].
#[must_use]
pub fn now() -> Timestamp {
    let now = wall_clock::now();
    let seconds = i64::try_from(now.seconds).unwrap_or(i64::MAX);
    let nanoseconds = i32::try_from(now.nanoseconds).unwrap_or(0);
    Timestamp::new(seconds, nanoseconds).unwrap_or(Timestamp::UNIX_EPOCH)
}
