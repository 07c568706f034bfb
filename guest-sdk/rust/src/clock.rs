//! The time of day, as the host tells it. `std::time::SystemTime::now` does not work on wasm32-unknown-unknown.

use jiff::Timestamp;

use crate::bindings::wasi::clocks::wall_clock;

/// The time now, in whole nanoseconds; the Unix epoch if the host's clock is beyond what a [`Timestamp`] can hold.
#[must_use]
pub fn now() -> Timestamp {
    let now = wall_clock::now();
    let seconds = i64::try_from(now.seconds).unwrap_or(i64::MAX);
    let nanoseconds = i32::try_from(now.nanoseconds).unwrap_or(0);
    Timestamp::new(seconds, nanoseconds).unwrap_or(Timestamp::UNIX_EPOCH)
}
