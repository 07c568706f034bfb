use std::fmt;
use std::time::Duration;

pub use crate::bindings::pilothouse::controller::types::{Reason, Request};
use crate::{Context, Describe, Error};

/// A plugin that is given one object at a time to bring to its desired state.
///
/// The host makes one value per instance of the plugin with [`Default`], the first time that it is called, and keeps it
/// as long as the instance lives. Any instance may be thrown away between two calls, so the value may cache but must
/// not hold what cannot be read again.
pub trait Reconciler: Describe + Default + 'static {
    /// Brings the object named by `request` to its desired state.
    ///
    /// It is level-triggered: the reasons inform, the decision comes from what the cache holds now. The object may be
    /// gone. Never called for one object twice at a time.
    ///
    /// # Errors
    /// [`Error::retry`] (also by `?`) tries again with backoff; [`Error::terminal`] waits for a change of the object.
    /// A panic is logged with its place and counts as a retry.
    fn reconcile(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error>;
}

/// What a reconcile that succeeded wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing until something changes.
    Done,
    /// The same object again after this time, or earlier if something changes. At most about 24 days.
    RequeueAfter(Duration),
}

impl fmt::Display for Reason {
    /// As in the contract: `created`.
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

/// The longest delay that the contract knows: 2³¹ − 1 milliseconds.
const LONGEST_DELAY: u32 = i32::MAX.unsigned_abs();

/// A delay in the contract's unit: never shorter than asked for, and never 0 for one that is not.
pub(crate) fn milliseconds(delay: Duration) -> u32 {
    let rounded_up = delay.as_nanos().div_ceil(1_000_000);
    u32::try_from(rounded_up).unwrap_or(LONGEST_DELAY).min(LONGEST_DELAY)
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
