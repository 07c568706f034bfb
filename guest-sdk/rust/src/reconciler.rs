//! The trait of plugins that reconcile objects.

use std::fmt;
use std::time::Duration;

pub use crate::bindings::pilothouse::controller::types::{Reason, Request};
use crate::{Context, Describe, Error};

/// A plugin that brings one object at a time to its desired state.
///
/// Each instance of the plugin has one value, created with [`Default`] at the first call. The host may discard an instance between two
/// calls, so the value may cache, but must not hold what cannot be read again.
pub trait Reconciler: Describe + Default + 'static {
    /// Brings the object of `request` to its desired state.
    ///
    /// The call is level-triggered: decide from what the cache holds now; the reasons in `request` are informational. The object may
    /// have been deleted. An object is never reconciled by two calls at the same time.
    ///
    /// # Errors
    /// After [`Error::retry`] (also by `?`) the host retries with backoff; after [`Error::terminal`] it waits for a change of the object.
    /// A panic is logged with its location and counts as a retry.
    fn reconcile(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error>;
}

/// What a successful reconcile asks for next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing, until a change queues the object again.
    Done,
    /// Reconcile the object again after this time (at most about 24 days), or earlier if a change queues it.
    RequeueAfter(Duration),
}

impl fmt::Display for Reason {
    /// The name in the contract, such as `created`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Deleted => "deleted",
            Self::Resync => "resync",
            Self::Requeue => "requeue",
            Self::Retry => "retry",
            Self::Startup => "startup",
            Self::Other => "other",
        })
    }
}

/// The longest delay of the contract: 2³¹ − 1 milliseconds.
const MAX_DELAY_MS: u32 = i32::MAX.unsigned_abs();

/// Converts a delay to milliseconds, rounding up, so that a non-zero delay never becomes 0. Delays above the maximum become the
/// maximum.
pub(crate) fn milliseconds(delay: Duration) -> u32 {
    let rounded_up = delay.as_nanos().div_ceil(1_000_000);
    u32::try_from(rounded_up).unwrap_or(MAX_DELAY_MS).min(MAX_DELAY_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_milliseconds_rounded_up_and_bounded() {
        assert_eq!(milliseconds(Duration::ZERO), 0);
        assert_eq!(milliseconds(Duration::from_nanos(1)), 1);
        assert_eq!(milliseconds(Duration::from_millis(1500)), 1500);
        assert_eq!(milliseconds(Duration::from_secs(u64::MAX)), 2_147_483_647);
    }
}
